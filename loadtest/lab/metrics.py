"""The metrics, in the order of the report: what each is called, its unit, and what counts as no
difference."""

from dataclasses import dataclass

from .stats import Margin, median

KIB = 1024
TIME = Margin(0.02)
MEMORY = Margin(0.05, absolute=256 * KIB)


@dataclass(frozen=True)
class Metric:
    name: str
    label: str
    unit: str  # "us", "per_s", "bytes", "count"
    margin: Margin
    higher_is_better: bool = False
    by_client: bool = False  # says nothing where the client was the limit
    counted: bool = False  # once per arm, in a slot of its own: exact, there is no interval


ALL = (
    Metric("cpu_us_per_request", "CPU per request", "us", TIME),
    Metric("user_us_per_request", "user CPU per request", "us", TIME),
    Metric("requests_per_second", "requests per second", "per_s", TIME, True, True),
    Metric("p50_us", "latency p50", "us", TIME, by_client=True),
    Metric("p99_us", "latency p99", "us", TIME, by_client=True),
    Metric("p999_us", "latency p99.9", "us", TIME, by_client=True),
    Metric("peak_rss_bytes", "peak RSS", "bytes", MEMORY),
    Metric("retained_bytes", "retained at rest", "bytes",
           Margin(0.05, absolute=256 * KIB, floor=64 * KIB)),
    Metric("held_bytes_per_connection", "held per open connection", "bytes", Margin(0.05, absolute=64)),
    Metric("malloc_calls_per_request", "malloc calls per request", "count", Margin(0.02, 0.05),
           counted=True),
    Metric("minor_faults_per_request", "page faults per request", "count",
           Margin(0.05, absolute=0.05, floor=0.01)),
    Metric("idle_cpu_us", "CPU while idle", "us", Margin(0.05, absolute=1000, floor=1000)),
)
BY_NAME = {metric.name: metric for metric in ALL}


CPU_OF_TURNS = "cpu_us_per_request of each turn"


def of_pair(metric, of, base):
    """(value, value of the base) from the metrics of two slots. Of loads that took turns each turn has a
    ratio of its own, and their median counts: one that something else has disturbed does not."""
    value, of_base = of.get(metric.name), base.get(metric.name)
    if metric.name == "cpu_us_per_request":
        ratios = [a / b for a, b in zip(of.get(CPU_OF_TURNS, ()), base.get(CPU_OF_TURNS, ())) if a and b]
        if len(ratios) > 1:
            value = of_base * median(ratios)
    return value, of_base


def resolved():
    """What the floors of the margins are, in words."""
    return ", ".join(f"{number(m.margin.floor, m.unit)} ({m.label})" for m in ALL if m.margin.floor)


def number(value, unit):
    """For people: four digits at most, with the unit where it is not the metric's name."""
    if value is None:
        return "–"
    if unit == "bytes":
        return size(value)
    if unit == "us":
        if abs(value) >= 1e6:
            return f"{_digits(value / 1e6)} s"
        return f"{_digits(value / 1e3)} ms" if abs(value) >= 10_000 else f"{_digits(value)} µs"
    if unit == "per_s":
        return f"{value:,.0f}/s"
    return _digits(value)


def size(value):
    for factor, unit in ((KIB * KIB, "MiB"), (KIB, "KiB")):
        if abs(value) >= factor:
            return f"{_digits(value / factor)} {unit}"
    return f"{value:.0f} B"


def _digits(value):
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}"
