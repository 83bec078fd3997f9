"""The store behind the routes: off, over a restart, and what operators see of it."""
import sqlite3

from documents import Documents
from process import run


def test_without_a_store_the_routes_say_so(server):
    db = Documents(server("--db", "off"))
    for answer in (db.get(""), db.get("/a"), db.put("/a", 1), db.post(1), db.patch("/a", {}),
                   db.delete("/a"), db.delete("", "If-Match: *"), db.server.request("GET", "/db")):
        assert answer.status == 503
        assert "--db off" in answer.problem("store-off")["detail"]
    assert db.server.admin("/readyz").status == 200


def test_documents_are_there_after_a_restart(store):
    first = Documents(store())
    tag = first.put("/a", {"n": 1}).header("ETag")
    first.fill(range(100))
    assert first.post({"n": 2}, "Idempotency-Key: k").status == 201
    link = first.get("?limit=10").header("Link")
    first.server.stop()

    second = Documents(store())
    second.name = first.name
    assert second.get("/a", f"If-None-Match: {tag}").status == 304
    assert len(second.rows("?limit=1000")) == 102
    assert second.post({"n": 2}, "Idempotency-Key: k").header("Idempotency-Replayed") == "true"
    target = link.split(";")[0].strip("<>")
    assert len(second.server.request("GET", target).json()) == 10  # a cursor outlives the process
    assert int(second.put("/a", 2).header("ETag").strip('"')) > int(tag.strip('"'))


def test_a_declared_index_changes_no_answer(store):
    db = Documents(store())
    db.fill({"age": n % 10} for n in range(200))
    plain = db.rows("?age=gte.8&order=-age&limit=1000")
    db.server.stop()
    again = Documents(store("--db-indexes", f"{db.name}:/age"))
    again.name = db.name
    assert again.rows("?age=gte.8&order=-age&limit=1000") == plain


def test_the_store_is_seen_by_operators(store):
    server = store()
    Documents(server).put("/a", 1)
    assert server.admin("/readyz").json()["checks"]["store"] == "pass"
    assert server.metric("slate_store_puts_total") >= 1


def test_a_store_that_cannot_be_opened_ends_the_start(tmp_path):
    end = run("--listen", "127.0.0.1:0", "--admin", "off", "--db", f"sqlite:{tmp_path}/no/such/a.db")
    assert end.returncode == 1
    assert "store" in end.stderr and len(end.stderr.strip().splitlines()) <= 2


def test_a_locked_store_is_busy_and_then_goes_on(server, tmp_path):
    path = tmp_path / "locked.db"
    db = Documents(server("--db", f"sqlite:{path}", "--db-timeout", "500ms"))
    tag = db.put("/a", 1).header("ETag")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    for answer in (db.put("/a", 2), db.post(2), db.patch("/a", 2), db.delete("/a")):
        assert answer.status == 503 and answer.header("Retry-After"), answer
        assert answer.problem()["type"] in ("/problems/store-busy", "/problems/store-unknown")
    assert db.get("/a").header("ETag") == tag  # readers are not in the way of a writer
    other.execute("ROLLBACK")
    other.close()
    assert db.put("/b", 1).status == 201
    assert db.put("/a", 2, "If-Match: *").status == 200
