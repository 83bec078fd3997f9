"""The store behind the routes: off, over a restart, and what operators see of it."""
import json
import sqlite3
import time

from documents import Documents, MERGE
from process import run
from wire import until


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
        assert answer.problem()["type"] in ("/problems/store-busy", "/problems/outcome-unknown")
    assert db.get("/a").header("ETag") == tag  # readers are not in the way of a writer
    other.execute("ROLLBACK")
    other.close()
    assert db.put("/b", 1).status == 201
    assert db.put("/a", 2, "If-Match: *").status == 200


def test_a_write_that_waits_long_is_answered(server, tmp_path):
    """--body-timeout is over long before --db-timeout: what is done then must not go unanswered."""
    path = tmp_path / "locked.db"
    db = Documents(server("--db", f"sqlite:{path}", "--db-timeout", "600s", "--body-timeout", "100ms"))
    assert db.put("/a", {"n": 1}).status == 201
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    put, patch = db.server.connect(), db.server.connect()
    put.start("PUT", db.path("/b"), body=b"1")
    patch.start("PATCH", db.path("/a"), body=b'{"n": 2}', media_type=MERGE)
    until(lambda: db.server.metric("slate_requests_suspended") == 2, "two that wait")
    time.sleep(1)
    other.execute("ROLLBACK")
    other.close()
    assert put.read().status == 201 and patch.read().status == 200
    assert db.get("/a").json() == {"n": 2} and db.get("/b").json() == 1


def test_a_client_that_does_not_read_is_given_up_after_a_wait(server, tmp_path):
    db = Documents(server("--db", f"sqlite:{tmp_path}/long.db", "--body-timeout", "1s", "--body-limit",
                          "32M", "--request-memory", "256M"))
    assert db.put("/a", "x" * 16_000_000).status == 201
    connection = db.server.connect(window=4096)
    connection.start("GET", db.path("/a"))
    until(lambda: db.server.metric("slate_requests_aborted_total") == 1, "the reaper")
    db.server.assert_at_rest()


def test_a_change_holds_one_copy_of_the_document_while_it_waits(server, tmp_path):
    path = tmp_path / "locked.db"
    db = Documents(server("--db", f"sqlite:{path}", "--db-timeout", "600s"))
    assert db.put("/a", {"text": "x" * 500_000}).status == 201
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    connection = db.server.connect()
    connection.start("PATCH", db.path("/a"), body=json.dumps({"n": 1}).encode(), media_type=MERGE)
    until(lambda: db.server.metric("slate_store_gets_total") == 1 and
          db.server.metric("slate_requests_suspended") == 1 and
          db.server.metric("slate_live_bytes") > 510_000, "the change to wait")
    # What is to be written, whose buffer is up to twice as large; and nothing of what has been read.
    until(lambda: db.server.metric("slate_live_bytes") < 1_200_000, "one copy")
    other.execute("ROLLBACK")
    other.close()
    assert connection.read().status == 200
    db.server.assert_at_rest()
