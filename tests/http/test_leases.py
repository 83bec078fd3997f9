"""The sample plugins/leases.c: taking, renewing, giving back and expiring; its limits, its figures, and
that what expires gives its memory back."""
import json
import os
import threading

import pytest

from process import BINARY
from wire import until

LEASES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(BINARY))), "plugins/leases.so")
FLAGS = ("--plugin", LEASES)


def put(one, name, holder="me", seconds=60):
    return one.request("PUT", f"/leases/{name}",
                       body=json.dumps({"holder": holder, "seconds": seconds}).encode())


def test_one_holder_at_a_time(shared):
    taken = put(shared, "one")
    assert taken.status == 201
    lease = taken.json()
    assert (lease["name"], lease["holder"]) == ("one", "me") and 0 < lease["milliseconds_left"] <= 60000
    renewed = put(shared, "one", seconds=600)
    assert renewed.status == 200 and renewed.json()["fence"] == lease["fence"]
    other = put(shared, "one", holder="you")
    assert other.status == 409 and 590 <= int(other.header("Retry-After")) <= 600
    other.problem("lease-held")
    found = shared.request("GET", "/leases/one")
    assert found.status == 200 and 60000 < found.json()["milliseconds_left"] <= 600000
    assert {**found.json(), "milliseconds_left": 0} == {**lease, "milliseconds_left": 0}


def test_what_is_given_back_is_free(shared):
    first = put(shared, "back").json()["fence"]
    answer = shared.request("DELETE", "/leases/back?holder=you")
    assert answer.status == 409
    answer.problem("lease-held")
    assert shared.request("GET", "/leases/back").json()["fence"] == first
    for _ in range(2):
        assert shared.request("DELETE", "/leases/back?holder=me").status == 204
    answer = shared.request("GET", "/leases/back")
    assert answer.status == 404
    answer.problem("lease-free")
    assert put(shared, "back", holder="you").json()["fence"] > first


@pytest.mark.parametrize("target, body, status, slug", [
    ("/leases/a", b"{", 400, "json-syntax"),
    ("/leases/a", b"[]", 422, "lease-holder"),
    ("/leases/a", b"7", 422, "lease-holder"),
    ("/leases/a", b'{"seconds":1}', 422, "lease-holder"),
    ("/leases/a", b'{"holder":7,"seconds":1}', 422, "lease-holder"),
    ("/leases/a", b'{"holder":"","seconds":1}', 422, "lease-holder"),
    ("/leases/a", b'{"holder":"' + b"x" * 64 + b'","seconds":1}', 422, "lease-holder"),
    ("/leases/a", b'{"holder":"x"}', 422, "lease-seconds"),
    ("/leases/a", b'{"holder":"x","seconds":0}', 422, "lease-seconds"),
    ("/leases/a", b'{"holder":"x","seconds":86401}', 422, "lease-seconds"),
    ("/leases/a", b'{"holder":"x","seconds":1.5}', 422, "lease-seconds"),
    ("/leases/a", b'{"holder":"x","seconds":"1"}', 422, "lease-seconds"),
    ("/leases/" + "x" * 64, b'{"holder":"x","seconds":1}', 422, "lease-name"),
    ("/leases/a%20b", b'{"holder":"x","seconds":1}', 422, "lease-name"),
    ("/leases/%C3%A9", b'{"holder":"x","seconds":1}', 422, "lease-name"),
])
def test_bad_input_is_named(shared, target, body, status, slug):
    answer = shared.request("PUT", target, body=body)
    assert answer.status == status
    answer.problem(slug)
    if status == 422 and slug != "lease-name":
        assert answer.json()["json_pointer"] in ("/holder", "/seconds")


def test_the_longest_names_are_kept_whole(shared):
    name, holder = "x" * 63, "\u00e9" * 31
    assert put(shared, name, holder).json()["holder"] == holder
    assert shared.request("GET", f"/leases/{name}").json()["holder"] == holder
    assert put(shared, name[:-1], holder).status == 201
    assert put(shared, name, "a\0b").status == 409
    assert put(shared, "zero", "a\0b").json()["holder"] == "a\0b"
    assert put(shared, "zero", "a\0b").status == 200
    assert put(shared, "zero", "a").status == 409


def test_a_lease_needs_a_holder_to_be_given_back(shared):
    answer = shared.request("DELETE", "/leases/a")
    assert answer.status == 400
    answer.problem("lease-holder")


def test_a_lease_ends_by_itself(server):
    one = server(*FLAGS)
    first = put(one, "short", seconds=1).json()["fence"]
    until(lambda: one.request("GET", "/leases/short").status == 404, "the end of the lease")
    taken = put(one, "short", holder="you")
    assert taken.status == 201 and taken.json()["fence"] > first
    assert one.metric("slate_leases_expired_total") == 1


def test_leases_that_nobody_asks_for_end_too(server):
    one = server(*FLAGS)
    for name in "abc":
        assert put(one, name, seconds=1).status == 201
    assert put(one, "d").status == 201
    until(lambda: one.metric("slate_leases_live") == 1, "the end of all leases but one")
    assert one.metric("slate_leases_expired_total") == 3


def test_leases_are_limited_and_their_memory_comes_back(server):
    limit = 3000
    one = server(*FLAGS, env={"LEASES_MAX": str(limit)})
    with one.connect() as connection:
        for i in range(limit):
            assert connection.request("PUT", f"/leases/{i}",
                                      body=b'{"holder":"me","seconds":86400}').status == 201
        full = put(one, "more")
        assert full.status == 503 and full.header("Retry-After") == "1"
        full.problem("leases-full")
        assert full.json()["limit"] == limit
        assert put(one, "7").status == 200  # who is there may stay
        held = one.metric("slate_leases_pool_bytes")
        assert held >= 152 * limit and one.metric("slate_leases_limit") == limit
        assert one.metric("slate_leases_full_total") == 1
        for i in range(limit):
            assert connection.request("DELETE", f"/leases/{i}?holder=me").status == 204
    assert one.metric("slate_leases_live") == 0
    assert one.metric("slate_leases_pool_bytes") < held / 4
    assert put(one, "more").status == 201


@pytest.mark.parametrize("method", ["PUT", "GET", "DELETE"])
def test_whatever_is_refused_an_answer_says_what_has_happened(server, method):
    """The k-th allocation is, for k = 1, 2, … until none is left to refuse. The first ones are those of
    the start."""
    target = "/leases/a?holder=me" if method == "DELETE" else "/leases/a"
    body = b'{"holder":"me","seconds":600}' if method == "PUT" else None
    good = {"PUT": 201, "GET": 404, "DELETE": 204}[method]
    statuses = []
    for k in range(1, 60):
        try:
            one = server(*FLAGS, "--mem-debug", f"fail={k}", admin="off")
        except AssertionError as error:
            assert "exit 1 at start" in str(error) and not statuses
            continue
        answer = one.request(method, target, body=body)
        statuses.append(answer.status)
        assert answer.status in (good, 413, 503), answer
        asked = [one.request("GET", "/leases/a").status for _ in range(2)]
        found = asked[asked[0] == 503]  # then it was the first of this one's that was refused
        unknown = answer.status == 503 and answer.json()["type"] == "/problems/outcome-unknown"
        assert unknown or found == (200 if answer.status == 201 else 404)
        if answer.status == good:
            break
    assert statuses[-1] == good and len(statuses) > 1


def test_figures(server):
    one = server(*FLAGS)
    put(one, "a")
    put(one, "a")
    put(one, "a", holder="you")
    put(one, "b")
    one.request("DELETE", "/leases/b?holder=me")
    found = one.memory()["modules"]["leases"]
    assert {name: found[name] for name in ("live", "taken", "renewed", "refused", "full", "expired")} \
        == {"live": 1, "taken": 2, "renewed": 1, "refused": 1, "full": 0, "expired": 0}
    assert one.metric("slate_leases_taken_total") == 2


def test_of_many_who_ask_at_once_one_gets_it(server):
    one = server(*FLAGS, "--threads", "2")
    rounds, clients, won = 20, 4, []

    def compete(holder):
        with one.connect() as connection:
            for i in range(rounds):
                answer = connection.request("PUT", f"/leases/race-{i}", body=json.dumps(
                    {"holder": holder, "seconds": 600}).encode())
                assert answer.status in (201, 409)
                if answer.status == 201:
                    won.append((i, answer.json()["fence"]))
    threads = [threading.Thread(target=compete, args=(str(n),)) for n in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(i for i, _ in won) == list(range(rounds))
    assert len({fence for _, fence in won}) == rounds
