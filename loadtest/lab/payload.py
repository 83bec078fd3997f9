"""Requests made of real documents, each with the answer that is right for it."""

import json
import random
from dataclasses import dataclass, replace
from pathlib import Path

DOCUMENTS = Path("/usr/share/iso-codes/json")
DRAWN = 2000  # requests in a deck, if each is another one,
SHUFFLED = 100  # or only some in some shares
CHUNK = 16 * 1024  # bytes
SUCCESS = 2  # as the status that is due: any of 2xx
OF_ROWS = ("document", "page", "written", "rows")  # what an answer can be where there is a store


class PayloadError(Exception):
    pass


class Anything:
    """Equal to whatever is there: an id or a revision that nobody can know beforehand."""

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 0

    def __repr__(self):
        return "anything"


@dataclass(frozen=True)
class Request:
    method: str
    path: str  # {id} and {n} stand for those of a row, or {n} for a number where there are no rows
    body: bytes = b""
    accept: str | None = None
    chunked: bool = False  # the body comes in chunks, without its length
    close: bool = False  # the connection is not kept
    status: int = 200  # of the answer
    cut: float = 1  # so much of it is sent, then the connection is dropped
    answer: object = None  # the JSON value that the server has to answer with
    of_rows: str | None = None  # or what the answer is of the rows, one of OF_ROWS
    first: int = 0  # of "rows", so many; 0: all
    puts_row: bool = False  # the body is the row's own document
    share: int = 1  # of so many of the scenario's shares

    def is_due(self, status):
        """Whether an answer may have this status."""
        return is_due(status, self.status)

    def of_a_row(self):
        """Whether it is another request for each row."""
        return self.puts_row or "{" in self.path

    def ends_connection(self):
        """Whether nothing can come after it: it says so, it is broken off, or its body is refused."""
        return self.close or self.cut < 1 or self.status == 413

    def headers(self):
        fields = {"Content-Type": "application/json" if self.body else None, "Accept": self.accept,
                  "Connection": "close" if self.close else None}
        return {name: value for name, value in fields.items() if value}

    def text(self, address):
        """As it goes over the wire to a server at `address`."""
        fields = {"Host": f"{address[0]}:{address[1]}"} | self.headers()
        if self.chunked:
            fields["Transfer-Encoding"] = "chunked"
        elif self.body:
            fields["Content-Length"] = len(self.body)
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        return (f"{self.method} {self.path} HTTP/1.1\r\n{head}\r\n".encode() +
                (_in_chunks(self.body) if self.chunked else self.body))


def is_due(status, due):
    """`due`: a status, or SUCCESS."""
    return status // 100 == due if due == SUCCESS else status == due


def _in_chunks(body):
    pieces = [body[at:at + CHUNK] for at in range(0, len(body), CHUNK)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


@dataclass
class Deck:
    """What a client sends. `samples`: one request of each kind, by which the answers are checked;
    `order`: all of them, to be sent over and over."""

    samples: list
    order: list


def deck(requests, rows):
    """`rows`: store.Rows, or None. The same deck in every run: chance is no difference between arms."""
    samples = [rows.answered(request, rows.last // 2) if rows else _numbered(request, 0)
               for request in requests]
    shares = sum(request.share for request in requests)
    if shares == len(requests) and not any(request.of_a_row() for request in requests):
        return Deck(samples, samples)
    rng = random.Random(1)
    drawn = DRAWN if any(request.of_a_row() for request in requests) else SHUFFLED
    order = [rows.fill(request, rng.randint(0, rows.last)) if rows else _numbered(request, i)
             for request in requests for i in range(drawn * request.share // shares)]
    rng.shuffle(order)
    return Deck(samples, order)


def _numbered(request, n):
    return replace(request, path=request.path.format(n=n))


def merge_patch(target, patch):
    """RFC 7396, section 2."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def build(spec):
    """[Request, ...] from a scenario's [request], or one of its [[request]]. A body is a text, or made
    of a document: as it is on disk, or so many `times` in a list, or the first records of it that make
    `at_least` so many bytes (a list: a request for each), or the records `by` one of their members with
    a `patch`, or `records` of them on so many `levels` below each other, all to be replaced by null;
    and what comes `then`. The answer is that document, unless it is said; members of it that are
    `unforeseen` can be anything."""
    spec = dict(spec)
    body = spec.pop("body", None)
    if "answer" in spec:
        spec["answer"] = json.loads(spec["answer"])
        spec["answer"] |= {name: Anything() for name in spec.pop("unforeseen", [])}
    if spec.get("of_rows", OF_ROWS[0]) not in OF_ROWS:
        raise PayloadError(f"of_rows is one of {', '.join(OF_ROWS)}")
    request = Request(**spec)
    if body is None:
        return [request]
    if isinstance(body, str):
        return [replace(request, body=body.encode())]
    return [replace(request, body=text + body.get("then", "").encode(),
                    answer=answer if request.answer is None else request.answer)
            for text, answer in _of_document(body)]


def _of_document(body):
    known = {"from", "then", "at_least", "by", "patch", "times", "records", "levels"}
    if set(body) - known:
        raise PayloadError(f"a body knows {', '.join(sorted(known))}")
    text, document = published(body["from"])
    if "patch" in body:
        return [_merge_body(document, body["by"], json.loads(body["patch"]))]
    if "levels" in body:
        return [_nested(document, body["records"], body["levels"])]
    if "times" in body:
        return [(compact([document] * body["times"]), [document] * body["times"])]
    if "at_least" in body:
        return [_first_records(document, size) for size in body["at_least"]]
    return [(text, document)]


def published(name):
    """(text, value) of a document."""
    try:
        text = (DOCUMENTS / name).read_bytes()
    except OSError as error:
        raise PayloadError(f"{error.strerror}: {error.filename} (Debian package iso-codes)") from error
    return text, json.loads(text)


def _merge_body(document, by, patch):
    (records,) = document.values()
    document = {record[by]: record for record in records}
    return compact({"doc": document, "patch": patch}), merge_patch(document, patch)


def _nested(document, count, levels):
    (records,) = document.values()
    below = None
    for level in range(levels):
        below = {"records": records[level:count:levels], "below": below}
    return compact({"doc": below, "patch": None}), None


def compact(value):
    """As programs write it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _first_records(document, at_least):
    ((name, records),) = document.items()
    few, many = 0, len(records)
    while few < many:
        middle = (few + many) // 2
        if len(_as_published({name: records[:middle]})) < at_least:
            few = middle + 1
        else:
            many = middle
    return _as_published({name: records[:few]}), {name: records[:few]}


def _as_published(document):
    return json.dumps(document, ensure_ascii=False, indent=2).encode() + b"\n"
