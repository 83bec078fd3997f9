"""Stores in trouble under load: no space, a lock that somebody else keeps, PostgreSQL that is stopped,
killed, paused or ends its sessions. Meanwhile the answer is 503 with Retry-After, then it goes on by
itself; the server never ends, and the ledger of what it acknowledged is right."""
import contextlib
import os
import resource
import sqlite3
import subprocess
import sys

import pytest

from documents import Documents
from ledger import REFUSED, Ledger, Load, check_file
from process import ROOT
from wire import until

sys.path.insert(0, os.path.join(ROOT, "tests"))
import postgresql  # noqa: E402

CLIENTS, THREADS = 48, 8
MOUNTED_BYTES = 64 << 20


def load_on(ledger):
    return Load(ledger, [ledger.db.server.address], CLIENTS, THREADS, patient=True)


def refused_more(ledger, count):
    wanted = ledger.counts[REFUSED] + count
    until(lambda: ledger.counts[REFUSED] >= wanted, f"{count} writes are refused")


def check_after_restart(ledger, start, folder=None):
    """What an unknown write became is certain once the server that had it has ended."""
    ledger.db.server.stop()
    ledger.db.server = start()
    ledger.check()
    if folder:
        check_file(os.path.join(folder, "documents.db"))


# ---- No space ---------------------------------------------------------------------------------------


class FileLimit:
    """No file of the server's may grow any more (RLIMIT_FSIZE): anybody may set that."""

    def __init__(self, folder, pid):
        self.folder, self.pid = folder, pid

    def fill(self):
        sizes = [os.stat(entry.path).st_size for entry in os.scandir(self.folder)]
        self.set(max(sizes) + 100_000)

    def free(self):
        self.set(resource.RLIM_INFINITY)

    def set(self, soft):
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (soft, resource.RLIM_INFINITY))


class SmallDisk:
    """A file system of a few dozen megabytes."""

    def __init__(self, folder):
        self.ballast = os.path.join(folder, "ballast")

    def fill(self):
        with open(self.ballast, "wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))

    def free(self):
        os.unlink(self.ballast)


@contextlib.contextmanager
def mounted(folder):
    end = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={MOUNTED_BYTES}", "none", folder],
                         capture_output=True, check=False)
    if end.returncode:
        pytest.skip("a small disk cannot be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill_and_free(server, folder, trouble_of):
    def start():
        return server("--db", f"sqlite:{folder}/documents.db", "--db-timeout", "60s")
    ledger = Ledger(Documents(start()))
    slate = ledger.db.server
    trouble = trouble_of(slate)
    with load_on(ledger) as load:
        load.more(500)
        trouble.fill()
        refused_more(ledger, 100)
        assert slate.request("GET", "/json").status == 200
        assert ledger.db.get("/r1-shared-0").status == 200
        answer = until(lambda: refusal(ledger.db), "a refusal")
        assert answer.header("Retry-After")
        answer.problem("store-busy")
        trouble.free()
        load.more(500)
        load.end()
    assert slate.process.poll() is None
    check_after_restart(ledger, start, folder)


def refusal(db):
    """Small writes may still find room when large ones do not."""
    answer = db.put("/r1-shared-0-large", "x" * 500_000)
    if answer.status != 503:
        assert db.delete("/r1-shared-0-large").status in (204, 503)
    return answer if answer.status == 503 else None


def test_a_file_that_may_not_grow(server, tmp_path):
    fill_and_free(server, tmp_path, lambda slate: FileLimit(tmp_path, slate.pid))


def test_a_full_disk(server, tmp_path):
    with mounted(tmp_path):
        fill_and_free(server, tmp_path, lambda _: SmallDisk(tmp_path))


# ---- A lock that another program keeps -------------------------------------------------------------


@contextlib.contextmanager
def locked(folder):
    with contextlib.closing(sqlite3.connect(folder / "documents.db", timeout=60,
                                              isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def test_a_short_lock_is_waited_for(server, tmp_path):
    def start():
        return server("--db", f"sqlite:{tmp_path}/documents.db", "--db-timeout", "60s")
    ledger = Ledger(Documents(start()))
    slate = ledger.db.server
    with load_on(ledger) as load:
        for turn in range(3):
            load.more(100)
            waiting = []

            def more_wait():
                """The writing thread has begun to wait once another write is behind it."""
                waiting.append(slate.connect())
                waiting[-1].start("PUT", ledger.path(f"/r1-shared-0-{turn}"), body=b"{}")
                return slate.metric("slate_store_queued_writes") > 0

            with locked(tmp_path):
                until(more_wait, "writes wait for the lock")
                assert ledger.db.get("/r1-shared-0").status == 200
            assert {one.read().status for one in waiting} <= {200, 201}
            assert ledger.db.delete(f"/r1-shared-0-{turn}").status == 204
        load.end()
    assert ledger.counts[REFUSED] == 0
    check_after_restart(ledger, start, tmp_path)


def test_a_long_lock_is_not(server, tmp_path):
    def start():
        return server("--db", f"sqlite:{tmp_path}/documents.db", "--db-timeout", "1s")
    ledger = Ledger(Documents(start()))
    slate = ledger.db.server
    with load_on(ledger) as load:
        load.more(100)
        with locked(tmp_path):
            refused_more(ledger, CLIENTS)
            answer = ledger.db.put("/r1-shared-0-other", 1)
            assert answer.status == 503 and answer.header("Retry-After")
            assert ledger.db.get("/r1-shared-0").status == 200
        load.more(100)
        load.end()
    assert slate.process.poll() is None
    check_after_restart(ledger, start, tmp_path)


# ---- PostgreSQL -------------------------------------------------------------------------------------


def end_sessions(cluster):
    cluster.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'slate'")


def stop(cluster, slate):
    """It says goodbye, and stays away until everybody knows."""
    cluster.stop("fast")
    until(lambda: slate.admin("/readyz").status == 503, "it is not ready")
    assert slate.request("GET", "/json").status == 200
    cluster.start()
    until(lambda: slate.admin("/readyz").status == 200, "it is ready again")


def crash(cluster, _slate):
    cluster.kill()
    cluster.start()


def pause(cluster, slate):
    """A machine that hangs for longer than anybody waits."""
    cluster.pause()
    try:
        until(lambda: slate.admin("/readyz").status == 503, "it is not ready")
    finally:
        cluster.resume()
    until(lambda: slate.admin("/readyz").status == 200, "it is ready again")


@pytest.mark.skipif(not postgresql.find_binaries(),
                    reason="PostgreSQL's server is not installed")
def test_postgresql_comes_and_goes_under_load(server):
    with postgresql.Cluster() as cluster:
        def start():
            until(lambda: cluster.sql("SELECT count(*) FROM pg_stat_activity"
                                      " WHERE application_name = 'slate'") == "0",
                  "the sessions of the server before have ended")
            return server("--db", cluster.uri, "--db-timeout", "2s", "--db-threads", "4")
        ledger = Ledger(Documents(start()))
        slate = ledger.db.server
        with load_on(ledger) as load:
            for _ in range(5):
                load.more(100)
                end_sessions(cluster)
            for trouble in (stop, crash, pause):
                load.more(100)
                trouble(cluster, slate)
            load.more(100)
            load.end()
        assert slate.process.poll() is None
        assert ledger.counts[REFUSED] > 0
        check_after_restart(ledger, start)
