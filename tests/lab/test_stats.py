"""Intervals and verdicts."""
import math
import random

import pytest

from lab import stats
from lab.stats import Margin, compare

TIME = Margin(0.02)
KIB = 1024


@pytest.mark.parametrize("n, k, expected", [(3, 1, 0.75), (4, 1, 0.875), (6, 1, 0.96875),
                                            (10, 2, 0.978515625), (20, 6, 0.958610534667969)])
def test_coverage_is_the_binomial_one(n, k, expected):
    assert stats.coverage(n, k) == pytest.approx(expected)


@pytest.mark.parametrize("n, k", [(1, 1), (2, 1), (5, 1), (6, 1), (8, 1), (9, 2), (10, 2), (12, 3), (20, 6)])
def test_the_interval_is_the_narrowest_that_is_sure_enough(n, k):
    lo, hi, confidence = stats.interval(list(range(1, n + 1)))
    assert (lo, hi) == (k, n + 1 - k)
    assert confidence == stats.coverage(n, k)


def test_the_interval_holds_the_median_as_often_as_it_says():
    rng = random.Random(7)
    held = 0
    for _ in range(4000):
        lo, hi, confidence = stats.interval([rng.expovariate(1) for _ in range(10)])
        held += lo <= math.log(2) <= hi
    assert held / 4000 == pytest.approx(confidence, abs=0.01)


def test_order_and_outliers_do_not_move_the_median():
    assert stats.median([3, 1, 2]) == 2
    assert stats.median([4, 1, 3, 1000]) == 3.5


def pairs(*ratios):
    return [(ratio, 1.0) for ratio in ratios]


@pytest.mark.parametrize("ratios, verdict", [
    ((0.90, 0.91, 0.92, 0.93, 0.94, 0.95), "better"),
    ((1.05, 1.06, 1.07, 1.08, 1.09, 1.10), "worse"),
    ((0.99, 1.00, 1.00, 1.00, 1.01, 1.01), "equivalent"),
    ((0.90, 0.95, 1.00, 1.00, 1.05, 1.10), "inconclusive"),
    ((0.95, 0.95, 0.96, 0.97, 0.98, 0.99), "inconclusive"),  # less, but perhaps by less than matters
])
def test_four_different_words(ratios, verdict):
    assert compare(pairs(*ratios), TIME)["verdict"] == verdict


def test_more_is_better_where_it_is():
    assert compare(pairs(*[1.1] * 6), TIME, higher_is_better=True)["verdict"] == "better"
    assert compare(pairs(*[0.9] * 6), TIME, higher_is_better=True)["verdict"] == "worse"


def test_the_ratio_is_of_pairs_not_of_medians():
    result = compare([(1, 2), (10, 20), (100, 200), (4, 8), (7, 14), (9, 18)], TIME)
    assert (result["median"], result["lo"], result["hi"]) == pytest.approx((0.5, 0.5, 0.5))
    assert (result["n"], result["confidence"]) == (6, 0.96875)


def test_few_pairs_say_how_unsure_they_are():
    assert compare(pairs(0.9, 0.9, 0.9, 0.9), TIME)["confidence"] == 0.875


def test_differences_that_do_not_matter_are_none_whatever_their_ratio():
    margin = Margin(0.05, absolute=256 * KIB, floor=64 * KIB)
    near = [(100 * KIB, 300 * KIB)] * 6
    far = [(100 * KIB, 400 * KIB)] * 6
    assert compare(near, margin)["verdict"] == "equivalent"
    assert compare(far, margin)["verdict"] == "better"


def test_what_is_not_resolved_is_raised_to_the_floor():
    margin = Margin(0.05, floor=64 * KIB)
    assert compare([(-8 * KIB, 640 * KIB)] * 6, margin)["median"] == pytest.approx(0.1)
    assert compare([(0, 0)] * 6, margin)["median"] == 1


def test_nothing_to_compare_is_none():
    assert compare([], TIME) is None
    assert compare([(None, 1.0), (1.0, None)], TIME) is None
    assert compare([(0.0, 1.0)], TIME) is None


def test_one_pair_proves_nothing_unless_it_was_counted():
    assert compare(pairs(0.5), TIME)["verdict"] == "inconclusive"
    assert compare(pairs(0.5, 0.5), TIME)["verdict"] == "inconclusive"
    assert compare(pairs(0.5), TIME, exact=True)["verdict"] == "better"
