"""Arena, pool or malloc for a route? First what its requests ask of malloc is counted, one request at a
time: how many pieces, of what sizes, how much at once, what stays; with --alloc malloc, and with the
arena, where only that is left which no arena takes over, like a store's own. From that follow a reason, a
choice and the sizes to set. Then the choice is measured against malloc, and the advice is told whether
it was right."""

import mmap
import random
import statistics
import struct
import sys
import time
from dataclasses import dataclass, replace

from . import counting, metrics, report_text, stats, swarm
from .arm import ARENA, MALLOC
from .bench import Bench
from .slot import run_all

WARM_UP, LOOKED_AT = 20, 40  # requests
SETTLE_SECONDS = 0.005  # for the end of a request
BYTES, LIVE, PEAK = range(len(counting.COUNTERS), len(counting.COUNTERS) + 3)
SIZES = PEAK + 1
SMALL_CLASSES = 3  # at most 64 bytes
FEW = 50  # allocations in a request, which cost it less than a microsecond or two
STAYS = 64  # bytes of a request
WASTEFUL = 4  # times what is live at once: then an arena would mostly hold what is dead
MEASURED = ("cpu_us_per_request", "peak_rss_bytes", "retained_bytes")
KIB = 1024
LEAST_BUDGET = 2048 * KIB  # twice the largest body that slate takes by default
LEAST_RETAIN = 64 * KIB


@dataclass(frozen=True)
class Profile:
    """What requests ask of malloc, a figure per request."""

    calls: float  # medians:
    bytes: float
    small: float  # share of the pieces that have at most 64 bytes
    at_once: float  # most bytes that one holds at the same time
    stays: float  # bytes that one leaves behind
    largest: float  # bytes, of the largest request


def profile(bench, item, arm):
    """Raises ServerError, or OSError."""
    path = bench.scratch("malloc-profile")
    open(path, "wb").close()
    server = bench.start_server(arm, item, [str(bench.build / "loadtest/malloc_count.so")],
                                MALLOC_COUNT_FILE=path)
    try:
        order = swarm.read_deck(bench.request_file(server, item))
        line = counting.Line(server, order, each_its_own=False)
        line.send(WARM_UP)
        with open(path, "r+b") as f, mmap.mmap(f.fileno(), struct.calcsize(counting.PAGE)) as page:
            looks = [_look(page, line) for _ in range(min(LOOKED_AT, item.load.counted))]
        line.close()
    finally:
        server.stop()
    middle = [statistics.median(values) for values in zip(*looks)]
    return Profile(*middle, largest=max(look[1] for look in looks))


def _look(page, line):
    """(calls, bytes, small, at once, stays) of one request."""
    time.sleep(SETTLE_SECONDS)
    before = list(struct.unpack(counting.PAGE, page))
    struct.pack_into("=Q", page, 8 * PEAK, before[LIVE])
    line.send(1)
    time.sleep(SETTLE_SECONDS)
    after = struct.unpack(counting.PAGE, page)
    made = [b - a for a, b in zip(before, after)]
    pieces = sum(made[SIZES:])
    return (made[0] + made[1], made[BYTES], sum(made[SIZES:SIZES + SMALL_CLASSES]) / max(1, pieces),
            max(0, after[PEAK] - before[LIVE]), max(0, made[LIVE]))


@dataclass(frozen=True)
class Advice:
    choice: str  # "arena", "malloc", "either"
    why: str
    budget: int = 0  # bytes
    retain: int = 0

    def flags(self):
        """As slate takes them."""
        return ("--request-memory", _size(self.budget), "--retain", _size(self.retain))


def advise(with_malloc, with_arena):
    """From two profiles to a choice. In this order: what stays, what it costs, what is wasted."""
    calls, size, at_once = (max(0, getattr(with_malloc, name) - getattr(with_arena, name))
                            for name in ("calls", "bytes", "at_once"))
    largest = max(0, with_malloc.largest - with_arena.largest)
    sizes = {"budget": _power(4 * largest, LEAST_BUDGET, 1 << 40),
             "retain": _power(2 * largest, LEAST_RETAIN, 64 << 20)}
    stays = with_malloc.stays - with_arena.stays
    times = size / max(1, at_once)
    if stays >= STAYS:
        return Advice("malloc", f"{metrics.size(stays)} of each request stays when it is over. What stays "
                      "must not be an arena's: malloc, or a pool if it is all of one size", **sizes)
    if calls < FEW:
        return Advice("either", f"an arena would take over {calls:.0f} calls of a request, too few to be "
                      "felt; it costs nothing, and gives back what it took", **sizes)
    if times > WASTEFUL:
        return Advice("malloc", f"{times:.1f} times as much is allocated as is ever live at once: an arena "
                      "would hold what is dead, unless a context below it is reset on the way", **sizes)
    return Advice("arena", f"it takes over {calls:.0f} calls, whose pieces die together, and holds at most "
                  f"{times:.1f} times of what is live at once", **sizes)


def _power(value, least, most):
    """The next power of two, within limits."""
    size = least
    while size < value and size < most:
        size *= 2
    return size


def _size(value):
    return f"{value >> 20}M" if value >= 1 << 20 else f"{value >> 10}K"


def right(choice, ratios):
    """What the measurement says of a choice."""
    cpu, peak, kept = (ratios.get(name, {}).get("verdict") for name in MEASURED)
    if choice == "arena":
        good, bad = cpu == "better", cpu in ("worse", "equivalent")
    elif choice == "malloc":
        good, bad = "worse" in (cpu, peak, kept), cpu == "better"
    else:
        good, bad = cpu == "equivalent", cpu in ("better", "worse")
    if good and choice == "arena" and "worse" in (peak, kept):
        return "right, at a price in memory"
    return "right" if good else "wrong" if bad else "not settled"


def run(build, items, pairs, seed):
    """Prints the advice for each scenario; the exit status, 1 where one was wrong."""
    rng, verdicts = random.Random(seed), []
    with Bench(build) as bench:
        for item in items:
            if item.own:
                bench.try_out(item, (MALLOC, ARENA))
            print(f"  {item.name}: counting", file=sys.stderr)
            found = [profile(bench, item, arm) for arm in (MALLOC, ARENA)]
            advice = advise(*found)
            print("\n".join(_said(item, *found, advice)), flush=True)
            ratios = _measure(bench, item, advice, pairs, rng)
            verdicts.append(right(advice.choice, ratios))
            print("\n".join(_measured(ratios, pairs, verdicts[-1])), flush=True)
    return 1 if "wrong" in verdicts else 0


def _measure(bench, item, advice, pairs, rng):
    """The arena as it is advised over malloc."""
    advised = replace(ARENA, flags=ARENA.flags + advice.flags())
    valid = []
    for pair in range(pairs):
        print(f"  {item.name}: pair {pair + 1} of {pairs}", file=sys.stderr)
        place = {"block": pair, "pair": pair, "repeat": False}
        slots = run_all(bench, item, rng.sample((MALLOC, advised), 2), place)
        for said in report_text.invalid({"slots": slots}):
            print(f"  INVALID {said}", file=sys.stderr)
        if all(slot["valid"] for slot in slots):
            valid.append({slot["arm"]: slot["metrics"] for slot in slots})
    ratios = {}
    for name in MEASURED:
        metric = metrics.BY_NAME[name]
        ratio = stats.compare([metrics.of_pair(metric, of["arena"], of["malloc"]) for of in valid], metric.margin)
        if ratio:
            ratios[name] = ratio
    return ratios


def _said(item, with_malloc, with_arena, advice):
    size = metrics.size
    yield f"{item.name}: {item.about}"
    yield (f"  a request asks malloc {with_malloc.calls:.0f} times, {100 * with_malloc.small:.0f} % of the "
           f"pieces have at most 64 bytes; {size(with_malloc.bytes)} in all, {size(with_malloc.at_once)} at "
           f"once; the largest {size(with_malloc.largest)}")
    if with_arena.calls >= FEW or with_arena.stays >= STAYS:
        yield (f"  of that no arena takes over {with_arena.calls:.0f} calls and {size(with_arena.bytes)}, of "
               f"which {size(with_arena.stays)} stays: a store's own, and the library's")
    yield f"  {advice.choice}: {advice.why}"
    limit = ("the limit is the least that is advised, twice the body that slate takes by default; four times "
             "the largest request would be less" if advice.budget == LEAST_BUDGET else
             "the limit is at least four times the largest request")
    kept = "the least that is advised" if advice.retain == LEAST_RETAIN else "room for two of the largest requests"
    yield f"  for an arena: {' '.join(advice.flags())} ({limit}; what is kept is {kept})"


def _measured(ratios, pairs, verdict):
    for name, ratio in ratios.items():
        yield (f"  measured so, arena / malloc: {metrics.BY_NAME[name].label} {report_text.ratio_text(ratio)} "
               f"{report_text.SIGNS[ratio['verdict']]}")
    if not ratios:
        yield "  measured: no valid pair"
    yield f"  the advice was {verdict} ({pairs} pairs)"
    yield ""
