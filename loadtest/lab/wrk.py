"""wrk as a client: a child process that loads the server for some seconds and leaves a file."""

import json
import math
import os
import signal
import subprocess
from pathlib import Path

from . import histogram

SCRIPT = Path(__file__).resolve().parent.parent / "wrk" / "steady.lua"
START_UP = 0.25  # seconds that are not load
STOP_SECONDS = 0.05  # on average, after it has been told to end: it looks ten times a second
TIMEOUT = 4  # seconds; wrk holds 8 bytes for each of its microseconds


def start(address, load, seconds, out, requests):
    """`requests`: a file of them. Returns the process. The file `out` appears when the load has ended."""
    env = dict(os.environ, LAB_REQUESTS=requests, LAB_OUT=out)
    return subprocess.Popen(
        ["wrk", "-t1", f"-c{load.connections}", f"-d{math.ceil(seconds)}s", f"--timeout={TIMEOUT}s",
         "-s", str(SCRIPT), f"http://{address[0]}:{address[1]}/"],
        env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def end_early(process):
    """wrk takes SIGINT for the end of its time."""
    process.send_signal(signal.SIGINT)


def merge(parts):
    """What was measured in all turns, of what read() gave for each."""
    whole = {name: sum(part[name] for part in parts)
             for name in ("requests", "seconds", "wrong_status", "errors", "unrecorded")}
    for name in ("corrected", "raw"):
        whole[name] = None if None in (found := [part[name] for part in parts]) else histogram.merge(found)
    return parts[0] | whole


def read(out, connections):
    """What was measured, in the lab's own terms."""
    with open(out, encoding="ascii") as f:
        said = json.load(f)
    errors = said["errors"]
    result = {"requests": said["requests"], "seconds": said["duration_us"] / 1e6,
              "connections": connections, "wrong_status": errors["status"],
              "errors": sum(errors[k] for k in ("connect", "read", "write", "timeout")),
              "raw": None, "corrected": None, "unrecorded": 0}
    if said["histogram"]:
        interval = histogram.wrk_interval(said["duration_us"], said["requests"], connections)
        result["corrected"] = [tuple(pair) for pair in said["histogram"]]
        result["raw"] = histogram.uncorrect(result["corrected"], interval)
        result["unrecorded"] = said["requests"] - histogram.count(result["raw"])
    return result
