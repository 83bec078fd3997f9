"""Requests that wait for something, in tests/http/waiting.c: whoever ends the wait, and whenever, each
is answered once, and nothing is left of it. A sanitizer reports what is touched too late."""
import json
import os
import random
import signal
import threading
import time

import pytest

import faults
from process import BINARY, SANITIZED
from wire import Closed, Connection, until

WAITING = os.path.join(os.path.dirname(BINARY), "..", "tests", "http", "slate_waiting")
SOON = "1500"  # milliseconds: much longer than anything else here takes


@pytest.fixture
def waiting(server):
    def start(*flags, program=WAITING, **keywords):
        return server(*flags, binary=program, **keywords)
    return start


def assert_at_rest(one):
    """Neither a request, nor what it held, nor a wait is left."""
    one.assert_at_rest()
    assert one.metric("slate_waiting_held") == 0
    assert one.metric("slate_requests_suspended") == 0


def assert_suspended(one, count):
    until(lambda: one.metric("slate_requests_suspended") == count, f"{count} requests wait")


@pytest.mark.parametrize("waits", ["own", "now", "1", "50", "own,own,own", "now,now,now,now",
                                   "own,now,1,now,own,20,own"])
def test_a_wait_that_is_ended(waiting, waits):
    one = waiting()
    connection = one.connect()
    answer = connection.request("GET", f"/wait/{waits}")
    assert answer.status == 200
    assert answer.body == b"w" * len(waits.split(","))
    connection.assert_open()
    assert_at_rest(one)
    assert one.metric("slate_waiting_waits_total") == len(waits.split(","))


def test_a_wait_that_takes_too_long(waiting):
    one = waiting()
    connection = one.connect()
    begun = time.monotonic()
    assert connection.request("GET", "/wait/never?within=200").body == b"t"
    assert time.monotonic() - begun >= 0.2
    assert connection.request("GET", "/wait/never,own,never,now?within=50").body == b"twtw"
    assert_at_rest(one)
    assert one.metric("slate_waiting_alarms") == 3  # they are still to be woken


def test_a_wake_after_the_time_out(waiting):
    """The wait has gone on without its waker, who comes when the request, and then the connection,
    have long ended."""
    one = waiting()
    connection = one.connect()
    assert connection.request("GET", "/wait/1000?within=1").body == b"t"
    connection.close()
    until(lambda: one.metric("slate_connections") == 0, "no connection")
    assert one.metric("slate_waiting_alarms") == 1
    until(lambda: one.metric("slate_waiting_alarms") == 0, "the late wake")
    assert_at_rest(one)


def test_a_wait_that_is_begun_and_not_needed(waiting):
    one = waiting()
    for waits in ("own", "now", "20", "never"):
        assert one.request("GET", f"/forget/{waits}").header("X-Waits") == "-"
    until(lambda: one.metric("slate_waiting_alarms") == 1, "the late wakes")
    assert_at_rest(one)


def test_the_body_is_kept(waiting):
    one = waiting()
    for size in (1, 1000, 100_000):
        body = json.dumps(["x" * size, 7.6]).encode()
        for waits in ("own", "now", "20,now"):
            answer = one.post(f"/wait/{waits}", body)
            assert answer.status == 200 and answer.json() == json.loads(body)
    assert one.post("/wait/20", b"[1,").problem("json-syntax")
    assert_at_rest(one)


def test_a_worker_that_is_long_at_work_holds_nobody_else_up(waiting):
    """Also not the housekeeper, which would clear its magazine: figures, signals and time-outs."""
    one = waiting("--threads", "1", "--decay", "20ms", "--retain", "1M")
    assert one.post("/wait/now", json.dumps("x" * 100_000).encode()).status == 200
    connection = one.connect()
    connection.start("GET", "/busy")
    until(lambda: one.metric("slate_requests_in_flight") == 1, "it is at work")
    for _ in range(20):  # many periods
        time.sleep(0.02)
        assert one.metric("slate_requests_in_flight") == 1
    assert one.admin("/readyz").status == 200
    assert connection.read().status == 204


def test_head_and_old_clients(waiting):
    one = waiting()
    connection = one.connect()
    answer = connection.request("HEAD", "/wait/20,now")
    assert answer.header("X-Waits") == "ww" and answer.header("Content-Length") == "2"
    connection.assert_open()
    connection = one.connect()
    connection.send(b"GET /wait/20,own HTTP/1.0\r\n\r\n")
    answer = connection.read()
    assert answer.body == b"ww" and answer.closes
    connection.assert_closed()
    assert_at_rest(one)


def test_the_event_loop_goes_on(waiting):
    """One worker, a hundred that wait, and others are answered meanwhile."""
    one = waiting("--threads", "1", "--drain-timeout", "0")
    asleep = [one.connect() for _ in range(100)]
    for connection in asleep:
        connection.start("GET", "/wait/never?within=60000")
    assert_suspended(one, 100)
    for _ in range(20):
        assert one.request("GET", "/json").status == 200
        assert one.request("GET", "/wait/now").body == b"w"
    for connection in asleep:
        connection.sock.settimeout(0.001)
    with pytest.raises(TimeoutError):
        asleep[0].fill()


def test_pipelined_requests_are_answered_in_order(waiting):
    one = waiting("--threads", "1")
    connection = one.connect()
    waits = ["20", "own", "now", "1,1,1", "never", "50", "own,now"]
    data = b"".join(connection.head("GET", f"/wait/{which}?within=100") for which in waits)
    data += connection.head("POST", "/wait/30", "Content-Type: application/json",
                            "Content-Length: 7") + b"[1,2,3]"
    data += connection.head("GET", "/json")
    connection.send(data)
    for which in waits:
        answer = connection.read()
        assert answer.body == (b"t" if which == "never" else b"w" * len(which.split(",")))
    assert connection.read().json() == [1, 2, 3]
    assert connection.read().status == 200
    # The same, the next request arriving while the one before it waits.
    connection.start("GET", "/wait/200")
    assert_suspended(one, 1)
    connection.start("GET", "/wait/own,20")
    assert connection.read().body == b"w"
    assert connection.read().body == b"ww"
    connection.assert_open()
    assert_at_rest(one)


def test_what_waits_is_shown(waiting):
    one = waiting("--threads", "1", "--drain-timeout", "0")
    connection = one.connect()
    connection.start("GET", "/wait/never?within=60000&hold=100000")
    assert_suspended(one, 1)
    assert one.metric("slate_requests_in_flight") == 1
    assert one.metric("slate_live_bytes") >= 100_000
    memory = one.memory()
    assert [worker["requests_suspended"] for worker in memory["workers"]].count(1) == 1
    assert memory["modules"]["waiting"] == {"held": 1, "alarms": 1, "waits": 1}
    request = [row for row in memory["contexts"] if row["name"] == "request" and row["level"] == 2
               and row["used_bytes"] >= 100_000]
    assert len(request) == 1, memory["contexts"]
    assert not any(row["name"] == "scratch" and row["worker"] == request[0]["worker"]
                   for row in memory["contexts"])


def test_what_waits_counts_against_the_limits(waiting):
    one = waiting("--memory-limit", "1M", "--threads", "1")
    connection = one.connect()
    connection.start("GET", "/wait/1000?hold=600000")
    assert_suspended(one, 1)
    refused = one.request("GET", "/wait/own?hold=600000")
    assert refused.status == 503 and refused.header("Retry-After")
    assert connection.read().body == b"w"
    assert one.request("GET", "/wait/now?hold=600000").body == b"w"
    assert_at_rest(one)


@pytest.mark.parametrize("way", ["FIN", "RST"])
@pytest.mark.parametrize("waits", ["300", "never", "300,never,now"])
def test_a_client_that_leaves(waiting, way, waits):
    """The library looks at a suspended connection only when it goes on."""
    one = waiting("--access-log", "json")
    connections = [one.connect() for _ in range(10)]
    for connection in connections:
        connection.start("GET", f"/wait/{waits}?within=600")
    assert_suspended(one, 10)
    for connection in connections:
        if way == "FIN":
            connection.close()
        else:
            connection.reset()
    assert_at_rest(one)
    until(lambda: one.metric("slate_connections") == 0, "no connection")
    assert one.metric("slate_requests_aborted_total") == 10
    assert all(not json.loads(line)["sent"] for line in one.log(10))
    assert one.request("GET", "/wait/now").body == b"w"


def test_no_deadline_of_a_request_runs_while_it_waits(waiting):
    """Else what has been done meanwhile would get no answer. The wait has a limit of its own, and a
    client that waits with it is not silent."""
    one = waiting("--body-timeout", "100ms", "--idle-timeout", "500ms")
    assert one.request("GET", "/wait/1000,1000").body == b"ww"
    assert one.request("GET", "/wait/never?within=1000").body == b"t"
    assert_at_rest(one)


@pytest.mark.parametrize("target, body", [
    ("/wait/own", b"w"), ("/wait/now,20,own", b"www"), ("/stream/none?size=9", b"abcdefghi"),
    ("/stream/own,20,now?size=9&every=4", b"abcdefghi")])
def test_every_allocation_may_fail(waiting, tmp_path, target, body):
    """Whichever call for memory is refused, also after a wait: an answer, and nothing left."""
    aim = faults.Aim(tmp_path)
    flags, env = aim.flags()
    one = waiting(*flags, program=WAITING + "_fault", env=env)
    refused = 0
    for point in aim.sweep():
        try:
            answer = one.request("GET", target)
            assert answer.status in (200, 413, 503), f"{point}: {answer}"
            assert answer.status != 200 or answer.body == body
            refused += answer.status != 200
        except Closed:  # after the head: it is seen to be cut
            assert "stream" in target
            refused += 1
    assert answer.status == 200 and refused > 0
    assert_at_rest(one)


def test_who_waits_for_a_busy_worker_is_not_silent(waiting):
    """What a client has sent, and nobody has read, is no silence of the client."""
    one = waiting("--threads", "1", "--idle-timeout", "500ms")
    busy, other = one.connect(), one.connect()
    other.assert_open()
    busy.start("GET", "/busy")
    until(lambda: one.metric("slate_requests_in_flight") == 1, "it is at work")
    other.start("GET", "/json")
    for _ in range(30):  # longer than anybody may be silent
        time.sleep(0.05)
        assert one.metric("slate_requests_in_flight") == 1
    assert one.admin("/readyz").status == 200
    assert busy.read().status == 204
    assert other.read().status == 200


@pytest.mark.parametrize("target", ["/wait/refused", "/wait/own,refused", "/stream/own,refused?size=9"])
def test_what_was_refused_memory_gets_no_wait(waiting, target):
    """Whoever works for it would do so though it is answered 503."""
    one = waiting()
    try:
        answer = one.request("GET", target)
        assert answer.status == 503 and answer.header("Retry-After")
        answer.problem("overloaded")
    except Closed:
        assert "stream" in target
    assert one.metric("slate_waiting_waits_total") == target.count("own")
    assert_at_rest(one)


# ---- The end -----------------------------------------------------------------------------------------


def test_a_wait_is_drained(waiting):
    one = waiting()
    connection = one.connect()
    connection.start("GET", f"/wait/{SOON},now")
    assert_suspended(one, 1)
    one.signal()
    answer = connection.read()
    assert answer.body == b"ww" and answer.closes
    assert one.wait() == 0
    assert "stopped with 0 requests held" in one.errors()


@pytest.mark.parametrize("how", ["the drain time-out", "a second signal"])
def test_waits_that_do_not_end_do_not_hold_the_server_up(waiting, how):
    one = waiting("--drain-timeout", "300ms" if how == "the drain time-out" else "600s")
    connections = [one.connect() for _ in range(50)]
    for i, connection in enumerate(connections):
        connection.start("GET", "/wait/never?within=600000" if i % 2 else
                         "/stream/never?within=600000&size=1000")
    assert_suspended(one, 50)
    one.signal()
    if how == "a second signal":
        until(lambda: one.admin("/readyz").status == 503, "not ready")
        one.signal()
    assert one.wait() == 0
    assert "stopped with 0 requests held" in one.errors()


class Client(threading.Thread):
    """Sends requests that wait at random, leaves some of them, and counts those that are answered."""

    def __init__(self, address, seed):
        super().__init__(daemon=True)
        self.address = address
        self.chance = random.Random(seed)
        self.answers = 0
        self.failure = None

    def waits(self):
        return [self.chance.choice(["own", "now", "now", "1", "3", "10", "never"])
                for _ in range(self.chance.randint(1, 5))]

    def ask(self, connection):
        waits = self.waits()
        within = self.chance.choice([0, 1, 5, 1000 if "never" not in waits else 20])
        if self.chance.random() < 0.5:
            connection.start("GET", f"/wait/{','.join(waits)}?within={within}")
        else:
            connection.start("GET", f"/stream/{','.join(waits)}?within=60000&size=40000&every=9000"
                             .replace("never", "now"))

    def run(self):
        try:
            while True:
                connection = Connection(self.address)
                for _ in range(self.chance.randint(1, 20)):
                    self.ask(connection)
                    if self.chance.random() < 0.1:  # leaves before the answer
                        self.chance.choice([connection.close, connection.reset])()
                        break
                    answer = connection.read()
                    assert answer.status == 200, answer
                    self.answers += 1
                    if answer.closes:
                        connection.assert_closed()
                        return
                connection.close()
        except (ConnectionRefusedError, ConnectionResetError, BrokenPipeError):
            pass  # it has stopped
        except (Closed, OSError, AssertionError) as failure:
            self.failure = f"after {self.answers} answers: {failure!r}"


@pytest.mark.parametrize("end", ["drained", "cut short"])
def test_random_waits_and_leaves_while_the_server_drains(waiting, end):
    count = 40 if SANITIZED else 150
    one = waiting(*(["--drain-timeout", "0"] if end == "cut short" else []))
    clients = [Client(one.address, seed) for seed in range(count)]
    for client in clients:
        client.start()
    until(lambda: sum(client.answers for client in clients) >= count * 40, "load", 120)
    one.signal()
    assert one.wait(60) == 0
    for client in clients:
        client.join(60)
        assert not client.is_alive()
    if end == "drained":
        assert [client.failure for client in clients if client.failure] == []
    assert "stopped with 0 requests held" in one.errors()


def test_stop_while_waits_begin_and_end(waiting):
    """Again and again: the end of the server among wakes of every kind."""
    for attempt in range(3 if SANITIZED else 12):
        one = waiting("--drain-timeout", "0")
        connections = [one.connect() for _ in range(60)]
        for connection in connections:
            connection.assert_open()
        one.signal(signal.SIGSTOP)
        for i, connection in enumerate(connections):
            waits = ["now,now,now,now", "1,1,1,1", "never", "own,5,own"][(i + attempt) % 4]
            connection.send(connection.head("GET", f"/wait/{waits}?within={i}") * 3)
        one.signal(signal.SIGTERM)
        one.signal(signal.SIGINT)
        one.signal(signal.SIGCONT)
        assert one.wait() == 0
        assert "stopped with 0 requests held" in one.errors()
