"""What is read of running processes, and the lab's own client."""
import http.server
import json
import mmap
import os
import socket
import subprocess
import sys
import threading
import time

import pytest

from lab import pace, payload, proc, scenario, swarm
from lab.answer import Answer
from lab.idle import Trickle, Watch, Watches

MIB = 1 << 20


@pytest.fixture
def sleeper():
    """A process that holds 40 MiB, touched, and does nothing more."""
    code = "b = bytearray(40 << 20); print('ready', flush=True); import time; time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        yield process
        process.kill()


def test_memory_of_another_process(sleeper):
    assert 40 * MIB <= proc.anonymous(sleeper.pid) < 80 * MIB
    _, anonymous = proc.resident(sleeper.pid)
    assert anonymous == pytest.approx(proc.anonymous(sleeper.pid), abs=MIB)


def test_the_peak_can_be_reset(sleeper):
    code = "b = bytearray(80 << 20); del b; print('ready', flush=True); import time; time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        assert proc.peak(process.pid) >= 80 * MIB
        proc.reset_peak(process.pid)
        assert proc.peak(process.pid) < 60 * MIB
        process.kill()


def test_a_process_that_has_ended_has_no_peak():
    """So that its slot is invalid, and the run goes on."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # nobody has buried it yet
        with pytest.raises(OSError):
            proc.peak(process.pid)


def test_lazily_freed_memory_counts_as_given_back():
    before = proc.anonymous(os.getpid())
    area = mmap.mmap(-1, 16 * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for _ in range(16):  # in one piece it would be memory of ours, which malloc may keep
        area.write(b"x" * MIB)
    held = proc.anonymous(os.getpid()) - before
    area.madvise(mmap.MADV_FREE)
    left = proc.anonymous(os.getpid()) - before
    area.close()
    assert held >= 15 * MIB and left < 8 * MIB


def test_cpu_time_of_another_process_is_exact_and_split():
    code = "import time\nend = time.process_time() + 1.2\nwhile time.process_time() < end: pass\n" \
           "print('done', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        before = proc.cpu(process.pid)
        process.stdout.readline()
        used = proc.cpu(process.pid).since(before)
        process.kill()
    assert 1.19e9 <= used.total_ns < 1.6e9
    assert 0 < used.user_ns() <= used.total_ns


def wait_for(check):
    end = time.monotonic() + 30
    while not check():
        assert time.monotonic() < end, "not within 30 s"
        time.sleep(0.01)


def test_a_process_sleeps_or_is_occupied(sleeper):
    wait_for(lambda: proc.sleeps(sleeper.pid))  # a moment after it has said that it is ready
    before = proc.occupied_ns(sleeper.pid)
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        wait_for(lambda: proc.occupied_ns(process.pid) > 0.2e9)
        assert not proc.sleeps(process.pid)
        process.kill()
    assert proc.occupied_ns(sleeper.pid) - before < 0.1e9


def test_a_split_of_few_samples_is_not_given():
    ticks = 99 * proc.TICK_NS
    assert proc.Cpu(ticks, ticks, ticks // 2).user_ns() is None


def test_a_watch_takes_every_mark_and_not_before_its_time(sleeper):
    watches, watch = Watches(), Watch(sleeper.pid, time.monotonic(), [0.05, 0.3])
    watches.add(watch)
    watches.pause(0.1)
    assert len(watch.marks) == 1 and not watch.done()
    watches.pause(0.4)
    assert watch.done() and not watch.lost
    assert [mark["t"] >= due for mark, due in zip(watch.marks, (0.05, 0.3))] == [True, True]
    assert all(mark["anonymous"] >= 40 * MIB for mark in watch.marks)


def test_a_watch_notices_that_the_process_is_gone():
    process = subprocess.Popen(["true"])
    process.wait()
    watch = Watch(process.pid, time.monotonic(), [0])
    watch.tick()
    assert watch.done() and watch.lost and not watch.marks


class Answers(http.server.BaseHTTPRequestHandler):
    """Says "hello" and echoes; /fails: 500; /differs: a count; /closes: nothing."""
    protocol_version = "HTTP/1.1"
    count = 0
    pause = 0
    peers = set()

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if len(body) < int(self.headers["Content-Length"]):
            self.close_connection = True
            return
        Answers.peers.add(self.client_address)
        if self.path == "/closes":
            self.close_connection = True
            return
        Answers.count += 1
        time.sleep(Answers.pause)
        answer = str(Answers.count).encode() if self.path == "/differs" else b"hello " + body
        self.send_response(500 if self.path == "/fails" else 200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def answers():
    class Server(http.server.ThreadingHTTPServer):
        request_queue_size = 128
    with Server(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address
        server.shutdown()


def load(address, path, tmp_path, connections=20, requests=3, sizes=(10, 70_000), sent=None, status=200,
         last=0, **more):
    texts = [payload.Request("POST", path, b"x" * size).text(address) for size in sizes]
    deck, out = tmp_path / "deck", str(tmp_path / "out")
    deck.write_bytes(b"".join(b"%d %d %d %d\n%b" % (len(text), sent or len(text), status, last, text)
                              for text in texts))
    Answers.peers.clear()
    client = swarm.start(address, scenario.Load("swarm", connections, requests=requests, **more), out,
                         str(deck))
    _, said = client.communicate(timeout=60)
    assert client.returncode == 0, said
    return swarm.read(out, connections)


def test_the_swarm_sends_so_many_requests_on_so_many_connections(answers, tmp_path):
    found = load(answers, "/", tmp_path)
    assert (found["requests"], found["errors"], found["wrong_status"], found["different"]) == (60, 0, 0, 0)
    assert len(Answers.peers) == 20 and found["unrecorded"] == 0 and found["seconds"] > 0


def test_the_swarm_notices_errors(answers, tmp_path):
    assert load(answers, "/fails", tmp_path)["wrong_status"] == 60
    assert load(answers, "/differs", tmp_path)["different"] > 0
    closed = load(answers, "/closes", tmp_path)
    assert closed["errors"] == 20 and closed["requests"] == 0


def test_a_status_that_is_due_is_no_fault(answers, tmp_path):
    assert load(answers, "/fails", tmp_path, status=500)["wrong_status"] == 0


def test_the_swarm_connects_again_where_a_request_ends_the_connection(answers, tmp_path):
    found = load(answers, "/", tmp_path, connections=5, last=1)
    assert (found["requests"], found["errors"]) == (15, 0) and len(Answers.peers) == 15


def test_the_swarm_breaks_off_what_is_not_to_be_answered(answers, tmp_path):
    before = Answers.count
    found = load(answers, "/", tmp_path, connections=5, sizes=(70_000,), sent=1000, status=0, last=1)
    assert (found["requests"], found["broken_off"], found["errors"]) == (0, 15, 0)
    assert Answers.count == before


@pytest.mark.parametrize("way", ["upload", "download"])
def test_slow_clients_take_their_time(answers, tmp_path, way):
    found = load(answers, "/", tmp_path, connections=5, requests=1, sizes=(70_000,), **{way: 100_000})
    assert found["requests"] == 5 and found["seconds"] > 0.5 and found["different"] == 0


def test_connections_can_be_held_after_the_last_answer(answers, tmp_path):
    start = time.monotonic()
    found = load(answers, "/", tmp_path, connections=5, requests=1, hold=1)
    assert time.monotonic() - start >= 1 and found["requests"] == 5


@pytest.fixture
def deck(answers, tmp_path):
    def make(path="/"):
        text = payload.Request("POST", path, b"x" * 5000).text(answers)
        (tmp_path / "deck").write_bytes(b"%d %d 200 0\n%b" % (len(text), len(text), text))
        return str(tmp_path / "deck")
    return make


def pace_at(build, address, deck, tmp_path, rate, seconds=1, connections=8):
    load, out = scenario.Load("pace", connections, rate=rate), str(tmp_path / "out")
    client = pace.start(build / "loadtest/pace", address, load, seconds, out, deck)
    _, said = client.communicate(timeout=60)
    assert client.returncode == 0, said
    return pace.read(out, connections)


def test_requests_come_at_the_rate_that_is_asked_for(build, answers, deck, tmp_path):
    found = pace_at(build, answers, deck(), tmp_path, 200)
    assert found["requests"] == found["planned"] == 200
    assert (found["errors"], found["wrong_status"], found["unrecorded"]) == (0, 0, 0)


def test_latency_counts_from_when_a_request_was_due(build, answers, deck, tmp_path):
    Answers.pause = 0.1  # 8 connections can do 80 a second
    found = pace_at(build, answers, deck(), tmp_path, 200)
    Answers.pause = 0
    assert found["requests"] == found["planned"]
    due, sent = (found[k][-1][0] for k in ("raw", "sent"))
    assert due > 500_000 and sent < due - 200_000


def test_a_constant_rate_notices_errors(build, answers, deck, tmp_path):
    assert pace_at(build, answers, deck("/fails"), tmp_path, 100)["wrong_status"] > 0
    closed = pace_at(build, answers, deck("/closes"), tmp_path, 100)
    assert closed["errors"] == 8 and closed["requests"] == 0


def test_a_trickle_comes_as_often_as_it_should(answers):
    trickle = Trickle(answers, 50)
    watches, watch = Watches(), Watch(os.getpid(), time.monotonic(), [0.5], trickle)
    watches.add(watch)
    watches.pause(0.6)
    assert watch.done() and 1 < trickle.close() <= 26


def test_a_trickle_ends_on_a_connection_that_was_closed_meanwhile():
    """A server closes what lies idle: with the last answer still to be read, or without one."""
    for last, answered in ((PLAIN, 1), (b"", None)):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            trickle = Trickle(listener.getsockname(), 50)
            trickle.tick()  # the request that is under way when nobody looks any more
            with listener.accept()[0] as connection:
                connection.recv(1000)
                connection.sendall(last)
            if answered:
                assert trickle.close() == answered
            else:
                with pytest.raises(ConnectionError):
                    trickle.close()


def test_the_swarm_counts_a_server_that_is_not_there(tmp_path):
    assert load(("127.0.0.1", 1), "/", tmp_path)["errors"] == 20
    assert json.loads((tmp_path / "out").read_text())["requests"] == 0


PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world"
CHUNKED = (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
           b"5\r\nhello\r\n6;a=b\r\n world\r\n0\r\n\r\n")


def answer_of(text, piece):
    answer = Answer()
    for at in range(0, len(text), piece):
        answer.feed(text[at:at + piece])
    return answer


@pytest.mark.parametrize("piece", [1, 2, 7, 1000])
def test_an_answer_is_the_same_in_chunks_and_in_whatever_pieces_it_comes(piece):
    whole, chunked = answer_of(PLAIN, piece), answer_of(CHUNKED, piece)
    assert whole.whole and chunked.whole and whole.status == chunked.status == 200
    assert whole.body() == chunked.body() != answer_of(PLAIN.replace(b"w", b"W"), piece).body()


@pytest.mark.parametrize("text", [PLAIN[:-1], CHUNKED[:-6], PLAIN[:10], CHUNKED.partition(b"hello")[0]])
def test_a_part_is_not_the_whole(text):
    assert not answer_of(text, 1000).whole


def test_an_answer_may_be_empty():
    assert answer_of(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 1000).whole


@pytest.mark.parametrize("text", [b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n",
                                  CHUNKED.replace(b"6;", b"x;")])
def test_what_is_no_answer_is_refused(text):
    with pytest.raises((ValueError, KeyError, IndexError)):
        answer_of(text, 1000)
