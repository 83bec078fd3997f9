"""A whole run: every scenario, every arm, then the report."""

import itertools
import time
from collections import Counter

from . import environment, gates, plan, scenario, stats, summary
from .arm import ARENA, MALLOC, STATIC, YARDSTICK
from .bench import Bench
from .counting import Counting
from .progress import Progress
from .slot import Slot, run_together

COUNTING_SECONDS = 1.5
START_SECONDS = 1.2  # of a slot, beside its load
RATES = (0.3, 0.6, 0.8)  # of what the slower arm can do


def others(item, more=()):
    """The arms that join a scenario's pairs: the yardsticks, where they can do it, and `more`."""
    return [YARDSTICK] * item.yardstick + [STATIC] * item.baseline + list(more)


class Run:
    """Slots in the order of a plan, and the counting. With a journal, what is in it is not run again."""

    def __init__(self, bench, progress, journal=None):
        self.bench, self.progress, self.journal = bench, progress, journal
        self.slots = {}  # scenario -> slots as in report.json
        self.counted = {}  # scenario -> arm -> as Counting.run() gives it
        self.versions = dict(journal.versions) if journal else {}  # arm -> what its server said of itself
        self._idling = []  # slots whose servers are still looked at
        self._to_do = []  # names of scenarios, a slot each: for the estimate alone
        self._seconds = {}
        self._later = 0  # seconds
        for (name, *_), slot in journal.slots.items() if journal else ():
            self.slots.setdefault(name, []).append(slot)
        for (name, arm), counted in journal.counted.items() if journal else ():
            self.counted.setdefault(name, {})[arm] = counted

    def measure(self, steps, later=0):
        """`steps` of a plan; those that stay invalid are run once more. `later`: what comes after,
        in seconds, as far as it is known."""
        steps, self._later = list(steps), later
        items = {item.name: item for _, item, _, _ in steps}
        for item in items.values():
            self._seconds[item.name] = START_SECONDS + item.load.warm_up + item.load.seconds
            self._later = max(self._later, later + item.idle[-1])
        left = self._not_done(steps)
        self._to_do = [item.name for _, item, _, _ in left]
        self._run([(item, arm, {"block": block, "pair": pair, "repeat": False}) for block, item, arm, pair in left])
        self._finish(all_of_them=True)
        self._repeat_invalid(items, {arm.name: arm for _, _, arm, _ in steps})
        for name in items:
            self.slots[name].sort(key=lambda slot: slot["number"])

    def _not_done(self, steps):
        """A scenario's block counts as done when all of it is: only neighbours can be compared."""
        due = {}
        for block, item, arm, pair in steps:
            due.setdefault((item.name, block), set()).add((arm.name, pair))
        left = set()
        for (name, block), arms in due.items():
            slots = self.slots.setdefault(name, [])
            if arms - {(slot["arm"], slot["pair"]) for slot in slots if slot["block"] == block}:
                self.slots[name] = [slot for slot in slots if slot["block"] != block]
                left.add((name, block))
        return [step for step in steps if (step[1].name, step[0]) in left]

    def count(self, items):
        left = [(item, arm) for item in items for arm in (MALLOC, ARENA) + (YARDSTICK,) * item.yardstick
                if arm.name not in self.counted.setdefault(item.name, {})]
        for i, (item, arm) in enumerate(left):
            self.progress.step(f"{item.name}: counting, {arm.name}", (len(left) - i) * COUNTING_SECONDS)
            counted = Counting(self.bench, item, arm).run()
            self.counted[item.name][arm.name] = counted
            if self.journal:
                self.journal.count(item.name, arm.name, counted)

    def _left(self):
        """Seconds to the end, by what a slot of each scenario took so far."""
        return sum(self._seconds[name] for name in self._to_do) + self._later

    def _run(self, steps):
        """`steps`: (scenario, arm, place), of which those of a pair stand together, and run together."""
        for _, unit in itertools.groupby(steps, lambda step: (step[0].name, summary.unit(
                step[2] | {"arm": step[1].name}))):
            unit = list(unit)
            item, _, place = unit[0]
            arms = " and ".join(arm.name for _, arm, _ in unit) + (" again" if place["repeat"] else "")
            self.progress.step(f"block {place['block'] + 1}, {item.name}: {arms}", self._left())
            start = time.monotonic()
            self._finish()
            number = 1 + len(self._idling) + max(
                (slot["number"] for slots in self.slots.values() for slot in slots), default=-1)
            slots = [Slot(self.bench, item, arm, place | {"number": number + i})
                     for i, (_, arm, place) in enumerate(unit)]
            run_together(slots)
            self._idling += slots
            took = (time.monotonic() - start) / len(unit)
            self._seconds[item.name] = (self._seconds[item.name] + took) / 2
            for _ in unit:
                self._to_do.remove(item.name)

    def _finish(self, all_of_them=False):
        """Nothing is being measured: the time to ask and stop servers that have idled enough."""
        for slot in self._idling:
            while all_of_them and not slot.ready():
                self.bench.watches.pause(0.05)
            if slot.ready():
                slot.finish()
                self._keep(slot.scenario.name, slot.report())
                if slot.version and slot.arm.name not in self.versions:
                    self.versions[slot.arm.name] = slot.version
                    if self.journal:
                        self.journal.version(slot.arm.name, slot.version)
        self._idling = [slot for slot in self._idling if slot.server]

    def _keep(self, name, slot):
        self.slots[name].append(slot)
        if self.journal:
            self.journal.slot(name, slot)

    def _repeat_invalid(self, items, arms):
        """Once. Of a pair both are run again: only neighbours make a pair."""
        for name, item in items.items():
            done = sorted(self.slots[name], key=lambda slot: slot["number"])
            runs = {again: Counter(summary.unit(slot) for slot in done if slot["repeat"] == again)
                    for again in (False, True)}
            repeated = {unit for unit, slots in runs[True].items() if slots >= runs[False][unit]}
            bad = {summary.unit(slot) for slot in done if not slot["valid"]} - repeated
            again = [slot for slot in done if summary.unit(slot) in bad]
            self._to_do += [name] * len(again)
            self._run([(item, arms[slot["arm"]], {"block": slot["block"], "pair": slot["pair"], "repeat": True})
                       for slot in again])
        self._finish(all_of_them=True)


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


def capacity(slots):
    """Requests per second of the slower arm, or None."""
    found = [[slot["metrics"]["requests_per_second"] for slot in summary.used(slots)
              if slot["arm"] == arm.name] for arm in (MALLOC, ARENA)]
    return min(map(stats.median, found)) if all(found) else None


def at_rates(items, slots):
    """The scenarios that are worth it, at shares of what the slower arm did in a closed loop."""
    able = {item.name: capacity(slots[item.name]) for item in items if item.rates}
    return [scenario.at_rate(item, share, round(share * able[item.name])) for item in items
            if able.get(item.name) for share in RATES]


def compare(build, items, pairs, seed, argv, arms=(), rates=False):
    """Runs it all; the report as a dict (report.json). `arms`: beside malloc, arena, plain."""
    started = time.time()
    progress = Progress()
    with Bench(build) as bench:
        about = environment.describe(bench)
        for item in items:
            if item.own:
                bench.try_out(item, (MALLOC, ARENA))
        run = Run(bench, progress)
        later = sum(COUNTING_SECONDS * (2 + item.yardstick) + (rates and item.rates) * rate_seconds(pairs)
                    for item in items)
        run.measure(plan.blocks(items, pairs, seed, lambda item: others(item, arms)), later)
        run.count(items)
        if rates:
            paced = at_rates(items, run.slots)
            run.measure(plan.blocks(paced, pairs, seed, others))
            items = items + paced
    progress.end()
    return report(run, items, argv, about, started, time.time() - started, seed, pairs)


def rate_seconds(pairs):
    """About how long a scenario takes at all rates."""
    return len(RATES) * 2 * pairs * (START_SECONDS + scenario.PACED_SECONDS)


def report(run, items, argv, about, started, seconds, seed, pairs):
    noisy = mark_noisy([slot for slots in run.slots.values() for slot in slots])
    return {
        "schema": 1, "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
        "seconds": round(seconds, 1), "command": argv, "seed": seed, "pairs": pairs,
        "environment": about | {"versions": run.versions,
                                "warnings": environment.warnings(about) + noisy},
        "scenarios": [summary.scenario(item, run.slots[item.name], run.counted.get(item.name, {}))
                      for item in items],
    }
