"""The rows that a server with a store starts with. They are inserted once per run of the lab, through
the API; each slot gets a copy of the file, so that all start alike and none sees another's writes."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

from . import payload

COLLECTION = "/db/rows"
INDEXES = ("--db-indexes", "rows:/n")
BULK = ("--body-limit", "8M", "--request-memory", "256M")  # for the inserts alone
AT_ONCE = 10_000  # rows in one insert, the most that there can be


class Rows:
    """`count` documents of some 160 bytes, each of a number and two records of real lists."""

    PAGE = 50

    def __init__(self, count):
        self.count = count
        self.last = max(0, count - self.PAGE)  # the last row at which a whole page begins
        self.ids = []
        (self._languages,) = payload.published("iso_639-3.json")[1].values()
        (self._places,) = payload.published("iso_3166-2.json")[1].values()

    def document(self, n):
        return {"n": n, "language": self._languages[n % len(self._languages)],
                "place": self._places[n % len(self._places)]}

    def _row(self, n):
        return {"id": self.ids[n], "revision": payload.Anything(), "document": self.document(n)}

    def fill(self, request, n):
        """The request on row `n`."""
        return replace(request, path=request.path.format(id=self.ids[n], n=n),
                       body=payload.compact(self.document(n)) if request.puts_row else request.body)

    def answered(self, request, n):
        """The same with the answer that is right."""
        answer = request.answer
        if request.of_rows == "document":
            answer = self.document(n)
        elif request.of_rows == "page":
            answer = [self._row(i) for i in range(n, min(n + self.PAGE, self.count))]
        elif request.of_rows == "rows":
            answer = [self._row(i) for i in range(request.first or self.count)]
        elif request.of_rows == "written":
            answer = {"id": self.ids[n], "revision": payload.Anything()}
        return replace(self.fill(request, n), answer=answer)

    def insert(self, server):
        """All of them into an empty store; what went wrong, or None."""
        for first in range(0, self.count, AT_ONCE):
            numbers = range(first, min(first + AT_ONCE, self.count))
            status, _, answer = server.ask(
                "POST", COLLECTION, payload.compact([self.document(n) for n in numbers]))
            if status != 201:
                return f"POST {COLLECTION} answered {status}: {answer[:200]!r}"
            self.ids += [row["id"] for row in json.loads(answer)]
        return None


def copy(source, target):
    """On the disk when it returns, so that no slot pays for writing it back. With the log, which SQLite
    may leave beside the file."""
    for tail in ("", "-wal"):
        if os.path.exists(source + tail):
            shutil.copyfile(source + tail, target + tail)
            with open(target + tail, "rb") as f:
                os.fsync(f.fileno())


def remove(path):
    for tail in ("", "-wal", "-shm"):
        Path(path + tail).unlink(missing_ok=True)
