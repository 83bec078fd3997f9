"""Servers on a PostgreSQL that is restarted, killed, paused or full under load. Each test has a
cluster of its own, with fsync; without PostgreSQL they are skipped."""
import contextlib
import os
import subprocess
import sys
import threading
import time

import pytest

from documents import Documents
from process import ROOT
from wire import DEADLINE, until

sys.path.insert(0, os.path.join(ROOT, "tests"))
import postgresql  # noqa: E402

pytestmark = pytest.mark.skipif(not postgresql.find_binaries(),
                                reason="PostgreSQL's server is not installed")

WRITERS = 8
FLAGS = ("--db-timeout", "3s", "--db-threads", "4")


@pytest.fixture
def cluster():
    with postgresql.Cluster() as one:
        yield one


def get(db, path):
    """Readers find the server again each for itself, perhaps later than the writers."""
    return until(lambda: (answer := db.get(path)).status != 503 and answer, "reads go on")


class Load:
    """Clients that write documents, each of a name of its own, until they are told to end."""

    def __init__(self, servers):
        self.acknowledged, self.refused, self.failures = [], [], []
        self.ending = threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(n, servers[n % len(servers)]))
                        for n in range(WRITERS)]

    def run(self, n, db):
        try:
            for number in range(1_000_000):
                if self.ending.is_set():
                    break
                answer = db.put(f"/w{n}-{number}", {"n": number})
                if answer.status == 201:
                    self.acknowledged.append(f"w{n}-{number}")  # atomic in CPython
                    continue
                assert answer.status == 503, answer
                assert answer.header("Retry-After"), answer
                self.refused.append(answer.json()["type"])
        except BaseException as failure:  # shown by the test
            self.failures.append(failure)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.ending.set()
        for thread in self.threads:
            thread.join()

    def more(self):
        """Waits until it goes on, for all writers."""
        wanted = len(self.acknowledged) + 10 * WRITERS
        until(lambda: len(self.acknowledged) >= wanted or self.failures, "writes go on",
              6 * DEADLINE)

    def check(self, db):
        if self.failures:
            raise self.failures[0]
        for name in self.acknowledged:
            assert get(db, f"/{name}").status == 200, f"{name} was acknowledged and is lost"


def stop_fast(cluster):
    cluster.restart("fast")


def stop_at_once(cluster):
    cluster.restart("immediate")


def kill(cluster):
    cluster.kill()
    cluster.start()


@pytest.mark.parametrize("end", [stop_fast, stop_at_once, kill])
def test_what_was_acknowledged_survives_the_server_of_the_database(cluster, server, end):
    one, other = (Documents(server("--db", cluster.uri, *FLAGS)) for _ in range(2))
    other.name = one.name
    with Load([one, other]) as load:
        load.more()
        end(cluster)
        load.more()
        end(cluster)
        load.more()
    load.check(other)
    if end is stop_fast:  # the server says goodbye: nothing remains in doubt
        assert not [kind for kind in load.refused if kind.endswith("unknown")]


def test_a_server_that_stands_still_is_answered_for(cluster, server):
    slate = server("--db", cluster.uri, "--db-timeout", "1s")
    db = Documents(slate)
    assert db.put("/a", 1).status == 201
    cluster.pause()
    try:
        begun = time.monotonic()
        assert db.put("/a", 2).status == 503
        assert db.get("/a").status == 503
        assert slate.request("GET", "/json").status == 200
        assert time.monotonic() - begun < DEADLINE
    finally:
        cluster.resume()
    until(lambda: db.put("/a", 3).status in (200, 201), "it goes on")
    # The write whose outcome is unknown lies with the server, which may come to it only now.
    until(lambda: db.put("/a", 3).status == 200 and get(db, "/a").json() == 3, "the last one holds")


def test_readiness_follows_the_database(cluster, server):
    slate = server("--db", cluster.uri, *FLAGS)
    assert slate.admin("/readyz").status == 200
    cluster.stop()  # that is seen without a request for a document
    until(lambda: slate.admin("/readyz").status == 503, "it is not ready")
    assert Documents(slate).get("/a").status == 503
    assert "127.0.0.1" not in Documents(slate).get("/a").body.decode()
    cluster.start()
    until(lambda: slate.admin("/readyz").status == 200, "it is ready again")
    assert Documents(slate).put("/a", 1).status == 201


@contextlib.contextmanager
def small_disk(cluster):
    """A folder of the cluster's, on a disk of 4 MB."""
    folder = os.path.join(cluster.folder, "small")
    os.mkdir(folder)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", folder],
                      capture_output=True, check=False).returncode:
        pytest.skip("a disk cannot be mounted here")
    try:
        os.chown(folder, cluster.account["user"], cluster.account["group"])
        yield folder
    finally:
        cluster.stop()  # it holds files open
        subprocess.run(["umount", folder], check=True)


def test_a_full_disk_is_said_and_then_it_goes_on(cluster, server):
    db = Documents(server("--db", cluster.uri, *FLAGS))
    with small_disk(cluster) as folder:
        cluster.sql(f"CREATE TABLESPACE small LOCATION '{folder}'")
        cluster.sql("ALTER TABLE slate_documents SET TABLESPACE small")
        answers = [db.put(f"/d{n}", os.urandom(300_000).hex()) for n in range(20)]
        assert {answer.status for answer in answers} == {201, 503}, answers
        for answer in answers:
            assert answer.status == 201 or "disk is full" in answer.json()["detail"], answer
        assert db.get("/d0").status == 200
        subprocess.run(["mount", "-o", "remount,size=40m", folder], check=True)
        assert db.put("/again", os.urandom(300_000).hex()).status == 201
