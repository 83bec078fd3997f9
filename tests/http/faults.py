"""Aims at the server's calls for memory: the other side of fault.h."""
import mmap
import os
import struct

from process import BINARY

PROGRAMS = os.path.join(os.path.dirname(BINARY), "..", "tests", "http")
LIBRARY, CONTEXTS, SQLITE, OPENING, STRUCK, OPENED, SESSIONS, LEFT = range(8)
SIZE = 64
OPENING_NEW, OPENING_OLD = 1, 2
NAMES = ("library", "contexts", "SQLite")
MANY = 20000  # calls; a request here makes hundreds, or a few thousand


class Aim:
    def __init__(self, folder):
        self.path = os.path.join(folder, "aim")
        with open(self.path, "w+b") as file:
            file.truncate(SIZE)
            self.words = mmap.mmap(file.fileno(), SIZE)

    def flags(self):
        """For Server: one request at a time, and its calls counted."""
        return ["--mem-debug", "count", "--threads", "1"], {"FAULT_FILE": self.path}

    def set(self, word, value):
        struct.pack_into("<Q", self.words, 8 * word, value)

    def get(self, word):
        return struct.unpack_from("<Q", self.words, 8 * word)[0]

    def sweep(self, kinds=(LIBRARY, CONTEXTS)):
        """For each kind k = 1, 2, … until a request has gone without a refusal: what is about to be
        refused, in words. The caller sends one request each time."""
        for kind in kinds:
            for k in range(1, MANY):
                self.set(STRUCK, 0)
                self.set(kind, k)
                try:
                    yield f"{NAMES[kind]}, call {k}"
                finally:
                    self.set(kind, 0)
                if not self.get(STRUCK):
                    # Each makes the same calls, or some would have been left out.
                    assert kind == CONTEXTS or self.get(LEFT) == 1
                    break
            else:
                raise AssertionError(f"still refusing after {MANY} calls")
