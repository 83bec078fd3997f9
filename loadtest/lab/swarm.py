"""A client for what wrk cannot do: many connections that are open together, each with a fixed number
of requests, which it takes in turn. Every answer to a request has to be the same bytes as the first
to it. One thread, one selector.

As a program it takes a JSON object in argv[1] and leaves a JSON file, as wrk does."""

import json
import selectors
import socket
import subprocess
import sys
import time
from pathlib import Path

from . import histogram
from .answer import Answer

CONNECTS_AT_ONCE = 256  # well below the backlog of a listening socket
PATIENCE = 30  # seconds without any event: the rest is lost


def start(address, load, out, requests):
    """`requests`: a file of them. Returns the process. The file `out` appears when the last answer has
    come."""
    spec = {"address": address, "deck": requests, "connections": load.connections,
            "requests": load.requests, "out": out}
    return subprocess.Popen([sys.executable, "-m", "lab.swarm", json.dumps(spec)],
                            cwd=Path(__file__).resolve().parent.parent,
                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def read(out, connections):
    with open(out, encoding="ascii") as f:
        said = json.load(f)
    raw = histogram.from_samples(said.pop("latencies_us"))
    return said | {"connections": connections, "raw": raw, "corrected": None, "wrk": None,
                   "unrecorded": said["requests"] - histogram.count(raw)}


class Connection:
    """One connection: sends the request, reads the answer, as often as it should."""

    def __init__(self, swarm, number):
        self.swarm = swarm
        self.left = swarm.spec["requests"]
        self.which = number % len(swarm.requests)  # of the swarm's requests
        self.sent = 0
        self.answer = Answer()
        self.started = None
        self.fresh = True  # not known to be connected
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.connect_ex(tuple(swarm.spec["address"]))

    def write(self):
        if self.started is None:
            self.started = time.perf_counter_ns()
        request = self.swarm.requests[self.which]
        self.sent += self.socket.send(memoryview(request)[self.sent:])
        return self.sent == len(request)

    def read(self):
        """True when the answer is whole."""
        piece = self.socket.recv(1 << 18)
        if not piece:
            raise ConnectionError("closed by the server")
        try:
            self.answer.feed(piece)
        except (ValueError, KeyError, IndexError) as error:
            raise ConnectionError("that is no answer") from error
        return self.answer.whole

    def next(self):
        """The answer is whole: counts it, makes ready for another. False: that was the last."""
        self.swarm.count(self.which, self.answer, time.perf_counter_ns() - self.started)
        self.left -= 1
        self.which = (self.which + 1) % len(self.swarm.requests)
        self.sent, self.answer, self.started = 0, Answer(), None
        return self.left > 0


def _deck(path):
    """The requests in a file, each behind its length."""
    found = []
    with open(path, "rb") as f:
        for line in f:
            found.append(f.read(int(line)))
    return found


class Swarm:
    def __init__(self, spec):
        self.spec = spec
        self.requests = _deck(spec["deck"])
        self.first_answers = {}
        self.latencies = []
        self.errors = self.non_2xx = self.different = 0

    def count(self, which, answer, nanoseconds):
        self.latencies.append(nanoseconds // 1000)
        self.non_2xx += answer.status // 100 != 2
        self.different += answer.body() != self.first_answers.setdefault(which, answer.body())

    def run(self):
        with selectors.EpollSelector() as selector:
            all_of_them, to_make, connecting, open_ = [], self.spec["connections"], 0, 0
            start = time.perf_counter()
            while to_make or open_:
                while to_make and connecting < CONNECTS_AT_ONCE:
                    connection = Connection(self, len(all_of_them))
                    all_of_them.append(connection)
                    selector.register(connection.socket, selectors.EVENT_WRITE, connection)
                    to_make, connecting, open_ = to_make - 1, connecting + 1, open_ + 1
                events = selector.select(PATIENCE)
                if not events:
                    self.errors += open_
                    break
                for key, mask in events:
                    connection = key.data
                    connecting -= connection.fresh
                    connection.fresh = False
                    if not self._step(selector, connection, mask):
                        selector.unregister(connection.socket)
                        open_ -= 1
            seconds = time.perf_counter() - start
            self._write(seconds)
            for connection in all_of_them:
                connection.socket.close()

    def _step(self, selector, connection, mask):
        """False when the connection has nothing more to do. It stays open until all are done."""
        try:
            if mask & selectors.EVENT_WRITE:
                if connection.write():
                    selector.modify(connection.socket, selectors.EVENT_READ, connection)
            elif connection.read():
                if not connection.next():
                    return False
                selector.modify(connection.socket, selectors.EVENT_WRITE, connection)
        except BlockingIOError:
            pass
        except OSError:
            self.errors += 1
            return False
        return True

    def _write(self, seconds):
        with open(self.spec["out"], "w", encoding="ascii") as f:
            json.dump({"requests": len(self.latencies), "seconds": seconds, "errors": self.errors,
                       "non_2xx": self.non_2xx, "different": self.different,
                       "latencies_us": self.latencies}, f)


if __name__ == "__main__":
    Swarm(json.loads(sys.argv[1])).run()
