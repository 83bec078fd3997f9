"""Two reports side by side."""
import copy
import itertools
import random

import pytest
import reports

from lab import diff
from lab.diff import Condition, DiffError

ARMS = {"malloc", "arena", "plain"}


def test_the_interval_is_that_of_mann_and_whitney():
    """Exact: of all orders of six and six values, those beyond it are 4.1 %."""
    median, lo, hi, confidence = diff.interval([2.0**i for i in range(6)], [1.0] * 6)
    assert confidence == pytest.approx(0.95887, abs=1e-5)
    assert (median, lo, hi) == pytest.approx((2**2.5, 1, 32))


@pytest.mark.parametrize("n, m", [(1, 1), (3, 3), (4, 6)])
def test_orders_are_counted_as_they_are(n, m):
    counts = {}
    for places in itertools.combinations(range(n + m), n):
        u = sum(other < place for place in places for other in set(range(n + m)) - set(places))
        counts[u] = counts.get(u, 0) + 1
    assert counts == {u: diff._ways(n, m, u) for u in range(n * m + 1)}


def test_the_interval_holds_the_true_factor_as_often_as_it_says():
    rng = random.Random(7)
    held = 0
    for _ in range(1000):
        new, old = ([factor * rng.lognormvariate(0, 0.1) for _ in range(6)] for factor in (1.3, 1))
        _, lo, hi, confidence = diff.interval(new, old)
        held += lo <= 1.3 <= hi
    assert held / 1000 == pytest.approx(confidence, abs=0.03)


def test_few_slots_say_how_unsure_they_are():
    assert diff.interval([1.0, 2.0], [1.0, 2.0])[3] == pytest.approx(1 - 2 / 6)


def test_one_slot_each_proves_nothing():
    old, new = both(2)
    for item in old["scenarios"] + new["scenarios"]:
        item["slots"] = item["slots"][:2]
    text, failed = diff.render(old, new, [Condition.parse("cpu_us_per_request>1.05", ARMS)])
    assert not failed and "WORSE" not in text


def both(factor, arm="arena", metric="cpu_us_per_request"):
    old = reports.report()
    new = copy.deepcopy(old)
    for item in new["scenarios"]:
        for slot in item["slots"]:
            if slot["arm"] == arm:
                slot["metrics"][metric] *= factor
    return old, new


@pytest.mark.parametrize("factor, condition, fails", [
    (1.2, "cpu_us_per_request>1.05", True),
    (1.2, "echo:arena:cpu_us_per_request > 1.05", True),
    (1.2, "arena:cpu_us_per_request>1.05", True),
    (1.2, "malloc:cpu_us_per_request>1.05", False),
    (1.2, "cpu_us_per_request>1.3", False),
    (1.2, "cpu_us_per_request<0.95", False),
    (0.8, "cpu_us_per_request<0.95", True),
    (1.04, "cpu_us_per_request>1.02", False),  # slots spread by more: it may be nothing
])
def test_a_gate(factor, condition, fails):
    old, new = both(factor)
    text, failed = diff.render(old, new, [Condition.parse(condition, ARMS)])
    assert failed is fails
    assert (f"{condition}: FAILS for " in text) is fails
    assert ("FAILS" in text) is fails


def test_changes_are_shown_with_their_verdict():
    text, _ = diff.render(*both(1.2), [])
    line = next(l for l in text.split("echo, arena")[1].splitlines() if "CPU per request" in l)
    assert "1.200 [" in line and "WORSE" in line
    assert "WORSE" not in text.split("echo, malloc")[1].split("echo, arena")[0]


def test_a_diff_counts_the_slots_that_the_table_counts():
    """A pair that was run again: its first run had a valid half, which counts nowhere."""
    slots = reports.slots(pairs=2)
    slots[0] |= {"metrics": slots[0]["metrics"] | {"cpu_us_per_request": 900.0}}
    slots[1] = reports.invalid(slots[1])
    slots += [reports.slot(arm, 0, repeat=True, cpu_us_per_request=100.0) for arm in ("malloc", "arena")]
    report = reports.report(echo=slots)
    table = report["scenarios"][0]["arms"]
    found = {(row.arm, row.metric.name): row.new for row in diff.rows(report, report) if row.scenario == "echo"}
    assert len(found) > 20
    for (arm, name), value in found.items():
        assert value == table[arm][name], (arm, name)


def test_what_is_not_resolved_is_shown_as_it_is_and_raised_in_the_ratio():
    old, new = both(2, metric="idle_cpu_us")
    row = next(row for row in diff.rows(old, new) if row.arm == "arena" and row.metric.name == "idle_cpu_us")
    assert (row.old, row.new, row.ratio["median"]) == (400, 800, pytest.approx(1))


def test_the_footer_says_what_is_known_of_the_intervals():
    assert "Intervals are at least 90.0 % sure." in diff.render(*both(1), [])[0]  # plain: three slots
    old, new = both(1)
    for item in old["scenarios"] + new["scenarios"]:
        item["slots"] = item["slots"][:2]
    text = diff.render(old, new, [])[0]
    assert "% sure" not in text and "have one slot on each side" in text


def test_another_machine_is_named():
    old, new = both(1)
    new["environment"]["kernel"] = "6.2"
    assert "WARNING: not the same kernel: 6.1 and 6.2" in diff.render(old, new, [])[0]


@pytest.mark.parametrize("text", ["", "cpu_us_per_request", "cpu>1", "cpu_us_per_request>x", "a:b:c:p50_us>1",
                                  "cpu_us_per_request>1.0.5"])
def test_what_is_no_condition_is_refused_with_those_that_are(text):
    with pytest.raises(DiffError, match="METRIC>FACTOR.*cpu_us_per_request"):
        Condition.parse(text, ARMS)


def test_a_gate_on_nothing_is_no_gate():
    with pytest.raises(DiffError, match="speaks of nothing"):
        diff.render(*both(1), [Condition.parse("get:p50_us>1.05", ARMS)])
    old, new = both(1)
    new["scenarios"] = []
    with pytest.raises(DiffError, match="no scenario"):
        diff.render(old, new, [])
