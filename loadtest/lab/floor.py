"""How far is slate above the floor? The floor is a libmicrohttpd program that sends an answer which
was made once. User CPU per request of some routes over it, or over each other, all in one run and in
turn; a figure to reach stands beside each."""

import random
import sys
from dataclasses import dataclass, replace

from . import metrics, report_text, scenario, stats
from .arm import ARENA, STATIC, Arm
from .bench import Bench
from .slot import run_alone

METRIC = metrics.BY_NAME["user_us_per_request"]


@dataclass(frozen=True)
class Rung:
    name: str
    scenario: str
    arm: Arm
    over: str | None = None  # another rung
    limit: float = 0  # times that


LADDER = (
    Rung("static", "json", STATIC),
    Rung("json", "json", ARENA, "static", 1.6),
    Rung("transfer", "transfer", ARENA, "static", 3.2),
    Rung("get", "get", ARENA, "json", 4.0),
)


def run(build, rounds, seconds, seed):
    """Prints the ladder; the exit status: 1 where a figure is not reached or not known."""
    rng = random.Random(seed)
    with Bench(build) as bench:
        found = [_round(bench, number, rounds, seconds, rng) for number in range(rounds)]
    sure = stats.interval(range(rounds))[2]
    print(f"user CPU per request, {rounds} rounds of {seconds} s, intervals {100 * sure:.1f} % sure, "
          f"seed {seed}")
    reached = [_say(rung, found) for rung in LADDER]
    return 0 if all(reached) else 1


def _round(bench, number, rounds, seconds, rng):
    """{rung: microseconds} of the slots that were valid; one that was not is run once more."""
    result = {}
    for rung in rng.sample(LADDER, len(LADDER)):
        item = scenario.load(rung.scenario)
        item = replace(item, idle=[0.1], load=replace(item.load, seconds=seconds))
        for again in (False, True):
            print(f"  round {number + 1} of {rounds}: {rung.name}", file=sys.stderr)
            slot = run_alone(bench, item, rung.arm, {"block": number, "pair": None, "repeat": again})
            if slot["valid"]:
                result[rung.name] = slot["metrics"][METRIC.name]
                break
            for gate in slot["gates"]:
                if not gate["passed"]:
                    print(f"  not used: {gate['name']}: {gate['said']}", file=sys.stderr)
    return result


def _say(rung, found):
    """Whether it is where it should be."""
    values = [of[rung.name] for of in found if of.get(rung.name) is not None]
    text = f"  {rung.name:9} {metrics.number(stats.median(values) if values else None, METRIC.unit):>8}"
    if rung.over is None:
        print(text)
        return bool(values)
    ratio = stats.compare([(of.get(rung.name), of.get(rung.over)) for of in found], METRIC.margin)
    if ratio is None:
        print(f"{text}  no valid round")
        return False
    print(f"{text}  over {rung.over:7} {report_text.ratio_text(ratio):22} "
          f"at most {rung.limit}: {words(ratio, rung.limit)}")
    return ratio["median"] <= rung.limit


def words(ratio, limit):
    """A limit within the interval is neither reached nor missed for sure."""
    word = "met" if ratio["median"] <= limit else "MISSED"
    return word if ratio["hi"] <= limit or ratio["lo"] > limit else f"{word} by the median, not for sure"
