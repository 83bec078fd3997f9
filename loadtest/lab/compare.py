"""A whole run: every scenario, every arm, then the report."""

import time

from . import environment, gates, plan, summary
from .arm import ARENA, MALLOC, YARDSTICK
from .bench import Bench
from .counting import Counting, layers
from .progress import Progress
from .slot import Slot

COUNTING_SECONDS = 2.2


def estimate(scenario):
    """Seconds that a slot of it occupies the bench."""
    load = scenario.load
    return 0.9 + load.warm_up + load.seconds + (load.connections * load.requests / 600)


class Run:
    def __init__(self, bench, scenarios, pairs, seed):
        self.bench, self.scenarios = bench, scenarios
        self.steps = list(plan.blocks(scenarios, pairs, seed))
        self.slots = {scenario.name: [] for scenario in scenarios}  # Slot, in order
        self.counted = {scenario.name: {} for scenario in scenarios}
        arms = (MALLOC, ARENA, YARDSTICK)
        self.counting = [(scenario, arm) for scenario in scenarios for arm in arms]
        self.progress = Progress(sum(estimate(s) for _, s, _, _ in self.steps) +
                                 COUNTING_SECONDS * len(self.counting))

    def run(self):
        for block, scenario, arm, pair in self.steps:
            self._slot(scenario, arm, {"block": block, "pair": pair, "repeat": False})
        for scenario, arm in self.counting:
            self._between_slots()
            self.progress.step(f"{scenario.name}: counting, {arm.name}", COUNTING_SECONDS)
            self.counted[scenario.name][arm.name] = Counting(self.bench, scenario, arm).run()
        self._finish_all()
        self._repeat_invalid()
        self.progress.end()

    def _slot(self, scenario, arm, place):
        self._between_slots()
        again = " again" if place["repeat"] else ""
        self.progress.step(f"block {place['block'] + 1}, {scenario.name}: {arm.name}{again}",
                           estimate(scenario))
        slot = Slot(self.bench, scenario, arm, place)
        self.slots[scenario.name].append(slot)
        slot.run()

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
            done = self.slots[scenario.name]
            bad = [slot for slot in done if not gates.verdict(slot.gates)[0]]
            again = {(slot.place["block"], slot.place["pair"], None if slot.place["pair"] is not None
                      else slot.arm.name) for slot in bad}
            steps = [slot for slot in done if (slot.place["block"], slot.place["pair"],
                     None if slot.place["pair"] is not None else slot.arm.name) in again]
            self.progress.more(len(steps) * estimate(scenario))
            for slot in steps:
                self._slot(scenario, slot.arm, slot.place | {"repeat": True})
        self._finish_all()


def mark_noisy(slots):
    """`slots` of a whole run, as dicts. Noise is a flag, not a reason to drop: the median copes."""
    probes = [ns for slot in slots for ns in slot.get("handover_ns", []) if ns]
    limit = gates.NOISY_HANDOVER * min(probes) if probes else float("inf")
    for slot in slots:
        slow = any(ns > limit for ns in slot.get("handover_ns", []) if ns)
        slot["noisy"] = slow or slot.get("others", 0) > gates.NOISY_OTHERS


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
    mark_noisy([slot for of in slots.values() for slot in of])
    for of in slots.values():
        for slot in of:
            memory = slot.pop("memory", None)
            slot["holders"] = layers(memory, slot["idle"][-1]["anonymous"]) if memory else None
    return {
        "schema": 1, "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
        "seconds": round(time.time() - started, 1), "command": argv, "seed": seed, "pairs": pairs,
        "environment": about | {"versions": versions, "warnings": environment.warnings(about)},
        "scenarios": [summary.scenario(s, slots[s.name], run.counted[s.name]) for s in scenarios],
    }
