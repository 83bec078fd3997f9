"""Start and stop: command lines, ports, and SIGTERM, which loses nothing that was in flight."""
import json
import re
import signal
import socket
import threading
import time

import pytest

from process import ALLOC, REPORT, free_port, run
from wire import Closed, Connection, swelling, until

USAGE = {
    "an unknown allocator": (["--alloc", "nonsense"], ["--alloc", "arena", "malloc"]),
    "an unknown allocator, with =": (["--alloc=nonsense"], ["--alloc", "arena", "malloc"]),
    "an unknown flag": (["--nonsense"], ["--nonsense"]),
    "an argument": (["nonsense"], ["nonsense"]),
    "a flag without its value": (["--listen"], ["--listen"]),
    "no threads": (["--threads", "0"], ["--threads"]),
    "half a thread": (["--threads", "1.5"], ["--threads"]),
    "a size that is none": (["--body-limit", "much"], ["--body-limit"]),
    "a size that is too large": (["--body-limit", "99999999999999999999G"], ["--body-limit"]),
    "a negative size": (["--request-memory", "-1"], ["--request-memory"]),
    "a time that is none": (["--decay", "soon"], ["--decay"]),
    "a depth that is too large": (["--json-depth", "100000"], ["--json-depth"]),
    "no walk with malloc": (["--alloc", "malloc", "--json-walk", "off"], ["--json-walk off", "--alloc malloc"]),
    "a pool that is neither": (["--pool", "maybe"], ["--pool", "on", "off"]),
    "an address that is none": (["--listen", "nowhere"], ["--listen"]),
    "a port that is too large": (["--listen", "127.0.0.1:65536"], ["--listen"]),
    "a level that is none": (["--log-level", "loud"], ["--log-level", "warning"]),
    "a configuration that is not there": (["--config", "/nonexistent/slate"], ["/nonexistent/slate"]),
}


@pytest.mark.parametrize("name", USAGE)
def test_bad_usage(name):
    flags, words = USAGE[name]
    ended = run(*flags)
    assert ended.returncode == 2, ended
    assert ended.stdout == ""
    assert ended.stderr.count("\n") == 1 and ended.stderr.endswith("\n"), ended.stderr
    for word in words:
        assert word in ended.stderr


def test_bad_usage_in_the_environment():
    ended = run(env={"SLATE_ALLOC": "nonsense"})
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
    assert "SLATE_ALLOC" in ended.stderr and "arena" in ended.stderr and "malloc" in ended.stderr


def test_the_environment_and_a_file_are_read(server, tmp_path):
    config = tmp_path / "slate.conf"
    config.write_text("json-depth = 5\nbody-limit = 3K\n", encoding="ascii")
    one = server("--config", str(config), env={"SLATE_JSON_DEPTH": "7"})
    options = one.admin("/version").json()["options"]
    assert options["json-depth"] == "7"
    assert one.post("/echo", b"[" + b"1," * 2000 + b"1]").problem()["limit"] == 3072


def test_help_and_version():
    text = run("--help")
    assert text.returncode == 0 and text.stderr == ""
    for flag in ("--alloc", "--listen", "--admin", "--request-memory", "--drain-timeout"):
        assert flag in text.stdout
    version = run("--version")
    assert version.returncode == 0 and version.stderr == ""
    assert re.search(r"slate \d+\.\d+\.\d+", version.stdout)


@pytest.mark.parametrize("flag", ["--listen", "--admin"])
def test_a_port_in_use(flag):
    holder, port = free_port()
    holder.listen()
    other = {"--listen": "--admin", "--admin": "--listen"}[flag]
    ended = run(flag, f"127.0.0.1:{port}", other, "127.0.0.1:0", "--alloc", ALLOC)
    holder.close()
    assert ended.returncode == 1, ended
    assert ended.stdout == ""
    assert not REPORT.search(ended.stderr), ended.stderr
    assert ended.stderr.count("\n") == 1, ended.stderr
    assert f"127.0.0.1:{port}" in ended.stderr


def test_an_address_of_another_machine():
    ended = run("--listen", "192.0.2.1:0", "--admin", "127.0.0.1:0", "--alloc", ALLOC)
    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1, ended.stderr
    assert "192.0.2.1" in ended.stderr


def test_ipv6(server):
    try:
        one = server("--listen", "[::1]:0")
    except AssertionError as failure:
        if "::1" in str(failure) and "ddress" in str(failure):
            pytest.skip("no IPv6 here")
        raise
    assert one.address[0] == "::1"
    assert one.request("GET", "/json", "Host: [::1]", ).status in (200, 400)


def test_without_an_admin_listener(server):
    one = server(admin="off")
    assert one.request("GET", "/json").status == 200
    assert one.request("GET", "/healthz").status == 404
    one.signal()
    assert one.wait() == 0
    assert "admin on" not in one.errors()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stop_when_idle(server, number):
    one = server()
    one.signal(number)
    assert one.wait() == 0


def test_stop_with_idle_connections(server):
    """Connections that only wait for a next request do not hold the server up."""
    one = server("--idle-timeout", "600s", "--drain-timeout", "600s")
    for _ in range(5):
        one.connect().assert_open()
    one.connect()
    one.signal()
    assert one.wait() == 0


def hold(one, seconds=1.5):
    """Watches a draining server for longer than it waits for silent connections: it must stay."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert one.admin("/healthz").status == 200
        time.sleep(0.05)


def test_a_request_that_is_being_sent_is_answered(server):
    """SIGTERM while a body is on its way: not ready any more, but the answer comes in full."""
    one = server()
    assert one.admin("/readyz").status == 200
    text = json.dumps(list(range(20_000))).encode()
    connection = one.connect()
    connection.send(connection.head("POST", "/echo", "Content-Type: application/json",
                                    f"Content-Length: {len(text)}") + text[:50_000])
    until(lambda: one.metric("slate_requests_in_flight") == 1, "one request in flight")
    one.signal()
    ready = until(lambda: (answer := one.admin("/readyz")).status == 503 and answer, "not ready")
    assert ready.json()["status"] == "fail"
    assert ready.json()["checks"]
    hold(one)
    connection.send(text[50_000:])
    answer = connection.read("POST")
    assert answer.status == 200
    assert answer.json() == list(range(20_000))
    assert answer.closes
    connection.assert_closed()
    assert one.wait() == 0


def test_an_answer_that_is_being_read_is_sent_to_its_end(server):
    """A client that reads late gets every byte, although the server is told to stop meanwhile."""
    one = server("--request-memory", "256M")
    text = swelling(40_000)
    connection = one.connect(window=65536)
    connection.start("POST", "/echo?pretty", body=text)
    connection.fill()
    one.signal()
    hold(one)
    answer = connection.read()
    assert len(answer.body) > 10_000_000  # more than the system's buffers hold
    assert answer.json() == json.loads(text)
    assert one.wait() == 0


def assert_takes_nobody(one):
    """A client that comes now is refused, or not heard."""
    with socket.socket() as late:
        late.settimeout(0.3)
        with pytest.raises((ConnectionRefusedError, TimeoutError)):
            late.connect(one.address)


def queue_up(one, count):
    """Clients of a full server, each with a whole request."""
    waiting = [one.connect() for _ in range(count)]
    for connection in waiting:
        connection.start("GET", "/json")
    return waiting


def assert_served(waiting):
    for connection in waiting:
        assert connection.read("GET").status == 200


HALF = (b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b"Content-Length: 5\r\n\r\n[1,")


@pytest.mark.parametrize("threads", ["1", "4"])
def test_a_full_server_serves_who_waits(server, threads):
    """SIGTERM at --max-connections: who has connected is served as places become free."""
    one = server("--max-connections", "8", "--threads", threads)
    holders = [one.connect() for _ in range(8)]
    for connection in holders:
        connection.send(HALF)
    until(lambda: one.metric("slate_requests_in_flight") == 8, "a full server")
    waiting = queue_up(one, 20)
    one.signal()
    until(lambda: one.admin("/readyz").status == 503, "not ready")
    assert_takes_nobody(one)
    hold(one, 0.5)
    for connection in holders:
        connection.send(b"2]")
    for connection in holders:
        assert connection.read("POST").json() == [1, 2]
    assert_served(waiting)
    assert one.wait() == 0


def test_idle_connections_make_room_for_who_waits(server):
    one = server("--max-connections", "4", "--threads", "2", "--idle-timeout", "600s")
    for _ in range(4):
        one.connect().assert_open()
    waiting = queue_up(one, 6)
    one.signal()
    assert_served(waiting)
    assert one.wait() == 0


def test_one_at_work_keeps_no_idle_places_from_who_waits(server):
    """A connection that is idle makes room, whatever the others do; the one at work goes on."""
    one = server("--max-connections", "4", "--threads", "1", "--idle-timeout", "600s")
    working = one.connect()
    working.send(HALF)
    for _ in range(3):
        one.connect().assert_open()
    until(lambda: one.metric("slate_requests_in_flight") == 1, "one at work")
    waiting = queue_up(one, 12)
    one.signal()
    assert_served(waiting)
    assert one.process.poll() is None
    working.send(b"2]")
    assert working.read("POST").json() == [1, 2]
    assert one.wait() == 0


def test_who_waits_does_not_outlive_the_drain(server):
    one = server("--max-connections", "2", "--threads", "1", "--drain-timeout", "1s")
    for _ in range(2):
        one.connect().send(HALF)
    until(lambda: one.metric("slate_requests_in_flight") == 2, "a full server")
    one.connect().start("GET", "/json")
    one.signal()
    assert one.wait() == 0
    assert "2 requests in flight" in one.errors()


@pytest.mark.parametrize("ended", [True, False])
def test_clients_leave_a_full_server_as_it_stops(server, ended):
    """Places become free and are taken while the server begins to drain."""
    for _ in range(10):
        one = server("--max-connections", "5", "--threads", "4")
        opened = [one.connect() for _ in range(20)]
        until(lambda one=one: one.metric("slate_connections") == 5, "a full server")
        for connection in opened:
            connection.start("GET", "/json")
        if ended:
            one.close_connections()
        one.signal()
        assert one.wait() == 0


def test_a_request_that_never_ends_does_not_hold_the_server_up(server):
    one = server("--drain-timeout", "1s")
    for sent in (b"GET /js", b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                 b"Content-Length: 10\r\n\r\n[1,"):
        one.connect().send(sent)
    until(lambda: one.metric("slate_requests_in_flight") >= 1, "a request in flight")
    one.signal()
    one.wait()


def test_a_second_signal_stops_at_once(server):
    one = server("--drain-timeout", "600s")
    connection = one.connect()
    connection.send(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                    b"Content-Length: 10\r\n\r\n[1,")
    until(lambda: one.metric("slate_requests_in_flight") == 1, "one request in flight")
    one.signal()
    until(lambda: one.admin("/readyz").status == 503, "not ready")
    assert one.process.poll() is None
    one.signal()
    one.wait()


class Client(threading.Thread):
    """Sends request after request on one connection until it is told that it closes."""

    def __init__(self, address, number):
        super().__init__(daemon=True)
        self.address = address
        self.number = number
        self.answers = 0
        self.failure = None

    def run(self):
        try:
            connection = Connection(self.address)
            body = json.dumps([self.number, "x" * (self.number * 500)]).encode()
            while True:
                if self.number % 2:
                    answer = connection.request("POST", "/echo", body=body)
                    assert json.loads(answer.body) == json.loads(body)
                else:
                    answer = connection.request("GET", "/json")
                    assert answer.body == b'{"message":"Hello, World!"}'
                assert answer.status == 200, answer
                self.answers += 1
                if answer.closes:
                    connection.assert_closed()
                    return
        except (Closed, OSError, AssertionError) as failure:
            self.failure = f"client {self.number}, after {self.answers} answers: {failure!r}"


def test_stop_under_load_loses_nothing(server):
    """Every request on an open connection is answered, until an answer says that it is the last."""
    one = server()
    clients = [Client(one.address, number) for number in range(16)]
    for client in clients:
        client.start()
    until(lambda: all(client.answers >= 10 or client.failure for client in clients), "load")
    one.signal()
    for client in clients:
        client.join(60)
    assert not any(client.is_alive() for client in clients)
    assert [client.failure for client in clients if client.failure] == []
    assert one.wait() == 0


def test_stop_with_pipelined_requests(server):
    """What follows an answer that closes is not answered; what came before it is."""
    one = server("--threads", "1")
    connection = one.connect()
    connection.assert_open()
    for _ in range(100):
        connection.start("GET", "/json")
    one.signal()
    for _ in range(100):
        answer = connection.read()
        assert answer.status == 200
        if answer.closes:
            break
    connection.close()
    assert one.wait() == 0


@pytest.mark.parametrize("fields, body", [
    (b"Bad Name: x", b""), (b"Expect: nonsense", b""), (b"Host: y\r\nContent-Length: 2", b"[]")])
def test_stop_among_requests_that_are_refused(server, fields, body):
    """A library that has been told to stop drops answers, and asks for the same request again."""
    for _ in range(4):
        one = server("--threads", "1")
        connections = [one.connect() for _ in range(200)]
        for connection in connections:
            connection.assert_open()
        one.signal(signal.SIGSTOP)
        for connection in connections:
            connection.send(b"POST /echo HTTP/1.1\r\nHost: x\r\n" + fields + b"\r\n\r\n" + body)
        one.signal(signal.SIGTERM)
        one.signal(signal.SIGINT)
        one.signal(signal.SIGCONT)
        assert one.wait() == 0
