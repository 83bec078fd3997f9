"""One slot: one fresh server under one load, then left alone.

    start, baseline, check of an answer, warm-up, settle, [peak reset, counters] load, idle, stop

The slot is over for the lab when its load is; the server lives on under a watch (idle.py) and is
asked, stopped and judged by finish(), when nothing is being measured."""

import os
import resource
import subprocess
import time

from . import gates, histogram, holders, pace, proc, swarm, wrk
from .idle import Trickle, Watch
from .server import ServerError

SAMPLE_SECONDS = 0.04
PACED_SAMPLE_SECONDS = 0.25  # the lab's work may delay a client that has to be in time
SETTLE_SECONDS = 0.1
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

    # ---- The load --------------------------------------------------------------------------

    def run(self):
        """Up to the end of the load and a moment more."""
        try:
            self._prepare()
            self._measure()
        except (ServerError, OSError, subprocess.SubprocessError) as error:
            self._fail(error)

    def _prepare(self):
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

    def _measure(self):
        pid, out = self.server.pid, self.bench.scratch("client")
        proc.reset_peak(pid)
        self._send_before()
        self.facts["requests_before"] = self.server.requests()
        before, faults, elsewhere = proc.cpu(pid), proc.minor_faults(pid), self._cpu_elsewhere()
        start = time.monotonic()
        client = self._start_client(out, self.scenario.load.seconds)
        client_ns = occupied_ns = stop = None
        while client.poll() is None:
            now = time.monotonic()
            self.series.append((now - start, proc.resident(pid)[1]))
            if stop is None and os.path.exists(out):
                stop = now
            if stop is not None and now - stop >= self.scenario.load.hold - OPEN_LOOK_SECONDS:
                self._look_at_open()
            if stop is None:
                client_ns, occupied_ns = proc.cpu_ns(client.pid), proc.occupied_ns(client.pid)
                client_seen = now
            self.bench.watches.pause(PACED_SAMPLE_SECONDS if self._by("pace") else SAMPLE_SECONDS)
        said = client.stderr.read().decode(errors="replace").strip()
        client.stderr.close()
        if client.returncode != 0 or not os.path.exists(out):
            raise ServerError(f"the client failed ({client.returncode}): {said}")
        end = time.monotonic()
        trickle = self.scenario.trickle
        self.watch = Watch(pid, end, self.scenario.idle,
                           Trickle(self.server.address, trickle) if trickle else None)
        self.bench.watches.add(self.watch)
        self.facts["stop"] = end - start
        self._settle(AFTER_LOAD_SECONDS)
        used = proc.cpu(pid).since(before)
        others = self._cpu_elsewhere() - elsewhere - used.total_ns
        if self.arm.trims:
            self.server.trim()
        seconds = (stop or end) - start
        self.client = CLIENTS[self.scenario.load.client].read(out, self.scenario.load.connections)
        self.facts |= {
            "cpu": used, "faults": proc.minor_faults(pid) - faults, "own_seconds": seconds,
            "peak": proc.peak(pid),
            "client_share": client_ns / 1e9 / (client_seen - start) if client_ns else 0.0,
            "client_occupied": occupied_ns / 1e9 / (client_seen - start) if client_ns else 0.0,
            "server_share": used.total_ns / 1e9 / self.client["seconds"],
            "others": max(0.0, others / 1e9 / (end - start)),
        }
        self.facts["handover_ns"].append(self.bench.probe_handover())

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
                self.facts["requests"] = (self.server.requests() - self.facts["requests_before"] -
                                          trickled)
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
        client, facts = self.client, self.facts
        self.gates += [gates.served(client), gates.errors(client), gates.status(client),
                       gates.content(client), gates.counts(client, facts["requests"],
                                    client["connections"] if self._by("wrk") else 0),
                       gates.silence(self.watch.marks, self.scenario.idle),
                       gates.duration(client, facts["own_seconds"],
                                      CLIENTS[self.scenario.load.client].START_UP)]
        if self._by("pace"):
            self.gates.append(gates.plan(client, self.scenario.load))
        if client["raw"] and self._by("wrk") and not self._reconnects():
            self.gates.append(gates.littles_law(client, histogram.mean(client["raw"]),
                                                client["raw"][-1][0], facts["client_occupied"]))

    def _reconnects(self):
        """Then connections are busy with that too, which wrk's latency does not show."""
        return any(request.ends_connection() for request in self.scenario.requests)

    def _derive(self):
        """The metrics. Costs are per request that the server counts as answered."""
        client, facts, requests = self.client, self.facts, self.facts["requests"]
        live = holders.live(facts["memory_after"])
        at_rest = next(mark for mark in self.watch.marks if mark["t"] >= AT_REST_SECONDS or
                       mark is self.watch.marks[-1])
        user_ns = facts["cpu"].user_ns()
        self.metrics = {
            "cpu_us_per_request": facts["cpu"].total_ns / 1e3 / requests,
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
            "client": {k: client[k] for k in ("requests", "seconds", "errors", "wrong_status", "wrk")},
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


def run_alone(bench, scenario, arm, place):
    """A slot from start to end, with nothing else meanwhile; as it stands in report.json."""
    slot = Slot(bench, scenario, arm, place)
    slot.run()
    while not slot.ready():
        bench.watches.pause(0.05)
    slot.finish()
    return slot.report()
