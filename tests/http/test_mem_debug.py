"""--mem-debug: instruments on the contexts of requests."""
import json

import pytest

DOCUMENT = {"a": [1, 2.5, "text" * 50, {"b": None}], "c": {"d": list(range(100))}}


def test_counting_shows_what_requests_asked_for(server):
    one = server("--mem-debug", "count", "--threads", "1")
    before = one.memory()["mem_debug"]
    assert before["instruments"] == "count"
    assert one.post("/echo", json.dumps(DOCUMENT).encode()).status == 200
    after = one.memory()["mem_debug"]
    assert after["allocs"] > before["allocs"]
    assert after["bytes"] > before["bytes"] + len(json.dumps(DOCUMENT))
    assert after["refused"] == 0


def test_without_it_there_is_nothing_to_show(server):
    assert "mem_debug" not in server().memory()


@pytest.mark.parametrize("instruments", ("poison", "guard", "trip", "poison,guard,trip,count"))
def test_a_server_answers_as_ever_behind_instruments(server, instruments):
    one = server("--mem-debug", instruments)
    for _ in range(3):
        answer = one.post("/echo", json.dumps(DOCUMENT).encode())
        assert answer.status == 200 and answer.json() == DOCUMENT
        assert one.post("/echo", b"[1,").status == 400
        body = {"doc": DOCUMENT, "patch": [{"op": "replace", "path": "/c", "value": [1]}]}
        answer = one.post("/transform/patch", json.dumps(body).encode())
        assert answer.status == 200 and answer.json() == {**DOCUMENT, "c": [1]}
    one.assert_at_rest()


def test_a_walk_frees_what_the_reset_would_have_forgotten(server):
    """--json-walk on: the same answers, from memory that is poisoned as soon as it is free. Of its nodes
    an arena takes back the newest alone, so a scalar shows them all."""
    frees = {}
    for walk in ((), ("--json-walk", "on")):
        one = server("--mem-debug", "poison,guard,trip,count", "--threads", "1", *walk)
        walks = one.admin("/version").json()["json_walk"]
        before = one.memory()["mem_debug"]["frees"]
        for n in range(100):
            assert one.post("/echo", str(n).encode()).body == str(n).encode()
        frees[walks] = one.memory()["mem_debug"]["frees"] - before
        for document in (DOCUMENT, [[[]]], {"a": {"b": {}}}):
            assert one.post("/echo", json.dumps(document).encode()).json() == document
        body = {"doc": DOCUMENT, "patch": {"a": {"b": None, "c": [1]}, "c": None}}
        assert one.post("/transform/merge", json.dumps(body).encode()).json() == {"a": {"c": [1]}}
        assert one.post("/echo", b'{"a": [1, {"b": "c"}, }').status == 400
        one.assert_at_rest()
    assert walks
    if False in frees:  # neither with malloc nor in a build that walks always
        assert frees[True] >= frees[False] + 100


def test_a_refused_allocation_is_answered_503(server):
    """At a rate at which some requests are lucky, all the same."""
    one = server("--mem-debug", "rate=40")
    statuses = {one.post("/echo", json.dumps([n] * 20).encode()).status for n in range(60)}
    assert 503 in statuses and statuses <= {200, 503}
    one.assert_at_rest()
