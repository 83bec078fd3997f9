"""A whole run: every scenario, every arm, then the report."""

import time

from . import environment, gates, plan, summary
from .arm import ARENA, MALLOC, STATIC, YARDSTICK
from .bench import Bench
from .counting import Counting
from .progress import Progress
from .slot import Slot

COUNTING_SECONDS = 1.5
START_SECONDS = 1.2  # of a slot, beside its load


def others(scenario, more=()):
    """The arms that join a scenario's pairs: the yardsticks, where they can do it, and `more`."""
    return [YARDSTICK] * scenario.yardstick + [STATIC] * scenario.baseline + list(more)


class Run:
    """Slots in the order of a plan, then the counting. `more(scenario)`: arms beside the pair."""

    def __init__(self, bench, scenarios, pairs, seed, more, progress):
        self.bench, self.scenarios, self.progress = bench, scenarios, progress
        self.steps = list(plan.blocks(scenarios, pairs, seed, lambda s: others(s, more(s))))
        self.slots = {scenario.name: [] for scenario in scenarios}  # as in report.json, as they end
        self.counted = {scenario.name: {} for scenario in scenarios}
        self.versions = {}  # arm -> what its server said of itself
        self._idling = []  # slots whose servers are still looked at
        self._number = 0
        self._counts = [(s, arm) for s in scenarios for arm in (MALLOC, ARENA) + (YARDSTICK,) * s.yardstick]
        self._to_do = [scenario.name for _, scenario, _, _ in self.steps]  # for the estimate alone
        self._seconds = {s.name: START_SECONDS + s.load.warm_up + s.load.seconds for s in scenarios}
        self._last_silence = max(s.idle[-1] for s in scenarios)

    def run(self):
        for block, scenario, arm, pair in self.steps:
            self._slot(scenario, arm, {"block": block, "pair": pair, "repeat": False})
        self._finish(all_of_them=True)
        self._repeat_invalid()
        while self._counts:
            self._count(*self._counts[0])
            self._counts.pop(0)
        for slots in self.slots.values():
            slots.sort(key=lambda slot: slot["number"])

    def _left(self):
        """Seconds to the end, by what a slot of each scenario took so far."""
        return (sum(self._seconds[name] for name in self._to_do) + self._last_silence +
                len(self._counts) * COUNTING_SECONDS)

    def _slot(self, scenario, arm, place):
        again = " again" if place["repeat"] else ""
        self.progress.step(f"block {place['block'] + 1}, {scenario.name}: {arm.name}{again}",
                           self._left())
        start = time.monotonic()
        self._finish()
        slot = Slot(self.bench, scenario, arm, place | {"number": self._number})
        self._number += 1
        slot.run()
        self._idling.append(slot)
        self._seconds[scenario.name] = (self._seconds[scenario.name] + time.monotonic() - start) / 2
        self._to_do.remove(scenario.name)

    def _count(self, scenario, arm):
        self.progress.step(f"{scenario.name}: counting, {arm.name}", self._left())
        self.counted[scenario.name][arm.name] = Counting(self.bench, scenario, arm).run()

    def _finish(self, all_of_them=False):
        """Nothing is being measured: the time to ask and stop servers that have idled enough."""
        for slot in self._idling:
            while all_of_them and not slot.ready():
                self.bench.watches.pause(0.05)
            if slot.ready():
                slot.finish()
                self.slots[slot.scenario.name].append(slot.report())
                self.versions.update({slot.arm.name: slot.version} if slot.version else {})
        self._idling = [slot for slot in self._idling if slot.server]

    def _repeat_invalid(self):
        """Once. Of a pair both are run again: only neighbours make a pair."""
        arms = {arm.name: arm for _, _, arm, _ in self.steps}
        for scenario in self.scenarios:
            done = sorted(self.slots[scenario.name], key=lambda slot: slot["number"])
            bad = {_unit(slot) for slot in done if not slot["valid"]}
            again = [slot for slot in done if _unit(slot) in bad]
            self._to_do += [scenario.name] * len(again)
            for slot in again:
                self._slot(scenario, arms[slot["arm"]],
                           {"block": slot["block"], "pair": slot["pair"], "repeat": True})
        self._finish(all_of_them=True)


def _unit(slot):
    """What is run again together."""
    return slot["block"], slot["pair"], slot["arm"] if slot["pair"] is None else None


def mark_noisy(slots):
    """`slots` of a whole run, as dicts. Noise is a flag, not a reason to drop: the median copes. The
    warnings that a reader needs."""
    probes = [ns for slot in slots for ns in slot.get("handover_ns", []) if ns]
    limit = gates.NOISY_HANDOVER * min(probes) if probes else float("inf")
    for slot in slots:
        slow = any(ns > limit for ns in slot.get("handover_ns", []) if ns)
        slot["noisy"] = slow or slot.get("others", 0) > gates.NOISY_OTHERS
    noisy = sum(slot["noisy"] for slot in slots)
    if 2 * noisy > len(slots):
        return [f"the machine was busy with something else, or slow, in {noisy} of {len(slots)} slots"]
    return []


def compare(build, scenarios, pairs, seed, argv, arms=()):
    """Runs it all; the report as a dict (report.json). `arms`: beside malloc, arena, plain."""
    started = time.time()
    progress = Progress()
    with Bench(build) as bench:
        about = environment.describe(bench)
        run = Run(bench, scenarios, pairs, seed, lambda _: arms, progress)
        run.run()
    progress.end()
    warnings = environment.warnings(about) + mark_noisy([s for of in run.slots.values() for s in of])
    return {
        "schema": 1, "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
        "seconds": round(time.time() - started, 1), "command": argv, "seed": seed, "pairs": pairs,
        "environment": about | {"versions": run.versions, "warnings": warnings},
        "scenarios": [summary.scenario(s, run.slots[s.name], run.counted[s.name]) for s in scenarios],
    }
