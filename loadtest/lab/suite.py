"""Every scenario with every arm that can tell something about it, in one run that can be interrupted.
Blocks of one pair, each mirrored by the next, so that the other arms have as many ratios as pairs."""

import time

from . import compare, environment, plan
from .arm import FACTORS, MORE
from .bench import Bench
from .journal import Journal
from .progress import Progress

LAST_LOOK = 30  # seconds after the load


def arms(item):
    """Beside the pair and the yardsticks."""
    names = ["jemalloc", "mimalloc", "tcmalloc"]
    if "retained_bytes" in item.primary:
        names += ["malloc-trim", "jemalloc-thread"]
    if item.threads > 1:
        names.append("malloc-1-arena")
    more = [MORE[name] for name in names] + list(FACTORS) * item.factors
    return [arm for arm in more if not arm.missing()]


def missing():
    """Packages without which some arms are left out."""
    return sorted({arm.missing() for arm in MORE.values() if arm.missing()})


def run(build, items, pairs, seed, argv, state):
    """The report as a dict; `state`: the journal's path."""
    progress = Progress()
    for item in items:
        item.idle = sorted({*item.idle, LAST_LOOK})
    with Bench(build) as bench:
        about = environment.describe(bench)
        journal = Journal(state, {name: about[name] for name in ("revision", "build", "kernel", "cpu", "wrk")} | {
            "programs": bench.digest(), "pairs": pairs, "scenarios": [item.name for item in items]}, seed)
        started = time.time() - journal.seconds_before
        measured = compare.Run(bench, progress, journal)

        def joined(item):
            return compare.others(item, arms(item))
        later = sum(compare.COUNTING_SECONDS * (2 + item.yardstick) +
                    item.rates * compare.rate_seconds(pairs) for item in items)
        measured.measure(plan.blocks(items, pairs, journal.seed, joined, at_once=1), later)
        measured.count(items)
        paced = compare.at_rates(items, measured.slots)
        measured.measure(plan.blocks(paced, pairs, journal.seed, compare.others))
        seconds = journal.seconds()
        journal.close()
    progress.end()
    report = compare.report(measured, items + paced, argv, about, started, seconds, journal.seed, pairs)
    report["environment"]["warnings"] += [f"Debian's {name} is not installed: its arms were left out"
                                          for name in missing()]
    return report
