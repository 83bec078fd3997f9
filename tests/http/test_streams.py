"""Answers of any length, in tests/http/waiting.c: whole and in order, in constant memory, with waits
between the pieces, for clients that read slowly, not at all, or leave."""
import json
import time

import pytest

from test_waiting import assert_at_rest, assert_suspended, waiting  # pylint: disable=unused-import
from wire import Closed, until

MIB = 1024 * 1024
LETTERS = bytes(range(ord("a"), ord("a") + 23))


def text(size):
    return (LETTERS * (size // 23 + 1))[:size]


@pytest.mark.parametrize("size", [0, 1, 100, 16384, 1_000_000])
def test_a_stream_comes_whole(waiting, size):
    one = waiting()
    connection = one.connect()
    for _ in range(2):
        answer = connection.request("GET", f"/stream/none?size={size}")
        assert answer.status == 200
        assert answer.header("Transfer-Encoding") == "chunked"
        assert answer.header("Content-Length") is None
        assert answer.media_type == "text/plain"
        assert answer.body == text(size)
    connection.assert_open()
    assert_at_rest(one)


@pytest.mark.parametrize("waits", ["own", "now", "20", "own,now,1,now,own", "now,now,now,now,now"])
@pytest.mark.parametrize("size, every", [(3000, 500), (400_000, 60_000), (10, 2)])
def test_a_stream_that_waits(waiting, waits, size, every):
    one = waiting()
    connection = one.connect()
    answer = connection.request("GET", f"/stream/{waits}?size={size}&every={every}")
    assert answer.body == text(size)
    assert one.metric("slate_waiting_waits_total") == len(waits.split(","))
    connection.assert_open()
    assert_at_rest(one)


def test_head_of_a_stream(waiting):
    """No body, and the producer, which would wait for ever, is not asked."""
    one = waiting("--access-log", "json")
    connection = one.connect()
    answer = connection.request("HEAD", "/stream/never?size=1000")
    assert answer.status == 200 and answer.body == b"" and answer.header("Content-Length") is None
    connection.assert_closed()
    assert one.metric("slate_waiting_waits_total") == 0
    assert json.loads(one.log(1)[0])["bytes"] == 0
    assert_at_rest(one)


def test_an_old_client_gets_it_until_the_connection_closes(waiting):
    one = waiting()
    for target in ("/stream/none?size=100000", "/stream/20,now,own?size=100000&every=30000"):
        connection = one.connect()
        connection.send(b"GET " + target.encode() + b" HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        answer = connection.read()
        assert answer.header("Transfer-Encoding") is None and answer.closes
        assert answer.body == text(100_000)
    assert_at_rest(one)
    assert one.metric("slate_requests_aborted_total") == 0


def test_pipelined_streams(waiting):
    one = waiting("--threads", "1")
    connection = one.connect()
    connection.send(b"".join(connection.head("GET", f"/stream/{waits}?size=30000&every=1000")
                             for waits in ("none", "20,now", "own")) + connection.head("GET", "/json"))
    for _ in range(3):
        assert connection.read().body == text(30_000)
    assert connection.read().status == 200


@pytest.mark.parametrize("target, sent", [
    ("/stream/none?size=5000&broken", 0),
    ("/stream/own,now?size=5000&every=2000&broken", 2000),
    ("/stream/now,never?size=5000&every=2000&within=100", 2000)])
def test_a_stream_that_breaks_is_seen_to_be_cut(waiting, target, sent):
    one = waiting("--access-log", "json")
    connection = one.connect()
    connection.start("GET", target)
    answer = connection.read_head()
    assert answer.status == 200
    with pytest.raises(Closed):
        connection.read_chunks()
    assert_at_rest(one)
    assert one.metric("slate_requests_aborted_total") == 1
    line = json.loads(one.log(1)[0])
    assert not line["sent"]
    assert line["bytes"] == sent


def test_bytes_are_counted(waiting):
    one = waiting("--access-log", "json")
    one.request("GET", "/stream/none?size=123456")
    assert json.loads(one.log(1)[0])["bytes"] == 123456
    until(lambda: one.metric("http_response_body_bytes_total", route="/stream/{waits}") == 123456,
          "the bytes in the metrics")


@pytest.mark.resident
def test_a_long_stream_takes_no_memory(waiting):
    one = waiting("--threads", "1")
    with one.connect() as connection:
        connection.request("GET", "/stream/none?size=1000000")
    before = one.anonymous()
    connection = one.connect()
    connection.start("GET", f"/stream/none?size={200 * MIB}")
    assert connection.read_head().status == 200
    total, peak = 0, 0
    while total < 200 * MIB:
        connection.buffer = b""
        assert connection.fill()
        total += len(connection.buffer)
        if total // MIB % 20 == 0:
            peak = max(peak, one.anonymous() - before)
    assert peak < MIB
    connection.close()


def test_a_client_that_reads_nothing_is_given_up(waiting):
    one = waiting("--idle-timeout", "500ms")
    connection = one.connect(window=65536)
    connection.start("GET", f"/stream/none?size={100 * MIB}")
    connection.fill()
    assert_at_rest(one)
    assert one.metric("slate_requests_aborted_total") == 1
    until(lambda: one.metric("slate_connections") == 0, "the connection has been closed")


def read_slowly(connection, size, seconds):
    """What has come in that time; None if this process was held up meanwhile and read nothing."""
    begun = last = time.monotonic()
    pieces = []
    while time.monotonic() - begun < seconds:
        piece = connection.sock.recv(size)
        now = time.monotonic()
        if now - last > 0.5:
            return None
        assert piece, f"closed after {now - begun:.1f} s"
        pieces.append(piece)
        last = now
        time.sleep(0.1)
    return b"".join(pieces)


def test_a_client_that_reads_slowly_is_not(waiting):
    """It takes three times as long as the time-outs for silence and for an ordinary answer allow."""
    one = waiting("--idle-timeout", "1s", "--body-timeout", "500ms")

    def attempt():
        connection = one.connect(window=65536)
        connection.start("GET", f"/stream/none?size={8 * MIB}")
        assert connection.read_head().status == 200
        found = read_slowly(connection, 65536, 3.2)
        return found and (connection, found)

    connection, found = until(attempt, "three seconds without being held up", 120)
    assert len(found) < 4 * MIB
    connection.buffer += found
    assert connection.read_chunks() == text(8 * MIB)
    assert_at_rest(one)


def test_a_wait_may_be_longer_than_a_silence(waiting):
    """It is not the client that is slow."""
    one = waiting("--idle-timeout", "500ms", "--body-timeout", "200ms")
    assert one.request("GET", "/stream/1500?size=100").body == text(100)


@pytest.mark.parametrize("way", ["FIN", "RST"])
@pytest.mark.parametrize("target", [f"/stream/none?size={100 * MIB}", "/stream/300?size=1000",
                                    "/stream/now,300?size=200000&every=100000"])
def test_a_client_that_leaves(waiting, way, target):
    one = waiting()
    connections = [one.connect() for _ in range(8)]
    for connection in connections:
        connection.start("GET", target)
    if "300" in target:
        assert_suspended(one, 8)
    else:
        for connection in connections:
            connection.fill()
    for connection in connections:
        if way == "FIN":
            connection.close()
        else:
            connection.reset()
    assert_at_rest(one)
    until(lambda: one.metric("slate_connections") == 0, "no connection")
    assert one.request("GET", "/stream/now?size=10").body == text(10)


def test_a_stream_is_drained(waiting):
    one = waiting()
    connection = one.connect(window=65536)
    connection.start("GET", "/stream/now,1500,now?size=9000000&every=3000000")
    connection.fill()
    one.signal()
    answer = connection.read()
    assert answer.body == text(9_000_000)
    connection.assert_closed()
    assert one.wait() == 0
