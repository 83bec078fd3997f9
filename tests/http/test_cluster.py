"""deploy/cluster, as it is: one of its three slates is killed while clients write through HAProxy."""
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import pytest

from documents import Documents
from ledger import UNKNOWN, Ledger, Load
from process import BINARY, REPORT, ROOT, SANITIZED, environment
from wire import DEADLINE, Closed, Connection, until

sys.path.insert(0, os.path.join(ROOT, "tests"))
import postgresql  # noqa: E402

NEEDED = shutil.which("haproxy", path=os.environ.get("PATH", "") + ":/usr/sbin")
pytestmark = [
    pytest.mark.skipif(not (NEEDED and postgresql.find_binaries()),
                       reason="HAProxy or PostgreSQL is not installed"),
    pytest.mark.skipif(SANITIZED, reason="it is about processes, which are the same in every build"),
]

CLIENTS, THREADS = 64, 64  # a thread each: nobody waits for somebody else's answer
SLATES = ("slate-1", "slate-2", "slate-3")
PORTS = (0, 1, 2, 3, 11, 12, 13)  # after the first


def free_ports():
    """The first of them; they are free now, and hardly anybody asks for them by number."""
    for first in range(21000 + os.getpid() % 500 * 20, 32000, 20):
        with contextlib.ExitStack() as held:
            try:
                for offset in PORTS:
                    held.enter_context(socket.socket()).bind(("127.0.0.1", first + offset))
            except OSError:
                continue
            return first
    raise RuntimeError("no ports are free")


class Cluster:
    """The script's, in a folder of its own. To Documents and Load it is a server."""

    def __init__(self, folder):
        self.folder = folder
        port = free_ports()
        self.address = ("127.0.0.1", port)
        env = {**environment(), "SLATE": os.path.abspath(BINARY), "PORT": str(port),
               "SLATE_ACCESS_LOG": "json"}
        self.output = open(os.path.join(folder, "output"), "w+b")
        self.process = subprocess.Popen(
            [os.path.join(ROOT, "deploy", "cluster", "run"), os.path.join(folder, "cluster")], env=env,
            stdin=subprocess.DEVNULL, stdout=self.output, stderr=self.output, start_new_session=True)

    def said(self):
        self.output.seek(0)
        return self.output.read().decode()

    def request(self, method, target, *fields, **keywords):
        with Connection(self.address) as connection:
            return connection.request(method, target, *fields, **keywords)

    def who_answers(self):
        """The name of the slate that HAProxy asks; None: there is no answer."""
        assert self.process.poll() is None, self.said()
        try:
            answer = self.request("GET", "/db")
        except (OSError, Closed):
            return None
        return answer.header("X-Served-By") if answer.status == 200 else None

    def wait_for_all(self):
        answering = set()

        def all_three():
            answering.add(self.who_answers())
            return answering - {None} == set(SLATES)
        until(all_three, "three slates answer", 4 * DEADLINE)

    def path(self, name):
        return os.path.join(self.folder, "cluster", name)

    def kill(self, name):
        """Returns the time at which it had ended."""
        with open(self.path(f"{name}.pid"), encoding="ascii") as file:
            pid = int(file.read())
        os.kill(pid, signal.SIGKILL)
        until(lambda: not os.path.exists(f"/proc/{pid}"), f"{name} has ended")
        return time.monotonic()

    def log(self, name):
        with open(self.path(f"{name}.log"), encoding="utf-8") as file:
            return file.read()

    def answered(self, name):
        """The ids of the requests that it has answered."""
        lines = self.log(name).rpartition("\n")[0].splitlines()  # the last may be half there
        return {json.loads(line)["id"] for line in lines if line.startswith("{")}

    def stop(self):
        self.process.terminate()
        assert self.process.wait(2 * DEADLINE) == 128 + signal.SIGTERM, self.said()
        with contextlib.suppress(ProcessLookupError):  # nothing may have stayed
            os.killpg(self.process.pid, 0)
            raise AssertionError(f"some of its processes have not ended: {self.said()}")

    def release(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.output.close()


@pytest.fixture
def cluster():
    folder = tempfile.mkdtemp(prefix="slate-cluster-")
    os.chmod(folder, 0o755)  # PostgreSQL has an account of its own
    one = Cluster(folder)
    try:
        yield one
    finally:
        one.release()
        shutil.rmtree(folder, ignore_errors=True)


def test_a_slate_that_is_killed_takes_only_its_requests_along(cluster):
    cluster.wait_for_all()
    ledger = Ledger(Documents(cluster))
    with Load(ledger, [cluster.address], CLIENTS, THREADS, patient=True) as load:
        load.more(500)
        assert not ledger.broken
        for killed in ("slate-2", "slate-1"):
            before = len(ledger.broken)
            ended = cluster.kill(killed)
            load.more(500)
            cluster.wait_for_all()
            load.more(500)
            broken = ledger.broken[before:]
            late = [write.who for write in broken if write.sent > ended]
            assert not late, f"{killed} was gone, and these failed: {late}"
            for other in set(SLATES) - {killed}:
                lost = {write.id for write in broken} & cluster.answered(other)
                assert not lost, f"{killed} was killed, but {other} had these: {lost}"
        load.end()
    assert len(ledger.broken) == ledger.counts[UNKNOWN]
    ledger.check()
    assert not [name for name in SLATES if REPORT.search(cluster.log(name))]
    cluster.stop()
