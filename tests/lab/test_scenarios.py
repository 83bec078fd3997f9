"""Scenarios and the requests that they are made of."""
import json

import pytest

from lab import compare, metrics, payload, scenario
from lab.slot import Slot, run_together
from lab.store import Rows


@pytest.mark.parametrize("target, patch, expected", [  # RFC 7396, appendix A
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
])
def test_merge_patch(target, patch, expected):
    assert payload.merge_patch(target, patch) == expected


@pytest.mark.parametrize("name", scenario.names())
def test_every_scenario_loads_and_knows_its_answers(name):
    item = scenario.load(name)
    assert item.expected in scenario.WINNERS and item.why and item.primary
    # "deep" is answered with null.
    assert all(r.answer is not None or r.of_rows or name == "deep" for r in item.requests)
    assert all(len(request.body) <= 1024 * 1024 for request in item.requests)
    assert set(item.primary) <= set(metrics.BY_NAME)


def test_what_compare_runs_comes_first_in_order():
    assert scenario.names()[:5] == scenario.COMPARED == ["json", "echo", "transform", "spike", "connections"]


def test_an_echo_is_the_document_as_published():
    (request,) = scenario.load("echo").requests
    assert request.body == (payload.DOCUMENTS / "iso_3166-1.json").read_bytes()
    assert json.loads(request.body) == request.answer


def test_the_spike_has_documents_of_several_sizes_from_100_kb():
    requests = scenario.load("spike").requests
    sizes = [len(request.body) for request in requests]
    assert len(set(sizes)) == len(sizes) > 1
    assert 102_400 <= min(sizes) and all(json.loads(request.body) == request.answer for request in requests)


def test_the_patch_changes_adds_and_removes():
    (request,) = scenario.load("transform").requests
    before, after = json.loads(request.body)["doc"], request.answer
    assert set(before) - set(after) and set(after) - set(before)
    assert any(before[code] != after[code] for code in set(before) & set(after))


@pytest.fixture
def rows():
    made = Rows(200)
    made.ids = [f"id{n}" for n in range(200)]
    return made


def test_the_clock_of_an_answer_can_say_anything():
    (request,) = scenario.load("transfer").requests
    assert len(request.body) == 441
    assert request.answer | {"created_on": "now"} == request.answer != request.answer | {"amount": 1}


def test_a_request_goes_over_the_wire_with_its_length():
    text = payload.Request("POST", "/echo", b"[1]").text(("127.0.0.1", 80))
    assert text == (b"POST /echo HTTP/1.1\r\nHost: 127.0.0.1:80\r\nContent-Type: application/json\r\n"
                    b"Content-Length: 3\r\n\r\n[1]")
    assert payload.Request("GET", "/", accept="a/b").text(("h", 1)).endswith(b"\r\nAccept: a/b\r\n\r\n")


def test_requests_on_rows_come_in_their_shares_and_each_knows_its_row(rows):
    deck = payload.deck(scenario.load("mixed").requests, rows)
    pages = sum("limit=50" in request.path for request in deck.order)
    writes = [request for request in deck.order if request.method == "PUT"]
    assert (pages, len(writes), len(deck.order)) == (300, 100, 2000)
    assert len({request.path for request in deck.order}) > 200
    assert all(json.loads(r.body)["n"] == int(r.path.rpartition("/id")[2]) for r in writes)
    one, page, written = [request.answer for request in deck.samples]
    assert one == rows.document(75) and len(page) == 50 and page[0]["document"] == one
    assert {"id": "id75", "revision": 9} == written != {"id": "id76", "revision": 9}


def test_the_deck_is_the_same_in_every_run(rows):
    requests = scenario.load("get").requests
    assert payload.deck(requests, rows) == payload.deck(requests, rows)


def test_a_stream_is_one_request(rows):
    deck = payload.deck(scenario.load("stream").requests, rows)
    assert len(deck.order) == 1 and len(deck.samples[0].answer) == 200


def test_a_scenario_at_a_constant_rate():
    item = scenario.at_rate(scenario.load("echo"), 0.6, 2500)
    assert (item.name, item.of, item.load.client, item.load.rate) == ("echo-at-60", "echo", "pace", 2500)
    assert "2,500 requests a second" in item.about and item.requests == scenario.load("echo").requests


def test_rates_are_shares_of_what_the_slower_arm_can_do():
    slots = [{"arm": arm, "valid": valid, "block": block, "pair": None, "repeat": False,
              "metrics": {"requests_per_second": rate}} for arm, block, valid, rate in
             (("malloc", 0, True, 1000), ("malloc", 1, True, 1100), ("malloc", 2, False, 9),
              ("arena", 0, True, 2000), ("plain", 0, True, 10))]
    items = [scenario.load("echo"), scenario.load("spike")]
    paced = compare.at_rates(items, {"echo": slots, "spike": slots})
    assert [(item.name, item.load.rate) for item in paced] == [
        ("echo-at-30", 315), ("echo-at-60", 630), ("echo-at-80", 840)]
    assert compare.at_rates(items, {"echo": slots[:2], "spike": []}) == []


def test_an_unknown_scenario_is_named_with_those_there_are():
    with pytest.raises(scenario.ScenarioError, match="'nonsense'.*json.*connections"):
        scenario.load("nonsense")


@pytest.mark.parametrize("name, turns", [("echo", 6), ("write", 6), ("growth", 1), ("tiny", 1), ("spike", 1), ("slow-reads", 1)])
def test_a_load_comes_in_turns_where_that_costs_nothing(name, turns):
    assert scenario.load(name).load.turns == turns
    assert scenario.at_rate(scenario.load("echo"), 0.5, 1000).load.turns == 1


def turns_taken(item):
    """[(what, arm, number of the turn or None), ...] of two slots that are run together."""
    done = []

    class Noted(Slot):
        def prepare(self):
            done.append(("prepare", self.arm))

        def begin(self):
            done.append(("begin", self.arm))

        def turn(self, number):
            done.append((number, self.arm))
            if (self.arm, number) == ("b", 4):
                raise OSError("the server is gone")

        def end(self):
            done.append(("end", self.arm))

    run_together([Noted(None, item, arm, {}) for arm in "ab"])
    return done


def test_a_pair_takes_turns_and_goes_on_alone_when_one_has_failed():
    done = turns_taken(scenario.load("echo"))
    assert done[:4] == [("prepare", "a"), ("prepare", "b"), ("begin", "a"), ("begin", "b")]
    assert [arm for what, arm in done[4:-1]] == list("abbaabbaaba")
    assert done[-1] == ("end", "a")


def test_what_is_one_piece_is_run_one_after_the_other():
    done = turns_taken(scenario.load("spike"))
    assert [arm for _, arm in done] == list("aaaabbbb")
