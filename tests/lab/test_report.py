"""The report: complete, well-formed, and nothing in it comes from elsewhere."""
import json
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import pytest
import reports

from lab import charts, metrics, report_html, report_text

VOID = {"meta", "br"}


class Balance(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.tags = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))


@pytest.fixture(scope="module")
def page():
    return report_html.render(reports.report())


def parsed(page):
    parser = Balance()
    parser.feed(page)
    assert parser.open == []
    return parser.tags


def test_every_tag_is_closed_and_every_chart_is_xml(page):
    parsed(page)
    drawings = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(drawings) >= 10
    for drawing in drawings:
        ElementTree.fromstring(drawing)


def test_nothing_is_loaded_and_nothing_runs(page):
    tags = parsed(page)
    assert not {"script", "link", "img", "iframe"} & {tag for tag, _ in tags}
    assert not re.search(r"https?://|url\(|@import", page)
    assert all(attrs["href"].startswith("#") for tag, attrs in tags if tag == "a")


def test_what_the_machine_says_of_itself_is_escaped(page):
    assert "&lt;a CPU &amp; more&gt;" in page and "<a CPU" not in page


def test_coordinates_are_numbers_within_the_drawing(page):
    assert not re.search(r'"[^"]*\b(nan|inf)\b[^"]*"', page)
    for drawing in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        root = ElementTree.fromstring(drawing)
        _, _, width, height = map(float, root.get("viewBox").split())
        for text in root.iter("text"):
            if text.get("x"):
                assert 0 <= float(text.get("x")) <= width and 0 <= float(text.get("y")) <= height


def test_losses_are_listed_and_as_large_as_wins():
    report = reports.report(echo=reports.slots(ratio=1.5))
    page, text = report_html.render(report), report_text.render(report)
    assert page.count('class="card worse"') == 1 and "1.500 ×" in page
    assert "worse: echo, CPU per request: 1.500" in text
    assert re.search(r"CPU per request \*.*WORSE", text)


def test_a_run_without_a_valid_slot_still_makes_a_report():
    broken = [reports.invalid(slot) for slot in reports.slots()]
    report = reports.report(echo=broken, spike=broken)
    assert "no valid pair" in report_html.render(report)
    text = report_text.render(report)
    assert text.count("INVALID") == 2 * len(broken) and "exit status <1>" in text


def test_slots_that_never_ran_do_not_break_the_report():
    failed = {"arm": "arena", "block": 0, "pair": 0, "repeat": False, "valid": False, "metrics": {},
              "gates": [{"name": "run", "passed": False, "said": "the server did not start"}]}
    report = reports.report(echo=reports.slots() + [failed])
    assert "the server did not start" in report_html.render(report)
    assert "the server did not start" in report_text.render(report)


def test_an_invalid_slot_says_what_became_of_its_pair():
    slots = reports.slots()
    for pair in (0, 1, 2):
        slots[2 * pair + 1] = reports.invalid(slots[2 * pair + 1])
    for pair in (0, 1):
        slots += [reports.slot(arm, pair, pair // 2, repeat=True) for arm in ("malloc", "arena")]
    slots[-1] = reports.invalid(slots[-1])
    report = reports.report(echo=slots)
    text = report_text.render(report)
    for said in ("arena, pair 1 (run again, and that one counts): exit: exit status",
                 "arena, pair 2 (run again, and stayed invalid: not used): exit",
                 "arena, pair 2 (second run; stayed invalid: not used): exit", "arena, pair 3 (not used): exit"):
        assert f"INVALID echo, {said}" in text
        assert f"echo, {said.split(': exit')[0]}" in report_html.render(report)
    assert '<details class="warning" open>' in report_html.render(report)


def test_a_missing_figure_is_explained():
    assert "; – too few samples for it\n" in report_text.render(reports.report())


def test_the_terminal_shows_each_metric_and_how_sure_it_is():
    text = report_text.render(reports.report())
    for metric in metrics.ALL:
        if metric.name not in ("p999_us", "held_bytes_per_connection"):  # not in the fixture
            assert metric.label in text
    assert "6 pairs, intervals 96.9 % sure" in text
    assert "against plain 3 pairs, intervals 75.0 % sure, below the usual 95 %" in text
    assert "\x1b" not in text and "\x1b[32mbetter" in report_text.render(reports.report(), colour=True)


@pytest.fixture(scope="module")
def suite():
    return reports.suite()


def test_a_suite_is_as_well_formed_as_a_comparison(suite):
    page = report_html.render(suite)
    parsed(page)
    for drawing in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        root = ElementTree.fromstring(drawing)
        _, _, width, height = map(float, root.get("viewBox").split())
        assert all(0 <= float(text.get("y", 0)) <= height for text in root.iter("text"))
    anchors = set(re.findall(r'<section id="([^"]+)"', page))
    assert anchors == {"echo", "spike", "open"} >= set(re.findall(r'href="#([^"]+)"', page))


def test_the_arena_is_shown_over_every_malloc(suite):
    page, text = report_html.render(suite), report_text.render(suite)
    for arm in ("malloc", "malloc-trim", "jemalloc", "mimalloc"):
        assert page.count(f">arena / {arm}</th>") >= 1
    assert re.search(r"arena / jemalloc +90.0 µs +0.8\d\d \[.*better", text)
    assert '<td class="worse"' in page  # spike: 1.2 times malloc's CPU


def test_many_scenarios_have_an_overview():
    report = reports.report()
    assert "all scenarios" not in report_text.render(report)
    report["scenarios"] += [item | {"name": f"{item['name']}{i}"} for i in range(3) for item in report["scenarios"]]
    text = report_text.render(report)
    assert re.search(r"^  echo2 +arena +arena +0.700 ", text, re.MULTILINE)


def test_constant_rates_stand_with_their_scenario_and_say_what_they_are(suite):
    page, text = report_html.render(suite), report_text.render(suite)
    assert "Latency at constant rates" in page and "1,000 a second" in page
    assert text.index("at constant rates") < text.index("spike:") and "2,000  100 µs → " not in text
    for words in (page, text):
        assert "whether or not" in words and "when the answer" in words


def test_open_connections_say_who_holds_what(suite):
    said = "each of 5,000 open connections holds 12.7 KiB more than at the start"
    for words in (report_html.render(suite), report_text.render(suite)):
        assert f"arena: {said}" in words and "libmicrohttpd's connections 8.19 KiB" in words.replace("&#x27;", "'")


def test_what_a_last_trim_gave_back_is_told_from_what_is_pinned(suite):
    assert "1.00 MiB of malloc&#x27;s, 48.8 KiB of arena&#x27;s went" in report_html.render(suite)


def test_every_arm_has_its_place_in_what_is_paid_and_what_is_kept(suite):
    (drawing,) = re.findall(r'<svg[^>]*aria-label="CPU against retained memory".*?</svg>',
                            report_html.render(suite), re.DOTALL)[:1]
    names = re.findall(r">([a-z-]+)</text>", drawing)
    assert {"malloc", "arena", "plain", "jemalloc", "mimalloc", "malloc-trim"} <= set(names)
    heights = [float(y) for y in re.findall(r'x="276" y="([\d.]+)"', drawing)]
    assert len(heights) == 6 and all(b - a >= 12.9 for a, b in zip(heights, heights[1:]))


def test_a_report_survives_its_file():
    report = json.loads(json.dumps(reports.report()))
    assert report_html.render(report) and report_text.render(report)


@pytest.mark.parametrize("value, unit, expected", [
    (None, "us", "–"), (0, "us", "0 µs"), (7.614, "us", "7.61 µs"), (832.2, "us", "832 µs"),
    (53_300, "us", "53.3 ms"), (1_130_000, "us", "1.13 s"), (100_444.3, "per_s", "100,444/s"),
    (512, "bytes", "512 B"), (-20_480, "bytes", "-20.0 KiB"), (52_600_000, "bytes", "50.2 MiB"),
    (6235.04, "count", "6235"), (0.5, "count", "0.50"),
])
def test_numbers_for_people(value, unit, expected):
    assert metrics.number(value, unit) == expected


@pytest.mark.parametrize("top", [0.003, 1, 7, 99, 1234.5])
def test_ticks_are_round_and_reach_the_top(top):
    scale, ticks = charts.linear_ticks(top)
    assert ticks[0] == 0 and ticks[-1] == pytest.approx(scale) and scale >= top
    assert 2 <= len(ticks) <= 7


@pytest.mark.parametrize("low, high", [(3, 4), (90, 110), (200, 25_000), (1, 10_000_000)])
def test_log_ticks_enclose_the_data(low, high):
    (bottom, top), ticks = charts.log_ticks(low, high)
    assert bottom <= low and top >= high and 2 <= len(ticks) <= 9
