"""Is the lab to be believed? Two questions, each with an answer that is known:

A/A: the same program in both arms. A verdict of better or worse would be false.
Injected: one arm of the yardstick burns a known share more CPU per request. The lab has to say
worse, and by how much."""

import random
import sys
from dataclasses import replace

from . import compare, metrics, plan, scenario, stats
from .arm import MALLOC, YARDSTICK
from .bench import Bench
from .slot import run_alone

METRICS = ("cpu_us_per_request", "peak_rss_bytes", "retained_bytes")
INJECTED = 0.05  # of what a request costs
TOLERANCE = 0.02  # on the size that is found


def run(build, pairs, seed):
    """Prints what it finds; the exit status."""
    rng = random.Random(seed)
    with Bench(build) as bench:
        test = SelfTest(bench, scenario.load("echo"))
        same = (replace(MALLOC, name="malloc-a"), replace(MALLOC, name="malloc-b"))
        ok = _same(test.pairs(same, pairs, rng))
        burn = test.cost_ns() * INJECTED
        slow = replace(YARDSTICK, name="plain-slow", flags=("--burn", str(round(burn))))
        ok &= _slower(test.pairs((YARDSTICK, slow), pairs, rng))
    for warning in compare.mark_noisy(test.slots):
        print(warning)
    print("the lab " + ("passes" if ok else "FAILS") + f" its self-test (seed {seed}, {pairs} pairs)")
    return 0 if ok else 1


class SelfTest:
    def __init__(self, bench, item):
        self.bench, self.item = bench, replace(item, idle=[0.1, 1])
        self.slots = []  # as dicts

    def slot(self, arm, pair=None):
        print(f"  {arm.name}", file=sys.stderr)
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

    def cost_ns(self):
        costs = [self.slot(YARDSTICK) for _ in range(2)]
        return min(slot["metrics"].get("cpu_us_per_request", 0) for slot in costs) * 1000


def _compare(pairs, name):
    metric = metrics.BY_NAME[name]
    return stats.compare([(a[name], b[name]) for a, b in pairs], metric.margin)


def _same(pairs):
    ok = True
    for name in METRICS:
        ratio = _compare(pairs, name)
        wrong = ratio is None or ratio["verdict"] in ("better", "worse")
        ok &= not wrong
        _say("A/A", name, ratio, "a difference where there is none" if wrong else "no difference claimed")
    return ok


def _slower(pairs):
    ratio = _compare(pairs, METRICS[0])
    seen = (ratio is not None and ratio["verdict"] == "worse" and
            abs(ratio["median"] - 1 - INJECTED) <= TOLERANCE)
    _say("injected", METRICS[0], ratio, f"{INJECTED:.0%} more " + ("found" if seen else "NOT found"))
    return seen


def _say(test, name, ratio, words):
    figures = "no valid pairs" if ratio is None else (
        f"{ratio['median']:.3f} [{ratio['lo']:.3f}, {ratio['hi']:.3f}] {ratio['verdict']}")
    print(f"{test}: {name} {figures}: {words}")
