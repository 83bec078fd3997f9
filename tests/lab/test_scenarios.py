"""Scenarios and the requests that they are made of."""
import json

import pytest

from lab import payload, scenario


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
    assert len(item.request.answers) == max(1, len(item.request.bodies))
    assert all(len(body) <= 1024 * 1024 for body in item.request.bodies)


def test_the_five_scenarios_come_in_order():
    assert scenario.names()[:5] == ["json", "echo", "transform", "spike", "connections"]


def test_an_echo_is_the_document_as_published():
    request = scenario.load("echo").request
    assert request.bodies == [(payload.DOCUMENTS / "iso_3166-1.json").read_bytes()]
    assert json.loads(request.bodies[0]) == request.answers[0]


def test_the_spike_has_documents_of_several_sizes_from_100_kb():
    sizes = [len(body) for body in scenario.load("spike").request.bodies]
    assert len(set(sizes)) == len(sizes) > 1
    assert 102_400 <= min(sizes) and all(json.loads(b) for b in scenario.load("spike").request.bodies)


def test_the_patch_changes_adds_and_removes():
    request = scenario.load("transform").request
    before, after = json.loads(request.bodies[0])["doc"], request.answers[0]
    assert set(before) - set(after) and set(after) - set(before)
    assert any(before[code] != after[code] for code in set(before) & set(after))


def test_an_unknown_scenario_is_named_with_those_there_are():
    with pytest.raises(scenario.ScenarioError, match="'nonsense'.*json.*connections"):
        scenario.load("nonsense")
