"""Watching a server do nothing. After its load a server is left alone, and only /proc is read, from
outside: a request, even to the admin listener, would make an allocator work, and some give memory
back only then. Meanwhile the next slot may run: what is idle costs the next server nothing."""

import socket
import time

from . import proc
from .answer import Answer

CURVE_SECONDS = 0.25  # between points of the curve; the marks are exact


class Watch:
    """Samples one server at `marks` seconds after `since` (time.monotonic)."""

    def __init__(self, pid, since, marks, trickle=None):
        self.pid = pid
        self.trickle = trickle
        self.since = since
        self.curve = []  # (seconds since the load ended, anonymous bytes), coarse
        self.lost = False
        self.marks = []  # {"t", "anonymous", "cpu_ns"}, exact
        self._due = list(marks)
        self._next_point = 0.0

    def tick(self):
        try:
            if self.trickle:
                self.trickle.tick()
            self._sample(time.monotonic() - self.since)
        except OSError:  # the process is gone; its exit status will say more
            self._due.clear()
            self.lost = True

    def _sample(self, t):
        if self._due and t >= self._due[0]:
            self._due.pop(0)
            self.marks.append({"t": round(t, 3), "anonymous": proc.anonymous(self.pid),
                               "cpu_ns": proc.cpu_ns(self.pid)})
        elif self._due and t >= self._next_point:
            self._next_point = t + CURVE_SECONDS
            self.curve.append((t, proc.resident(self.pid)[1]))

    def done(self):
        return not self._due

    def seconds_left(self):
        return max(0.0, self._due[-1] - (time.monotonic() - self.since)) if self._due else 0.0


class Trickle:
    """A request now and then, to a server that is otherwise left alone."""

    REQUEST = b"GET /json HTTP/1.1\r\nHost: localhost\r\n\r\n"

    def __init__(self, address, per_second):
        self.answered = 0
        self._pause = 1 / per_second
        self._next = time.monotonic()
        self._answer = None
        self._socket = socket.create_connection(address, timeout=1)
        self._socket.setblocking(False)

    def tick(self):
        try:
            if self._answer:
                text = self._socket.recv(65536)
                if not text:
                    raise ConnectionError("the server closed the connection before it answered")
                self._answer.feed(text)
                if not self._answer.whole:
                    return
                self.answered += 1
                self._answer = None
        except BlockingIOError:
            return
        if time.monotonic() >= self._next:
            self._next += self._pause
            self._socket.sendall(self.REQUEST)
            self._answer = Answer()

    def close(self):
        """Once its last answer is here; how many there were. OSError: it did not come."""
        self._next = float("inf")  # by now the server may have closed a connection that lay idle
        try:
            while self._answer:
                self.tick()
                time.sleep(0.001)
        finally:
            self._socket.close()
        return self.answered


class Watches:
    """All watches that are not over; whoever waits in the lab waits through pause()."""

    def __init__(self):
        self._watches = []

    def add(self, watch):
        self._watches.append(watch)

    def tick(self):
        for watch in self._watches:
            watch.tick()
        self._watches = [watch for watch in self._watches if not watch.done()]

    def pause(self, seconds):
        end = time.monotonic() + seconds
        while True:
            self.tick()
            left = end - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, 0.02))
