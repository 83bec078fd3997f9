"""Charts as SVG text, drawn by hand: no library, nothing from the network. Colours and fonts are the
page's (classes, CSS variables), so that light and dark are one drawing."""

import math
from html import escape

from .holders import LAYERS
from .metrics import size

WIDTH, HEIGHT = 380, 240
LEFT, RIGHT, TOP, BOTTOM = 64, 20, 18, 38
AFTER_SECONDS = 6  # of the silence, beside the load; what comes later has a chart of its own


def _n(value):
    return f"{value:.1f}".rstrip("0").rstrip(".")


class Chart:
    """A frame with two scales. `x` and `y` map a value to a pixel."""

    def __init__(self, title, x_range, y_range, log_y=False, height=HEIGHT, right=RIGHT):
        self.title, self.height, self.right = title, height, right
        self.parts = []
        (self._x0, self._x1), (y0, y1) = x_range, y_range
        self._log = log_y
        self._y0, self._y1 = (math.log10(y0), math.log10(y1)) if log_y else (y0, y1)

    def x(self, value):
        return LEFT + (value - self._x0) / (self._x1 - self._x0) * (WIDTH - LEFT - self.right)

    def y(self, value):
        if self._log:
            value = math.log10(max(value, 10 ** self._y0))
        share = (value - self._y0) / (self._y1 - self._y0)
        return self.height - BOTTOM - share * (self.height - TOP - BOTTOM)

    def add(self, text):
        self.parts.append(text)

    def band(self, x0, x1, label):
        self.add(f'<rect class="phase" x="{_n(self.x(x0))}" y="{TOP}" '
                 f'width="{_n(self.x(x1) - self.x(x0))}" height="{self.height - TOP - BOTTOM}"/>')
        self.text(self.x((x0 + x1) / 2), TOP - 5, label, "middle")

    def text(self, x, y, text, anchor="start", css="label"):
        self.add(f'<text class="{css}" x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}">{escape(text)}</text>')

    def y_axis(self, ticks, label):
        for value, name in ticks:
            y = self.y(value)
            self.add(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - self.right}" y1="{_n(y)}" y2="{_n(y)}"/>')
            self.text(LEFT - 5, y + 3.5, name, "end")
        middle = (TOP + self.height - BOTTOM) / 2
        self.add(f'<text class="label" transform="translate(11 {_n(middle)}) rotate(-90)" '
                 f'text-anchor="middle">{escape(label)}</text>')

    def x_axis(self, ticks, label):
        base = self.height - BOTTOM
        self.add(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - self.right}" y1="{base}" y2="{base}"/>')
        for value, name in ticks:
            x = self.x(value)
            self.add(f'<line class="axis" x1="{_n(x)}" x2="{_n(x)}" y1="{base}" y2="{base + 4}"/>')
            self.text(x, base + 15, name, "middle")
        self.text((LEFT + WIDTH - self.right) / 2, self.height - 6, label, "middle")

    def line(self, points, css):
        if len(points) > 1:
            path = " ".join(f"{_n(self.x(x))},{_n(self.y(y))}" for x, y in points)
            self.add(f'<polyline class="line {css}" points="{path}"/>')

    def area(self, upper, lower, css):
        points = upper + lower[::-1]
        path = " ".join(f"{_n(self.x(x))},{_n(self.y(y))}" for x, y in points)
        self.add(f'<polygon class="area {css}" points="{path}"/>')

    def dot(self, x, y, css, title=None, r=3.5):
        inner = f"<title>{escape(title)}</title>" if title else ""
        self.add(f'<circle class="dot {css}" cx="{_n(self.x(x))}" cy="{_n(self.y(y))}" r="{r}">{inner}</circle>')

    def svg(self):
        return svg(self.title, WIDTH, self.height, self.parts)


def svg(title, width, height, parts):
    return (f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title, quote=True)}">'
            + "".join(parts) + "</svg>")


def linear_ticks(top, count=5, unit=1):
    """(top of the scale, tick values) from 0: steps of 1, 2 or 5 times a power of ten `unit`s."""
    rough = max(top / unit, 1e-9) / count
    power = 10 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough)
    steps = max(1, math.ceil(top / unit / step - 1e-9))
    return steps * step * unit, [i * step * unit for i in range(steps + 1)]


def size_ticks(top):
    """Ticks that are round in the unit they are printed in."""
    unit = 1024 * 1024 if top >= 1024 * 1024 else 1024
    top, values = linear_ticks(top, unit=unit)
    return top, [(v, _n(v / unit)) for v in values], "MiB" if unit > 1024 else "KiB"


def log_ticks(low, high):
    """((low, high) rounded outwards to 1, 2 or 5 times a power of ten, the values between)."""
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    nice = [m * 10.0**e for e in exponents for m in (1, 2, 5)]
    low = max((v for v in nice if v <= low * 1.0001), default=nice[0])
    high = min((v for v in nice if v >= high * 0.9999), default=nice[-1])
    ticks = [v for v in nice if low <= v <= high]
    if len(ticks) > 7:
        ticks = [v for v in ticks if f"{v:e}".startswith("1")] or ticks
    return (low, high), ticks


def microseconds(value):
    if value >= 1e6:
        return f"{_n(value / 1e6)} s"
    return f"{_n(value / 1e3)} ms" if value >= 1e3 else f"{_n(value)} µs"


def memory_over_time(title, lines, lives, stop):
    """`lines`: [(arm, points, is the typical one)], `lives`: [(arm, points)]; points of (s, bytes)."""
    end = min(max(points[-1][0] for _, points, _ in lines), stop + AFTER_SECONDS)
    lines = [(arm, [p for p in points if p[0] <= end], typical) for arm, points, typical in lines]
    lives = [(arm, [(min(t, end), b) for t, b in points]) for arm, points in lives]
    top, ticks, unit = size_ticks(max(b for _, points, _ in lines for _, b in points))
    chart = Chart(title, (0, end), (0, top))
    chart.band(0, stop, "load")
    chart.y_axis(ticks, f"anonymous memory, {unit}")
    _, seconds = linear_ticks(end)
    chart.x_axis([(s, _n(s)) for s in seconds if s <= end], "seconds")
    for arm, points, typical in lines:
        chart.line(points, f"{arm} {'' if typical else 'thin'}")
    for arm, points in lives:
        chart.line(points, f"{arm} dashed")
    return chart.svg()


def retention(title, arms):
    """`arms`: {arm: [(seconds after the load, lowest, median, highest bytes)]}"""
    top, ticks, unit = size_ticks(max(max(p[3] for points in arms.values() for p in points), 65536))
    marks = sorted({p[0] for points in arms.values() for p in points})
    chart = Chart(title, (math.log10(marks[0]) - 0.2, math.log10(marks[-1]) + 0.2), (0, top))
    chart.y_axis(ticks, f"over the baseline, {unit}")
    chart.x_axis([(math.log10(t), f"{_n(t)} s") for t in marks], "after the load has stopped, logarithmic")
    for arm, points in arms.items():
        for t, low, middle, high in points:
            x = math.log10(t)
            chart.line([(x, max(0, low)), (x, max(0, high))], f"{arm} thin")
            chart.dot(x, max(0, middle), arm, f"{arm}, {size(middle)}")
        chart.line([(math.log10(p[0]), max(0, p[2])) for p in points], arm)
    return chart.svg()


def at_rates(title, arms):
    """`arms`: {arm: [(rate, {percentile: (lowest, median, highest us)})]}, rates rising."""
    rates = [rate for rate, _ in next(iter(arms.values()))]
    values = [v for points in arms.values() for _, of in points for three in of.values() for v in three]
    (low, high), ticks = log_ticks(min(values) or 1, max(values))
    chart = Chart(title, (0, max(rates) * 1.1), (low, high), log_y=True)
    chart.y_axis([(v, microseconds(v)) for v in ticks], "latency")
    chart.x_axis([(rate, f"{rate:,.0f}") for rate in rates], "requests a second that come on their own")
    for arm, points in arms.items():
        for percentile, css in ((99, ""), (50, " dashed")):
            known = [(rate, of[percentile]) for rate, of in points if percentile in of]
            for rate, (least, middle, most) in known:
                chart.line([(rate, least), (rate, most)], f"{arm} thin")
                chart.dot(rate, middle, arm, f"{arm}, p{percentile}: {microseconds(middle)}", r=3)
            chart.line([(rate, middle) for rate, (_, middle, _) in known], arm + css)
    return chart.svg()


def costs(title, arms):
    """`arms`: [(name, microseconds of CPU, retained bytes)]: what is paid against what is kept. Names
    stand in the right margin, each as high as its dot, or as close to that as others let it."""
    least = 65536
    steps = math.ceil(math.log(max(2, *(kept / least for _, _, kept in arms)), 4))
    low, high, ticks = least, least * 4**steps, [least * 4**i for i in range(steps + 1)]
    top, cpu_ticks = linear_ticks(max(cpu for _, cpu, _ in arms))
    chart = Chart(title, (0, top * 1.25), (low, high), log_y=True, height=max(HEIGHT, 80 + 13 * len(arms)),
                  right=104)
    chart.y_axis([(v, size(v).replace(".00", "").replace(".0", "")) for v in ticks], "kept at rest")
    chart.x_axis([(v, _n(v)) for v in cpu_ticks], "CPU per request, µs")
    label = TOP - 8
    for name, cpu, kept in sorted(arms, key=lambda arm: -arm[2]):
        x, y = chart.x(cpu), chart.y(max(kept, least))
        label = max(label + 13, y)
        chart.add(f'<polyline class="lead" points="{_n(x)},{_n(y)} {_n(WIDTH - 108)},{_n(label)}"/>')
        chart.dot(cpu, max(kept, least), name, f"{name}: {microseconds(cpu)}, {size(kept)}")
        chart.text(WIDTH - 104, label + 3.5, name)
    return chart.svg()


PERCENTILES = ((0, "0"), (50, "50"), (90, "90"), (99, "99"), (99.9, "99.9"), (99.99, "99.99"))


def _nines(p):
    return -math.log10(1 - p / 100)


def latency(title, arms):
    """`arms`: {arm: {"raw": [(percentile, lowest, median, highest)], "corrected": [the same] or None}}"""
    curves = [c for curves in arms.values() for c in curves.values() if c]
    last = max(c[-1][0] for c in curves)
    (low, high), ticks = log_ticks(min(p[1] for c in curves for p in c) or 1,
                                   max(p[3] for c in curves for p in c))
    chart = Chart(title, (0, _nines(last)), (low, high), log_y=True)
    chart.y_axis([(v, microseconds(v)) for v in ticks], "latency")
    chart.x_axis([(_nines(p), name) for p, name in PERCENTILES if p <= last],
                 "% of the requests were at least as fast")
    for arm, of_arm in arms.items():
        raw, corrected = of_arm["raw"], of_arm["corrected"]
        chart.area([(_nines(p[0]), p[3]) for p in raw], [(_nines(p[0]), p[1]) for p in raw], arm)
        chart.line([(_nines(p[0]), p[2]) for p in raw], arm)
        if corrected:
            chart.line([(_nines(p[0]), p[2]) for p in corrected], f"{arm} dashed")
    return chart.svg()


def every_slot(title, points, label):
    """`points`: [(arm, value, noisy, note)] in the order in which they ran; value None: invalid."""
    values = [v for _, v, _, _ in points if v is not None]
    spread = (max(values) - min(values)) or abs(max(values)) * 0.1 or 1
    low, high = min(values) - 0.15 * spread, max(values) + 0.15 * spread
    step = linear_ticks(high - low, 4)[1][1]
    ticks = [i * step for i in range(math.ceil(low / step), math.floor(high / step) + 1)]
    chart = Chart(title, (0, len(points) + 1), (low, high))
    chart.y_axis([(v, f"{v:.6g}") for v in ticks], label)
    chart.x_axis([(i, str(i)) for i in range(1, len(points) + 1)
                  if len(points) <= 12 or i % 3 == 1], "slot, in the order of the run")
    for i, (arm, value, noisy, note) in enumerate(points, 1):
        if value is None:
            chart.text(chart.x(i), chart.height - BOTTOM - 4, "✕", "middle", "label invalid")
        else:
            chart.dot(i, value, f"{arm} {'hollow' if noisy else ''}", note)
    return chart.svg()


def holders(title, rows):
    """`rows`: [(name, layers)]: stacked bars of who holds the memory."""
    top, ticks, unit = size_ticks(max(sum(layers[k] for k, _ in LAYERS) for _, layers in rows))
    left, row, base = 92, 30, 10 + 30 * len(rows)
    def x(value):
        return left + value / top * (WIDTH - left - RIGHT)
    parts = []
    for value, name in ticks:
        parts.append(f'<line class="grid" x1="{_n(x(value))}" x2="{_n(x(value))}" y1="6" y2="{base}"/>'
                     f'<text class="label" x="{_n(x(value))}" y="{base + 15}" text-anchor="middle">{name}</text>')
    parts.append(f'<text class="label" x="{_n(x(top / 2))}" y="{base + 31}" text-anchor="middle">'
                 f'anonymous memory, {unit}</text>')
    for i, (name, layers) in enumerate(rows):
        y, at = 12 + row * i, 0
        parts.append(f'<text class="label" x="{left - 6}" y="{y + 13}" text-anchor="end">{escape(name)}</text>')
        for key, words in LAYERS:
            width = x(at + layers[key]) - x(at)
            parts.append(f'<rect class="layer {key}" x="{_n(x(at))}" y="{y}" width="{_n(width)}" height="18">'
                         f'<title>{words}: {size(layers[key])}</title></rect>')
            at += layers[key]
    return svg(title, WIDTH, base + 38, parts)


def forest(title, rows):
    """`rows`: [(label, ratio, margin, text)]: each ratio with its interval on one axis."""
    left, right, row = 156, 56, 24
    shown = [r[k] for _, r, _, _ in rows for k in ("lo", "hi")]
    half = math.log(min(16, max(1.25, *shown, *(1 / max(v, 1e-6) for v in shown))))
    base = 8 + row * len(rows)
    def x(value):
        share = (max(-half, min(half, math.log(max(value, 1e-9)))) + half) / (2 * half)
        return left + share * (WIDTH - left - right)
    limit = math.exp(half)
    parts = []
    for value in (1 / limit, 1, limit):
        css = "axis" if value == 1 else "grid"
        parts.append(f'<line class="{css}" x1="{_n(x(value))}" x2="{_n(x(value))}" y1="4" y2="{base}"/>'
                     f'<text class="label" x="{_n(x(value))}" y="{base + 15}" text-anchor="middle">'
                     f'{value:.2g}</text>')
    parts.append(f'<text class="label" x="{_n(x(1))}" y="{base + 31}" text-anchor="middle">'
                 'arena / malloc, logarithmic</text>')
    for i, (label, ratio, margin, text) in enumerate(rows):
        y = 18 + row * i
        parts.append(f'<rect class="margin" x="{_n(x(1 - margin))}" y="{y - 8}" '
                     f'width="{_n(x(1 + margin) - x(1 - margin))}" height="16"/>')
        parts.append(f'<text class="label" x="{left - 12}" y="{y + 4}" text-anchor="end">{escape(label)}</text>')
        css = ratio["verdict"]
        parts.append(f'<line class="interval {css}" x1="{_n(x(ratio["lo"]))}" x2="{_n(x(ratio["hi"]))}" '
                     f'y1="{y}" y2="{y}"/>')
        parts.append(f'<circle class="verdict {css}" cx="{_n(x(ratio["median"]))}" cy="{y}" r="4.5">'
                     f'<title>{escape(css)}</title></circle>')
        parts.append(f'<text class="label" x="{WIDTH - right + 8}" y="{y + 4}">{escape(text)}</text>')
    return svg(title, WIDTH, base + 38, parts)
