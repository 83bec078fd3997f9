"""One slot: one fresh server under one load, then left alone.

    start, baseline, check of an answer, warm-up, settle, [peak reset, counters] load, idle, stop

The load of slots that are compared comes in turns of a third of a second, A B B A …: what the machine
does meanwhile, and that changes by the second, then meets both. The slot is over for the lab when its
load is; the server lives on under a watch (idle.py) and is asked, stopped and judged by finish(), when
nothing is being measured."""

import itertools
import os
import resource
import subprocess
import time

from . import gates, histogram, holders, metrics, pace, proc, swarm, wrk
from .idle import Trickle, Watch
from .server import ServerError

SAMPLE_SECONDS = 0.04
PACED_SAMPLE_SECONDS = 0.25  # the lab's work may delay a client that has to be in time
SETTLE_SECONDS = 0.1
BREATH_SECONDS = 0.02  # after a turn that is not the last
AT_REST_SECONDS = 5  # after the load; looks that come later are for the curve
AFTER_LOAD_SECONDS = 0.1  # the server ends what the client no longer waits for,
OPEN_LOOK_SECONDS = 0.5  # before connections that are held are closed
AT_MOST_SECONDS = 10  # or longer, where it gets little of its processor
CLIENTS = {"wrk": wrk, "swarm": swarm, "pace": pace}


class Slot:
    def __init__(self, bench, scenario, arm, place):
        self.bench, self.scenario, self.arm, self.place = bench, scenario, arm, place
        self.gates = []
        self.metrics = {}
        self.facts = {}
        self.series = []
        self.client = None
        self.server = None
        self.watch = None
        self.version = None
        self.requests = None  # the file from which the client sends
        self._turns = []  # what was found out in each
        self._begun = self._faults_before = None
        self._failed = False

    # ---- The load --------------------------------------------------------------------------

    def step(self, name, *arguments):
        """One of the next four, in this order; "turn" for each turn. None is done after a failure."""
        if self._failed:
            return
        try:
            getattr(self, name)(*arguments)
        except (ServerError, OSError, subprocess.SubprocessError) as error:
            self._fail(error)

    def prepare(self):
        self.facts["handover_ns"] = [self.bench.probe_handover()]
        self.server = self.bench.start_server(self.arm, self.scenario)
        self.version = self.server.version()
        self.gates += [gates.allocator(self.arm, self.version),
                       gates.malloc_in_force(self.arm, proc.mapped(self.server.pid),
                                             proc.environment(self.server.pid))]
        memory = self.server.memory()
        self.facts["live_before"] = holders.live(memory)
        self.facts["ledger"] = memory["live_bytes"] if memory else 0
        self.bench.watches.pause(0.1)
        self.facts["baseline"] = proc.anonymous(self.server.pid)
        self.bench.check_answer(self.server, self.arm, self.scenario)
        self.requests = self.bench.request_file(self.server, self.scenario)
        if self.scenario.load.warm_up:
            client = self._start_client(self.bench.scratch("warm-up"), self.scenario.load.warm_up)
            self.bench.watches.pause(self.scenario.load.warm_up)
            if self._by("wrk"):
                wrk.end_early(client)
            client.communicate()
        self._settle(SETTLE_SECONDS)

    def _settle(self, seconds):
        """Until the server has had nothing to do for a moment."""
        end = time.monotonic() + AT_MOST_SECONDS
        self.bench.watches.pause(seconds)
        while time.monotonic() < end and not proc.sleeps(self.server.pid):
            self.bench.watches.pause(SAMPLE_SECONDS)

    def _by(self, client):
        return self.scenario.load.client == client

    def _start_client(self, out, seconds):
        load, address = self.scenario.load, self.server.address
        if self._by("wrk"):
            return wrk.start(address, load, seconds, out, self.requests)
        if self._by("pace"):
            return pace.start(self.bench.build / "loadtest/pace", address, load, seconds, out, self.requests)
        return swarm.start(address, load, out, self.requests)

    def begin(self):
        pid = self.server.pid
        proc.reset_peak(pid)
        self._send_before()
        self._faults_before = proc.minor_faults(pid)
        self._begun = time.monotonic()

    def turn(self, number):
        load, pid, out = self.scenario.load, self.server.pid, self.bench.scratch("client")
        last, seconds = number + 1 == load.turns, load.seconds / load.turns
        answered = self.server.requests()  # now, since silence begins when the last turn is over
        before, elsewhere = proc.cpu(pid), self._cpu_elsewhere()
        start = time.monotonic()
        client = self._start_client(out, seconds)
        client_seen, client_ns, occupied_ns, stop = start, 0, 0, None
        ends = start + seconds - wrk.STOP_SECONDS if load.turns > 1 else float("inf")  # by itself
        look = PACED_SAMPLE_SECONDS if self._by("pace") else SAMPLE_SECONDS
        while client.poll() is None:
            now = time.monotonic()
            self.series.append((now - self._begun, proc.resident(pid)[1]))
            if stop is None and os.path.exists(out):
                stop = now
            if stop is not None and now - stop >= load.hold - OPEN_LOOK_SECONDS:
                self._look_at_open()
            if stop is None:
                client_ns, occupied_ns = proc.cpu_ns(client.pid), proc.occupied_ns(client.pid)
                client_seen = now
            if now >= ends:
                wrk.end_early(client)
                ends = float("inf")
            self.bench.watches.pause(min(look, max(0, ends - now)))
        said = client.stderr.read().decode(errors="replace").strip()
        client.stderr.close()
        if client.returncode != 0 or not os.path.exists(out):
            raise ServerError(f"the client failed ({client.returncode}): {said}")
        end = time.monotonic()
        if last:
            self._leave_alone(end)
        self._settle(AFTER_LOAD_SECONDS if last else BREATH_SECONDS)
        used = proc.cpu(pid).since(before)
        self._turns.append({
            "client": CLIENTS[load.client].read(out, load.connections), "answered": answered, "cpu": used,
            "own_seconds": (stop or end) - start, "seconds": end - start,
            "client_seconds": client_seen - start, "client_ns": client_ns, "occupied_ns": occupied_ns,
            "others_ns": self._cpu_elsewhere() - elsewhere - used.total_ns,
        })

    def _leave_alone(self, now):
        trickle = self.scenario.trickle
        self.watch = Watch(self.server.pid, now, self.scenario.idle,
                           Trickle(self.server.address, trickle) if trickle else None)
        self.bench.watches.add(self.watch)
        self.facts["stop"] = now - self._begun

    def end(self):
        pid, turns = self.server.pid, self._turns
        if self.arm.trims:
            self.server.trim()

        def whole(name):
            return sum(turn[name] for turn in turns)
        used = proc.total(turn["cpu"] for turn in turns)
        clients = [turn["client"] for turn in turns]
        client = wrk.merge(clients) if len(clients) > 1 else clients[0]
        client_ns = 1e9 * (whole("client_seconds") or 1)
        self.facts |= {
            "cpu": used, "faults": proc.minor_faults(pid) - self._faults_before,
            "own_seconds": whole("own_seconds"), "peak": proc.peak(pid),
            "client_share": whole("client_ns") / client_ns, "client_occupied": whole("occupied_ns") / client_ns,
            "server_share": used.total_ns / 1e9 / client["seconds"],
            "others": max(0.0, whole("others_ns") / 1e9 / whole("seconds")),
        }
        self.facts["handover_ns"].append(self.bench.probe_handover())
        self.client = client  # so there is something to judge, and to report

    def _send_before(self):
        for request in self.scenario.before:
            status, _, _ = self.server.ask(request.method, request.path, request.body,
                                           headers=request.headers())
            if status != request.status:
                raise ServerError(f"{self.arm.name}: {request.method} {request.path} answered {status}")
        if self.scenario.before:
            self._settle(SETTLE_SECONDS)

    def _look_at_open(self):
        """All answers have come, no connection is closed yet."""
        if self.scenario.load.hold and "open" not in self.facts:
            anonymous = proc.anonymous(self.server.pid)
            self.facts["open"] = {"anonymous": anonymous}
            if self.arm.is_slate:
                self.facts["open"] = self._holders(self.server.memory(), anonymous)

    def _cpu_elsewhere(self):
        """What our processors have spent, less the lab and those of its children that have ended."""
        own = time.process_time_ns()
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return proc.busy_ns(self.bench.cpus()) - own - int((children.ru_utime + children.ru_stime) * 1e9)

    def _fail(self, error):
        self._failed = True
        self.gates.append(gates.Gate("run", False, str(error)))
        if self.server:
            self.server.kill()
            self.server = None

    # ---- After -----------------------------------------------------------------------------

    def ready(self):
        return self.server is None or self.watch.done()

    def finish(self):
        """Once ready: asks the server what it counted, stops it, and judges the slot."""
        if self.server:
            try:
                trickled = self.watch.trickle.close() if self.watch.trickle else 0
                self.facts["requests"] = self.server.requests() - self._turns[0]["answered"] - trickled
                self.facts["memory_after"] = self.server.memory()
                if self.arm.is_slate:
                    self.gates += [gates.malloc_used(self.arm, self.facts["memory_after"]),
                                   gates.ledger(self.facts["ledger"],
                                                self.facts["memory_after"]["live_bytes"])]
                    self._part_reclaimable()
                self.gates.append(gates.ended(self.server.stop()))
                if self.watch.lost:
                    raise ServerError("the server ended while it was watched")
                self._judge()
                if self.facts["requests"] > 0:
                    self._derive()
            except (ServerError, OSError) as error:
                self._fail(error)
        self.server = None

    def _holders(self, memory, anonymous):
        return holders.layers(memory, anonymous, self.version["connection_memory"])

    def _part_reclaimable(self):
        """The last thing that is done to it: what could have been given back, and had not been."""
        before = self.watch.marks[-1]["anonymous"]
        self.facts["holders"] = self._holders(self.facts["memory_after"], before)
        self.server.trim()
        self.facts["reclaimable"] = max(0, before - proc.anonymous(self.server.pid))

    def _judge(self):
        client, facts, turns = self.client, self.facts, len(self._turns)
        least = min((turn["client"] for turn in self._turns), key=lambda of: of["requests"])
        self.gates += [gates.served(least), gates.errors(client), gates.status(client),
                       gates.content(client), gates.counts(client, facts["requests"],
                                    turns * client["connections"] if self._by("wrk") else 0),
                       gates.silence(self.watch.marks, self.scenario.idle),
                       *(gates.duration(turn["client"], turn["own_seconds"],
                                        CLIENTS[self.scenario.load.client].START_UP) for turn in self._turns)]
        if self._by("pace"):
            self.gates.append(gates.plan(client, self.scenario.load))
        if client["raw"] and self._by("wrk") and not self._reconnects():
            self.gates.append(gates.littles_law(client, histogram.mean(client["raw"]),
                                                sum(turn["client"]["raw"][-1][0] for turn in self._turns),
                                                facts["client_occupied"]))

    def _reconnects(self):
        """Then connections are busy with that too, which wrk's latency does not show."""
        return any(request.ends_connection() for request in self.scenario.requests)

    def _derive(self):
        """The metrics. Costs are per request that the server counts as answered."""
        client, facts, turns, requests = self.client, self.facts, self._turns, self.facts["requests"]
        live = holders.live(facts["memory_after"])
        at_rest = next(mark for mark in self.watch.marks if mark["t"] >= AT_REST_SECONDS or
                       mark is self.watch.marks[-1])
        user_ns = facts["cpu"].user_ns()
        answered = [turn["answered"] for turn in turns] + [turns[0]["answered"] + requests]  # at their starts
        self.metrics = {
            "cpu_us_per_request": facts["cpu"].total_ns / 1e3 / requests,
            metrics.CPU_OF_TURNS: [turn["cpu"].total_ns / 1e3 / (after - before) if after > before else None
                                   for turn, (before, after) in zip(turns, itertools.pairwise(answered))],
            "user_us_per_request": user_ns / 1e3 / requests if user_ns is not None else None,
            "requests_per_second": client["requests"] / client["seconds"],
            "peak_rss_bytes": facts["peak"],
            "minor_faults_per_request": facts["faults"] / requests,
        }
        if len(self.watch.marks) > 1:  # it was left alone for a while
            self.metrics |= {
                "retained_bytes": at_rest["anonymous"] - facts["baseline"] - (live - facts["live_before"]),
                "idle_cpu_us": (at_rest["cpu_ns"] - self.watch.marks[0]["cpu_ns"]) / 1e3,
            }
        if "open" in facts:
            self.metrics["held_bytes_per_connection"] = (
                (facts["open"]["anonymous"] - facts["baseline"]) / self.scenario.load.connections)
        raw = client["raw"]
        for name, p in (("p50_us", 50), ("p99_us", 99), ("p999_us", 99.9)):
            sure = raw and histogram.enough(histogram.count(raw), p)
            self.metrics[name] = histogram.percentile(raw, p) if sure else None

    def report(self):
        """The slot as it stands in report.json."""
        valid, checked = gates.verdict(self.gates)
        facts, client = self.facts, self.client
        result = {"arm": self.arm.name, **self.place, "valid": valid, "gates": checked,
                  "metrics": self.metrics}
        if not client or not self.watch:
            return result
        result |= {
            "client": {k: client[k] for k in ("requests", "seconds", "errors", "wrong_status")},
            "client_share": facts["client_share"], "server_share": facts["server_share"],
            "client_bound": gates.client_bound(facts["client_share"], facts["server_share"]),
            "others": facts["others"], "handover_ns": facts["handover_ns"],
            "requests": facts.get("requests"), "baseline_bytes": facts["baseline"],
            "stop": facts["stop"],
            "series": [[round(t, 3), b] for t, b in self.series] +
                      [[round(facts["stop"] + t, 3), b] for t, b in self._tail()],
            "idle": self.watch.marks, "holders": facts.get("holders"), "reclaimable_bytes": facts.get("reclaimable"),
            "open": facts.get("open"),
            "latency": {k: histogram.ladder(client[k]) if client.get(k) else None
                        for k in ("raw", "corrected", "sent")},
        }
        return result

    def _tail(self):
        return sorted(self.watch.curve + [(m["t"], m["anonymous"]) for m in self.watch.marks])


def run_together(slots):
    """All of one scenario, up to the end of their loads and a moment more. With loads that come in turns
    they take turns; with others, one after the other."""
    turns = slots[0].scenario.load.turns
    for group in [slots] if turns > 1 else [[slot] for slot in slots]:
        for name in ("prepare", "begin"):
            for slot in group:
                slot.step(name)
        for number in range(turns):
            for slot in group if number % 2 == 0 else reversed(group):
                slot.step("turn", number)
        for slot in group:
            slot.step("end")


def run_all(bench, scenario, arms, place):
    """A slot of each arm from start to end, with nothing else meanwhile; as they stand in report.json."""
    slots = [Slot(bench, scenario, arm, place) for arm in arms]
    run_together(slots)
    for slot in slots:
        while not slot.ready():
            bench.watches.pause(0.05)
        slot.finish()
    return [slot.report() for slot in slots]


def run_alone(bench, scenario, arm, place):
    return run_all(bench, scenario, [arm], place)[0]
