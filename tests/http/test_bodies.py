"""Bodies: in pieces of any size, interleaved, chunked, exactly as long as allowed, and over it."""
import json
import random

import pytest

from wire import Connection, chunked, swelling, until

LIMIT = 1024 * 1024  # the default of --body-limit


def document(number, size):
    """JSON of about that size, different for every number."""
    source = random.Random(number)
    rows, length = [], 0
    while length < size:
        row = {"id": number * 1_000_000 + len(rows), "name": f"{number}-{source.random()}",
               "tags": [source.randrange(1000) for _ in range(5)]}
        rows.append(row)
        length += len(json.dumps(row)) + 2
    return rows


def exactly(size):
    """A JSON document of exactly that many bytes."""
    return b'["' + b"x" * (size - 4) + b'"]'


@pytest.mark.parametrize("coding", ["length", "chunked"])
def test_a_request_in_segments_of_one_byte(shared, coding):
    text = json.dumps({"a": [1, 2.5, "x\u00e9\u20ac"], "b": {"c": None}}, ensure_ascii=False).encode()
    connection = shared.connect()
    fields = ["Content-Type: application/json"]
    if coding == "length":
        body = text
        fields.append(f"Content-Length: {len(text)}")
    else:
        body = chunked(text, 3)
        fields.append("Transfer-Encoding: chunked")
    for _ in range(3):
        connection.send_bytewise(connection.head("POST", "/echo", *fields) + body)
        answer = connection.read("POST")
        assert answer.status == 200, answer
        assert answer.json() == json.loads(text)


@pytest.mark.parametrize("size", [1, 2, 7, 4096, 100_000])
def test_chunks_of_any_size(shared, size):
    text = json.dumps(document(1, 60_000 if size > 2 else 2_000)).encode()
    connection = shared.connect()
    connection.send(connection.head("POST", "/echo", "Content-Type: application/json",
                                    "Transfer-Encoding: chunked") + chunked(text, size))
    answer = connection.read("POST")
    assert answer.status == 200, answer
    assert answer.json() == json.loads(text)
    connection.assert_open()


def test_uploads_interleaved_on_one_worker(server):
    """Fifty documents at once through one thread: whatever leaks from one callback into another
    (a current context, a body, a buffer) puts one client's bytes into another's answer."""
    one = server("--threads", "1", "--request-memory", "32M")
    source = random.Random(7)
    uploads = []
    for number in range(50):
        rows = document(number, 120_000)
        text = json.dumps(rows).encode()
        connection = one.connect()
        connection.send(connection.head("POST", "/echo", "Content-Type: application/json",
                                        f"Content-Length: {len(text)}"))
        uploads.append((connection, rows, memoryview(text)))

    pending = [[connection, text] for connection, _, text in uploads]
    while pending:
        turn = source.choice(pending)
        size = source.choice([1, 100, 4_000, 30_000])
        turn[0].send(turn[1][:size])
        turn[1] = turn[1][size:]
        if not turn[1]:
            pending.remove(turn)

    for connection, rows, _ in source.sample(uploads, len(uploads)):
        answer = connection.read("POST")
        assert answer.status == 200, answer
        assert answer.json() == rows
    one.close_connections()
    one.assert_at_rest()


def test_handlers_interleaved_with_uploads(server):
    """Other routes, errors and aborts run between the pieces of one long upload."""
    one = server("--threads", "1")
    rows = document(99, 200_000)
    text = json.dumps(rows).encode()
    connection = one.connect()
    connection.send(connection.head("POST", "/echo", "Content-Type: application/json",
                                    f"Content-Length: {len(text)}"))
    for at in range(0, len(text), 10_000):
        connection.send(text[at:at + 10_000])
        small = one.post("/transform/merge", b'{"doc":{"a":%d},"patch":{"b":1}}' % at)
        assert small.json() == {"a": at, "b": 1}
        assert one.post("/echo", b"[1,").status == 400
        gone = Connection(one.address)
        gone.send(gone.head("POST", "/echo", "Content-Length: 100000",
                            "Content-Type: application/json") + b"[" * 5000)
        gone.reset()
    answer = connection.read("POST")
    assert answer.status == 200
    assert answer.json() == rows


def test_a_body_exactly_as_long_as_allowed(shared):
    connection = shared.connect()
    text = exactly(LIMIT)
    answer = connection.request("POST", "/echo", body=text)
    assert answer.status == 200, answer
    assert answer.body == text
    connection.assert_open()


def test_a_chunked_body_exactly_as_long_as_allowed(shared):
    connection = shared.connect()
    text = exactly(LIMIT)
    connection.send(connection.head("POST", "/echo", "Content-Type: application/json",
                                    "Transfer-Encoding: chunked") + chunked(text, 50_000))
    answer = connection.read("POST")
    assert answer.status == 200, answer
    assert answer.body == text
    connection.assert_open()


@pytest.mark.parametrize("length", [LIMIT + 1, 10 * LIMIT, 2 ** 31, 2 ** 32, 2 ** 63 - 1, 2 ** 63,
                                    2 ** 64 - 2])
def test_a_length_over_the_limit_is_refused_at_once(shared, length):
    """Without a byte of the body, and without an invitation to send it."""
    connection = shared.connect()
    connection.send(connection.head("POST", "/echo", "Content-Type: application/json",
                                    f"Content-Length: {length}", "Expect: 100-continue"))
    answer = connection.read("POST")
    assert answer.status == 413, answer
    assert answer.problem()["limit"] == LIMIT
    assert not answer.interim
    assert answer.closes
    connection.assert_closed()


@pytest.mark.parametrize("size", [LIMIT + 1, 5 * LIMIT])
def test_a_client_that_sends_on_still_sees_the_413(shared, size):
    """It sends everything before it reads: a reset must not take the answer away."""
    connection = shared.connect()
    connection.start("POST", "/echo", body=exactly(size))
    assert connection.read().status == 413


def test_a_chunked_body_over_the_limit_is_drained_and_refused(shared):
    """Up to twice the limit; the client reads only after it has sent everything."""
    connection = shared.connect()
    connection.send(connection.head("POST", "/echo", "Content-Type: application/json",
                                    "Transfer-Encoding: chunked")
                    + chunked(exactly(LIMIT + LIMIT // 2), 60_000))
    answer = connection.read("POST")
    assert answer.status == 413, answer
    assert answer.problem()["limit"] == LIMIT
    assert shared.request("GET", "/json").status == 200


def test_a_chunked_body_without_end_is_cut_off(shared):
    connection = shared.connect()
    connection.send(connection.head("POST", "/echo", "Content-Type: application/json",
                                    "Transfer-Encoding: chunked"))
    piece = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    with pytest.raises((BrokenPipeError, ConnectionResetError)):
        for _ in range(1000):  # 64 MiB
            connection.send(piece)
    assert shared.request("GET", "/json").status == 200


def test_the_limit_is_a_flag(server):
    one = server("--body-limit", "1000")
    assert one.post("/echo", exactly(1000)).status == 200
    answer = one.post("/echo", exactly(1001))
    assert answer.status == 413
    assert answer.problem()["limit"] == 1000


def test_a_route_that_reads_no_body_drains_it(shared):
    connection = shared.connect()
    for body in (b"[]", b"x" * 100_000):
        assert connection.request("GET", "/json", body=body).status == 200
    connection.assert_open()


def test_continue_is_sent_before_the_body_is_awaited(shared):
    connection = shared.connect()
    connection.send(connection.head("POST", "/echo", "Content-Type: application/json",
                                    "Content-Length: 3", "Expect: 100-continue"))
    assert connection.read_head().status == 100
    connection.send(b"[7]")
    answer = connection.read("POST")
    assert answer.status == 200
    assert answer.body == b"[7]"
    connection.assert_open()


def test_an_unknown_expectation_fails(shared):
    connection = shared.connect()
    connection.send(connection.head("POST", "/echo", "Content-Type: application/json",
                                    "Content-Length: 3", "Expect: miracles"))
    answer = connection.read("POST")
    assert answer.status == 417, answer
    answer.problem()


def test_no_continue_for_what_will_be_refused(shared):
    connection = shared.connect()
    connection.send(connection.head("POST", "/echo", "Content-Type: text/plain",
                                    "Content-Length: 3", "Expect: 100-continue"))
    answer = connection.read_head()
    if answer.status == 100:  # allowed: the body is drained, and the answer is the same
        connection.send(b"[7]")
        answer = connection.read("POST")
    assert answer.status == 415


def test_large_answers_come_whole(server):
    """Answers larger than the socket's buffers, to a client that reads late."""
    text = swelling(40_000)
    connection = server("--request-memory", "256M").connect(window=65536)
    bodies = [connection.request("POST", "/echo?pretty", body=text).body for _ in range(3)]
    assert json.loads(bodies[0]) == json.loads(text)
    assert bodies[1] == bodies[0] and bodies[2] == bodies[0]


def test_a_body_that_no_route_takes_is_not_held(server):
    """It is read past, so that the answer can be read and the connection lives on."""
    one = server()
    connection = one.connect()
    connection.send(connection.head("GET", "/json", "Content-Length: 500000") + b"x" * 400_000)
    until(lambda: one.memory()["workers"] and one.metric("slate_requests_in_flight") == 1,
          "the request in flight")
    assert one.metric("slate_live_bytes") < 100_000
    connection.send(b"x" * 100_000)
    assert connection.read("GET").status == 200
    assert connection.request("GET", "/json").status == 200
