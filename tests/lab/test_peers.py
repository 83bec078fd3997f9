"""The servers that slate is held against: they do the same work, and the arithmetic over them is right."""
from dataclasses import replace

import pytest
import reports

from lab import metrics, peers, scenario
from lab.arm import ARENA
from lab.bench import Bench
from lab.server import ServerError

SLOTS = {"arena": 2.0, "malloc": 4.0, "node": 10.0, "nginx": 1.5}


@pytest.fixture(scope="module")
def bench(build):
    with Bench(build) as made:
        yield made


PAIRS = [(name, peer) for name, of_workload, _ in peers.WORKLOADS for peer in of_workload
         if isinstance(peer, peers.Peer)]


@pytest.mark.parametrize("name, peer", PAIRS, ids=lambda it: getattr(it, "name", it))
def test_a_peer_gives_the_answer_that_is_right_and_counts_it(bench, name, peer):
    if not peers._present(peer, bench.build):
        pytest.skip(f"{peer.package} is not installed")
    item = peers._load(name)
    server = bench.start_server(peer, item)
    before = server.requests()
    bench.check_answer(server, peer, item)
    assert server.requests() == before + len(bench.deck(item).samples)
    assert server.stop() == 0


@pytest.mark.parametrize("name", ["list-20", "echo-10k", "echo-100k"])
def test_a_workload_of_its_own_is_what_it_says(name):
    (request,) = peers._load(name).requests
    (records,) = request.answer.values()
    if name == "list-20":
        assert len(records) == 20
    else:
        size = int(name[5:-1]) * 1000
        assert size <= len(request.body) < size + 200


def test_every_figure_to_reach_is_on_something_that_is_run():
    for name, of_workload, limits in peers.WORKLOADS:
        assert all(limit.peer in of_workload and limit.metric in metrics.BY_NAME for limit in limits)
        peers._load(name)


def workload(slots, limit):
    item = scenario.load("json")
    arms = [ARENA, *(peer for peer in (peers.NGINX, peers.NODE) if any(s["arm"] == peer.name for s in slots))]
    return peers._workload(item, arms, [peers.Limit(peers.NODE, "user_us_per_request", limit)], slots)


def slots(rounds=6, **more):
    return [reports.slot(arm, None, block, user_us_per_request=value * (1 + block / 10)) | more
            for block in range(rounds) for arm, value in SLOTS.items()]


@pytest.mark.parametrize("limit, reached", [(0.25, True), (0.2, True), (0.15, False)])
def test_a_figure_is_reached_by_the_median_of_rounds(limit, reached):
    found = workload(slots(), limit)
    assert found["ratio"]["node"]["user_us_per_request"]["median"] == pytest.approx(0.2)
    assert found["limits"][0]["reached"] is reached
    report = {"workloads": [found], "rounds": 6, "seed": 1, "seconds": 9.0,
              "environment": {"warnings": ["beware"], "node": "v1", "nginx": "nginx 1"}}
    text = peers.render(report)
    assert peers.reached(report) is reached and ("MISSED" in text) is not reached
    assert "WARNING: beware" in text and "0.200 [0.200, 0.200]" in text


def test_an_invalid_slot_counts_for_nothing():
    found = workload([reports.invalid(s) if s["arm"] == "node" else s for s in slots()], 0.5)
    assert not found["limits"][0]["reached"] and found["arms"]["node"]["user_us_per_request"] is None


def test_a_peer_that_is_not_there_is_left_out(build):
    assert not peers._present(replace(peers.NGINX, executable="no-such-server"), build)
    assert not peers._present(replace(peers.ULFIUS, program="loadtest/peers/nothing"), build)


def test_a_peer_that_does_not_start_says_why(bench):
    with pytest.raises(ServerError, match=r"(?s)did not start; it said: .*nothing\.js"):
        bench.start_server(replace(peers.NODE, program="nothing.js"), peers._load("json"))
