"""For every route, and for k = 1, 2, … until nothing fails any more: the k-th call for memory that the
request makes is refused. Each answer is the right one, a 413 or a 503; the server goes on, and what
the request held comes back. Leaks and bad accesses are AddressSanitizer's to find, at the end.
"""
import json
import mmap
import os
import re
import struct

import pytest

from process import ALLOC, BINARY, ROOT

FAULTY = os.path.join(os.path.dirname(BINARY), "..", "tests", "http", "slate_fault")
LIBRARY, CONTEXTS, STRUCK = 0, 8, 16  # offsets in FAULT_FILE
MANY = 5000  # calls; a request here makes hundreds at the most

# Keys, strings with and without escapes, numbers; tables that grow; more than a first block holds.
DOCUMENT = {"name": "text " * 60, "é\n": ["\\", "\u00fc" * 40, 7.6, -1, 1e300, True, None],
            "rows": [{"id": i, "name": f"row {i}"} for i in range(60)]}


ACCOUNT = {"id": 1, "firstName": "Ada", "lastName": "King", "email": "ada@example.org",
           "address": {"street": "12 St James's Square", "city": "London", "state": "", "zip": "SW1"}}
TRANSFER = {"from": ACCOUNT, "to": ACCOUNT, "amount": 1, "sendOn": "1843-09-05"}


def body(value):
    return json.dumps(value).encode()


def patch(*operations):
    return body({"doc": DOCUMENT, "patch": list(operations)})


# Route: requests (a name, method, target, body, status when nothing fails).
SWEEPS = {
    "/json": [("get", "GET", "/json", None, 200)],
    "/plaintext": [("get", "GET", "/plaintext", None, 200)],
    "/echo": [
        ("document", "POST", "/echo", body(DOCUMENT), 200),
        ("pretty", "POST", "/echo?pretty", body(DOCUMENT), 200),
        ("syntax", "POST", "/echo", body(DOCUMENT)[:-1], 400),
        ("duplicate", "POST", "/echo", b'{"a": 1, "a": 2}', 400),
        ("depth", "POST", "/echo", b"[" * 200 + b"]" * 200, 422),
    ],
    "/transfer": [
        ("transfer", "POST", "/transfer", body(TRANSFER), 200),
        ("missing", "POST", "/transfer", body({"from": ACCOUNT}), 422),
    ],
    "/transform/patch": [
        ("all", "POST", "/transform/patch", patch(
            {"op": "add", "path": "/rows/-", "value": {"id": 61}},
            {"op": "copy", "from": "/rows", "path": "/more"},
            {"op": "move", "from": "/name", "path": "/rows/0/name"},
            {"op": "replace", "path": "/rows/1", "value": [1, 2, 3]},
            {"op": "test", "path": "/rows/2/id", "value": 2},
            {"op": "remove", "path": "/rows/3"}), 200),
        ("test", "POST", "/transform/patch",
         patch({"op": "test", "path": "/name", "value": "other"}), 409),
        ("missing", "POST", "/transform/patch", patch({"op": "remove", "path": "/none"}), 422),
    ],
    "/transform/merge": [
        ("merge", "POST", "/transform/merge",
         body({"doc": DOCUMENT, "patch": {"name": None, "rows": {"a": 1}, "new": [DOCUMENT]}}), 200),
    ],
    "/healthz": [("get", "GET", "/healthz", None, 200)],
    "/readyz": [("get", "GET", "/readyz", None, 200)],
    "/version": [("get", "GET", "/version", None, 200)],
    "/metrics": [("get", "GET", "/metrics", None, 200)],
    "/debug/memory": [("get", "GET", "/debug/memory", None, 200)],
    "/trim": [("post", "POST", "/trim", None, 200)],
    None: [  # no route at all
        ("unknown", "GET", "/nothing-here", None, 404),
        ("method", "DELETE", "/echo", None, 405),
        ("options", "OPTIONS", "/echo", None, 204),
    ],
}
CHANGING = ("/transfer", "/metrics", "/debug/memory", "/trim")  # with times, or figures


def routes():
    """The paths of both tables."""
    found = {}
    for name in ("handlers/builtin.c", "server/admin.c"):
        with open(f"{ROOT}/{name}", encoding="utf-8") as file:
            for path in re.findall(r'\.path = "([^"]+)"', file.read()):
                found[path] = name == "server/admin.c"
    return found


ROUTES = routes()


def test_every_route_is_swept():
    assert set(SWEEPS) - {None} == set(ROUTES), "a route has no request in SWEEPS, or is gone"


def content(answer, route):
    """What must be the same each time."""
    if route in CHANGING:
        return answer.media_type
    if answer.media_type == "application/problem+json":
        problem = answer.json()
        return answer.status, {name: problem.get(name) for name in ("type", "title", "detail")}
    return answer.status, answer.media_type, answer.body


@pytest.mark.parametrize("route", SWEEPS, ids=lambda route: route or "none")
def test_every_allocation_may_fail(server, tmp_path, route, capsys):
    path = tmp_path / "aim"
    path.write_bytes(bytes(24))
    one = server("--mem-debug", "count", "--threads", "1", binary=FAULTY,
                 env={"FAULT_FILE": str(path)})
    with open(path, "r+b") as file:
        aim = mmap.mmap(file.fileno(), 24)
    address = one.admin_address if ROUTES.get(route) else one.address

    def send(method, target, data):
        connection = one.connect(to=address)
        answer = connection.request(method, target, body=data)
        connection.close()
        one.connections.remove(connection)
        return answer

    points = 0
    for name, method, target, data, status in SWEEPS[route]:
        right = send(method, target, data)
        assert right.status == status, f"{name}: {right}"
        for kind in (LIBRARY, CONTEXTS):
            for k in range(1, MANY):
                aim[:] = bytes(24)
                struct.pack_into("<Q", aim, kind, k)
                answer = send(method, target, data)
                struck = struct.unpack_from("<Q", aim, STRUCK)[0]
                aim[:] = bytes(24)
                where = f"{name}, {'contexts' if kind else 'library'}, call {k}: {answer}"
                assert answer.status in (status, 413, 503), where
                if answer.status == status:
                    assert content(answer, route) == content(right, route), where
                if not struck:
                    assert answer.status == status, where
                    break
                points += 1
            else:
                pytest.fail(f"{name}: still failing after {MANY} calls")
        assert content(send(method, target, data), route) == content(right, route)
    one.assert_at_rest()
    assert points > 0
    with capsys.disabled():
        print(f" {route or 'no route'} ({ALLOC}): {points} points failed", end="")
