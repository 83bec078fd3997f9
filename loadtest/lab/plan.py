"""The order of slots. Blocks of two pairs, ABBA or BAAB by the seed's choice, so that what drifts
hits both arms alike; whatever else is run joins each block between pairs, never within one, in a
place that rotates."""

import random

from .arm import ARENA, MALLOC


def block(rng, first_pair, pairs, number, others, arms=(MALLOC, ARENA)):
    """[(arm, pair or None), ...] of one block with `pairs` (1 or 2) pairs."""
    order = rng.choice((list(arms), list(reversed(arms))))
    halves = [[(arm, first_pair) for arm in order]]
    if pairs == 2:
        halves.append([(arm, first_pair + 1) for arm in reversed(order)])
    gaps = [[] for _ in range(pairs + 1)]
    for i, arm in enumerate(others):
        gaps[(number + i) % len(gaps)].append((arm, None))
    steps = gaps[0]
    for half, gap in zip(halves, gaps[1:]):
        steps = steps + half + gap
    return steps


def blocks(scenarios, pairs, seed, others, at_once=2):
    """Yields (block, scenario, arm, pair), scenario after scenario within each block: the pairs of
    a scenario are spread over the whole run, so a bad minute spoils some of each and all of none.
    `others(scenario)`: the arms that join each block. `at_once`: pairs in a block; with one, every
    second block is the mirror of the one before."""
    rng = random.Random(seed)
    before = {}
    for number in range((pairs + at_once - 1) // at_once):
        first = at_once * number
        for scenario in scenarios:
            if at_once == 1 and number % 2:
                steps = [(arm, pair if pair is None else first) for arm, pair in reversed(before[scenario.name])]
            else:
                steps = block(rng, first, min(at_once, pairs - first), number, others(scenario))
                before[scenario.name] = steps
            for arm, pair in steps:
                yield number, scenario, arm, pair
