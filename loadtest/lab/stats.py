"""From pairs of slots to a verdict.

The unit is the slot, never the single request. Two slots that ran next to each other are a pair;
its ratio cancels what both suffered. The interval of the median is the exact one from order
statistics: it assumes nothing about the distribution. With n pairs the k-th smallest and k-th
largest ratio enclose the median with probability 1 - 2 P(Binomial(n, 1/2) < k)."""

import math
from dataclasses import dataclass

CONFIDENCE = 0.95
LEAST_CONFIDENCE = 0.75  # three pairs: an interval that is less sure decides nothing


def median(values):
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def coverage(n, k):
    """How surely the k-th smallest and k-th largest of n enclose the median."""
    return 1 - 2 * sum(math.comb(n, i) for i in range(k)) / 2**n


def interval(values):
    """(lo, hi, confidence): the narrowest symmetric order-statistic interval of the median that is
    at least 95 % sure; below six values even the whole range is less sure, and says so."""
    ordered = sorted(values)
    n = len(ordered)
    k = 1
    while k < n // 2 and coverage(n, k + 1) >= CONFIDENCE:
        k += 1
    return ordered[k - 1], ordered[n - k], coverage(n, k)


@dataclass(frozen=True)
class Margin:
    """What counts as no difference: within `ratio` of 1, or closer than `absolute` in the unit of the
    metric. Values below `floor` are not resolved, and are raised to it before dividing."""

    ratio: float
    absolute: float = 0
    floor: float = 0


def compare(pairs, margin, higher_is_better=False, exact=False):
    """`pairs` of (value, base) -> {"median", "lo", "hi", "confidence", "n", "verdict"} of value/base,
    or None where there is nothing to compare. Fewer than three pairs prove nothing, unless they are
    `exact`."""
    pairs = [(v, b) for v, b in pairs if v is not None and b is not None]
    raised = [(max(v, margin.floor), max(b, margin.floor)) for v, b in pairs]
    if not pairs or any(v <= 0 or b <= 0 for v, b in raised):
        return None
    logs = [math.log(v / b) for v, b in raised]
    lo, hi, confidence = interval(logs)
    result = {"median": math.exp(median(logs)), "lo": math.exp(lo), "hi": math.exp(hi),
              "confidence": confidence, "n": len(pairs)}
    differences = interval([v - b for v, b in pairs])
    close = max(abs(differences[0]), abs(differences[1])) < margin.absolute
    if confidence < LEAST_CONFIDENCE and not exact:
        result["verdict"] = "inconclusive"
    else:
        result["verdict"] = verdict(result["lo"], result["hi"], margin.ratio, close, higher_is_better)
    return result


def verdict(lo, hi, margin, close, higher_is_better):
    """The word for an interval of ratios. `close`: they differ by less than matters."""
    if close or (lo > 1 - margin and hi < 1 + margin):
        return "equivalent"
    if hi <= 1 - margin:
        return "worse" if higher_is_better else "better"
    if lo >= 1 + margin:
        return "better" if higher_is_better else "worse"
    return "inconclusive"
