"""wrk's correction is undone exactly; percentiles are those of the samples."""
import random

import pytest

from lab import histogram, wrk


def corrected_as_by_wrk(raw, expected):
    """What wrk does to its array before it shows it: for each latency from twice `expected` on, one
    more request at every `expected` below it that is still above `expected`."""
    data = dict(raw)
    for value, count in raw:
        missing = value - expected
        while value >= 2 * expected and missing > expected:
            data[missing] = data.get(missing, 0) + count
            missing -= expected
    return sorted(data.items())


@pytest.mark.parametrize("seed", range(20))
def test_the_correction_is_undone_exactly(seed):
    rng = random.Random(seed)
    samples = [rng.randint(1, 400) for _ in range(2000)]
    samples += [rng.randint(400, 20_000) for _ in range(rng.choice((0, 1, 50)))]
    raw = histogram.from_samples(samples)
    expected = rng.randint(1, 600)
    corrected = corrected_as_by_wrk(raw, expected)
    assert histogram.uncorrect(corrected, expected) == raw


def test_the_correction_changes_what_it_shows():
    raw = histogram.from_samples([400] * 950 + [15_000] * 50)
    corrected = corrected_as_by_wrk(raw, 1130)
    assert histogram.percentile(raw, 90) == 400
    assert histogram.percentile(corrected, 90) > 10_000


def test_the_interval_is_divided_as_wrk_divides():
    assert histogram.wrk_interval(2_001_825, 155_928, 32) == 2_001_825 // (155_928 // 32)
    assert histogram.wrk_interval(2_000_000, 31, 32) is None
    assert histogram.uncorrect([(5, 1), (9, 2)], None) == [(5, 1), (9, 2)]


@pytest.mark.parametrize("p", [0, 1, 25, 50, 75, 90, 99, 99.9, 100])
def test_a_percentile_is_the_smallest_value_that_covers_it(p):
    rng = random.Random(3)
    samples = sorted(rng.randint(1, 1000) for _ in range(997))
    covering = next(v for v in samples if sum(s <= v for s in samples) * 100 >= p * len(samples))
    assert histogram.percentile(histogram.from_samples(samples), p) == covering


def test_percentiles_need_ten_samples_beyond():
    assert histogram.enough(1000, 99) and not histogram.enough(999, 99)
    assert histogram.enough(10_000, 99.9) and not histogram.enough(9_999, 99.9)
    shown = [p for p, _ in histogram.ladder(histogram.from_samples(range(1000)))]
    assert max(shown) == 99


def test_the_mean_is_that_of_the_samples():
    assert histogram.mean(histogram.from_samples([1, 1, 4])) == 2


def test_what_the_turns_measured_is_one_load():
    def part(requests, raw, unrecorded=0):
        return {"requests": requests, "seconds": 0.3, "connections": 32, "wrong_status": 1, "errors": 2, "raw": raw,
                "corrected": raw, "unrecorded": unrecorded}
    whole = wrk.merge([part(3, [(5, 1), (9, 2)]), part(2, [(4, 1), (9, 1)], unrecorded=1)])
    assert whole["raw"] == whole["corrected"] == [(4, 1), (5, 1), (9, 3)]
    assert (whole["requests"], whole["connections"], whole["wrong_status"], whole["errors"], whole["unrecorded"]) == (
        5, 32, 2, 4, 1)
    assert whole["seconds"] == pytest.approx(0.6)
    assert wrk.merge([part(3, [(5, 3)]), part(2, None)])["raw"] is None
