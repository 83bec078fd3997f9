"""The report as a person sees it: in a browser, wide and narrow, light and dark, with no network."""
import shutil
import struct
import subprocess
import zlib

import pytest
import reports

from lab import report_html

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
PAGE = {"light": (0xF7, 0xF7, 0xF5), "dark": (0x14, 0x17, 0x1A)}
MALLOC = {"light": (0xC2, 0x41, 0x0C), "dark": (0xFB, 0x92, 0x3C)}
ARENA = {"light": (0x0E, 0x74, 0x90), "dark": (0x38, 0xC6, 0xDE)}
EDGE = 3  # pixels at the right that nothing may reach


def unfiltered(kind, line, above, step):
    """One line of a PNG (its section 9)."""
    line = bytearray(line)
    if kind == 2:
        return bytes((a + b) & 255 for a, b in zip(line, above))
    for i in range(len(line) if kind else 0):
        left = line[i - step] if i >= step else 0
        corner = above[i - step] if i >= step else 0
        if kind == 1:
            predicted = left
        elif kind == 3:
            predicted = (left + above[i]) // 2
        else:
            guess = left + above[i] - corner
            predicted = min((left, above[i], corner), key=lambda v: abs(guess - v))
        line[i] = (line[i] + predicted) & 255
    return bytes(line)


def pixels(path):
    """Lines of (red, green, blue), of a PNG as browsers write it: eight bits, not interlaced."""
    data, at, packed = path.read_bytes(), 8, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        if kind == b"IHDR":
            width, height, depth, colour, *_, interlaced = struct.unpack(">IIBBBBB", data[at + 8:at + 21])
        if kind == b"IDAT":
            packed += data[at + 8:at + 8 + length]
        at += 12 + length
    assert depth == 8 and colour in (2, 6) and not interlaced
    step = 3 if colour == 2 else 4
    raw, above, lines = zlib.decompress(packed), bytes(width * step), []
    for y in range(height):
        start = y * (width * step + 1)
        above = unfiltered(raw[start], raw[start + 1:start + 1 + width * step], above, step)
        lines.append([tuple(above[i:i + 3]) for i in range(0, len(above), step)])
    return lines


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(report_html.render(reports.suite()), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def shot(page):
    if not BROWSER:
        pytest.skip("chromium is not installed")
    taken = {}

    def take(width, height, scheme):
        if (width, scheme) not in taken:
            out = page.parent / f"{width}-{scheme}.png"
            subprocess.run(
                [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                 "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={page.parent / 'profile'}",
                 f"--blink-settings=preferredColorScheme={0 if scheme == 'dark' else 1}",
                 f"--window-size={width},{height}", f"--screenshot={out}", page.as_uri()],
                check=True, timeout=120, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            taken[width, scheme] = pixels(out)
        return taken[width, scheme]
    return take


SIZES = [(1280, 2200, "light"), (400, 3200, "light"), (400, 3200, "dark")]


@pytest.mark.parametrize("width, height, scheme", SIZES)
def test_nothing_spills_over_the_edge(shot, width, height, scheme):
    lines = shot(width, height, scheme)
    assert len(lines) == height and len(lines[0]) == width
    assert {pixel for line in lines for pixel in line[-EDGE:]} == {PAGE[scheme]}


@pytest.mark.parametrize("width, height, scheme", SIZES)
def test_both_arms_are_drawn_in_the_colours_of_the_scheme(shot, width, height, scheme):
    seen = {}
    for line in shot(width, height, scheme):
        for pixel in line:
            seen[pixel] = seen.get(pixel, 0) + 1
    assert seen[MALLOC[scheme]] > 100 and seen[ARENA[scheme]] > 100
    other = "dark" if scheme == "light" else "light"
    assert PAGE[other] not in seen or seen[PAGE[other]] < 100


@pytest.mark.parametrize("width, height, scheme", SIZES)
def test_the_page_is_full_from_top_to_bottom(shot, width, height, scheme):
    """No long stretch without anything: a drawing that failed leaves one."""
    empty, longest = 0, 0
    for line in shot(width, height, scheme):
        empty = empty + 1 if len(set(line)) == 1 else 0
        longest = max(longest, empty)
    assert longest < 120
