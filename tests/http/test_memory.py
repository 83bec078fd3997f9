"""What the process holds after a spike, and after many requests: anonymous memory, polled."""
import json

import pytest

from wire import until

MIB = 1024 * 1024

pytestmark = pytest.mark.resident


def warm(one):
    """Touches what a server needs once, so that it is not taken for what a request leaves behind."""
    connections = [one.connect() for _ in range(4)]
    for connection in connections:
        for _ in range(20):
            assert connection.request("POST", "/echo", body=b"[1]").status == 200
    one.close_connections()
    one.metric("slate_live_bytes")


@pytest.mark.arena
def test_a_spike_leaves_nothing_behind(server):
    """100 connections with 100 KB each, all held at once; then silence."""
    one = server()
    warm(one)
    before = one.anonymous()
    text = json.dumps([{"id": i, "name": f"row {i}"} for i in range(3200)]).encode()
    assert len(text) > 95_000
    connections = [one.connect() for _ in range(100)]
    for connection in connections:
        connection.send(connection.head("POST", "/echo", "Content-Type: application/json",
                                        f"Content-Length: {len(text)}") + text[:-1])
    until(lambda: one.metric("slate_requests_in_flight") == 100, "100 requests in flight")
    until(lambda: one.anonymous() > before + 9 * MIB, "the spike is there")
    for connection in connections:
        connection.send(text[-1:])
    for connection in connections:
        assert connection.read("POST").status == 200
    one.close_connections()
    until(lambda: one.anonymous() < before + 2 * MIB, "the memory is back")
    one.assert_at_rest()


def test_a_spike_leaves_nothing_behind_a_trickle(server):
    """200 connections with 100 to 300 KB each; then one, with a small request now and then. What
    they left is in malloc's heap, below what lives, and in magazines that no request needs."""
    one = server("--threads", "2", "--idle-trim", "on")
    warm(one)
    before = one.anonymous()
    texts = [json.dumps([{"id": i, "name": f"row {i}"} for i in range(rows)]).encode()
             for rows in (3200, 6400, 9600)]
    connections = [one.connect() for _ in range(200)]
    for i, connection in enumerate(connections):
        text = texts[i % 3]
        connection.send(connection.head("POST", "/echo", "Content-Type: application/json",
                                        f"Content-Length: {len(text)}") + text[:-1])
    until(lambda: one.metric("slate_requests_in_flight") == 200, "200 requests in flight")
    for connection in connections:
        connection.send(b"]")
    for connection in connections:
        assert connection.read("POST").status == 200
    assert one.anonymous() > before + 3 * MIB
    trickle = one.connect()
    for connection in connections:
        connection.close()

    def memory_is_back():
        assert trickle.request("GET", "/json").status == 200
        # malloc_trim leaves the tops of the threads' heaps alone: up to 600 KB of each with malloc
        return one.anonymous() < before + 2 * MIB

    until(memory_is_back, "the memory is back while requests come")


@pytest.mark.arena
def test_closed_connections_leave_nothing_behind(server):
    """libmicrohttpd keeps each connection's memory in malloc's heap, and malloc keeps it after they
    have closed: the server trims once it is at rest."""
    one = server()
    warm(one)
    before = one.anonymous()
    connections = [one.connect() for _ in range(700)]
    for connection in connections:
        connection.start("GET", "/json")
    for connection in connections:
        assert connection.read().status == 200
    assert one.anonymous() > before + 5 * MIB
    one.close_connections()
    until(lambda: one.anonymous() < before + 2 * MIB, "the memory is back")


def test_many_requests_do_not_grow_the_process(server):
    """Thousands of requests of all kinds, errors included; the second half adds nothing."""
    one = server("--threads", "2")
    document = json.dumps([{"id": i, "name": f"row {i}"} for i in range(50)]).encode()
    patch = b'{"doc": %s, "patch": [{"op": "add", "path": "/0/x", "value": [1, 2]}]}' % document

    def round_of(count):
        connections = [one.connect() for _ in range(4)]
        for _ in range(count):
            for connection in connections:
                connection.start("POST", "/echo", body=document)
                connection.start("POST", "/echo", body=document[:-1])
                connection.start("POST", "/transform/patch", body=patch)
                connection.start("GET", "/json")
                connection.start("GET", "/nope")
            for connection in connections:
                assert [connection.read().status for _ in range(5)] == [200, 400, 200, 200, 404]
        one.close_connections()
        one.metric("slate_live_bytes")

    round_of(150)
    before = one.anonymous()
    round_of(300)
    until(lambda: one.anonymous() < before + 2 * MIB, "no growth")
    one.assert_at_rest()
