"""Slots of their own for what cannot be looked at without disturbing it: how often a request calls
malloc (a preloaded library counts), and what is live while the load runs (the server is asked ten
times a second). Nothing is timed here."""

import http.client
import os
import struct
import subprocess
import time

from . import proc, swarm, wrk
from .server import ServerError

WARM_UP = 0.3  # of the requests that are counted, sent before; one after the other
POLL_SECONDS = 0.1
LOAD_SECONDS = 1

# As malloc_count.c lays them out.
COUNTERS = ("allocations", "reallocations", "frees", "mappings", "unmappings")


class Counting:
    def __init__(self, bench, scenario, arm):
        self.bench, self.scenario, self.arm = bench, scenario, arm

    def run(self):
        """{"calls": {counter: per request}, "live": [...]}, or {"error": why}."""
        counters = self.bench.scratch("malloc-count")
        open(counters, "wb").close()
        library = str(self.bench.build / "loadtest/malloc_count.so")
        try:
            server = self.bench.start_server(self.arm, self.scenario, [library],
                                             MALLOC_COUNT_FILE=counters)
            try:
                calls = self._count(server, counters)
                return {"calls": calls, "live": self._portrait(server) if server.admin else []}
            finally:
                server.stop()
        except (ServerError, OSError, http.client.HTTPException, struct.error,
                subprocess.SubprocessError) as error:
            return {"error": str(error)}

    def _count(self, server, counters):
        def read():
            time.sleep(0.05)  # for the end of the last request
            with open(counters, "rb") as f:
                return struct.unpack(f"={len(COUNTERS)}Q", f.read())
        connection = http.client.HTTPConnection(*server.address, timeout=30)
        counted = self.scenario.load.counted
        self._send(connection, round(WARM_UP * counted))
        before = read()
        self._send(connection, counted)
        after = read()
        connection.close()
        return {name: (b - a) / counted for name, a, b in zip(COUNTERS, before, after)}

    def _send(self, connection, times):
        """On one connection, or on one each where the scenario's own requests come so."""
        load, order = self.scenario.load, self.bench.deck(self.scenario).order
        for i in range(times):
            request = self.arm.request(order[i % len(order)])
            connection.request(request.method, request.path, request.body or None, request.headers())
            answer = connection.getresponse()
            if answer.status != 200 or not answer.read():
                raise ServerError(f"{self.arm.name}: answered {answer.status} while counting")
            if load.client == "swarm" and load.requests == 1:
                connection.close()  # the next request connects again

    def _portrait(self, server):
        """What the memory was made of under load: one dict per look."""
        out = self.bench.scratch("portrait")
        load, requests = self.scenario.load, self.bench.request_file(server, self.scenario)
        start, looks = time.monotonic(), []
        if load.client == "wrk":
            client = wrk.start(server.address, load, LOAD_SECONDS, out, requests)
        else:
            client = swarm.start(server.address, load, out, requests)
        while client.poll() is None:
            if not os.path.exists(out):  # still under load
                _, anonymous = proc.resident(server.pid)
                looks.append({"t": round(time.monotonic() - start, 3),
                              **layers(server.memory(), anonymous)})
            time.sleep(POLL_SECONDS)
        client.communicate()
        return looks


def live(memory):
    """What requests and the store hold, by /debug/memory; of a program that has none, unknown: 0."""
    if not memory:
        return 0
    return memory["live_bytes"] + memory.get("modules", {}).get("store", {}).get("sqlite_memory_bytes", 0)


def layers(memory, anonymous):
    """Who holds `anonymous` bytes, by what the server says of itself: live in requests, in blocks
    beyond that (idle, or lent and not filled), in pools; the rest is malloc's: its free lists, and
    what libmicrohttpd has from it. What is reserved but was never touched holds no memory, so no
    layer is more than what is left of the whole."""
    of_arena = memory["alloc"] == "arena"
    blocks = memory["depot"]["idle_bytes"]
    pools = 0
    for worker in memory["workers"]:
        blocks += sum(worker.get("magazine", {}).get(k, 0) for k in ("idle_bytes", "lent_bytes"))
        pools += sum(pool["held_bytes"] for pool in worker["pools"].values())
    live = memory["live_bytes"]
    blocks -= min(blocks, live) if of_arena else 0
    result, left = {"anonymous": anonymous}, anonymous
    for name, held in (("live", live), ("pools", pools), ("blocks", blocks)):
        result[name] = min(held, left)
        left -= result[name]
    return result | {"rest": left}
