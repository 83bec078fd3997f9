"""Is the lab to be believed? Two questions, each with an answer that is known:

A/A: the same program in both arms, in some scenarios, on every metric that is sampled. A verdict of better
or worse would be false. How wide the intervals are is the noise floor of this machine today.
Injected: one arm of the yardstick burns a known share more CPU per request. The lab has to say
worse, and by how much."""

import random
import sys
import time
from dataclasses import replace

from . import compare, metrics, scenario, stats
from .arm import MALLOC, YARDSTICK
from .bench import Bench
from .slot import run_all

SCENARIOS = ("echo", "transform", "json")
METRICS = [metric for metric in metrics.ALL if not metric.counted]
CPU = metrics.BY_NAME["cpu_us_per_request"]
INJECTED = 0.05  # of what a request costs
TOLERANCE = 0.02  # on the size that is found
MORE_SECONDS = 100  # for more pairs, where the machine is noisy, until the interval is that narrow


def run(build, pairs, seed):
    """Prints what it finds; the exit status."""
    rng = random.Random(seed)
    same = (replace(MALLOC, name="malloc-a"), replace(MALLOC, name="malloc-b"))
    ok, compared, slots = True, 0, []
    with Bench(build) as bench:
        for name in SCENARIOS:
            test = SelfTest(bench, scenario.load(name))
            sound, n = _same(name, test.pairs(same, pairs, rng))
            ok, compared, slots = ok and sound, compared + n, slots + test.slots
        print(f"A/A: {compared} comparisons, " + ("no difference claimed" if ok else "A DIFFERENCE CLAIMED"))
        test = SelfTest(bench, scenario.load(SCENARIOS[0]))
        ok &= test.finds(INJECTED, pairs, rng)
    for warning in compare.mark_noisy(slots + test.slots):
        print(warning)
    print("the lab " + ("passes" if ok else "FAILS") + f" its self-test (seed {seed}, {pairs} pairs)")
    return 0 if ok else 1


class SelfTest:
    def __init__(self, bench, item):
        self.bench, self.item = bench, replace(item, idle=[0.1, 1])
        self.slots = []  # as dicts

    def run(self, arms, pair=None):
        """arm's name -> slot"""
        print(f"  {self.item.name}: {' and '.join(arm.name for arm in arms)}", file=sys.stderr)
        slots = run_all(self.bench, self.item, arms, {"block": None, "pair": pair, "repeat": False})
        self.slots += slots
        return {slot["arm"]: slot for slot in slots}

    def pairs(self, arms, pairs, rng):
        """[(second arm's metrics, first arm's metrics), ...] of valid pairs, run as in compare."""
        found = []
        for pair in range(pairs):
            for _ in range(2):  # an invalid pair is run once more
                slots = self.run(rng.sample(arms, 2), pair)
                if all(slot["valid"] for slot in slots.values()):
                    found.append((slots[arms[1].name]["metrics"], slots[arms[0].name]["metrics"]))
                    break
        return found

    def finds(self, share, pairs, rng):
        """Whether an arm that takes about `share` more CPU is found, with its size."""
        costs = [self.run([YARDSTICK])["plain"]["metrics"].get(CPU.name, 0) for _ in range(2)]
        burn = round(sum(costs) / 2 * 1000 * share)  # ns
        arms = (YARDSTICK, replace(YARDSTICK, name="plain-slow", flags=("--burn", str(burn))))
        found, end = self.pairs(arms, pairs, rng), time.monotonic() + MORE_SECONDS
        while not _is_narrow(_compare(found, CPU)) and time.monotonic() < end:
            found += self.pairs(arms, 1, rng)
        # What it was in truth: the machine may have become faster or slower since.
        return _slower(found, burn / 1000 / stats.median([base[CPU.name] for _, base in found]) if found else share)


def _compare(pairs, metric):
    return stats.compare([metrics.of_pair(metric, a, b) for a, b in pairs], metric.margin,
                         metric.higher_is_better)


def _same(name, pairs):
    """(whether no difference is claimed, how many comparisons there were)"""
    ok, compared = bool(pairs), 0
    for metric in METRICS:
        ratio = _compare(pairs, metric)
        if ratio:
            compared += 1
            ok &= ratio["verdict"] not in ("better", "worse")
            _say(f"A/A, {name}", metric, ratio)
    return ok, compared


def _is_narrow(ratio):
    return ratio is not None and ratio["hi"] - ratio["lo"] <= 2 * TOLERANCE


def _slower(pairs, share):
    ratio = _compare(pairs, CPU)
    seen = (ratio is not None and ratio["verdict"] == "worse" and
            abs(ratio["median"] - 1 - share) <= TOLERANCE * (1 + share))
    _say("injected", CPU, ratio)
    print(f"injected: {100 * share:.1f} % more " + (f"found by {len(pairs)} pairs" if seen else
                                                   f"NOT found by {len(pairs)} pairs"))
    return seen


def _say(test, metric, ratio):
    figures = "no valid pairs" if ratio is None else (
        f"{ratio['median']:.3f} [{ratio['lo']:.3f}, {ratio['hi']:.3f}] {ratio['verdict']}")
    print(f"{test}: {metric.label} {figures}")
