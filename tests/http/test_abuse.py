"""What a hostile or careless client does: bytes that are almost HTTP, bodies that end a budget at the
worst moment, input that nobody reads. The server answers or closes, mixes nothing up, and serves on."""
import json
import random
import re
import threading
import time

import pytest

from process import ALLOC
from wire import Closed, Connection, chunked, swelling, until

TOKEN = re.compile(rb"(?=(T[0-9a-f]{12}T))")  # may overlap in what a mutation makes

# What a mutation puts between a request's bytes.
SPLINTERS = [b"\0", b"\r", b"\n", b"\r\n", b"\r\n\r\n", b" ", b":", b"%00", b"%", b"\xff",
             b"\r\n folded", b"Content-Length: 7\r\n", b"Transfer-Encoding: chunked\r\n", b"A" * 9000,
             b"Host: y\r\n", b" HTTP/1.1", b"HEAD ", b"18446744073709551615", b"0\r\n\r\n"]


def mutate(source, data):
    data = bytearray(data)
    for _ in range(source.choice([1, 1, 2, 5])):
        at = source.randrange(len(data)) if data else 0
        way = source.randrange(4)
        if way == 0:
            data[at:at + 1] = bytes([source.randrange(256)])
        elif way == 1:
            del data[at:at + source.choice([1, 4, 50])]
        elif way == 2:
            data[at:at] = source.choice(SPLINTERS)
        else:
            data[at:at] = data[at:at + source.randrange(60)]
    return bytes(data)


def request(source, token):
    """A good request that carries the token, which comes back in the answer."""
    if source.random() < 0.3:
        path = source.choice([b"/json?", b"/nope/"]) + token
        return b"GET %s HTTP/1.1\r\nHost: x\r\nX-Request-Id: %s\r\n\r\n" % (path, token)
    document = [token.decode(), 1.5, {"a": None}, "x" * source.choice([0, 10, 5000])]
    path = source.choice([b"/echo", b"/echo?pretty", b"/transform/merge"])
    if path == b"/transform/merge":
        document = {"doc": document, "patch": {"t": token.decode()}}
    body = json.dumps(document).encode()
    if source.random() < 0.3:
        body = body[:1] + b"7" * source.randrange(5000) + body[1:]
    head = b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" % path
    if source.random() < 0.5:
        return (head + b"Transfer-Encoding: chunked\r\n\r\n"
                + chunked(body, source.choice([1, 7, 100, 5000])))
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


def converse(address, source):
    """Some requests on one connection, broken or not; no answer may hold another connection's token."""
    tokens = [b"T%012xT" % source.getrandbits(48) for _ in range(source.choice([1, 2, 5]))]
    sent = b"".join(mutate(source, one) if source.random() < 0.4 else one
                    for one in (request(source, token) for token in tokens))
    sent = sent[:source.randrange(len(sent) + 1)] if source.random() < 0.3 else sent
    with Connection(address, timeout=0.05) as connection:
        try:
            for at in range(0, len(sent), size := source.choice([100, 1460, 100_000])):
                connection.send(sent[at:at + size])
            if source.random() < 0.2:
                connection.reset()
                return
            while connection.fill():
                pass
        except (Closed, OSError):  # closed in the middle, or waits for more
            pass
        received = connection.buffer
    assert not received or received.startswith(b"HTTP/1.1 "), (sent, received)
    foreign = set(TOKEN.findall(received)) - set(TOKEN.findall(sent)) - set(tokens)
    assert not foreign, (foreign, sent, received)


@pytest.mark.parametrize("flags", [
    (), ("--request-memory", "4K", "--body-limit", "4K", "--retain", "0", "--decay", "10ms"),
    ("--memory-limit", "40K", "--body-limit", "32K", "--threads", "4", "--connection-memory", "4K")],
    ids=["defaults", "small requests", "small server"])
def test_streams_that_are_almost_http(server, flags):
    one = server("--idle-timeout", "1s", "--access-log", "json", *flags)
    failures = []

    def run(seed):
        source = random.Random(seed)
        try:
            for _ in range(25):
                converse(one.address, source)
        except Exception as failure:  # noqa: BLE001: told by the test's own thread
            failures.append(f"seed {seed}: {failure!r}")

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    one.check()
    assert failures == []
    one.assert_at_rest()
    for line in one.output().splitlines():
        assert json.loads(line)["method"], line


@pytest.mark.parametrize("token", [b"1", b"x", b'"'], ids=["number", "word", "string"])
def test_a_budget_that_ends_within_a_token(server, token):
    """Such as jansson's scanner, which asserts that its token buffer could grow."""
    one = server("--request-memory", "46K", "--body-limit", "46K")
    connection, seen = one.connect(), set()
    for size in range(100, 47_000, 400):
        body = b"[" + token + (b"x" * size + b"\n" if token == b'"' else token * size + b"]")
        answer = connection.request("POST", "/echo", body=body)
        seen.add(answer.status)
        if answer.closes:
            connection = one.connect()
    assert seen <= {400, 413, 422}, seen
    assert ALLOC != "arena" or 413 in seen  # plain malloc counts the body alone
    one.assert_at_rest()


def test_the_admin_listener_has_no_budget(server):
    one = server("--request-memory", "1K", "--body-limit", "1K", "--threads", "16")
    for _ in range(100):
        one.connect().send(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                           b"Content-Length: 2\r\n\r\n[")
    until(lambda: one.metric("slate_requests_in_flight") == 100, "100 requests in flight")
    for path in ("/version", "/metrics", "/debug/memory"):
        assert one.admin(path).status == 200


def test_names_in_the_log_outlive_the_library(server):
    """Where the connection's memory is full, libmicrohttpd takes that of the request's head for its
    own answer to a broken chunk."""
    one = server("--access-log", "json", "--connection-memory", "4K")
    count = 0
    for size in range(3000, 3900, 20):
        connection = one.connect()
        connection.send(b"POST /echo?q HTTP/1.1\r\nHost: x\r\nX-Request-Id: mine\r\n"
                        b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
                        b"A: " + b"a" * size + b"\r\n\r\n1\r\n[\r\n")
        try:
            connection.send(b"zz\r\n")
        except OSError:  # the head alone was too large
            pass
        connection.read_to_end()
        connection.close()
    one.assert_at_rest()
    for line in one.output().splitlines():
        entry = json.loads(line)
        assert (entry["method"], entry["path"], entry["id"]) == ("POST", "/echo", "mine"), line
        count += 1
    assert count > 10


@pytest.mark.parametrize("rest", [b"\r\n", b"GET /json HTTP/1.1\r\nHost: x\r\n\r\n"])
def test_input_after_the_last_request_costs_no_answer(server, rest):
    """Closing a socket with unread input resets it, and what is still on its way is lost."""
    connection = server("--request-memory", "256M").connect(window=65536)
    connection.start("POST", "/echo?pretty", "Connection: close", body=swelling(15_000))
    connection.fill()
    connection.send(rest)
    time.sleep(0.1)  # until all of the answer is in the socket's buffers
    answer = connection.read()
    assert answer.status == 200
    assert len(answer.body) > 4_000_000


def test_stopping_cuts_no_answer_of_a_client_that_has_sent_ahead(server):
    one = server("--request-memory", "256M", "--threads", "1")
    connection = one.connect(window=65536)
    for _ in range(12):
        connection.start("POST", "/echo?pretty", body=swelling(8_000))
    connection.fill()
    one.signal()
    until(lambda: one.admin("/readyz").status == 503, "not ready")
    sizes = set()
    while True:
        answer = connection.read()
        sizes.add(len(answer.body))
        if answer.closes:
            break
    assert len(sizes) == 1
    connection.close()
    assert one.wait() == 0
