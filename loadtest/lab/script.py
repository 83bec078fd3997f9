"""A load of the user's own: plugins, and a script for wrk that says what they are asked. wrk itself runs
the script, but without a server: what it would send is written down (wrk/record.lua) and from then on
sent as every other scenario's requests are, the same to every arm and by every client."""

import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from . import payload
from .scenario import Load, Scenario

RECORDER = Path(__file__).resolve().parent.parent / "wrk" / "record.lua"
PLACE = "127.0.0.1:1"  # stands for the server's address in what is written down
COUNT = 2000  # requests at most; then they begin again
SAMPLES = 10  # different ones, whose answers are looked at
SECONDS = 20  # for the script
UNSUPPORTED = {
    "setup": "there is one thread of wrk, and all arms are sent the same",
    "delay": "the load is the lab's: --rates has one at constant rates",
    "response": "requests are made before any answer is there",
}


class ScriptError(Exception):
    pass


@dataclass(frozen=True)
class Recorded(payload.Request):
    """As wrk would send it, byte for byte, but for the server's address."""

    raw: bytes = b""
    fields: tuple = ()  # of pairs: those of its headers that http.client does not make itself

    def of_a_row(self):
        return False

    def headers(self):
        return dict(self.fields)

    def text(self, address):
        return self.raw.replace(f"Host: {PLACE}\r\n".encode(), f"Host: {address[0]}:{address[1]}\r\n".encode(), 1)


def scenario(script, plugins, flags, connections):
    """`plugins`: files; `flags`: more for slate. Raises ScriptError."""
    for file in (script, *plugins):
        if not os.path.isfile(file):
            raise ScriptError(f"{file} is no file")
    requests = [_parse(script, raw) for raw in _record(script)]
    if len(set(requests)) == 1:
        requests = requests[:1]
    name = re.sub(r"[^A-Za-z0-9_.-]", "-", Path(script).stem)
    served = " and ".join(Path(file).name for file in plugins) or "slate"
    count = f"{len(requests)} requests in turn" if len(requests) > 1 else f"{requests[0].method} {requests[0].path}"
    return Scenario(
        name=name, title=f"{Path(script).name} on {served}",
        about=f"{count}, {connections} connections kept alive",
        expected="unknown", why="A script of the user's: nobody has said beforehand who should win.",
        primary=["cpu_us_per_request", "user_us_per_request"], requests=requests, yardstick=False, rates=True,
        flags=[word for file in plugins for word in ("--plugin", os.path.abspath(file))] + list(flags),
        load=Load(client="wrk", connections=connections, warm_up=0.4, seconds=2), own=True)


def _record(script):
    """The requests, as bytes."""
    if not shutil.which("wrk"):
        raise ScriptError("wrk is not installed (Debian package wrk)")
    with tempfile.TemporaryDirectory(prefix="slate-script-") as folder:
        out = os.path.join(folder, "requests")
        env = dict(os.environ, LAB_SCRIPT=os.path.abspath(script), LAB_COUNT=str(COUNT), LAB_OUT=out)
        try:
            done = subprocess.run(["wrk", "-t1", "-c1", "-d1s", "-s", str(RECORDER), f"http://{PLACE}/"], env=env,
                                  stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            raise ScriptError(f"{script} did not come to its end within {SECONDS} seconds") from None
        try:
            said = Path(out).read_bytes()
        except OSError:
            said = b""
    what, _, rest = said.partition(b"\n")
    if what == b"requests":
        return _split(rest)
    if what == b"unsupported":
        name = rest.decode()
        raise ScriptError(f"{script} has a function {name}(), which the lab does not support: {UNSUPPORTED[name]}")
    why = (rest or done.stderr).decode(errors="replace").strip().splitlines() or ["wrk said nothing"]
    raise ScriptError(f"{script} cannot be run: {why[0]}")


def _split(text):
    found = []
    while text:
        length, _, text = text.partition(b"\n")
        found.append(text[:int(length)])
        text = text[int(length):]
    return found


def _parse(script, raw):
    head, end, body = raw.partition(b"\r\n\r\n")
    line, *lines = head.decode("latin-1").split("\r\n")
    words = line.split(" ")
    if not end or len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise ScriptError(f"{script}: {line[:80]!r} does not begin a request")
    fields = [(name, value.strip()) for name, _, value in (each.partition(":") for each in lines)]
    named = {name.lower(): value for name, value in fields}
    if "transfer-encoding" not in named and named.get("content-length", "0") != str(len(body)):
        raise ScriptError(f"{script}: a request has a body of {len(body)} bytes and says Content-Length: "
                          f"{named.get('content-length')}; request() has to return one request at a time")
    return Recorded(method=words[0], path=words[1], body=body, status=payload.SUCCESS, raw=raw,
                    close=named.get("connection", "").lower() == "close", answer=payload.Anything(),
                    fields=tuple((name, value) for name, value in fields
                                 if name.lower() not in ("host", "content-length")))


def deck(requests):
    """In the order in which the script made them."""
    kinds = {}
    for request in requests:
        kinds.setdefault((request.method, request.path), request)
    return payload.Deck(list(kinds.values())[:SAMPLES], requests)
