"""Watching a server do nothing. After its load a server is left alone, and only /proc is read, from
outside: a request, even to the admin listener, would make an allocator work, and some give memory
back only then. Meanwhile the next slot may run: what is idle costs the next server nothing."""

import time

from . import proc

CURVE_SECONDS = 0.25  # between points of the curve; the marks are exact


class Watch:
    """Samples one server at `marks` seconds after `since` (time.monotonic)."""

    def __init__(self, pid, since, marks):
        self.pid = pid
        self.since = since
        self.curve = []  # (seconds since the load ended, anonymous bytes), coarse
        self.lost = False
        self.marks = []  # {"t", "anonymous", "cpu_ns"}, exact
        self._due = list(marks)
        self._next_point = 0.0

    def tick(self):
        try:
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
