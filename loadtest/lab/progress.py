"""Says how far the run is: one line that is rewritten on a terminal, now and then a line elsewhere."""

import sys
import time

QUIET_SECONDS = 10  # between lines where stderr is no terminal


class Progress:
    def __init__(self):
        self._start = time.monotonic()
        self._terminal = sys.stderr.isatty()
        self._last = 0.0
        self._width = 0

    def step(self, text, seconds_left):
        """About to do what `text` says; from now to the end it should take `seconds_left`."""
        elapsed = time.monotonic() - self._start
        line = f"{_clock(elapsed)} gone, {_clock(seconds_left)} to go   {text}"
        if self._terminal:
            print("\r" + line.ljust(self._width), end="", file=sys.stderr, flush=True)
            self._width = len(line)
        elif time.monotonic() - self._last >= QUIET_SECONDS or not self._last:
            print(line, file=sys.stderr, flush=True)
            self._last = time.monotonic()

    def end(self):
        if self._terminal:
            print("\r" + " " * self._width + "\r", end="", file=sys.stderr, flush=True)


def _clock(seconds):
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
