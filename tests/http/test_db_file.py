"""SQLite's file, and what others do to it while it is open."""
import os
import shutil
import signal
import sqlite3
import subprocess
import time

import pytest

import process
from documents import Documents
from wire import DEADLINE, until


def test_nothing_is_written_to_a_file_that_is_gone(server, tmp_path):
    """It would be acknowledged, and lost when the file is closed."""
    path, aside = tmp_path / "there.db", tmp_path / "gone.db"
    db = Documents(server("--db", f"sqlite:{path}"))
    db.put("/a", 1)
    os.rename(path, aside)
    problem = db.put("/a", 2).problem("store-busy")
    assert "removed or replaced" in problem["detail"]
    until(lambda: db.get("/a").status == 503, "no stale reading")
    until(lambda: db.server.admin("/readyz").status == 503, "not ready")
    problem = db.put("/a", 2).problem("store-busy")
    assert str(tmp_path) not in problem["detail"]  # that is the operator's
    assert f"{path} has been removed or replaced" in db.server.errors()
    path.write_bytes(b"")  # another file is not taken for it
    assert db.put("/a", 2).status == 503
    assert path.read_bytes() == b""
    os.rename(aside, path)
    until(lambda: db.put("/a", 3).status == 200, "the file is back")
    assert db.get("/a").json() == 3


def test_a_file_that_is_cut_short_does_not_end_the_server(server, tmp_path):
    path = tmp_path / "cut.db"
    db = Documents(server("--db", f"sqlite:{path}"))
    db.fill("x" * 500 for _ in range(1000))
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert len(db.rows("?limit=1000")) == 1000
    os.truncate(path, 8192)
    for _ in range(3):
        assert db.get("?limit=1000").status in (500, 503)
        assert db.put("/a", 1).status in (500, 503)
    assert db.server.request("GET", "/json").status == 200


def test_a_store_that_waits_does_not_hold_up_the_end(server, tmp_path):
    """For a lock, that another program has, longer than an operator wants to wait."""
    path = tmp_path / "locked.db"
    db = Documents(server("--db", f"sqlite:{path}", "--db-timeout", "300s"))
    db.put("/a", 1)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with db.server.connect() as connection:
        connection.start("PUT", db.path("/a"), body=b"2")
        until(lambda: db.server.metric("slate_requests_in_flight") == 1, "a write that waits")
        begun = time.monotonic()
        db.server.signal(signal.SIGTERM)
        until(lambda: "Draining" in db.server.errors(), "draining")
        db.server.signal(signal.SIGTERM)
        assert db.server.wait() == 0
        assert time.monotonic() - begun < 20
    other.execute("ROLLBACK")
    assert other.execute("SELECT json FROM document").fetchall() == [("1",)]
    other.close()


@pytest.mark.parametrize("there", [False, True])
def test_a_file_that_may_not_be_opened_says_why(tmp_path, there):
    """Neither in a folder that may not be written to, nor a file of others; root may write to both."""
    others = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
    if others and not (shutil.which("setpriv") and subprocess.run([*others, "true"], check=False).returncode == 0):
        pytest.skip("root cannot do without its rights here")
    path = tmp_path / "x.db"
    if there:
        path.touch(mode=0)
    tmp_path.chmod(0o555)
    run = subprocess.run([*others, *process.PREFIX, process.BINARY, "--listen", "127.0.0.1:0", "--admin", "off",
                          "--db", f"sqlite:{path}"], env=process.environment(), capture_output=True,
                         text=True, timeout=DEADLINE, check=False)
    assert run.returncode == 1
    assert f"{path} cannot be opened: unable to open database file, Permission denied." in run.stderr
    assert "--db sqlite:PATH names another file, --db off serves without one." in run.stderr
    assert path.exists() == there
