"""report.html: one file that opens from disk, with no network and no script."""

from html import escape
from pathlib import Path

from . import charts, holders, metrics, report_text, stats, summary

STYLE = (Path(__file__).resolve().parent / "report.css").read_text(encoding="utf-8")
ARMS = ("malloc", "arena", "plain")
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def render(report):
    body = [_head(report), _cards(report), _losses(report), _overview(report)]
    for item in report["scenarios"]:
        if not item.get("of"):
            body.append(_scenario(item, summary.at_rates(report, item)))
    body += [_method(report), _environment(report)]
    return (f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">'
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
            f'<title>slate: arena against malloc</title><style>{STYLE}</style></head>\n'
            f'<body><main>{"".join(body)}</main></body></html>\n')


def _head(report):
    env = report["environment"]
    chips = "".join(f'<span class="chip {verdict}"><b>{len(found)}</b> {verdict}</span>'
                    for verdict, found in summary.tally(report).items() if found)
    warnings = "".join(f'<p class="warning">{escape(w)}</p>' for w in env["warnings"])
    where = f"{env['cpu']}, {env['processors']} processors, {env['os']}"
    return (f'<header><h1>slate: arena against malloc</h1>'
            f'<p class="quiet">{escape(report["made"][:10])} · {escape(str(env["revision"] or ""))} · '
            f'{escape(where)}</p>{warnings}<p class="chips">{chips}</p>'
            '<p>The same server, one flag apart. Below 1 the arena used less, above 1 it used more; '
            'for requests per second it is the other way round.</p></header>')


# ---- Verdicts -------------------------------------------------------------------------------------

def _cards(report):
    cards = [_card(item, name) for item in report["scenarios"] if not item.get("of")
             for name in item["primary"]]
    return ('<section><h2>What was asked before the run</h2><div class="cards">'
            + "".join(cards) + "</div></section>")


def _card(item, name):
    metric, ratio = metrics.BY_NAME[name], item["ratio"].get(name)
    verdict = ratio["verdict"] if ratio else "invalid"
    values = " → ".join(metrics.number(item["arms"].get(arm, {}).get(name), metric.unit)
                        for arm in ("malloc", "arena"))
    interval = (f'{report_text.factor(ratio["lo"])} to {report_text.factor(ratio["hi"])}'
                if ratio and ratio["n"] > 1 else "no interval")
    factor = f"{report_text.factor(ratio['median'])} ×" if ratio else "no valid pair"
    return (f'<article class="card {verdict}"><p class="of">{escape(item["title"])}</p>'
            f'<h3>{escape(metric.label)}</h3><p class="factor">{factor}</p>'
            f'<p class="word">{verdict}</p><p>{values}</p>'
            f'<p class="quiet">{interval}</p>'
            f'<p class="quiet">expected {escape(item["expected"])}, found {escape(item["outcome"])}</p></article>')


def _losses(report):
    found = summary.tally(report)
    lists = ""
    for verdict, words in (("worse", "Where the arena is worse"), ("inconclusive", "What is not known")):
        lines = "".join(
            f'<li><a href="#{escape(item.get("of") or item["name"])}">{escape(item["name"])}</a>, '
            f'{escape(metrics.BY_NAME[name].label)}: '
            f'{escape(report_text.ratio_text(item["ratio"][name]))}</li>'
            for item, name in found[verdict])
        lists += f"<div><h3>{words}</h3><ul>{lines or '<li>nothing</li>'}</ul></div>"
    return f'<section class="columns"><h2>Losses and open questions</h2>{lists}</section>'


def _overview(report):
    """A line per scenario: the arena over each malloc there was."""
    against, rows = summary.overview(report)
    if len(rows) < 2:
        return ""
    heads = "".join(f'<th colspan="{len(summary.OVERVIEW)}">arena / {escape(arm)}</th>' for arm in against)
    names = "".join(f"<th>{word}</th>" for _ in against for _, word in summary.OVERVIEW)
    lines = ""
    for item, ratios in rows:
        cells = "".join(_overview_cell(ratios[arm].get(name)) for arm in against for name, _ in summary.OVERVIEW)
        lines += (f'<tr><th><a href="#{escape(item["name"])}">{escape(item["name"])}</a></th>'
                  f'<td>{escape(item["expected"])}</td><td>{escape(item["outcome"])}</td>{cells}</tr>')
    return ('<section><h2>All scenarios</h2><p>The arena over each malloc: below 1 it used less. Green: less for '
            'sure; red: more for sure; grey: the same, as far as it matters; yellow: not known.</p>'
            f'<div class="wide"><table><thead><tr><th></th><th></th><th></th>{heads}</tr>'
            f"<tr><th></th><th>expected</th><th>found</th>{names}</tr></thead><tbody>{lines}</tbody>"
            "</table></div></section>")


def _overview_cell(ratio):
    if not ratio:
        return "<td>–</td>"
    said = f"{report_text.ratio_text(ratio)}, {ratio['verdict']}"
    return (f'<td class="{ratio["verdict"]}" title="{escape(said)}">'
            f'{report_text.factor(ratio["median"])}</td>')


# ---- One scenario -----------------------------------------------------------------------------------

def _scenario(item, paced):
    invalid = "".join(f'<p>{escape(of["name"])}, {escape(said)}</p>'
                      for of in (item, *paced) for said in report_text.invalid(of))
    if invalid:
        invalid = f'<details class="warning" open><summary>invalid slots</summary>{invalid}</details>'
    figures = [figure for figure in (_over_time(item), _retention(item), _holders(item), _costs(item),
                                     _latency(item), _at_rates(paced), _forest(item), _slots(item)) if figure]
    return (f'<section id="{escape(item["name"])}"><h2>{escape(item["title"])}</h2>'
            f'<p>{escape(item["about"])}.</p><p class="quiet">Expected: {escape(item["expected"])}. '
            f'{escape(item["why"])}</p>{invalid}<div class="figures">{"".join(figures)}</div>'
            f"{_table(item)}{_incomplete(item)}{_floor(item)}{_paced_table(paced)}{_others(item)}"
            + "".join(f'<p class="quiet">{escape(said)}.</p>' for said in report_text.open_connections(item))
            + "</section>")


def _incomplete(item):
    words = report_text.incomplete(item)
    return f'<p class="quiet">{escape(words[0].upper() + words[1:])}.</p>' if words else ""


def _floor(item):
    ratio = item["others"].get("static", {}).get("ratio", {}).get("user_us_per_request")
    if not ratio:
        return ""
    return (f'<p class="quiet">User CPU of the arena over that of a libmicrohttpd program that sends the '
            f'same bytes from a response made once: {escape(report_text.ratio_text(ratio))}.</p>')


def _figure(title, legend, drawing, note=""):
    note = f"<p class='quiet'>{escape(note)}</p>" if note else ""
    return f"<figure><figcaption><b>{escape(title)}</b> {legend}</figcaption>{drawing}{note}</figure>"


def _legend(names, css="key"):
    return '<span class="legend">' + "".join(
        f'<span><i class="{css} {name.split()[0]}"></i>{escape(words)}</span>'
        for name, words in names) + "</span>"


def _of(item, arm):
    return [slot for slot in summary.used(item["slots"]) if slot["arm"] == arm and "series" in slot]


def _arms(item):
    return [arm for arm in ARMS if _of(item, arm)]


def _typical(slots):
    """The slot whose peak is in the middle."""
    return sorted(slots, key=lambda s: s["metrics"]["peak_rss_bytes"])[(len(slots) - 1) // 2]


def _over_time(item):
    lines, lives = [], []
    for arm in _arms(item):
        slots = _of(item, arm)
        lines += [(arm, slot["series"], slot is _typical(slots)) for slot in slots]
        looks = item["counted"].get(arm, {}).get("live")
        if looks:
            rest = slots[0]["holders"]["live"] if slots[0].get("holders") else 0
            end = looks[-1]["t"] + 0.1
            lives.append((arm, [(look["t"], look["live"]) for look in looks] +
                          [(end, rest), (slots[0]["series"][-1][0], rest)]))
    if not lines:
        return None
    stop = stats.median([slot["stop"] for arm in _arms(item) for slot in _of(item, arm)])
    lines.sort(key=lambda line: line[2])
    return _figure("Memory over time", _legend([(a, a) for a in _arms(item)]),
                   charts.memory_over_time("Memory over time", lines, lives, stop),
                   "A line per slot, the typical one thick. Dashed: what was live in requests, asked in a "
                   "run of its own. The gap between the two is held for nothing.")


def _retention(item):
    arms = {}
    for arm in _arms(item):
        slots = _of(item, arm)
        points = []
        for due, *marks in zip(item["idle"], *(slot["idle"] for slot in slots)):
            over = [mark["anonymous"] - slot["baseline_bytes"] for mark, slot in zip(marks, slots)]
            points.append((due, min(over), stats.median(over), max(over)))
        arms[arm] = points
    if not arms:
        return None
    return _figure("Kept after the load", _legend([(a, a) for a in arms]),
                   charts.retention("Memory kept after the load", arms),
                   "Anonymous memory less lazily freed, over the baseline before the load.")


def _holders(item):
    rows = []
    for arm in ("malloc", "arena"):
        looks = item["counted"].get(arm, {}).get("live")
        if looks:
            rows.append((f"{arm}, peak", max(looks, key=lambda look: look["anonymous"])))
    for arm in ("malloc", "arena"):
        open_ = [slot["open"] for slot in _of(item, arm) if slot.get("open") and "live" in slot["open"]]
        if open_:
            rows.append((f"{arm}, open", {k: stats.median([o[k] for o in open_]) for k, _ in holders.LAYERS}))
    for arm in ("malloc", "arena"):
        rests = [slot["holders"] for slot in _of(item, arm) if slot.get("holders")]
        if rests:
            rows.append((f"{arm}, at rest", {k: stats.median([r[k] for r in rests])
                                             for k, _ in holders.LAYERS}))
    if not rows:
        return None
    return _figure("Who holds it", _legend(holders.LAYERS, "key layer"),
                   charts.holders("Who holds the memory", rows),
                   "As the server says of itself; the peak is from a run of its own. " + _pinned(item))


def _pinned(item):
    """Of what each arm retained: what could have been given back, and what could not."""
    words = []
    for arm in ("malloc", "arena"):
        slots = [slot for slot in _of(item, arm) if slot.get("reclaimable_bytes") is not None]
        if slots:
            words.append(f"{metrics.size(stats.median([slot['reclaimable_bytes'] for slot in slots]))} of {arm}'s")
    return (f"At the very end everything was told to give back what it can: {', '.join(words)} went. "
            "What stays is in use, or pinned by what is." if words else "")


def _costs(item):
    arms = [(arm, of["cpu_us_per_request"], of["retained_bytes"]) for arm, of in item["arms"].items()
            if of.get("cpu_us_per_request") and of.get("retained_bytes") is not None and arm != "static"]
    if len(arms) <= len(ARMS):
        return None
    return _figure("What is paid, what is kept", "", charts.costs("CPU against retained memory", arms),
                   "Medians of every arm; left and low is good. Below 64 KiB counts as that.")


def _at_rates(paced):
    arms = {}
    for item in paced:
        for arm in ("malloc", "arena"):
            of = {}
            for p, name in ((50, "p50_us"), (99, "p99_us")):
                values = [slot["metrics"][name] for slot in _of(item, arm) if slot["metrics"].get(name)]
                if values:
                    of[p] = min(values), stats.median(values), max(values)
            if of:
                arms.setdefault(arm, []).append((item["rate"], of))
    if not arms:
        return None
    return _figure("Latency at constant rates", _legend([(a, a) for a in arms]),
                   charts.at_rates("Latency at constant rates", arms),
                   "Solid: 99 % are as fast; dashed: half are. Requests come on their own, as users do, and "
                   "latency counts from when each was due.")


def _paced_table(paced):
    if not paced:
        return ""
    rows = ""
    for item in paced:
        for name in report_text.OF_RATES:
            metric, ratio = metrics.BY_NAME[name], item["ratio"].get(name)
            values = [metrics.number(item["arms"].get(arm, {}).get(name), metric.unit) for arm in ("malloc", "arena")]
            verdict = ratio["verdict"] if ratio else ""
            rows += (f"<tr><th>{item['rate']:,.0f} a second</th><td>{escape(metric.label)}</td>" +
                     "".join(f"<td>{escape(v)}</td>" for v in (*values, report_text.ratio_text(ratio))) +
                     f'<td class="verdict {verdict}">{verdict}</td></tr>')
    return ('<h3>At constant rates: 30, 60 and 80 % of what the slower arm can do</h3>'
            '<div class="wide"><table><thead><tr><th></th><th></th><th>malloc</th><th>arena</th>'
            f"<th>arena / malloc</th><th>verdict</th></tr></thead><tbody>{rows}</tbody></table></div>")


def _others(item):
    shown = {arm: of for arm, of in item["others"].items() if arm not in ("plain", "static")}
    if not shown:
        return ""
    names = report_text.of_others(item)
    heads = "".join(f'<th colspan="3">{escape(metrics.BY_NAME[name].label)}</th>' for name in names)
    rows = ""
    for arm, of in shown.items():
        cells = ""
        for name in names:
            ratio = of["ratio"].get(name)
            verdict = ratio["verdict"] if ratio else ""
            cells += (f"<td>{escape(metrics.number(item['arms'][arm].get(name), metrics.BY_NAME[name].unit))}</td>"
                      f"<td>{escape(report_text.ratio_text(ratio))}</td>"
                      f'<td class="verdict {verdict}">{verdict}</td>')
        rows += (f'<tr><th title="{escape(of["about"])}">{escape(of["over"])} / {escape(arm)}</th>{cells}</tr>')
    return (f'<h3>Other mallocs and other factors</h3><div class="wide"><table><thead><tr><th></th>{heads}</tr>'
            f"</thead><tbody>{rows}</tbody></table></div>")


def _curve(slots, which):
    """[(percentile, lowest, median, highest)] over slots, where every slot has that percentile."""
    ladders = [dict(map(tuple, slot["latency"][which])) for slot in slots if slot["latency"][which]]
    if not ladders:
        return None
    shared = sorted(set.intersection(*(set(ladder) for ladder in ladders)))
    return [(p, min(l[p] for l in ladders), stats.median([l[p] for l in ladders]),
             max(l[p] for l in ladders)) for p in shared]


def _latency(item):
    arms = {}
    for arm in _arms(item):
        raw, corrected = _curve(_of(item, arm), "raw"), _curve(_of(item, arm), "corrected")
        if raw:
            corrected = [p for p in corrected if p[0] <= raw[-1][0]] if corrected else None
            arms[arm] = {"raw": raw, "corrected": corrected}
    if not arms:
        return None
    wrk = any(of["corrected"] for of in arms.values())
    note = ("As measured; dashed: with wrk's own correction. " if wrk else "") + (
        f"{item['connections']:,} connections at once: this is mostly waiting in line.")
    return _figure("Latency", _legend([(a, a) for a in arms]),
                   charts.latency("Latency by percentile", arms), note)


def _forest(item):
    rows = [(m.label, item["ratio"][m.name], m.margin.ratio,
             report_text.factor(item["ratio"][m.name]["median"]))
            for m in metrics.ALL if m.name in item["ratio"]]
    if not rows:
        return None
    verdicts = [v for v in summary.VERDICTS if any(r["verdict"] == v for _, r, _, _ in rows)]
    return _figure("Every metric", _legend([(v, v) for v in verdicts], "key dot"),
                   charts.forest("Ratios with their intervals", rows),
                   report_text.confidence_text(item["ratio"]) + ". Shaded: what counts as no difference.")


def _slots(item):
    metric = metrics.BY_NAME[item["primary"][0]]
    unit, scale = "µs", 1
    if metric.unit == "bytes":
        most = max((slot["metrics"].get(metric.name) or 0 for slot in item["slots"]), default=0)
        unit, scale = ("MiB", 1 << 20) if most >= 1 << 20 else ("KiB", 1 << 10)
    points, used = [], {id(slot) for slot in summary.used(item["slots"])}
    for slot in item["slots"]:
        value = slot["metrics"].get(metric.name) if id(slot) in used else None
        if slot["arm"] in ARMS:
            points.append((slot["arm"], value / scale if value is not None else None, slot.get("noisy"),
                           f"{slot['arm']}: {metrics.number(value, metric.unit)}"))
    if not any(value is not None for _, value, _, _ in points):
        return None
    return _figure("Every slot", _legend([(a, a) for a in _arms(item)]),
                   charts.every_slot(f"{metric.label} in every slot", points,
                                     f"{metric.label}, {unit}"),
                   "Hollow: the machine was busy with something else. ✕: not used, as it or its pair is invalid.")


def _of_plain(item):
    return item["others"].get("plain", {}).get("ratio", {})


def _table(item):
    rows = ""
    for metric in metrics.ALL:
        values = [item["arms"].get(arm, {}).get(metric.name) for arm in ARMS]
        if values[0] is None and values[1] is None:
            continue
        ratio, plain = item["ratio"].get(metric.name), _of_plain(item).get(metric.name)
        verdict = ratio["verdict"] if ratio else ""
        primary = ' class="primary"' if metric.name in item["primary"] else ""
        cells = [metrics.number(v, metric.unit) for v in values[:2]] + [report_text.ratio_text(ratio)]
        of_plain = (f"<td>{escape(metrics.number(values[2], metric.unit))}</td>"
                    f"<td>{escape(report_text.ratio_text(plain))}</td>") if _of_plain(item) else ""
        rows += (f"<tr{primary}><th>{escape(metric.label)}</th>" +
                 "".join(f"<td>{escape(c)}</td>" for c in cells) +
                 f'<td class="verdict {verdict}">{verdict}</td>{of_plain}</tr>')
    heads = "<th>plain</th><th>malloc / plain</th>" if _of_plain(item) else ""
    return ('<div class="wide"><table><thead><tr><th></th><th>malloc</th><th>arena</th>'
            f"<th>arena / malloc</th><th>verdict</th>{heads}</tr></thead>"
            f"<tbody>{rows}</tbody></table></div>")


# ---- How ------------------------------------------------------------------------------------------

METHOD = (
    ("Slot", "A fresh server on one processor, its client and the lab on another. One answer is checked "
     "against what is right; then warm-up (none before a spike), reset of the peak, load, and silence: "
     "nothing asks the server anything for five seconds, only /proc is read. The next slot may run meanwhile."),
    ("CPU", "The scheduler's clock of the whole process in nanoseconds, from the load's start to 0.1 s after "
     "its end, over the requests that the server itself counts. Where a pair's loads come in turns of a third "
     "of a second, the median of the turns' ratios is the pair's. The user share is sampled at the kernel's "
     "tick, so it is less exact."),
    ("Memory", "Peak: the kernel's high-water mark since the load began. Retained: anonymous memory less what "
     "is lazily freed, five seconds after the load, over the baseline before it and less the growth of what "
     "is live."),
    ("Latency", "A closed loop: each connection sends its next request when the answer to the last is here. A "
     "slow server is then asked less, and its latency is mostly waiting in line. At constant rates the loop is "
     "open: requests come at random times, whether or not others have been answered, and latency counts from "
     "when one was due. wrk adds requests to its histogram that it did not send; that correction is undone "
     "exactly, and both are drawn. Percentiles with fewer than ten samples beyond them are not shown."),
    ("Verdict", "Arena and malloc run next to each other, ABBA or BAAB by the seed. The median of the pairs' "
     "ratios has an exact interval from order statistics. Better or worse: the whole interval is beyond 2 % "
     "(times) or 5 % (memory). Equivalent: the whole interval is within, or within 256 KiB. Else "
     "inconclusive. Client-bound: the client was the limit. A ratio counts what is below "
     f"{metrics.resolved()} as that."),
    ("plain", "A straightforward libmicrohttpd and jansson program on malloc, kept in the tree: what the "
     "malloc side is held against. It joins each block of two pairs once."),
    ("Invalid", "A slot with an error, a wrong or differing answer, counts that disagree, another allocator "
     "than asked for, a clock that jumped, fewer requests under way than connections, or an exit status "
     "other than 0. It is never used; its pair is run again, once."),
)


def _method(report):
    terms = "".join(f"<dt>{escape(t)}</dt><dd>{escape(d)}</dd>" for t, d in METHOD)
    slots = [slot for item in report["scenarios"] for slot in item["slots"]]
    bad, noisy = sum(not s["valid"] for s in slots), sum(bool(s.get("noisy")) for s in slots)
    return (f"<section><h2>How it was measured</h2><p>{len(slots)} slots, {bad} invalid, {noisy} on a "
            f"noisy machine; {report['pairs']} pairs per scenario, seed {report['seed']}, "
            f"{report['seconds']:.0f} seconds. <code>{escape(report['command'])}</code></p>"
            f"<dl>{terms}</dl></section>")


def _environment(report):
    env = dict(report["environment"])
    env.pop("warnings")
    versions = env.pop("versions")
    rows = [(key.replace("_", " "), value) for key, value in env.items()]
    for arm, said in versions.items():
        said = dict(said)
        options = said.pop("options", None) or {}
        rows += [(f"{arm}: {key}", value) for key, value in said.items()]
        rows.append((f"{arm}: options", ", ".join(f"{k}={v}" for k, v in options.items())))
    cells = "".join(f"<dt>{escape(str(k))}</dt><dd>{escape(_plain(v))}</dd>" for k, v in rows)
    return f'<section><h2>Where it was measured</h2><dl class="facts">{cells}</dl></section>'


def _plain(value):
    if isinstance(value, dict):
        return ", ".join(f"{k} {_plain(v)}" for k, v in value.items())
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    return "unknown" if value is None else str(value)
