"""Scenarios: one TOML file each, with the winner that was expected before anything was run."""

import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from . import payload

DIRECTORY = Path(__file__).resolve().parent.parent / "scenarios"
COMPARED = ["json", "echo", "transform", "spike", "connections"]  # unless others are asked for
ORDER = [*COMPARED, "transfer", "small", "sizes", "deep", "tiny", "growth", "littered", "threads-2", "threads-4",
         "churn", "interleaved", "huge", "trickle", "open", "slow-uploads", "slow-reads", "errors",
         "get", "list", "write", "mixed", "stream", "slow-stream"]  # of the report; others follow
WINNERS = ("arena", "malloc", "equivalent")


class ScenarioError(Exception):
    pass


@dataclass
class Load:
    client: str  # "wrk": as much as it can for some seconds; "swarm": so many requests, then done
    connections: int
    seconds: int = 0
    requests: int = 0  # per connection
    warm_up: float = 0
    upload: int = 0  # bytes per second and connection; 0: as fast as it goes
    download: int = 0
    hold: float = 0  # seconds for which connections stay open after their last answer
    counted: int = 100  # requests in the slot that counts calls of malloc


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
    yardstick: bool = True  # whether plain can do it
    rows: int = 0  # that the server's store holds; 0: no store
    threads: int = 1  # more than one: of both processors, beside the client
    before: list = field(default_factory=list)  # of payload.Request: sent once, when the peak is reset
    trickle: float = 0  # requests per second during the silence, which then is none
    litter: bool = False  # the server starts with a heap that is full of holes
    flags: list = field(default_factory=list)  # for slate alone
    idle: list = field(default_factory=lambda: [0.1, 1, 5])  # seconds after the load

    def body_bytes(self):
        """The mean length of a body."""
        shares = sum(request.share for request in self.requests)
        return sum(len(request.body) * request.share for request in self.requests) / shares


def names():
    found = sorted(path.stem for path in DIRECTORY.glob("*.toml"))
    return sorted(found, key=lambda n: ORDER.index(n) if n in ORDER else len(ORDER))


def load(name):
    path = DIRECTORY / f"{name}.toml"
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
