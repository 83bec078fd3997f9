"""For every route, and for k = 1, 2, … until nothing fails any more: the k-th call for memory that the
request makes is refused, be it the server's, a library's, or SQLite's. Each answer is the right one, a
413 or a 503; the store holds what the answers say; the server goes on, and what the request held comes
back. No request waits for long: a lost wait would last longer than any client here waits. Leaks and bad
accesses are AddressSanitizer's to find, at the end.
"""
import collections
import json
import re
import sqlite3

import pytest

import faults
from documents import MERGE, NDJSON, PATCH
from process import ALLOC, ROOT
from wire import Closed

FAULTY = f"{faults.PROGRAMS}/slate_fault"
KINDS = (faults.LIBRARY, faults.CONTEXTS, faults.SQLITE)
METHODS = {"GET", "POST", "PUT", "PATCH", "DELETE"}

# A request, and its status when nothing fails. The target may be a function of the server.
Case = collections.namedtuple("Case", "name method target status body fields media_type",
                              defaults=(None, (), "application/json"))

# Keys, strings with and without escapes, numbers; tables that grow; more than a first block holds.
DOCUMENT = {"name": "text " * 60, "é\n": ["\\", "\u00fc" * 40, 7.6, -1, 1e300, True, None],
            "rows": [{"id": i, "name": f"row {i}"} for i in range(60)]}


ACCOUNT = {"id": 1, "firstName": "Ada", "lastName": "King", "email": "ada@example.org",
           "address": {"street": "12 St James's Square", "city": "London", "state": "", "zip": "SW1"}}
TRANSFER = {"from": ACCOUNT, "to": ACCOUNT, "amount": 1, "sendOn": "1843-09-05"}


def body(value):
    return json.dumps(value).encode()


def lines(*values):
    return b"".join(body(value) + b"\n" for value in values)


def patch(*operations):
    return body({"doc": DOCUMENT, "patch": list(operations)})


# ---- The store -----------------------------------------------------------------------------------

PEOPLE = {
    "ann": {"name": "Ann", "age": 17, "address": {"city": "Bonn"}, "tags": ["a", "b"]},
    "bob": {"name": "Bob", "age": 42.5, "address": {"city": "Köln"}},
    "cem": {"name": "Cem " * 90, "age": 42.5, "address": {"city": "Bonn"}},
    "dee": {"name": "Dee", "age": None, "rows": [{"id": i, "name": f"row {i}"} for i in range(12)]},
}
PAGES = {f"page-{i}": {"i": i, "text": "x" * 24_000} for i in range(8)}  # three pages of a stream
INDEXES = "people:/age,people:/address/city"
KEY = "Idempotency-Key: known"
ID = re.compile(r"\b0[0-9a-hjkmnp-tv-z]{25}\b")  # that the server has made


def fill(one):
    """Returns the number of its requests."""
    for name, documents in (("people", PEOPLE), ("pages", PAGES)):
        for key, document in documents.items():
            assert one.request("PUT", f"/db/{name}/{key}", body=body(document)).status == 201
    assert one.post("/db/keyed", body({"a": 1}), KEY).status == 201
    assert one.post("/db/keyed", lines(1, 2, 3), KEY + "-lines", media_type=NDJSON).status == 201
    return len(PEOPLE) + len(PAGES) + 2


class Store:
    """The file, read and set back behind the server's back."""

    def __init__(self, path):
        self.file = sqlite3.connect(path, isolation_level=None)
        self.kept = sqlite3.connect(":memory:")
        self.file.backup(self.kept)
        self.version = None
        self.first = self.content()

    def content(self):
        """Without ids that the server has made, and without times."""
        version = self.file.execute("PRAGMA data_version").fetchall()
        if version != self.version:  # another connection has written
            self.version, self.found = version, self.read()
        return self.found

    def read(self):
        tables = [self.file.execute(query).fetchall() for query in (
            "SELECT collection, id, revision, json FROM document ORDER BY 1, 2",
            "SELECT name, documents, bytes FROM collection ORDER BY 1",
            "SELECT revision FROM counter",
            "SELECT key, fingerprint, remembered, revision FROM idempotency ORDER BY 1")]
        return [[tuple(ID.sub("ID", value.decode() if isinstance(value, bytes) else str(value))
                       for value in row) for row in table] for table in tables]

    def reset(self):
        self.kept.backup(self.file)
        self.found = self.first

    def close(self):
        self.file.close()
        self.kept.close()


# ---- What is asked -------------------------------------------------------------------------------


def next_page(query):
    def target(one):
        return one.request("GET", query).header("Link").split(">")[0].strip("<")
    return target


ACCEPT = f"Accept: {NDJSON}"
WHOLE = "Prefer: return=representation"
SINCE = "Sun, 06 Nov 2044 08:49:37 GMT"
LIST = "/db/people?order=-age,/address/city&select=name,/address/city&limit=2"

# By route; HEAD is asked where it does something of its own.
SWEEPS = {
    "/json": [Case("get", "GET", "/json", 200)],
    "/plaintext": [Case("get", "GET", "/plaintext", 200)],
    "/echo": [
        Case("document", "POST", "/echo", 200, body(DOCUMENT)),
        Case("pretty", "POST", "/echo?pretty", 200, body(DOCUMENT)),
        Case("syntax", "POST", "/echo", 400, body(DOCUMENT)[:-1]),
        Case("duplicate", "POST", "/echo", 400, b'{"a": 1, "a": 2}'),
        Case("depth", "POST", "/echo", 422, b"[" * 200 + b"]" * 200),
    ],
    "/transfer": [
        Case("transfer", "POST", "/transfer", 200, body(TRANSFER)),
        Case("missing", "POST", "/transfer", 422, body({"from": ACCOUNT})),
    ],
    "/transform/patch": [
        Case("all", "POST", "/transform/patch", 200, patch(
            {"op": "add", "path": "/rows/-", "value": {"id": 61}},
            {"op": "copy", "from": "/rows", "path": "/more"},
            {"op": "move", "from": "/name", "path": "/rows/0/name"},
            {"op": "replace", "path": "/rows/1", "value": [1, 2, 3]},
            {"op": "test", "path": "/rows/2/id", "value": 2},
            {"op": "remove", "path": "/rows/3"})),
        Case("test", "POST", "/transform/patch", 409,
             patch({"op": "test", "path": "/name", "value": "other"})),
        Case("missing", "POST", "/transform/patch", 422, patch({"op": "remove", "path": "/none"})),
    ],
    "/transform/merge": [
        Case("merge", "POST", "/transform/merge", 200,
             body({"doc": DOCUMENT, "patch": {"name": None, "rows": {"a": 1}, "new": [DOCUMENT]}})),
    ],
    "/db": [
        Case("collections", "GET", "/db", 200),
        Case("head", "HEAD", "/db", 200),
    ],
    "/db/{collection}": [
        Case("list", "GET", "/db/people", 200),
        Case("head", "HEAD", "/db/people?limit=2", 200),
        Case("empty", "GET", "/db/none", 200),
        Case("filters", "GET", "/db/people?age=gte.18&/address/city=in.(Bonn,%22K%C3%B6ln%22,7)"
             "&name=neq.Bob", 200),
        Case("long filter", "GET", f"/db/people?name=lt.{'D' * 300}&age=lte.99&tags=neq.null", 200),
        Case("order", "GET", LIST, 200),
        Case("count", "GET", LIST + "&name=neq.Ann", 200, None, ("Prefer: count=exact",)),
        Case("count all", "GET", "/db/people?limit=1", 200, None, ("Prefer: count=exact",)),
        Case("after", "GET", next_page(LIST), 200),
        Case("another's cursor", "GET",
             lambda one: next_page(LIST)(one).replace("=-age", "=age"), 400),
        Case("operator", "GET", "/db/people?age=above.3", 400),
        Case("encoding", "GET", "/db/people?name=eq.%FF", 400),
        Case("form", "GET", "/db/people", 406, None, ("Accept: text/html",)),
        Case("name", "GET", "/db/people%2F", 400),
        Case("stream", "GET", "/db/pages", 200, None, (ACCEPT,)),
        Case("stream in order", "GET", "/db/pages?order=-i&i=gte.1&select=text,i", 200, None, (ACCEPT,)),
        Case("stream that ends", "GET", "/db/pages?limit=4", 200, None, (ACCEPT,)),
        Case("head of a stream", "HEAD", "/db/pages", 200, None, (ACCEPT,)),
        Case("insert", "POST", "/db/people", 201, body(PEOPLE["dee"])),
        Case("insert whole", "POST", "/db/new", 201, body(PEOPLE["ann"]), (WHOLE,)),
        Case("array", "POST", "/db/people", 201, body([*PEOPLE.values(), 1, "two", None])),
        Case("lines", "POST", "/db/new", 201, lines(*PEOPLE.values(), 1, "two"), (), NDJSON),
        Case("bad line", "POST", "/db/new", 400, lines(1, {"a": 2}) + b"{", (), NDJSON),
        Case("bad element", "POST", "/db/new", 422, body([1, json.loads("[" * 130 + "]" * 130)])),
        Case("nothing", "POST", "/db/new", 400, b"[]"),
        Case("key", "POST", "/db/keyed", 201, body({"b": 2}), ("Idempotency-Key: new",)),
        Case("key of lines", "POST", "/db/new", 201, lines(1, {"a": 2}), ("Idempotency-Key: new",), NDJSON),
        Case("replay", "POST", "/db/keyed", 201, body({"a": 1}), (KEY, WHOLE)),
        Case("replay of lines", "POST", "/db/keyed", 201, lines(1, 2, 3), (KEY + "-lines",), NDJSON),
        Case("reused key", "POST", "/db/keyed", 422, body({"a": 2}), (KEY,)),
        Case("clear", "DELETE", "/db/people", 204, None, ("If-Match: *",)),
        Case("clear nothing", "DELETE", "/db/none", 404, None, ("If-Match: *",)),
        Case("clear without a condition", "DELETE", "/db/people", 428),
    ],
    "/db/{collection}/{id}": [
        Case("get", "GET", "/db/people/dee", 200),
        Case("get a large one", "GET", "/db/pages/page-3", 200),
        Case("head", "HEAD", "/db/people/ann", 200),
        Case("missing", "GET", "/db/people/none", 404),
        Case("known", "GET", "/db/people/ann", 304, None, ('If-None-Match: "7", W/"1"',)),
        Case("known by date", "GET", "/db/people/ann", 304, None, (f"If-Modified-Since: {SINCE}",)),
        Case("another", "GET", "/db/people/ann", 412, None, ('If-Match: "7"',)),
        Case("no tag", "GET", "/db/people/ann", 400, None, ("If-Match: 7",)),
        Case("create", "PUT", "/db/new/one", 201, body(PEOPLE["dee"])),
        Case("create only", "PUT", "/db/people/one", 201, body([1]), ("If-None-Match: *", WHOLE)),
        Case("replace", "PUT", "/db/people/ann", 200, body(DOCUMENT)),
        Case("replace this", "PUT", "/db/people/ann", 200, body({"a": 1}), ('If-Match: "1", "9"', WHOLE)),
        Case("replace another", "PUT", "/db/people/ann", 412, body({"a": 1}), ('If-Match: "9"',)),
        Case("lines of tags", "PUT", "/db/people/ann", 412, body({"a": 1}), ('If-Match: "8"', 'If-Match: "9"')),
        Case("replace, by date", "PUT", "/db/people/ann", 200, body({"a": 1}),
             (f"If-Unmodified-Since: {SINCE}",)),
        Case("syntax", "PUT", "/db/people/ann", 400, b'{"a":'),
        Case("name", "PUT", "/db/people/a%20b", 400, b"1"),
        Case("merge", "PATCH", "/db/people/dee", 200,
             body({"rows": [1], "age": 3, "name": None, "new": {"a": {"b": ["c"]}}}), (), MERGE),
        Case("merge into nothing", "PATCH", "/db/people/none", 404, body({"a": 1}), (), MERGE),
        Case("patch", "PATCH", "/db/people/dee", 200, body([
            {"op": "add", "path": "/rows/-", "value": {"id": 61}},
            {"op": "copy", "from": "/rows", "path": "/more"},
            {"op": "move", "from": "/name", "path": "/rows/0/name"},
            {"op": "test", "path": "/rows/2/id", "value": 2},
            {"op": "remove", "path": "/rows/3"}]), (WHOLE, 'If-Match: "4"'), PATCH),
        Case("patch of another", "PATCH", "/db/people/dee", 412, b"[]", ('If-Match: "9"',), PATCH),
        Case("test", "PATCH", "/db/people/dee", 409,
             body([{"op": "test", "path": "/name", "value": "other"}]), (), PATCH),
        Case("no such path", "PATCH", "/db/people/dee", 422,
             body([{"op": "remove", "path": "/none"}]), (), PATCH),
        Case("delete", "DELETE", "/db/people/cem", 204),
        Case("delete this", "DELETE", "/db/people/ann", 204, None, ('If-Match: "1"',)),
        Case("delete, by date", "DELETE", "/db/people/ann", 204, None,
             (f"If-Unmodified-Since: {SINCE}",)),
        Case("delete nothing", "DELETE", "/db/people/none", 404),
        Case("delete another", "DELETE", "/db/people/ann", 412, None, ('If-None-Match: "1"',)),
    ],
    "/openapi.json": [
        Case("get", "GET", "/openapi.json", 200),
        Case("head", "HEAD", "/openapi.json", 200),
        Case("known", "GET", "/openapi.json", 304, None, ("If-None-Match: *",)),
        Case("no tag", "GET", "/openapi.json", 400, None, ("If-None-Match: 7",)),
    ],
    "/healthz": [Case("get", "GET", "/healthz", 200)],
    "/readyz": [Case("get", "GET", "/readyz", 200)],
    "/version": [Case("get", "GET", "/version", 200)],
    "/metrics": [Case("get", "GET", "/metrics", 200)],
    "/debug/memory": [Case("get", "GET", "/debug/memory", 200)],
    "/trim": [Case("post", "POST", "/trim", 200)],
    None: [  # no route at all
        Case("unknown", "GET", "/nothing-here", 404),
        Case("method", "DELETE", "/echo", 405),
        Case("options", "OPTIONS", "/echo", 204),
    ],
}
CHANGING = ("/transfer", "/metrics", "/debug/memory", "/trim")  # with times, or figures

with open(f"{ROOT}/server/admin.c", encoding="utf-8") as table:
    ADMIN = set(re.findall(r'\.path = "([^"]+)"', table.read()))


def test_every_route_and_method_is_swept(shared):
    public = {path: {method.upper() for method in item} & METHODS
              for path, item in shared.request("GET", "/openapi.json").json()["paths"].items()}
    admin = {path: set(shared.admin(path, "OPTIONS").header("Allow").split(", ")) & METHODS
             for path in ADMIN}
    swept = {route: {case.method for case in cases} & METHODS for route, cases in SWEEPS.items() if route}
    assert swept == {**public, **admin}, "a route has no request in SWEEPS, or is gone"


# ---- Asking ----------------------------------------------------------------------------------------


def read_pieces(connection, answer):
    """A chunked body, whole or (False) cut off."""
    try:
        while True:
            size = int(connection.read_line(), 16)
            answer.body += connection.read_bytes(size)
            assert connection.read_line() == b""
            if size == 0:
                return True
    except Closed:
        return False


def content(answer, route):
    """What must be the same each time."""
    fields = {name.lower(): ID.sub("ID", value) for name, value in answer.fields}
    for name in ("date", "x-request-id", "content-length"):
        fields.pop(name, None)
    if route in CHANGING:
        return answer.status, fields
    if answer.media_type == "application/problem+json" and answer.body:
        problem = answer.json()
        return answer.status, fields, [problem.get(name) for name in ("type", "title", "detail")]
    return answer.status, fields, ID.sub("ID", answer.body.decode())


def writes(case):
    """Whether it changes the store when nothing fails."""
    return (case.status in (200, 201, 204) and case.method in METHODS - {"GET"}
            and isinstance(case.target, str) and case.target.startswith("/db/") and "replay" not in case.name)


def is_refusal(answer):
    return answer.status == 413 or (answer.status == 503 and answer.header("Retry-After"))


def may_have_been_done(answer):
    return answer.body and answer.json()["type"] == "/problems/outcome-unknown"


class Sweep:
    """Of one route; its server and store are its own."""

    def __init__(self, start, folder, route):
        self.route = route
        self.aim = faults.Aim(folder)
        flags, env = self.aim.flags()
        self.server = start("--db", f"sqlite:{folder}/store", "--db-indexes", INDEXES, "--db-timeout", "10m",
                            "--access-log", "json", *flags, binary=FAULTY, env=env)
        self.address = self.server.admin_address if route in ADMIN else self.server.address
        self.seen = collections.Counter({(201, True): fill(self.server)})  # what the log must say
        self.store = Store(f"{folder}/store")
        self.points = 0

    def target(self, case):
        if isinstance(case.target, str):
            return case.target
        self.seen[200, True] += 1
        return case.target(self.server)

    def ask(self, case, target):
        """An answer, and whether it is whole."""
        connection = self.server.connect(to=self.address)
        connection.start(case.method, target, *case.fields, body=case.body, media_type=case.media_type)
        if ACCEPT in case.fields and case.method != "HEAD":
            answer = connection.read_head()
            whole = True
            if answer.header("Transfer-Encoding"):
                whole = read_pieces(connection, answer)
            else:
                answer.body = connection.read_bytes(int(answer.header("Content-Length")))
        else:
            answer, whole = connection.read(), True
        connection.close()
        self.server.connections.remove(connection)
        self.seen[answer.status, whole] += 1
        return answer, whole

    def run(self, case):
        before, target = self.store.first, self.target(case)
        right, whole = self.ask(case, target)
        assert whole and right.status == case.status, f"{case.name}: {right}"
        after = self.store.content()
        assert (after != before) == writes(case), case.name
        self.store.reset()
        for point in self.aim.sweep(KINDS):
            answer, whole = self.ask(case, target)
            found = self.store.content()
            where = f"{case.name}, {point}: {answer}"
            if answer.status != case.status:
                assert is_refusal(answer), where
                assert found == (after if may_have_been_done(answer) else before), where
            else:
                assert found == after, where
                if whole:
                    assert content(answer, self.route) == content(right, self.route), where
                else:
                    assert right.body.startswith(answer.body), where
            if found != before:
                self.store.reset()
            self.points += self.aim.get(faults.STRUCK) > 0
        assert whole and answer.status == case.status, f"{case.name}: {answer}"

    def check_log(self):
        """Every request is there as it was answered, but for those for which there was no struct."""
        lines = map(json.loads, self.server.output().splitlines())
        logged = collections.Counter((line["status"], line["sent"]) for line in lines)
        assert self.seen - logged == {(503, True): len(SWEEPS[self.route])}
        assert not logged - self.seen


@pytest.mark.parametrize("route", SWEEPS, ids=lambda route: route or "none")
def test_every_allocation_may_fail(server, tmp_path, route, capsys):
    sweep = Sweep(server, tmp_path, route)
    for case in SWEEPS[route]:
        sweep.run(case)
    sweep.store.close()
    sweep.server.assert_at_rest()
    if route not in ADMIN:  # which is not logged
        sweep.check_log()
    assert sweep.points > 0
    assert sweep.aim.get(faults.SESSIONS) <= 2, "a session was given up"  # one reads, one writes
    with capsys.disabled():
        print(f" {route or 'no route'} ({ALLOC}): {sweep.points} points failed", end="")


@pytest.mark.parametrize("file", ["new", "old"])
def test_every_allocation_may_fail_while_the_store_opens(server, tmp_path, file, capsys):
    """It is opened until it has gone without a refusal; every attempt before leaves nothing behind."""
    store = ("--db", f"sqlite:{tmp_path}/store", "--db-indexes", INDEXES)
    if file == "old":
        one = server(*store)
        fill(one)
        one.stop()
    aim = faults.Aim(tmp_path)
    flags, env = aim.flags()
    aim.set(faults.OPENING, faults.OPENING_NEW if file == "new" else faults.OPENING_OLD)
    one = server(*store, *flags, binary=FAULTY, env=env)
    if file == "new":
        fill(one)
    answer = one.request("GET", "/db/people?order=age&select=name")
    assert answer.status == 200
    assert [row["id"] for row in answer.json()] == ["dee", "ann", "bob", "cem"]
    assert one.request("PUT", "/db/people/eve", body=b"5").status == 201
    one.assert_at_rest()
    with capsys.disabled():
        print(f" {aim.get(faults.OPENED)} points failed ({file})", end="")
