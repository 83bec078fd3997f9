"""Limits on memory, depth and connections: what is over one is refused, and the server serves on."""
import resource

import pytest

from process import ALLOC
from wire import Closed, Connection, until

MIB = 1024 * 1024


def bomb(size=MIB):
    """One of the shapes that cost most memory a byte: a million empty objects."""
    return b"[" + b"{}," * ((size - 4) // 3) + b"{}]"


def test_a_memory_bomb_is_refused(server):
    """jansson takes about a hundred bytes for each `{}`. With plain malloc jansson's hooks are not
    installed, so the tree is bounded by the body alone and may be answered."""
    one = server("--request-memory", "8M")
    connection = one.connect()
    for _ in range(3):
        answer = connection.request("POST", "/echo", body=bomb())
        if ALLOC == "arena" or answer.status != 200:
            assert answer.status == 413, answer
            assert answer.problem()["limit"] == 8 * MIB
        if answer.closes:
            connection = one.connect()
        assert one.request("GET", "/json").status == 200
    one.close_connections()
    one.assert_at_rest()


@pytest.mark.resident
@pytest.mark.arena
def test_a_memory_bomb_leaves_nothing_behind(server):
    one = server("--request-memory", "64M")
    assert one.post("/echo", b"[]").status == 200
    before = one.anonymous()
    for _ in range(4):
        assert one.post("/echo", bomb()).status in (200, 413)
    until(lambda: one.anonymous() < before + 3 * MIB, "memory back after the bomb")


@pytest.mark.arena
def test_a_memory_bomb_of_strings_and_keys(server):
    one = server("--request-memory", "4M")
    for text in (b"[" + b'"",' * 300_000 + b'""]',
                 b"{" + b",".join(b'"%x":0' % i for i in range(90_000)) + b"}",
                 b"[" + b"[]," * 300_000 + b"[]]",
                 b"[" + b"1.5," * 250_000 + b"1]"):
        assert len(text) <= MIB
        answer = one.post("/echo", text)
        assert answer.status == 413, answer
        assert answer.problem()["limit"] == 4 * MIB
    one.assert_at_rest()


@pytest.mark.arena
def test_a_refusal_never_loses_a_character(server):
    """jansson drops characters when an allocation fails: an answer is whole, or it is a 413."""
    one = server("--request-memory", "256K", "--body-limit", "256K")
    seen = set()
    connection = one.connect()
    for size in range(20_000, 260_000, 4_000):
        text = b'["' + b"x" * (size - 100) + b'",' + b"1," * 40 + b'"end"]'
        answer = connection.request("POST", "/echo", body=text)
        seen.add(answer.status)
        if answer.status == 200:
            assert answer.body == text
        else:
            assert answer.status == 413, answer
        if answer.closes:
            connection = one.connect()
    assert seen == {200, 413}


def test_the_memory_of_all_requests_together(server):
    """One upload holds most of --memory-limit: the next is told to come back, the first goes on."""
    one = server("--memory-limit", "1M", "--threads", "1")
    size = 700_000
    first = one.connect()
    first.send(first.head("POST", "/echo", "Content-Type: application/json",
                          f"Content-Length: {size}") + b'["')
    first.send(b"x" * (size // 2))
    until(lambda: one.metric("slate_live_bytes") > size // 2, "the first body is held")

    second = one.connect()
    second.send_if_open(second.head("POST", "/echo", "Content-Type: application/json",
                                    f"Content-Length: {size}") + b"[" + b"1," * (size // 2 - 1) + b"]")
    answer = second.read("POST")
    assert answer.status == 503, answer
    assert int(answer.header("Retry-After")) >= 1
    answer.problem()

    first.reset()
    one.close_connections()
    one.assert_at_rest()
    small = one.post("/echo", b'["' + b"x" * 100_000 + b'"]')
    assert small.status == 200, small


def test_depth_is_a_flag(server):
    one = server("--json-depth", "3")
    assert one.post("/echo", b"[[[1]]]").status == 200
    answer = one.post("/echo", b"[[[[1]]]]")
    assert answer.status == 422
    answer.problem()


def test_the_greatest_depth(server):
    one = server("--json-depth", "1024")
    deep = b"[" * 1024 + b"]" * 1024
    answer = one.post("/echo", deep)
    assert answer.status == 200
    assert answer.body == deep
    assert one.post("/echo", b"[" + deep + b"]").status == 422


def is_served(address):
    """Whether a new connection is served; one over the limit is closed, or waits unanswered."""
    connection = Connection(address, timeout=2)
    try:
        connection.send(connection.head("GET", "/json"))
        answered = connection.read().status == 200
    except (Closed, TimeoutError, BrokenPipeError, ConnectionResetError):
        answered = False
    return connection, answered


@pytest.mark.parametrize("flag", ["--max-connections", "--per-ip"])
def test_connections_are_limited(server, flag):
    """Over the limit no one is served; when others leave there is room again."""
    one = server(flag, "8", "--threads", "1")
    opened = [is_served(one.address) for _ in range(10)]
    served = [connection for connection, answered in opened if answered]
    assert 4 <= len(served) <= 8, f"{len(served)} were served"
    for connection in served:
        connection.assert_open()
    for connection, _ in opened:
        connection.close()

    def room():
        connection, answered = is_served(one.address)
        connection.close()
        return answered
    until(room, "room again")


def test_the_limit_of_connections_holds_for_all_threads_together(server):
    one = server("--max-connections", "5", "--threads", "4")
    opened = [one.connect() for _ in range(20)]
    until(lambda: one.metric("slate_connections") == 5, "5 connections")
    for connection in opened:
        connection.send(connection.head("GET", "/json"))
    assert one.metric("slate_connections") == 5


def test_every_connection_has_a_file(server):
    """The limit of open files is raised for the files that event loops need, too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, hard), hard))
    try:
        one = server("--max-connections", "200", "--threads", "64", "--idle-timeout", "600s",
                     "--header-timeout", "600s")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if "open files" in one.errors():
        pytest.skip("too few files are allowed here")
    for connection in [one.connect() for _ in range(200)]:
        connection.assert_open()


@pytest.mark.arena
def test_more_memory_never_serves_less(server):
    """The answer's buffer is reserved by a guess, of which a budget that would do must not die."""
    start, end = b'{"doc":[', b'],"patch":[{"op":"replace","path":"","value":[1]}]}'
    items = b",".join([b'"' + b"v" * 100 + b'"'] * 630)
    filler = 65450 - len(start) - len(items) - len(end) - 3
    body = start + items + b',"' + b"w" * filler + b'"' + end
    assert len(body) == 65450  # 64 KiB are not quite enough for a guess of as much
    for memory, status in ((159_000, 413), (160_500, 200), (162_000, 200), (163_500, 200)):
        one = server("--request-memory", str(memory), "--body-limit", "65450")
        assert one.post("/transform/patch", body).status == status, memory
