"""A whole run: every scenario, every arm, then the report."""

import time

from . import environment, gates, plan, summary
from .arm import ARENA, MALLOC, YARDSTICK
from .bench import Bench
from .counting import Counting, layers
from .progress import Progress
from .slot import Slot

COUNTING_SECONDS = 1.5
LAST_SECONDS = 5  # of silence, after the last slot


class Run:
    def __init__(self, bench, scenarios, pairs, seed):
        self.bench, self.scenarios = bench, scenarios
        self.steps = list(plan.blocks(scenarios, pairs, seed))
        self.slots = {scenario.name: [] for scenario in scenarios}  # Slot, in order
        self.counted = {scenario.name: {} for scenario in scenarios}
        self.progress = Progress()
        self._to_do = [scenario.name for _, scenario, _, _ in self.steps]  # for the estimate alone
        self._seconds = {s.name: 1.2 + s.load.warm_up + s.load.seconds for s in scenarios}
        self._counting_left = sum(len(self._counting_arms(s)) for s in scenarios)

    def run(self):
        for block, scenario, arm, pair in self.steps:
            self._slot(scenario, arm, {"block": block, "pair": pair, "repeat": False})
        self._finish_all()
        self._repeat_invalid()
        for scenario in self.scenarios:
            for arm in self._counting_arms(scenario):
                self._count(scenario, arm)
        self.progress.end()

    @staticmethod
    def _counting_arms(scenario):
        return [MALLOC, ARENA] + [YARDSTICK] * scenario.yardstick

    def _left(self):
        """Seconds to the end, by what a slot of each scenario took so far."""
        return (sum(self._seconds[name] for name in self._to_do) + LAST_SECONDS +
                self._counting_left * COUNTING_SECONDS)

    def _slot(self, scenario, arm, place):
        again = " again" if place["repeat"] else ""
        self.progress.step(f"block {place['block'] + 1}, {scenario.name}: {arm.name}{again}",
                           self._left())
        start = time.monotonic()
        self._between_slots()
        slot = Slot(self.bench, scenario, arm, place)
        self.slots[scenario.name].append(slot)
        slot.run()
        self._seconds[scenario.name] = (self._seconds[scenario.name] + time.monotonic() - start) / 2
        self._to_do.remove(scenario.name)

    def _count(self, scenario, arm):
        self.progress.step(f"{scenario.name}: counting, {arm.name}", self._left())
        self.counted[scenario.name][arm.name] = Counting(self.bench, scenario, arm).run()
        self._counting_left -= 1

    def _between_slots(self):
        """Nothing is being measured: the time to ask and stop servers that have idled enough."""
        for slots in self.slots.values():
            for slot in slots:
                if slot.server and slot.ready():
                    slot.finish()

    def _finish_all(self):
        for slots in self.slots.values():
            for slot in slots:
                while slot.server and not slot.ready():
                    self.bench.watches.pause(0.05)
                slot.finish()

    def _repeat_invalid(self):
        """Once. Of a pair both are run again: only neighbours make a pair."""
        for scenario in self.scenarios:
            done = list(self.slots[scenario.name])
            bad = {self._unit(slot) for slot in done if not gates.verdict(slot.gates)[0]}
            again = [slot for slot in done if self._unit(slot) in bad]
            self._to_do += [scenario.name] * len(again)
            for slot in again:
                self._slot(scenario, slot.arm, slot.place | {"repeat": True})
        self._finish_all()

    @staticmethod
    def _unit(slot):
        """What is run again together."""
        pair = slot.place["pair"]
        return slot.place["block"], pair, slot.arm.name if pair is None else None


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


def compare(build, scenarios, pairs, seed, argv):
    """Runs it all; the report as a dict (report.json)."""
    started = time.time()
    with Bench(build) as bench:
        about = environment.describe(bench)
        run = Run(bench, scenarios, pairs, seed)
        run.run()
        slots = {name: [slot.report() for slot in of] for name, of in run.slots.items()}
        versions = {slot.arm.name: slot.version for of in run.slots.values() for slot in of
                    if slot.version}
    warnings = environment.warnings(about) + mark_noisy([s for of in slots.values() for s in of])
    for of in slots.values():
        for slot in of:
            memory = slot.pop("memory", None)
            slot["holders"] = layers(memory, slot["idle"][-1]["anonymous"]) if memory else None
    return {
        "schema": 1, "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
        "seconds": round(time.time() - started, 1), "command": argv, "seed": seed, "pairs": pairs,
        "environment": about | {"versions": versions, "warnings": warnings},
        "scenarios": [summary.scenario(s, slots[s.name], run.counted[s.name]) for s in scenarios],
    }
