"""Clients that go away at every stage of a request. Whatever the library reports or does not report
(the completion callback may never come), nothing stays behind and everyone else is served."""
import json
import os

import pytest

from process import BINARY, SANITIZED
from wire import Connection, swelling, until

# libmicrohttpd's event loop can miss an end that comes together with data; the connection then stays
# until it has been silent for this long.
FLAGS = ("--idle-timeout", "1s")

BODY = json.dumps([{"id": i, "name": f"row {i}"} for i in range(2000)]).encode()
HEAD = (b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n" % len(BODY))
CHUNKED = HEAD.replace(b"Content-Length: %d" % len(BODY), b"Transfer-Encoding: chunked")

STAGES = {
    "after connecting": b"",
    "in the middle of the request line": HEAD[:8],
    "after the request line": HEAD[:21],
    "in the middle of a field": HEAD[:40],
    "before the end of the fields": HEAD[:-2],
    "after the fields": HEAD,
    "after one byte of the body": HEAD + BODY[:1],
    "in the middle of the body": HEAD + BODY[:len(BODY) // 2],
    "before the last byte": HEAD + BODY[:-1],
    "before reading the answer": HEAD + BODY,
    "in the middle of a chunk size": CHUNKED + b"1f",
    "in the middle of a chunk": CHUNKED + b"ff\r\n" + BODY[:100],
    "between two chunks": CHUNKED + b"64\r\n" + BODY[:100] + b"\r\n",
    "before the last chunk ends": CHUNKED + b"2\r\n[]\r\n0\r\n",
    "before the answers to many": (HEAD + BODY) * 3 + HEAD[:30],
    "before the answer to an error": b"GET /nope HTTP/1.1\r\nHost: x\r\n\r\n",
    "before the answer to a framing error": b"GET /nope HTTP/1.1\r\n\r\n",
    "after a bad chunk": CHUNKED + b"64\r\n" + BODY[:100] + b"\r\nzz\r\n",
    "after a chunk without its line end": CHUNKED + b"64\r\n" + BODY[:100] + b"XX",
}


def leave(connection, way):
    if way == "FIN":
        connection.close()
    elif way == "half":  # the rest of the stream stays open for the answer, which no one reads
        connection.finish()
    else:
        connection.reset()


@pytest.mark.parametrize("way", ["FIN", "RST", "half"])
@pytest.mark.parametrize("stage", STAGES)
def test_abort(shared, stage, way):
    connections = [Connection(shared.address) for _ in range(4)]
    for connection in connections:
        connection.send(STAGES[stage])
        leave(connection, way)
    assert shared.request("GET", "/json").status == 200
    for connection in connections:
        connection.close()
    shared.assert_at_rest()


@pytest.mark.parametrize("way", ["FIN", "RST"])
def test_abort_at_many_offsets_of_the_body(shared, way):
    text = b'{"a": [1, 2.5, "x\\u00e9"], "b": {"c": null}}'
    head = HEAD.replace(b"%d" % len(BODY), b"%d" % len(text))
    for size in range(len(text)):
        connection = Connection(shared.address)
        connection.send(head + text[:size])
        leave(connection, way)
    shared.assert_at_rest()
    assert shared.post("/echo", text).status == 200


@pytest.mark.parametrize("way", ["FIN", "RST"])
def test_abort_in_the_middle_of_a_large_answer(server, way):
    """The answer is larger than the socket's buffers, so the server is still sending it."""
    one = server("--request-memory", "256M", "--idle-timeout", "600s")
    text = swelling(40_000)
    for size in (0, 1, 1000, 100_000):
        connection = Connection(one.address, window=65536)
        connection.start("POST", "/echo?pretty", body=text)
        until(lambda: one.metric("slate_requests_in_flight") == 1, "the answer is being sent")
        if size:
            connection.read_bytes(size)
        leave(connection, way)
        one.assert_at_rest()
    assert one.request("GET", "/json").status == 200


def test_abort_of_pipelined_requests(shared):
    connection = Connection(shared.address)
    connection.send((HEAD + BODY) * 5)
    connection.read("POST")
    connection.reset()
    shared.assert_at_rest()


@pytest.mark.skipif(SANITIZED, reason="a sanitizer has its own calloc")
def test_abort_without_a_completion_callback(server, tmp_path):
    """libmicrohttpd cannot make its error response for a bad chunk, gives the connection up, and
    never says that the request has ended. The connection must have owned it."""
    trigger = tmp_path / "no memory"
    library = os.path.join(os.path.dirname(BINARY), "..", "tests", "http", "lose_completion.so")
    assert os.path.exists(library), f"{library} is not built"
    one = server("--access-log", "json", env={
        "LD_PRELOAD": library, "LOSE_COMPLETION": str(trigger),
        "MALLOC_PERTURB_": "165"})  # the library's memory is gone by then, and must not be logged
    connection = one.connect()
    connection.send(CHUNKED.replace(b"Host: x", b"Host: x\r\nX-Request-Id: lost")
                    + b"64\r\n" + BODY[:100] + b"\r\n")
    until(lambda: one.metric("slate_requests_in_flight") == 1, "one request in flight")
    trigger.touch()
    connection.send(b"zz\r\n")
    connection.assert_closed()  # not even an error comes
    trigger.unlink()
    one.assert_at_rest()
    line = json.loads(one.log(1)[0])
    assert line["path"] == line["method"] == line["id"] == "-" and not line["sent"], line
    assert one.request("GET", "/json").status == 200


def test_connections_are_counted_out(server):
    one = server()
    connections = [one.connect() for _ in range(20)]
    for connection in connections[:10]:
        connection.assert_open()
    until(lambda: one.metric("slate_connections") == 20, "20 connections counted")
    one.close_connections()
    until(lambda: one.metric("slate_connections") == 0, "all counted out")


def test_aborts_leave_no_leak_when_the_server_stops(server):
    """The server stops while requests are at every stage; a sanitizer would report what is left."""
    one = server("--drain-timeout", "1s")
    for sent in STAGES.values():
        one.connect().send(sent)
    one.signal()
    one.wait()
