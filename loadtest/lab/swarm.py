"""A client for what wrk cannot do: many connections that are open together, each with a fixed number
of requests, which it takes in turn; slow ones, requests that are broken off, connections that stay.
Every answer to a request has to be the same bytes as the first to it. One thread, one selector.

As a program it takes a JSON object in argv[1] and leaves a JSON file, as wrk does."""

import heapq
import json
import selectors
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from . import histogram
from .answer import Answer

START_UP = 0.6  # seconds that are not load
CONNECTS_AT_ONCE = 250  # well below the backlog of a listening socket, and no multiple of 128 (README)
PATIENCE = 30  # seconds without any event: the rest is lost
PIECE = 1 << 18  # bytes that are read at once
BREATH = 0.05  # seconds between the pieces of a slow client
SLOW_BUFFER = 16 * 1024  # of the socket of a slow reader, so that the server has to wait


def start(address, load, out, requests):
    """`requests`: a file of them. Returns the process. The file `out` appears when the last answer has
    come; the connections stay open for `load.hold` seconds more."""
    spec = {"address": address, "deck": requests, "connections": load.connections,
            "requests": load.requests, "upload": load.upload, "download": load.download,
            "hold": load.hold, "out": out}
    return subprocess.Popen([sys.executable, "-m", "lab.swarm", json.dumps(spec)],
                            cwd=Path(__file__).resolve().parent.parent,
                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def read(out, connections):
    with open(out, encoding="ascii") as f:
        said = json.load(f)
    raw = histogram.from_samples(said.pop("latencies_us"))
    return said | {"connections": connections, "raw": raw, "corrected": None,
                   "unrecorded": said["requests"] - histogram.count(raw)}


@dataclass(frozen=True)
class Order:
    """One request of the deck."""

    text: bytes
    sent: int  # bytes of it
    status: int  # that is due, as payload.is_due takes it; 0: it is broken off, there is no answer
    last: bool  # the connection ends with it


def read_deck(path):
    found = []
    with open(path, "rb") as f:
        for line in f:
            length, sent, status, last = map(int, line.split())
            found.append(Order(f.read(length), sent, status, bool(last)))
    return found


class Connection:
    """One connection: sends a request, reads the answer, as often as it should."""

    def __init__(self, swarm, number):
        self.swarm = swarm
        self.left = swarm.spec["requests"]
        self.which = number % len(swarm.deck)
        self.connect()

    def connect(self):
        self.sent = 0
        self.answer = Answer()
        self.started = None
        self.fresh = True  # not known to be connected
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.swarm.spec["download"]:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SLOW_BUFFER)
        self.socket.connect_ex(tuple(self.swarm.spec["address"]))

    def order(self):
        return self.swarm.deck[self.which]

    def write(self):
        """True when the request has been sent, as far as it is to be."""
        if self.started is None:
            self.started = time.perf_counter_ns()
        order = self.order()
        end = min(order.sent, self.sent + self.swarm.up) if self.swarm.up else order.sent
        self.sent += self.socket.send(memoryview(order.text)[self.sent:end])
        return self.sent == order.sent

    def read(self):
        """True when the answer is whole."""
        piece = self.socket.recv(self.swarm.down or PIECE)
        if not piece:
            raise ConnectionError("closed by the server")
        try:
            self.answer.feed(piece)
        except (ValueError, KeyError, IndexError) as error:
            raise ConnectionError("that is no answer") from error
        return self.answer.whole

    def next(self):
        """Counts what has come, makes ready for another. False: that was the last."""
        if self.order().status:
            self.swarm.count(self.which, self.answer, time.perf_counter_ns() - self.started)
        self.left -= 1
        self.which = (self.which + 1) % len(self.swarm.deck)
        self.sent, self.answer, self.started = 0, Answer(), None
        return self.left > 0


class Swarm:
    def __init__(self, spec):
        self.spec = spec
        self.deck = read_deck(spec["deck"])
        # Bytes in each breath; 0: as fast as it goes.
        self.up, self.down = (int(spec[way] * BREATH) for way in ("upload", "download"))
        self.first_answers = {}
        self.latencies = []
        self.errors = self.wrong_status = self.different = self.broken_off = 0
        self._selector = None
        self._resting = []  # (due, number, connection, events): slow ones, between two pieces
        self._rested = 0

    def count(self, which, answer, nanoseconds):
        self.latencies.append(nanoseconds // 1000)
        self.wrong_status += answer.status != self.deck[which].status
        if answer.status == 200:  # a problem names the one request that it is about
            self.different += answer.body() != self.first_answers.setdefault(which, answer.body())

    def run(self):
        with selectors.EpollSelector() as self._selector:
            all_of_them, to_make, connecting, open_ = [], self.spec["connections"], 0, 0
            start = time.perf_counter()
            while to_make or open_:
                while to_make and connecting < CONNECTS_AT_ONCE:
                    connection = Connection(self, len(all_of_them))
                    all_of_them.append(connection)
                    self._selector.register(connection.socket, selectors.EVENT_WRITE, connection)
                    to_make, connecting, open_ = to_make - 1, connecting + 1, open_ + 1
                events = self._selector.select(self._wake())
                if not events and not self._resting:
                    self.errors += open_
                    break
                for key, mask in events:
                    connection = key.data
                    connecting -= connection.fresh
                    connection.fresh = False
                    open_ -= not self._step(connection, mask)
            seconds = time.perf_counter() - start
            self._write(seconds)
            time.sleep(self.spec["hold"])
            for connection in all_of_them:
                connection.socket.close()

    def _wake(self):
        """Wakes those that have rested enough; how long the others let us wait."""
        now = time.perf_counter()
        while self._resting and self._resting[0][0] <= now:
            _, _, connection, events = heapq.heappop(self._resting)
            self._selector.register(connection.socket, events, connection)
        return max(0.0, self._resting[0][0] - now) if self._resting else PATIENCE

    def _rest(self, connection, events):
        self._selector.unregister(connection.socket)
        self._rested += 1
        heapq.heappush(self._resting, (time.perf_counter() + BREATH, self._rested, connection, events))

    def _step(self, connection, mask):
        """False when the connection has nothing more to do. It stays open until all are done."""
        try:
            writes = bool(mask & selectors.EVENT_WRITE)
            if writes and connection.write():
                if connection.order().status:
                    self._selector.modify(connection.socket, selectors.EVENT_READ, connection)
                    return True
                self.broken_off += 1
                return self._next(connection)
            if not writes and connection.read():
                return self._next(connection)
            if self.up if writes else self.down:
                self._rest(connection, selectors.EVENT_WRITE if writes else selectors.EVENT_READ)
        except BlockingIOError:
            pass
        except OSError:
            self.errors += 1
            self._selector.unregister(connection.socket)
            return False
        return True

    def _next(self, connection):
        ends = connection.order().last
        more = connection.next()
        if more and not ends:
            self._selector.modify(connection.socket, selectors.EVENT_WRITE, connection)
            return True
        self._selector.unregister(connection.socket)
        if ends:
            connection.socket.close()
        if more:
            connection.connect()
            connection.fresh = False  # it is not one of those that are waited for
            self._selector.register(connection.socket, selectors.EVENT_WRITE, connection)
        return more

    def _write(self, seconds):
        with open(self.spec["out"], "w", encoding="ascii") as f:
            json.dump({"requests": len(self.latencies), "seconds": seconds, "errors": self.errors,
                       "wrong_status": self.wrong_status, "different": self.different,
                       "broken_off": self.broken_off, "latencies_us": self.latencies}, f)


if __name__ == "__main__":
    Swarm(json.loads(sys.argv[1])).run()
