"""Is the lab to be believed? Two questions, each with an answer that is known:

A/A: the same program in both arms, in some scenarios, on every metric that is sampled. A verdict of better
or worse would be false. How wide the intervals are is the noise floor of this machine today.
Injected: one arm of the yardstick burns a known share more CPU per request. The lab has to say
worse, and by how much."""

import random
import sys
from dataclasses import replace

from . import compare, metrics, plan, scenario, stats
from .arm import MALLOC, YARDSTICK
from .bench import Bench
from .slot import run_alone

SCENARIOS = ("echo", "transform", "json")
METRICS = [metric for metric in metrics.ALL if not metric.counted]
INJECTED = 0.05  # of what a request costs
TOLERANCE = 0.02  # on the size that is found


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

    def slot(self, arm, pair=None):
        print(f"  {self.item.name}: {arm.name}", file=sys.stderr)
        self.slots.append(run_alone(self.bench, self.item, arm,
                                    {"block": None, "pair": pair, "repeat": False}))
        return self.slots[-1]

    def pairs(self, arms, pairs, rng):
        """[(second arm's metrics, first arm's metrics), ...] of valid pairs, ordered as in compare."""
        found = {}
        for block in range((pairs + 1) // 2):
            for arm, pair in plan.block(rng, 2 * block, min(2, pairs - 2 * block), block, [], arms):
                found.setdefault(pair, {})[arm.name] = self.slot(arm, pair)
        return [(pair[arms[1].name]["metrics"], pair[arms[0].name]["metrics"]) for pair in found.values()
                if all(slot["valid"] for slot in pair.values())]

    def finds(self, share, pairs, rng):
        """Whether an arm that takes `share` more CPU is found, with its size."""
        costs = [self.slot(YARDSTICK)["metrics"].get("cpu_us_per_request", 0) for _ in range(2)]
        burn = min(costs) * 1000 * share
        slow = replace(YARDSTICK, name="plain-slow", flags=("--burn", str(round(burn))))
        return _slower(self.pairs((YARDSTICK, slow), pairs, rng), share)


def _compare(pairs, metric):
    return stats.compare([(a.get(metric.name), b.get(metric.name)) for a, b in pairs], metric.margin,
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


def _slower(pairs, share):
    ratio = _compare(pairs, metrics.BY_NAME["cpu_us_per_request"])
    seen = (ratio is not None and ratio["verdict"] == "worse" and
            abs(ratio["median"] - 1 - share) <= TOLERANCE * (1 + share))
    _say("injected", metrics.BY_NAME["cpu_us_per_request"], ratio)
    print(f"injected: {share:.0%} more " + ("found" if seen else "NOT found"))
    return seen


def _say(test, metric, ratio):
    figures = "no valid pairs" if ratio is None else (
        f"{ratio['median']:.3f} [{ratio['lo']:.3f}, {ratio['hi']:.3f}] {ratio['verdict']}")
    print(f"{test}: {metric.label} {figures}")
