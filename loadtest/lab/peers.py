"""Other servers, in the same run as slate: nginx, ulfius and Node's http, each on the workloads that it
can do, all arms in turn. User CPU and CPU per request, peak and retained memory; and slate over each of
them, beside the figure to reach."""

import random
import shutil
import signal
import time
from dataclasses import dataclass, replace
from pathlib import Path

from . import compare, environment, floor, metrics, report_text, scenario, stats
from .arm import ARENA, MALLOC, STATIC, Arm
from .bench import Bench
from .progress import Progress
from .slot import run_all

FOLDER = Path(__file__).resolve().parent.parent / "peers"
SHOWN = ("user_us_per_request", "cpu_us_per_request", "requests_per_second", "peak_rss_bytes",
         "retained_bytes")
# Of load in a slot: long enough for a compiler to warm up. The share of user CPU is sampled, and of
# /json it is a sixth of all; it takes a longer look to tell it from a near one.
SECONDS, LONG = 3, {"json": 6}


@dataclass(frozen=True)
class Peer(Arm):
    """A program that is told the port to listen on."""

    needs_port: bool = True
    count_signal: int = signal.SIGUSR2
    executable: str | None = None  # outside of the build

    def missing(self):
        return self.package if self.executable and not shutil.which(self.executable) else None

    def command(self, build, item, store=None, port=0):
        if self.executable == "nginx":
            return ["nginx", "-p", self._nginx_folder(build, port), "-c", "nginx.conf"]
        if self.executable:
            return [self.executable, str(FOLDER / self.program), str(port)]
        return [str(Path(build) / self.program), str(port)]

    @staticmethod
    def _nginx_folder(build, port):
        """Its own, with its configuration filled in."""
        folder = Path(build) / "loadtest/peers/nginx"
        folder.mkdir(exist_ok=True)
        text = (FOLDER / "nginx.conf").read_text(encoding="utf-8")
        (folder / "nginx.conf").write_text(text.replace("PORT", str(port)).replace("FOLDER", str(folder)),
                                           encoding="utf-8")
        return str(folder)


NGINX = Peer("nginx", "nginx.conf", executable="nginx", package="nginx", count_path="/count")
ULFIUS = Peer("ulfius", "loadtest/peers/ulfius", package="libulfius-dev")
NODE = Peer("node", "node.js", executable="node", package="nodejs")


@dataclass(frozen=True)
class Limit:
    """Slate's arena has to take at most `factor` times what `peer` takes."""

    peer: Peer
    metric: str
    factor: float


WORKLOADS = (
    ("json", (STATIC, NGINX, ULFIUS, NODE), (Limit(NGINX, "user_us_per_request", 1.0),)),
    ("transfer", (ULFIUS, NODE), (Limit(ULFIUS, "user_us_per_request", 0.25),
                                  Limit(NODE, "user_us_per_request", 0.25))),
    ("list-20", (ULFIUS, NODE), (Limit(NODE, "cpu_us_per_request", 0.5),)),
    ("echo-10k", (ULFIUS, NODE), (Limit(NODE, "cpu_us_per_request", 0.5),)),
    ("echo-100k", (ULFIUS, NODE), (Limit(NODE, "cpu_us_per_request", 0.5),)),
    ("spike", (ULFIUS, NODE), ()),
    ("connections", (NGINX, ULFIUS, NODE), ()),
)
NAMES = tuple(name for name, _, _ in WORKLOADS)


def _load(name):
    own = FOLDER / "scenarios"
    item = scenario.load(name, own if (own / f"{name}.toml").exists() else scenario.DIRECTORY)
    if item.load.client == "wrk":
        item = replace(item, load=replace(item.load, warm_up=1, seconds=LONG.get(name, SECONDS)))
    return item


def _slot_seconds(name):
    return LONG.get(name, SECONDS) + 3


def _present(peer, build):
    """Whether it is there; a program of ours is only if its library was when it was built."""
    if isinstance(peer, Peer):
        return not peer.missing() and (peer.executable or (Path(build) / peer.program).exists())
    return True


def run(build, rounds, seed, argv, names=NAMES):
    """The report as a dict."""
    rng, progress, started = random.Random(seed), Progress(), time.time()
    chosen = [of for of in WORKLOADS if of[0] in names]
    absent = sorted({peer.package for _, peers, _ in chosen for peer in peers if not _present(peer, build)})
    loads = [(_load(name), [MALLOC, ARENA, *(p for p in peers if _present(p, build))], limits)
             for name, peers, limits in chosen]
    found = {item.name: [] for item, _, _ in loads}  # slots
    left = rounds * sum(len(arms) * _slot_seconds(item.name) for item, arms, _ in loads)
    with Bench(build) as bench:
        about = environment.describe(bench)
        for number in range(rounds):
            for item, arms, _ in loads:
                progress.step(f"round {number + 1} of {rounds}, {item.name}", left)
                found[item.name] += _slots(bench, item, rng.sample(arms, len(arms)), number)
                left -= len(arms) * _slot_seconds(item.name)
    progress.end()
    noisy = compare.mark_noisy([slot for slots in found.values() for slot in slots])
    about["warnings"] = environment.warnings(about) + noisy + [
        f"Debian's {name} is not there (or was not when slate was built): it is left out" for name in absent]
    about["node"] = environment.version_of("node", "--version")
    about["nginx"] = environment.version_of("nginx", "-v")
    workloads = [_workload(item, arms, limits, found[item.name]) for item, arms, limits in loads]
    return {"schema": 1, "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
            "seconds": round(time.time() - started, 1), "command": argv, "seed": seed, "rounds": rounds,
            "environment": about, "workloads": workloads}


def _slots(bench, item, arms, number):
    """Of a round: one of each arm, all once more where one is not valid."""
    slots = []
    for again in (False, True):
        slots += run_all(bench, item, arms, {"block": number, "pair": None, "repeat": again})
        if all(slot["valid"] for slot in slots[-len(arms):]):
            break
    for slot in slots:
        for bulky in ("series", "latency", "idle"):
            slot.pop(bulky, None)
    return slots


def _workload(item, arms, limits, slots):
    runs = {}
    for slot in sorted(slots, key=lambda slot: slot["repeat"]):
        of_run = runs.setdefault((slot["block"], slot["repeat"]), {})
        if slot["valid"]:
            of_run[slot["arm"]] = slot["metrics"]
    by_round = {block: of_run for (block, _), of_run in runs.items()}  # the last run of each
    medians = {}
    for arm in arms:
        of_arm = [of[arm.name] for of in by_round.values() if arm.name in of]
        medians[arm.name] = {name: _median([of.get(name) for of in of_arm]) for name in SHOWN}
    ratios = {arm.name: _ratios(by_round, arm.name) for arm in arms if arm is not ARENA}
    return {"name": item.name, "about": item.about, "arms": medians, "ratio": ratios,
            "limits": [_limit(limit, ratios) for limit in limits if limit.peer.name in ratios],
            "slots": slots}


def _median(values):
    known = [value for value in values if value is not None]
    return stats.median(known) if known else None


def _ratios(by_round, arm):
    """Arena over `arm`, round by round."""
    result = {}
    for name in SHOWN:
        metric = metrics.BY_NAME[name]
        pairs = [metrics.of_pair(metric, of.get("arena", {}), of.get(arm, {})) for of in by_round.values()]
        ratio = stats.compare(pairs, metric.margin, metric.higher_is_better)
        if ratio:
            result[name] = ratio
    return result


def _limit(limit, ratios):
    ratio = ratios[limit.peer.name].get(limit.metric)
    return {"peer": limit.peer.name, "metric": limit.metric, "at_most": limit.factor, "ratio": ratio,
            "reached": ratio is not None and ratio["median"] <= limit.factor}


def reached(report):
    return all(limit["reached"] for workload in report["workloads"] for limit in workload["limits"])


def render(report):
    lines = [f"{report['rounds']} rounds, seed {report['seed']}, {report['seconds']:.0f} s; node "
             f"{report['environment']['node']}, {report['environment']['nginx']}"]
    lines += [f"WARNING: {said}" for said in report["environment"]["warnings"]]
    for workload in report["workloads"]:
        rows = [("", *(metrics.BY_NAME[name].label for name in SHOWN), "arena / this: user CPU", "CPU")]
        for arm, of in workload["arms"].items():
            ratios = workload["ratio"].get(arm, {})
            rows.append((arm, *(metrics.number(of[name], metrics.BY_NAME[name].unit) for name in SHOWN),
                         *(report_text.ratio_text(ratios[name]) if name in ratios else "" for name in SHOWN[:2])))
        lines += ["", f"{workload['name']}: {workload['about']}",
                  *("  " + line for line in report_text.in_columns(rows, left=1))]
        for limit in workload["limits"]:
            words = floor.words(limit["ratio"], limit["at_most"]) if limit["ratio"] else "no valid round"
            lines.append(f"  {metrics.BY_NAME[limit['metric']].label}, arena / {limit['peer']}: "
                         f"{report_text.ratio_text(limit['ratio'])}, at most {limit['at_most']}: {words}")
        lines += [f"  INVALID {said}" for said in dict.fromkeys(report_text.invalid(workload))]
    return "\n".join(lines) + "\n"
