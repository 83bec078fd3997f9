"""kill -9 in the middle of a thousand writes, again and again on one store: what was acknowledged is
there, nothing is half there, and revisions go on where they were.

Three times by default; SLATE_TEST_CRASHES=20 is the long form:

    SLATE_TEST_CRASHES=20 tests/run --tree release --only http -k crash
"""
import os
import random
import subprocess

import pytest

import documents
from ledger import UNKNOWN, Ledger, Load, check_file
from process import REPORT
from wire import until

CRASHES = int(os.environ.get("SLATE_TEST_CRASHES", "3"))
CLIENTS = 1000
FLAGS = ("--idle-timeout", "120s", "--db-timeout", "60s")  # nothing here is about slowness


def crash(server):
    server.process.kill()
    server.process.wait()
    assert not REPORT.search(server.errors()), server.errors()
    server.release()


def wait_for_sessions():
    """Until PostgreSQL is done with what the killed server had sent it."""
    def none():
        end = subprocess.run(
            ["psql", "--no-psqlrc", "-tAc", "SELECT count(*) FROM pg_stat_activity"
             " WHERE application_name = 'slate'", documents.URIS["postgresql"]],
            capture_output=True, text=True, check=True)
        return end.stdout.strip() == "0"
    until(none, "PostgreSQL has ended the sessions of the killed server")


@pytest.mark.parametrize("backend", list(documents.URIS))
def test_nothing_acknowledged_is_lost_in_a_crash(backend, tmp_path):
    rng = random.Random(1)
    ledger = Ledger(documents.Documents(None))
    for _ in range(CRASHES):
        ledger.db.server = documents.start(backend, tmp_path, *FLAGS)
        try:
            with Load(ledger, [ledger.db.server.address], CLIENTS) as load:
                load.more(rng.randrange(500, 4000))
                crash(ledger.db.server)
            load.check()
        finally:
            ledger.db.server.process.kill()
        if backend == "postgresql":
            wait_for_sessions()
        ledger.db.server = again = documents.start(backend, tmp_path, *FLAGS)
        try:
            ledger.check()
            if backend == "sqlite":
                check_file(tmp_path / "documents.db")
        finally:
            again.stop()
            again.release()
    assert ledger.counts[UNKNOWN] > 0, "nothing was under way when the server was killed"
