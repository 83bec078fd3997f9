"""Scenarios: one TOML file each, with the winner that was expected before anything was run."""

import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path

from . import payload

DIRECTORY = Path(__file__).resolve().parent.parent / "scenarios"
COMPARED = ["json", "echo", "transform", "spike", "connections"]  # unless others are asked for
ORDER = [*COMPARED, "transfer", "small", "sizes", "deep", "tiny", "growth", "littered", "threads-2", "threads-4",
         "churn", "interleaved", "huge", "trickle", "open", "slow-uploads", "slow-reads", "errors",
         "get", "list", "write", "mixed", "stream", "slow-stream"]  # of the report; others follow
PACED_CONNECTIONS = 64
TURN_SECONDS = 0.3  # of load, before the other arm of a pair has its turn,
TURN_SECONDS_PER_CONNECTION = 0.004  # or more: to open and to close one is a hundredth of it
PACED_SECONDS = 3
WINNERS = ("arena", "malloc", "equivalent")


class ScenarioError(Exception):
    pass


@dataclass
class Load:
    client: str  # "wrk": as much as it can for some seconds; "swarm": so many requests, then done;
    # "pace": so many a second, as at_rate() makes of the first
    connections: int
    seconds: int = 0
    requests: int = 0  # per connection
    warm_up: float = 0
    rate: float = 0  # requests per second
    upload: int = 0  # bytes per second and connection; 0: as fast as it goes
    download: int = 0
    hold: float = 0  # seconds for which connections stay open after their last answer
    counted: int = 100  # requests in the slot that counts calls of malloc
    one_piece: bool = False  # requests take so long that each end of a turn would cut off many

    @property
    def turns(self):
        """In how many pieces it can come. A load of so many requests, or at a rate, is one."""
        if self.client != "wrk" or self.one_piece:
            return 1
        return max(1, int(self.seconds / max(TURN_SECONDS, self.connections * TURN_SECONDS_PER_CONNECTION)))


@dataclass
class Scenario:
    name: str
    title: str
    about: str
    expected: str
    why: str
    primary: list
    requests: list  # of payload.Request
    load: Load
    baseline: bool = False
    rates: bool = False  # worth running at constant rates too
    factors: bool = False  # worth running without pools, with jansson's parser, and with the walk
    of: str | None = None  # the scenario that this is at a constant rate
    yardstick: bool = True  # whether plain can do it
    rows: int = 0  # that the server's store holds; 0: no store
    threads: int = 1  # more than one: of both processors, beside the client
    before: list = field(default_factory=list)  # of payload.Request: sent once, when the peak is reset
    trickle: float = 0  # requests per second during the silence, which then is none
    litter: bool = False  # the server starts with a heap that is full of holes
    body_limit: str | None = None  # other than the programs' own, 1M
    flags: list = field(default_factory=list)  # for slate alone
    own: bool = False  # of the user's script (script.py): right is what has a status of 2xx, and is JSON if it says so
    idle: list = field(default_factory=lambda: [0.1, 1, 5])  # seconds after the load

    def body_bytes(self):
        """The mean length of a body."""
        shares = sum(request.share for request in self.requests)
        return sum(len(request.body) * request.share for request in self.requests) / shares


def at_rate(scenario, share, per_second):
    """The same requests, but coming on their own: so many a second, a `share` of what the slower arm
    can do."""
    return replace(
        scenario, name=f"{scenario.name}-at-{100 * share:.0f}", of=scenario.name,
        title=f"{scenario.title}, at {100 * share:.0f} % of capacity",
        about=f"As {scenario.name}, but {per_second:,.0f} requests a second that come on their own, "
              f"on {PACED_CONNECTIONS} connections",
        primary=["cpu_us_per_request", "p99_us"], baseline=False, yardstick=False,
        idle=scenario.idle[:1],
        load=replace(scenario.load, client="pace", connections=PACED_CONNECTIONS, rate=per_second,
                     seconds=PACED_SECONDS))


def names():
    found = sorted(path.stem for path in DIRECTORY.glob("*.toml"))
    return sorted(found, key=lambda n: ORDER.index(n) if n in ORDER else len(ORDER))


def load(name, folder=DIRECTORY):
    path = folder / f"{name}.toml"
    if not path.exists():
        raise ScenarioError(f"there is no scenario {name!r}; there are: {', '.join(names())}")
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        asked = data.pop("request")
        asked = asked if isinstance(asked, list) else [asked]
        before = [request for spec in data.pop("before", []) for request in payload.build(spec)]
        scenario = Scenario(**data | {"name": name, "load": Load(**data["load"]), "before": before,
                                      "requests": [request for spec in asked
                                                   for request in payload.build(spec)]})
    except (KeyError, TypeError, ValueError, payload.PayloadError) as error:
        raise ScenarioError(f"{path}: {error}") from error
    if scenario.expected not in WINNERS:
        raise ScenarioError(f"{path}: expected is one of {', '.join(WINNERS)}")
    return scenario
