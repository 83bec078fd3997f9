"""Two reports side by side: what has changed, scenario by scenario and arm by arm. The slots of two
runs are no pairs, so that the interval is that of Mann and Whitney: of all ratios between a slot of
the one and a slot of the other, those that their order says could be the true one."""

import math
import re
from dataclasses import dataclass
from functools import lru_cache

from . import metrics, report_text, stats, summary

SAME = ("cpu", "processors", "kernel", "libc", "transparent_hugepages", "build")  # or a ratio is of machines
CONTROL = "plain"  # a program that is the same in both: what it shows is the machine


class DiffError(Exception):
    pass


@lru_cache(maxsize=None)
def _ways(n, m, u):
    """In how many orders of n and m values the first exceed the second u times."""
    if u < 0 or u > n * m:
        return 0
    if n == 0 or m == 0:
        return int(u == 0)
    return _ways(n - 1, m, u - m) + _ways(n, m - 1, u)


def interval(new, old):
    """(median, lo, hi, confidence) of the factor between two samples: 95 % sure at least, or as sure
    as so few slots can be."""
    logs = sorted(math.log(a / b) for a in new for b in old)
    n, m = len(new), len(old)
    orders = math.comb(n + m, n)
    below, k = _ways(n, m, 0), 0  # of the orders with U <= k
    while 1 - 2 * (below + _ways(n, m, k + 1)) / orders >= stats.CONFIDENCE:
        k += 1
        below += _ways(n, m, k)
    return (math.exp(stats.median(logs)), math.exp(logs[k]), math.exp(logs[-1 - k]),
            max(0.0, 1 - 2 * below / orders))


@dataclass(frozen=True)
class Row:
    scenario: str
    arm: str
    metric: metrics.Metric
    old: float  # medians, as they are: only a ratio raises what is not resolved
    new: float
    ratio: dict  # as stats.compare gives it


def _values(slots, arm, metric):
    return [slot["metrics"][metric.name] for slot in slots
            if slot["arm"] == arm and slot["metrics"].get(metric.name) is not None]


def rows(old, new):
    before = {item["name"]: item for item in old["scenarios"]}
    for item in new["scenarios"]:
        was = before.get(item["name"])
        if not was:
            continue
        now_used, then_used = summary.used(item["slots"]), summary.used(was["slots"])
        for arm in item["arms"]:
            for metric in metrics.ALL:
                a, b = _values(now_used, arm, metric), _values(then_used, arm, metric)
                if a and b and max(min(a + b), metric.margin.floor) > 0:
                    yield Row(item["name"], arm, metric, stats.median(b), stats.median(a),
                              _compare(a, b, metric))


def _compare(new, old, metric):
    median, lo, hi, confidence = interval(*([max(value, metric.margin.floor) for value in values]
                                            for values in (new, old)))
    close = abs(stats.median(new) - stats.median(old)) < metric.margin.absolute
    if metric.counted:
        lo, hi, confidence = median, median, 1
    known = confidence >= stats.LEAST_CONFIDENCE
    return {"median": median, "lo": lo, "hi": hi, "confidence": confidence, "n": min(len(new), len(old)),
            "verdict": stats.verdict(lo, hi, metric.margin.ratio, close, metric.higher_is_better)
            if known else "inconclusive"}


@dataclass(frozen=True)
class Condition:
    """`[SCENARIO:][ARM:]METRIC>FACTOR`: true of a row when the factor is passed, and for sure not 1."""

    text: str
    scenario: str | None
    arm: str | None
    metric: str
    above: bool
    factor: float

    @staticmethod
    def parse(text, arms):
        found = re.fullmatch(r"(?:([^:<>]+):)?(?:([^:<>]+):)?(\w+)\s*([<>])\s*([0-9.]+)", text.strip())
        factor = _number(found[5]) if found else None
        if not found or factor is None or found[3] not in metrics.BY_NAME:
            raise DiffError(f"{text!r}: a condition is [SCENARIO:][ARM:]METRIC>FACTOR or <, as in "
                            f"cpu_us_per_request>1.05; metrics are {', '.join(metrics.BY_NAME)}")
        scenario, arm = found[1], found[2]
        if arm is None and scenario in arms:
            scenario, arm = None, scenario
        return Condition(text, scenario, arm, found[3], found[4] == ">", factor)

    def holds(self, row):
        if (row.metric.name != self.metric or self.scenario not in (None, row.scenario) or
                self.arm not in (None, row.arm) or not row.ratio["confidence"]):
            return False
        ratio = row.ratio
        if self.above:
            return ratio["median"] > self.factor and ratio["lo"] > 1
        return ratio["median"] < self.factor and ratio["hi"] < 1

    def applies(self, found):
        return any(row.metric.name == self.metric and self.scenario in (None, row.scenario) and
                   self.arm in (None, row.arm) for row in found)


def _number(text):
    try:
        return float(text)
    except ValueError:
        return None


def render(old, new, conditions):
    """(text, whether a condition holds)"""
    found = list(rows(old, new))
    if not found:
        raise DiffError("the two reports have no scenario and arm in common")
    for condition in conditions:
        if not condition.applies(found):
            raise DiffError(f"{condition.text!r} speaks of nothing that both reports have")
    lines = [f"{new['environment'].get('revision')} over {old['environment'].get('revision')}, "
             f"{new['made'][:10]} over {old['made'][:10]}"]
    lines += [f"WARNING: {said}" for said in other_machine(old, new)]
    broken = {id(row): c.text for row in found for c in conditions if c.holds(row)}
    table = [("", "old", "new", "new / old", "", "")]
    last = None
    asked = {item["name"]: item["primary"] for item in new["scenarios"]}
    shown = [row for row in found if row.ratio["verdict"] != "equivalent" or id(row) in broken or
             row.metric.name in asked[row.scenario]]
    for row in shown:
        if (row.scenario, row.arm) != last:
            last = row.scenario, row.arm
            table.append((f"{row.scenario}, {row.arm}", *[""] * 5))
        table.append((f"  {row.metric.label}", metrics.number(row.old, row.metric.unit),
                      metrics.number(row.new, row.metric.unit), report_text.ratio_text(row.ratio),
                      report_text.SIGNS[row.ratio["verdict"]],
                      f"FAILS {broken[id(row)]}" if id(row) in broken else ""))
    widths = [max(len(row[i]) for row in table) for i in range(4)]
    lines += [(row[0].ljust(widths[0]) + "  " + "  ".join(
        cell.rjust(width) for cell, width in zip(row[1:4], widths[1:])) + f"  {row[4]:7}{row[5]}").rstrip()
        for row in table]
    lines += ["", f"{len(found) - len(shown)} of {len(found)} comparisons are not shown: they are "
              "equivalent, and were not asked for before the run.",
              f"{_sure(found)} The slots of two runs are no pairs: whatever "
              f"changed on the machine is in a ratio too; {CONTROL}, where both have it, shows how much."]
    for condition in conditions:
        failed = sorted({f"{row.scenario}, {row.arm}" for row in found if condition.holds(row)})
        lines.append(f"{condition.text}: " + (f"FAILS for {'; '.join(failed)}" if failed else "holds nowhere"))
    return "\n".join(lines) + "\n", bool(broken)


def _sure(found):
    """How sure the intervals are, in a sentence or two."""
    sure = [row.ratio["confidence"] for row in found if not row.metric.counted]
    known = [confidence for confidence in sure if confidence > 0]
    said = [f"Intervals are at least {100 * min(known):.1f} % sure."] if known else []
    if len(known) < len(sure):
        said.append(f"{len(sure) - len(known)} of {len(found)} comparisons have one slot on each side, too "
                    "few for an interval: they prove nothing.")
    return " ".join(said) or "Nothing here was sampled, so there is no interval."


def other_machine(old, new):
    for name in SAME:
        was, now = old["environment"].get(name), new["environment"].get(name)
        if was != now:
            yield f"not the same {name.replace('_', ' ')}: {was} and {now}"
