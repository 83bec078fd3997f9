"""Latency histograms: (microseconds, count) pairs in rising order.

wrk never shows what it measured. Before it prints anything, and before it calls done(), it adds to
its histogram the requests that it believes it would have sent while it waited for a slow one: for
each latency v of at least twice `expected`, also v - expected, v - 2 expected, ... as long as that
is above `expected`, where `expected` is the mean time per request on one connection. So a corrected
count c and a raw count r obey, for every value m above `expected`, c[m] = r[m] + c[m + expected]:
the correction can be undone exactly."""

# The points at which a report shows a distribution: finer towards the tail.
LADDER = (5, 10, 20, 30, 40, 50, 60, 70, 75, 80, 85, 90, 92.5, 95, 96, 97, 98, 98.5, 99, 99.25,
          99.5, 99.75, 99.9, 99.95, 99.99)


def wrk_interval(duration_us, requests, connections):
    """wrk's `expected`; None where it corrects nothing."""
    per_connection = requests // connections
    return duration_us // per_connection if per_connection > 0 else None


def uncorrect(pairs, interval):
    """The raw histogram behind wrk's."""
    if interval is None:
        return list(pairs)
    corrected = dict(pairs)
    raw = []
    for value, count in pairs:
        if value > interval:
            count -= corrected.get(value + interval, 0)
        if count:
            raw.append((value, count))
    return raw


def from_samples(samples):
    counts = {}
    for sample in samples:
        counts[sample] = counts.get(sample, 0) + 1
    return sorted(counts.items())


def merge(histograms):
    counts = {}
    for pairs in histograms:
        for value, n in pairs:
            counts[value] = counts.get(value, 0) + n
    return sorted(counts.items())


def count(pairs):
    return sum(n for _, n in pairs)


def mean(pairs):
    return sum(value * n for value, n in pairs) / count(pairs)


def enough(samples, p):
    """Whether a percentile may be quoted: ten samples have to lie beyond it."""
    return round(samples * (100 - p), 6) >= 1000  # 100 - 99.9 is a little less than 0.1


def percentile(pairs, p):
    """The smallest value that at least p % of the samples do not exceed."""
    total, seen = count(pairs), 0
    for value, n in pairs:
        seen += n
        if seen * 100 >= p * total:
            return value
    return pairs[-1][0]


def ladder(pairs):
    """[[percentile, microseconds], ...] as far as the samples allow."""
    total = count(pairs)
    return [[p, percentile(pairs, p)] for p in LADDER if enough(total, p)]
