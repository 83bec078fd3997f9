"""Slots of their own for what cannot be looked at without disturbing it: how often a request calls
malloc (a preloaded library counts), and what is live while the load runs (the server is asked ten
times a second). Nothing is timed here."""

import itertools
import os
import socket
import struct
import subprocess
import time

from . import holders, payload, proc, swarm, wrk
from .answer import Answer
from .server import ServerError

WARM_UP = 0.3  # of the requests that are counted, sent before; one after the other
POLL_SECONDS = 0.1
LOAD_SECONDS = 1

# As malloc_count.c lays them out; then come the classes of size.
COUNTERS = ("allocations", "reallocations", "frees", "mappings", "unmappings")
PAGE = f"={len(COUNTERS) + 3 + 20}Q"


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
        except (ServerError, OSError, ValueError, KeyError, struct.error,
                subprocess.SubprocessError) as error:
            return {"error": str(error)}

    def _count(self, server, counters):
        def read():
            time.sleep(0.05)  # for the end of the last request
            with open(counters, "rb") as f:
                return struct.unpack(PAGE, f.read())
        load, counted = self.scenario.load, self.scenario.load.counted
        order = swarm.read_deck(self.bench.request_file(server, self.scenario))
        line = Line(server, order, each_its_own=load.client == "swarm" and load.requests == 1)
        line.send(round(WARM_UP * counted))
        before = read()
        line.send(counted)
        after = read()
        line.close()
        return {name: (b - a) / counted for name, a, b in zip(COUNTERS, before, after)}

    def _portrait(self, server):
        """What the memory was made of under load: one dict per look."""
        out = self.bench.scratch("portrait")
        load, requests = self.scenario.load, self.bench.request_file(server, self.scenario)
        connection_memory = server.version()["connection_memory"]
        start, looks = time.monotonic(), []
        if load.client == "wrk":
            client = wrk.start(server.address, load, LOAD_SECONDS, out, requests)
        else:
            client = swarm.start(server.address, load, out, requests)
        while client.poll() is None:
            if not os.path.exists(out):  # still under load
                _, anonymous = proc.resident(server.pid)
                looks.append({"t": round(time.monotonic() - start, 3),
                              **holders.layers(server.memory(), anonymous, connection_memory)})
            time.sleep(POLL_SECONDS)
        client.communicate()
        return looks


class Line:
    """Requests of a deck that are answered, one after the other; on one connection, or on one each."""

    def __init__(self, server, order, each_its_own):
        self._server, self._each_its_own = server, each_its_own
        self._order = itertools.cycle([request for request in order if request.status])
        self._socket = None

    def send(self, times):
        for request in itertools.islice(self._order, times):
            self._socket = self._socket or socket.create_connection(self._server.address, timeout=30)
            self._socket.sendall(request.text)
            answer = Answer()
            while not answer.whole:
                piece = self._socket.recv(1 << 18)
                if not piece:
                    raise ServerError(f"{self._server.arm.name}: no answer came while counting")
                answer.feed(piece)
            if not payload.is_due(answer.status, request.status):
                raise ServerError(f"{self._server.arm.name}: answered {answer.status} while counting")
            if request.last or self._each_its_own:
                self.close()

    def close(self):
        if self._socket:
            self._socket.close()
            self._socket = None
