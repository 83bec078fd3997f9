"""The report for a terminal: one line per metric, in the manner of benchstat. A loss is printed as
wide as a win."""

from . import metrics, summary
from .holders import LAYERS

FEW = 5  # scenarios, which need no overview
OF_OTHERS = ("cpu_us_per_request", "peak_rss_bytes", "retained_bytes")

SIGNS = {"better": "better", "worse": "WORSE", "equivalent": "~", "inconclusive": "?",
         "client-bound": "client-bound"}
COLOURS = {"better": "32", "worse": "31", "equivalent": "0", "inconclusive": "33", "client-bound": "33"}


def _paint(text, verdict, colour):
    return f"\x1b[{COLOURS[verdict]}m{text}\x1b[0m" if colour and verdict else text


def ratio_text(ratio):
    if ratio is None:
        return "–"
    if ratio["n"] == 1:
        return factor(ratio["median"])
    return f"{factor(ratio['median'])} [{factor(ratio['lo'])}, {factor(ratio['hi'])}]"


def factor(value):
    return f"{value:.1f}" if value >= 10 else f"{value:.3f}" if value >= 0.001 else f"{value:.1g}"


def confidence_text(ratios):
    """The pairs and the confidence that they allow, in words."""
    sampled = [r for r in ratios.values() if not r.get("counted")]
    n = max((r["n"] for r in sampled), default=0)
    if n < 2:
        return "one pair, no interval" if n else "no pair"
    sure = max(r["confidence"] for r in sampled if r["n"] == n)
    weak = "" if sure >= 0.95 else ", below the usual 95 %"
    return f"{n} pairs, intervals {100 * sure:.1f} % sure{weak}"


def incomplete(item):
    """The metrics that not every pair could give: their medians are of fewer slots than the others."""
    sampled = {name: r for name, r in item["ratio"].items() if not r.get("counted")}
    most = max((r["n"] for r in sampled.values()), default=0)
    few = [f"{metrics.BY_NAME[name].label}, {r['n']} of {most}" +
           (f" ({100 * r['confidence']:.1f} % sure)" if r["n"] > 1 else "")
           for name, r in sampled.items() if r["n"] < most]
    return f"pairs with samples enough: {'; '.join(few)}" if few else ""


def scenario(item, colour, paced=()):
    lines = [f"{item['name']}: {item['about']}",
             f"  expected: {item['expected']}; found: {item['outcome']}. {item['why']}"]
    of_plain = item["others"].get("plain", {}).get("ratio")
    columns = 7 if of_plain else 5
    rows = [("", "malloc", "arena", "arena / malloc", "", "plain", "malloc / plain")[:columns]]
    verdicts = [None]
    for metric in metrics.ALL:
        values = [item["arms"].get(arm, {}).get(metric.name) for arm in ("malloc", "arena", "plain")]
        if values[0] is None and values[1] is None:
            continue
        ratio = item["ratio"].get(metric.name)
        verdict = ratio["verdict"] if ratio else None
        primary = " *" if metric.name in item["primary"] else ""
        rows.append((metric.label + primary, metrics.number(values[0], metric.unit),
                     metrics.number(values[1], metric.unit), ratio_text(ratio),
                     SIGNS.get(verdict, ""), metrics.number(values[2], metric.unit),
                     ratio_text((of_plain or {}).get(metric.name)))[:columns])
        verdicts.append(verdict)
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row, verdict in zip(rows, verdicts):
        cells = [row[0].ljust(widths[0])] + [c.rjust(w) for c, w in zip(row[1:4], widths[1:4])]
        cells.append(_paint(row[4].ljust(widths[4]), verdict, colour))
        cells += [c.rjust(w) for c, w in zip(row[5:], widths[5:])]
        lines.append("  " + "  ".join(cells).rstrip())
    note = confidence_text(item["ratio"])
    if of_plain:
        note += "; against plain " + confidence_text(of_plain)
    static = item["others"].get("static", {}).get("ratio", {}).get("user_us_per_request")
    if static:
        note += f"; user CPU of arena / a static answer {ratio_text(static)}"
    lines.append(f"  {note}")
    lines += ["    " + line for line in others(item)]
    lines += ["    " + line for line in open_connections(item)]
    lines += ["  " + line for line in at_rates(paced)]
    if incomplete(item):
        lines.append(f"  {incomplete(item)}")
    lines += [f"  INVALID {of['name']}, {said}" for of in (item, *paced) for said in invalid(of)]
    if item["noisy"]:
        lines.append(f"  {item['noisy']} of {len(item['slots'])} slots ran while the machine was noisy")
    return lines


OF_RATES = ("cpu_us_per_request", "p50_us", "p99_us", "p999_us")
RATES_SAY = "at constant rates, latency counted from when a request was due:"


def at_rates(paced):
    """`paced`: a scenario at its rates."""
    if not paced:
        return []
    rows = [("requests a second", *(metrics.BY_NAME[name].label for name in OF_RATES))]
    for item in paced:
        cells = []
        for name in OF_RATES:
            ratio = item["ratio"].get(name)
            values = [metrics.number(item["arms"].get(arm, {}).get(name), metrics.BY_NAME[name].unit)
                      for arm in ("malloc", "arena")]
            cells.append(f"{' → '.join(values)}  {ratio_text(ratio)} {SIGNS[ratio['verdict']]}" if ratio
                         else "–")
        rows.append((f"{item['rate']:,.0f}", *cells))
    return [RATES_SAY] + ["  " + line for line in in_columns(rows, left=0)]


def open_connections(item):
    """What each of the connections that were held open holds, and who holds it."""
    for arm, of in item.get("open", {}).items():
        layers = [f"{words} {metrics.size(of[name])}" for name, words in LAYERS if name in of]
        if of:
            whole = metrics.size(item["arms"][arm]["held_bytes_per_connection"])
            yield (f"{arm}: each of {item['connections']:,} open connections holds {whole} more than "
                   f"at the start" + (f"; all memory, shared out: {', '.join(layers)}" if layers else ""))


def of_others(item):
    """What is shown of arms beside the pair: what was asked, and always CPU and memory."""
    return [m.name for m in metrics.ALL if m.name in item["primary"] or m.name in OF_OTHERS]


def others(item):
    """A table of the arms beside the pair."""
    shown = {name: of for name, of in item["others"].items() if name not in ("plain", "static")}
    if not shown:
        return []
    names = of_others(item)
    rows = [("", *(text for name in names for text in (metrics.BY_NAME[name].label, "")))]
    for arm, of in shown.items():
        cells = []
        for name in names:
            ratio = of["ratio"].get(name)
            cells += [metrics.number(item["arms"][arm].get(name), metrics.BY_NAME[name].unit),
                      f"{ratio_text(ratio)} {SIGNS[ratio['verdict']]}" if ratio else "–"]
        rows.append((f"{of['over']} / {arm}", *cells))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) if i % 2 == 0 else cell.rjust(width)
                       for i, (cell, width) in enumerate(zip(row, widths))).rstrip() for row in rows]
    sampled = [confidence_text(of["ratio"]) for of in shown.values() if of["ratio"]]
    return lines + ([sampled[0]] if sampled else [])


def invalid(item):
    """Each invalid slot: what became of its pair, and why it is invalid."""
    for slot in item["slots"]:
        if not slot["valid"]:
            why = "; ".join(f"{g['name']}: {g['said']}" for g in slot["gates"] if not g["passed"])
            pair = "" if slot["pair"] is None else f", pair {slot['pair'] + 1}"
            run = "second run; " if slot["repeat"] else ""
            yield f"{slot['arm']}{pair} ({run}{summary.fate(slot, item['slots'])}): {why}"


def losses(report):
    return [f"{item['name']}, {metrics.BY_NAME[name].label}: {ratio_text(item['ratio'][name])}"
            for item, name in summary.tally(report)["worse"]]


def headline(report):
    found = summary.tally(report)
    parts = [f"{len(found[v])} {v}" for v in summary.VERDICTS if found[v]] or ["no valid pair"]
    return f"arena against malloc, {sum(map(len, found.values()))} comparisons: {', '.join(parts)}"


SHORT = {"better": "", "worse": "!", "equivalent": "~", "inconclusive": "?", "client-bound": "?"}


def overview(report):
    """A line per scenario, where there are many."""
    against, found = summary.overview(report)
    if len(found) <= FEW:
        return []
    columns = [(arm, name, word) for arm in against for name, word in summary.OVERVIEW
               if arm == "malloc" or word != "peak"]
    rows = [("", "expected", "found", *(f"{word}, {arm}" for arm, _, word in columns))]
    for item, ratios in found:
        cells = [ratios[arm].get(name) for arm, name, _ in columns]
        rows.append((item["name"], item["expected"], item["outcome"],
                     *(factor(r["median"]) + SHORT[r["verdict"]] if r else "–" for r in cells)))
    return ["all scenarios, arena over each malloc; ! more for sure, ~ the same, ? not known, else less:",
            *("  " + line for line in in_columns(rows)), ""]


def in_columns(rows, left=3):
    """The first `left` columns begin, the others end below each other."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) if i < left else cell.rjust(width)
                      for i, (cell, width) in enumerate(zip(row, widths))).rstrip() for row in rows]


def render(report, colour=False):
    env = report["environment"]
    lines = [f"slate {env['revision'] or ''} on {env['cpu']}, {env['processors']} processors, "
             f"Linux {env['kernel']}, {env['libc']}, {env['wrk']}",
             *([f"a page fault takes {env['page_fault_ns'] / 1000:.1f} µs of CPU"] if env.get("page_fault_ns") else []),
             f"seed {report['seed']}, {report['pairs']} pair{'s' if report['pairs'] > 1 else ''}, "
             f"{report['seconds']:.0f} s", ""]
    lines += [f"WARNING: {said}" for said in env["warnings"]]
    for item in report["scenarios"]:
        if not item.get("of"):
            lines += scenario(item, colour, summary.at_rates(report, item)) + [""]
    lines += overview(report)
    lines.append(headline(report))
    lines += [f"  worse: {said}" for said in losses(report)]
    lines.append("~ within 2 % (times) or 5 % and 256 KiB (memory); ? the interval allows both; "
                 "* decided on before the run; – too few samples for it")
    if any(item.get("of") for item in report["scenarios"]):
        lines.append("Elsewhere connections never pause: each sends its next request when the answer is "
                     "here. A slow server is then asked less, and its latency is mostly the line before it. At a "
                     "constant rate requests come as users do, whether or not the last has been answered.")
    lines.append(f"A ratio counts what is below {metrics.resolved()} as that.")
    return "\n".join(lines) + "\n"


