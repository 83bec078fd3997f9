"""The ladder over an answer that was made once."""
import pytest

from lab import floor, scenario

STATIC, JSON = floor.LADDER[:2]


def test_every_rung_stands_on_another_that_is_there():
    names = [rung.name for rung in floor.LADDER]
    assert all(rung.over in names for rung in floor.LADDER if rung.over)
    assert all(rung.scenario in scenario.names() for rung in floor.LADDER)


@pytest.mark.parametrize("ratios, reached, words", [
    ((1.4, 1.4, 1.4), True, "1.400 [1.400, 1.400]  at most 1.6: met"),
    ((1.4, 1.5, 1.9), True, "met by the median, not for sure"),
    ((1.4, 1.7, 1.9), False, "MISSED by the median, not for sure"),
    ((1.7, 1.8, 1.9), False, "at most 1.6: MISSED"),
])
def test_a_figure_is_reached_by_the_median_and_its_interval_is_said(capsys, ratios, reached, words):
    found = [{"static": 2.0, "json": 2.0 * ratio} for ratio in ratios]
    assert floor._say(JSON, found) is reached
    said = " ".join(capsys.readouterr().out.split())
    assert said.endswith(" ".join(words.split()))


def test_a_round_counts_only_where_both_are_valid(capsys):
    found = [{"static": 1.0, "json": 1.2}, {"json": 9.0}, {"static": 5.0}]
    assert floor._say(JSON, found)
    assert "1.200" in capsys.readouterr().out


def test_no_valid_round_reaches_nothing(capsys):
    assert not floor._say(JSON, [{"static": 1.0}]) and not floor._say(STATIC, [{"json": 1.0}])
    assert "no valid round" in capsys.readouterr().out
