"""pace as a client: requests at random times of a fixed mean rate, whatever becomes of those before.
An open loop: latency counts from when a request was due."""

import json
import subprocess

from . import histogram

START_UP = 0.25  # seconds that are not load


def start(program, address, load, seconds, out, requests):
    """Returns the process. The file `out` appears when the last answer has come."""
    return subprocess.Popen(
        [program, address[0], str(address[1]), requests, str(load.connections), str(load.rate),
         str(seconds), "1", out],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def read(out, connections):
    """`raw` is from when a request was due, `sent` from when a free connection sent it."""
    with open(out, encoding="ascii") as f:
        said = json.load(f)
    raw, sent, late = ([tuple(pair) for pair in said.pop(k)] for k in ("from_due", "from_sent", "late"))
    return said | {"connections": connections, "raw": raw, "sent": sent, "corrected": None,
                   "late_us": histogram.percentile(late, 99) if late else 0,
                   "unrecorded": said["requests"] - histogram.count(raw)}
