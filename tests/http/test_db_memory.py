"""What the store holds for requests counts against the limits of memory, too."""
import json
import sqlite3

import pytest

from documents import Documents
from wire import Closed, until

LINES = "Accept: application/x-ndjson"


def test_what_a_request_needs_in_the_store_is_limited(store):
    """A small body may become much more: ten thousand documents."""
    db = Documents(store("--request-memory", "256K", "--body-limit", "64K"))
    assert db.post_lines(b"1\n" * 10_000).status == 413
    assert db.rows() == []
    assert db.post_lines(b"1\n" * 100).status == 201
    assert len(db.rows("?limit=1000")) == 100
    db.server.assert_at_rest()


def test_what_all_requests_hold_in_the_store_is_limited(server, tmp_path):
    path = tmp_path / "locked.db"
    db = Documents(server("--db", f"sqlite:{path}", "--db-timeout", "600s", "--memory-limit", "1M",
                          "--body-limit", "256K"))
    assert db.put("/first", 1).status == 201
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    body = json.dumps("x" * 100_000).encode()
    connections = [db.server.connect() for _ in range(20)]
    for n, connection in enumerate(connections):
        connection.start("PUT", db.path(f"/{n}"), body=body)

    def settled():
        waiting = db.server.metric("slate_requests_suspended")
        return waiting + db.server.metric("slate_requests_refused_total") == 20 and waiting
    waiting = until(settled, "20 requests that wait or are refused")
    assert waiting * 100_000 < 1024 * 1024
    assert waiting * 100_000 <= db.server.metric("slate_live_bytes") <= 1024 * 1024
    other.execute("ROLLBACK")
    other.close()
    answers = [connection.read() for connection in connections]
    assert sum(answer.status == 201 for answer in answers) == waiting
    assert all(answer.status in (201, 503) for answer in answers)
    for n, answer in enumerate(answers):
        assert db.get(f"/{n}").status == (200 if answer.status == 201 else 404)
    db.server.assert_at_rest()


def test_a_list_that_is_too_long_for_the_memory_is_refused_or_streamed(store, server):
    db = Documents(store("--request-memory", "64K", "--body-limit", "32K"))
    document = "x" * 30_000
    for n in range(10):
        assert db.put(f"/{n}", document).status == 201
    answer = db.get()
    assert answer.status == 200 and answer.header("Link") or answer.status == 413
    found = [json.loads(line)["id"] for line in db.get("", LINES).body.splitlines()]
    assert found == [str(n) for n in range(10)]
    db.server.assert_at_rest()


def at_rest(db):
    """A request holds its memory until a moment after its answer has been read."""
    until(lambda: db.server.metric("slate_live_bytes") == 0, "nothing is held")


@pytest.mark.parametrize("flag", ["--request-memory", "--memory-limit"])
def test_streams_need_little(store, flag):
    db = Documents(store(flag, "128K", "--body-limit", "32K"))
    body = b"".join(b'{"n":"%s"}\n' % (b"x" * 1000) for _ in range(30))
    for _ in range(10):
        assert db.post_lines(body).status == 201
        at_rest(db)
    assert len(db.get("", LINES).body.splitlines()) == 300
    at_rest(db)
    rows = 0
    for page in db.pages("?limit=1000"):
        rows += len(page.json())
        at_rest(db)
    assert rows == 300
    db.server.assert_at_rest()


def test_a_stream_that_breaks_off_leaves_a_line_in_the_log(store):
    db = Documents(store("--body-limit", "1M"))
    for n in range(10):
        db.put(f"/{n}", "x" * (10_000 if n < 9 else 900_000))
    db.server.stop()
    again = Documents(store("--body-limit", "64K", "--request-memory", "128K"))
    again.name = db.name
    for _ in range(20):
        with pytest.raises(Closed):
            again.get("", LINES)
    errors = again.server.errors()
    assert 1 <= errors.count("broken off") < 20 and "There is no memory for this." in errors
    again.server.assert_at_rest()
