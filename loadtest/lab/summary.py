"""From slots to what a report says of a scenario. Works on the dicts of report.json alone."""

from . import metrics, stats
from .arm import ALL, MALLOCS

VERDICTS = ("better", "worse", "equivalent", "inconclusive", "client-bound")


def scenario(definition, slots, counted):
    """`definition`: Scenario; `slots`: as Slot.report() gives them; `counted`: arm -> Counting.run()."""
    of_use = used(slots)
    arms = {}
    for slot in sorted(of_use, key=lambda slot: list(ALL).index(slot["arm"])):
        arms.setdefault(slot["arm"], []).append(slot)
    for arm, slots_of_arm in arms.items():
        for slot in slots_of_arm:
            calls = counted.get(arm, {}).get("calls")
            slot["metrics"]["malloc_calls_per_request"] = (
                calls["allocations"] + calls["reallocations"] if calls else None)
    result = {
        "name": definition.name, "title": definition.title, "about": definition.about,
        "expected": definition.expected, "why": definition.why, "primary": definition.primary,
        "connections": definition.load.connections, "client": definition.load.client,
        "of": definition.of, "rate": definition.load.rate, "idle": definition.idle,
        "request_bytes": definition.body_bytes(),
        "arms": {arm: medians(of_arm) for arm, of_arm in arms.items()},
        "ratio": ratios(_pairs(of_use)),
        "others": {arm.name: {"over": arm.over, "about": arm.about,
                              "ratio": ratios(_against(of_use, arm.over, arm.name))}
                   for name, arm in ALL.items() if arm.over and name in arms},
        "open": {arm: _open(of_arm, definition.load.connections) for arm, of_arm in arms.items()
                 if definition.load.hold},
        "counted": counted,
        "invalid": sum(not slot["valid"] for slot in slots),
        "noisy": sum(slot.get("noisy", False) for slot in slots),
        "slots": slots,
    }
    result["outcome"] = outcome(result)
    return result


def unit(slot):
    """What is run, and run again, together: a pair, or the slot of another arm in a block."""
    return slot["block"], slot["pair"], slot["arm"] if slot["pair"] is None else None


def used(slots):
    """Those that count: of each unit the last run of which every slot is valid. What a second run
    has replaced does not, nor does one half of a pair whose other half is invalid."""
    last = {}
    for (of, _), run in _runs(slots).items():
        if all(slot["valid"] for slot in run):
            last[of] = run
    return [slot for run in last.values() for slot in run]


def _runs(slots):
    """(unit, whether it is the second run) -> its slots, the first runs first."""
    runs = {}
    for slot in sorted(slots, key=lambda slot: slot["repeat"]):
        runs.setdefault((unit(slot), slot["repeat"]), []).append(slot)
    return runs


def fate(slot, slots):
    """In words, what became of the unit of an invalid slot, which is one of `slots`."""
    if slot["repeat"]:
        return "stayed invalid: not used"
    again = _runs(slots).get((unit(slot), True))
    if not again:
        return "not used"
    return ("run again, and that one counts" if all(other["valid"] for other in again)
            else "run again, and stayed invalid: not used")


def _open(slots, connections):
    """What each open connection holds, and of which layers it is made; medians over slots."""
    looks = [slot["open"] for slot in slots if slot.get("open")]
    return {name: stats.median([look[name] / connections for look in looks])
            for name in looks[0]} if looks else {}


def medians(slots):
    result = {}
    for metric in metrics.ALL:
        values = [slot["metrics"][metric.name] for slot in slots
                  if slot["metrics"].get(metric.name) is not None]
        result[metric.name] = stats.median(values) if values else None
    return result


def _pairs(slots):
    """[(arena slot's metrics, malloc slot's metrics), ...] with a note where the client was the limit."""
    by_pair = {}
    for slot in slots:
        if slot["pair"] is not None:
            by_pair.setdefault(slot["pair"], {})[slot["arm"]] = slot
    return [(pair["arena"], pair["malloc"]) for _, pair in sorted(by_pair.items()) if len(pair) == 2]


def _against(slots, arm, base):
    """Per block: the mean of the arm's slots over that of the base's."""
    result = []
    for number in sorted({slot["block"] for slot in slots}):
        of_arm = [s for s in slots if s["block"] == number and s["arm"] == arm]
        of_base = [s for s in slots if s["block"] == number and s["arm"] == base]
        if of_arm and of_base:
            result.append((_mean(of_arm), _mean(of_base)))
    return result


def _mean(slots):
    mean = {}
    for metric in metrics.ALL:
        values = [slot["metrics"].get(metric.name) for slot in slots]
        mean[metric.name] = sum(values) / len(values) if None not in values else None
    return {"metrics": mean, "client_bound": any(slot["client_bound"] for slot in slots)}


def ratios(pairs):
    result = {}
    limited = sum(a["client_bound"] or b["client_bound"] for a, b in pairs)
    for metric in metrics.ALL:
        values = [metrics.of_pair(metric, a["metrics"], b["metrics"]) for a, b in pairs]
        ratio = stats.compare(values, metric.margin, metric.higher_is_better, metric.counted)
        if ratio is None:
            continue
        if metric.counted:
            ratio |= {"counted": True, "n": 1, "confidence": 1}
        if metric.by_client and 2 * limited > len(pairs):
            ratio["verdict"] = "client-bound"
        result[metric.name] = ratio
    return result


def outcome(result):
    """Who won on the primary metrics: "arena", "malloc", "equivalent", "mixed" or "inconclusive"."""
    verdicts = {result["ratio"].get(name, {}).get("verdict", "inconclusive")
                for name in result["primary"]}
    if {"better", "worse"} <= verdicts:
        return "mixed"
    for verdict, name in (("better", "arena"), ("worse", "malloc"), ("inconclusive", "inconclusive")):
        if verdict in verdicts:
            return name
    return "equivalent"


def at_rates(report, item):
    """The items of a report that are `item` at a constant rate, the lowest first."""
    return sorted((other for other in report["scenarios"] if other.get("of") == item["name"]),
                  key=lambda other: other["rate"])


OVERVIEW = (("cpu_us_per_request", "CPU"), ("peak_rss_bytes", "peak"), ("retained_bytes", "retained"))


def overview(report):
    """(mallocs that the arena was held against in most scenarios, [(item, {arm: {metric: ratio}})])"""
    items = [item for item in report["scenarios"] if not item.get("of")]
    against = ["malloc"] + [arm.name for arm in MALLOCS
                            if 2 * sum(arm.name in item["others"] for item in items) > len(items)]
    return against, [(item, {arm: item["ratio"] if arm == "malloc" else
                             item["others"].get(arm, {}).get("ratio", {}) for arm in against})
                     for item in items]


def tally(report):
    """verdict -> [(scenario, metric), ...] over the whole report."""
    result = {verdict: [] for verdict in VERDICTS}
    for item in report["scenarios"]:
        for metric, ratio in item["ratio"].items():
            result[ratio["verdict"]].append((item, metric))
    return result
