"""The lab's test of itself, in short: a slowdown so large that no neighbour on the machine can hide it."""
import random

import pytest
import reports

from lab import scenario, self_test
from lab.bench import Bench


@pytest.fixture(scope="module")
def test_of_echo(build):
    with Bench(build) as bench:
        test = self_test.SelfTest(bench, scenario.load("echo"))
        test.item.load.seconds, test.item.load.warm_up = 1, 0.2
        yield test


def test_an_injected_slowdown_is_found(test_of_echo, capsys, monkeypatch):
    monkeypatch.setattr(self_test, "TOLERANCE", 0.5)
    assert test_of_echo.finds(2.0, 3, random.Random(1)), capsys.readouterr().out
    assert "% more found by 3 pairs" in capsys.readouterr().out


def pairs(ratio):
    slots = reports.slots(ratio=ratio)
    return [(b["metrics"] | {"retained_bytes": 2 << 20}, a["metrics"]) for a, b in zip(slots[::2], slots[1:12:2])]


def test_a_difference_that_is_none_is_not_claimed(capsys):
    ok, compared = self_test._same("echo", pairs(1.005))
    assert ok and compared == 9 and "CPU per request 1.005" in capsys.readouterr().out


def test_a_difference_between_equals_fails(capsys):
    assert not self_test._same("echo", pairs(1.1))[0]
    assert "worse" in capsys.readouterr().out


def test_no_valid_pair_is_no_proof():
    assert self_test._same("echo", []) == (False, 0)
    assert not self_test._slower([], 0.05)


@pytest.mark.parametrize("ratio, found", [(1.05, True), (1.065, True), (1.02, False), (1.2, False)])
def test_an_injection_counts_only_at_its_size(ratio, found):
    assert self_test._slower(pairs(ratio), 0.05) is found
