"""Slow clients: deadlines count from the start of a phase, so that a byte now and then, which keeps
an inactivity timeout away for ever, does not keep the connection."""
import socket
import time

import pytest

from wire import DEADLINE, swelling, until

HEAD = (b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b"Content-Length: 100000\r\n\r\n")
WHOLE = b"GET /json HTTP/1.1\r\nHost: x\r\n\r\n"
LONG = ("--header-timeout", "600s", "--body-timeout", "600s", "--idle-timeout", "600s")


def trickle(connection, data):
    """A byte every tenth of a second; what the server sent before it closed the connection."""
    connection.sock.settimeout(0.1)
    end = time.monotonic() + DEADLINE
    received = b""
    sent = 0
    while time.monotonic() < end:
        try:
            if sent < len(data):
                connection.sock.sendall(data[sent:sent + 1])
                sent += 1
            piece = connection.sock.recv(65536)
            if not piece:
                return received
            received += piece
        except socket.timeout:
            continue
        except (BrokenPipeError, ConnectionResetError):
            return received
    raise AssertionError(f"the connection was kept for {DEADLINE} s")


def assert_nothing_or_408(received):
    assert received == b"" or received.startswith(b"HTTP/1.1 408 "), received


def test_fields_that_trickle(server):
    one = server(*LONG, "--header-timeout", "1s")
    received = trickle(one.connect(), b"GET /json HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 1000)
    assert_nothing_or_408(received)
    one.assert_at_rest()


def test_fields_that_trickle_on_a_kept_connection(server):
    one = server(*LONG, "--header-timeout", "1s", "--idle-timeout", "1s")
    connection = one.connect()
    connection.assert_open()
    assert_nothing_or_408(trickle(connection, b"GET /json HTTP/1.1\r\nX: " + b"a" * 1000))
    one.assert_at_rest()


def test_fields_that_never_come(server):
    """A connection on which nothing is ever sent is closed by one of the two timeouts."""
    one = server(*LONG, "--header-timeout", "1s", "--idle-timeout", "1s")
    assert_nothing_or_408(trickle(one.connect(), b""))


def test_a_body_that_trickles(server):
    one = server(*LONG, "--body-timeout", "1s")
    connection = one.connect()
    connection.send(HEAD)
    assert_nothing_or_408(trickle(connection, b"[" + b"1," * 1000))
    one.assert_at_rest()


def test_chunks_that_trickle(server):
    one = server(*LONG, "--body-timeout", "1s")
    head = HEAD.replace(b"Content-Length: 100000", b"Transfer-Encoding: chunked")
    connection = one.connect()
    connection.send(head)
    assert_nothing_or_408(trickle(connection, b"1\r\n[\r\n" + b"1\r\n1\r\n1\r\n,\r\n" * 100))
    one.assert_at_rest()


def test_a_body_that_stops(server):
    one = server(*LONG, "--body-timeout", "1s")
    connection = one.connect()
    connection.send(HEAD + b"[1,")
    assert_nothing_or_408(trickle(connection, b""))
    one.assert_at_rest()


def test_a_connection_that_waits(server):
    one = server(*LONG, "--idle-timeout", "1s")
    connection = one.connect()
    connection.assert_open()
    connection.assert_closed()
    until(lambda: one.metric("slate_connections") == 0, "no connection left")


def test_a_body_that_falls_silent(server):
    one = server(*LONG, "--idle-timeout", "1s")
    connection = one.connect()
    connection.send(HEAD + b"[1,")
    connection.assert_closed()
    one.assert_at_rest()


def test_an_answer_of_which_nothing_is_read(server):
    one = server(*LONG, "--idle-timeout", "1s", "--request-memory", "0")
    connection = one.connect(window=4096)
    connection.start("POST", "/echo?pretty", body=swelling(40_000))
    until(lambda: one.metric("slate_requests_aborted_total") == 1, "the answer given up")
    one.assert_at_rest()


def test_a_connection_in_use_is_kept(server):
    """Requests that follow one another are never idle for long, whatever the sum."""
    one = server(*LONG, "--idle-timeout", "10s", "--header-timeout", "10s", "--body-timeout", "10s")
    connection = one.connect()
    end = time.monotonic() + 2
    while time.monotonic() < end:
        connection.assert_open()
        assert connection.request("POST", "/echo", body=b"[1]").status == 200


@pytest.mark.parametrize("threads", ["1", "2"])
def test_slow_clients_do_not_hold_up_others(server, threads):
    one = server(*LONG, "--threads", threads)
    for _ in range(40):
        one.connect().send(HEAD + b"[1,")
        one.connect().send(b"GET /js")
    for _ in range(20):
        assert one.request("GET", "/json").status == 200
    one.close_connections()
    one.assert_at_rest()


def test_an_answer_that_is_not_read(server):
    """It may take as long again as the body; a reader that only sips does not hold it for ever."""
    one = server("--header-timeout", "600s", "--idle-timeout", "600s", "--body-timeout", "1s",
                 "--request-memory", "0")
    connection = one.connect(window=4096)
    connection.start("POST", "/echo?pretty", body=swelling(40_000))
    until(lambda: one.metric("slate_live_bytes") > 8_000_000, "an answer waiting to be read")
    assert one.metric("slate_requests_in_flight") == 1

    def given_up():
        try:
            connection.sock.recv(16)
        except ConnectionResetError:
            pass
        return one.metric("slate_requests_in_flight") == 0
    until(given_up, "the answer given up")
    one.assert_at_rest()


@pytest.mark.parametrize("sent", [HEAD + b"[1,", HEAD, b"GET /js", WHOLE, 3 * WHOLE])
def test_an_end_that_comes_with_data_is_seen(server, sent):
    """In one segment: libmicrohttpd then reads the data and does not look again. What is whole is
    answered first."""
    one = server(*LONG)
    connections = [one.connect() for _ in range(50)]
    for connection in connections:
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
        connection.sock.send(sent, socket.MSG_MORE)
        connection.finish()
    for connection in connections:
        for _ in range(sent.count(WHOLE)):
            assert connection.read().status == 200
        connection.assert_closed()
    until(lambda: one.metric("slate_connections") == 0, "no connection left")
    one.close_connections()
    one.assert_at_rest()
