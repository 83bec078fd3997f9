"""The bench that slots run on: which processors, where the programs are, scratch files, whoever is
running. Made once per run of the lab."""

import hashlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from types import SimpleNamespace

from . import payload, script, store
from .arm import ARENA
from .idle import Watches
from .server import Server, ServerError


NDJSON = "application/x-ndjson"
PROGRAMS = ("handlers/slate", "loadtest/plain", "loadtest/pace", "loadtest/malloc_count.so", "loadtest/litter.so")


class BenchError(Exception):
    pass


class Bench:
    """A context manager: whatever still runs at its end is killed, its files are removed."""

    def __init__(self, build):
        self.build = Path(build).resolve()
        self.watches = Watches()
        self._servers = []
        self._checked = {}
        self._decks = {}
        self._stores = {}  # rows -> (Rows, path of the file)
        self._files = 0
        cpus = sorted(os.sched_getaffinity(0))
        # Server on one processor, client and lab on another; on one processor, all together.
        self.server_cpu, self.client_cpu = (cpus[0], cpus[1]) if len(cpus) > 1 else (None, None)
        self._affinity = cpus

    def __enter__(self):
        for program in PROGRAMS:
            if not (self.build / program).exists():
                raise BenchError(f"{self.build / program} is missing: build first "
                                 "(meson setup build && meson compile -C build)")
        if not shutil.which("wrk"):
            raise BenchError("wrk is not installed (Debian package wrk)")
        self._scratch = tempfile.TemporaryDirectory(prefix="slate-lab-")
        if self.client_cpu is not None:
            os.sched_setaffinity(0, {self.client_cpu})
        return self

    def digest(self):
        """Of the programs that are measured: another build of the same revision is another."""
        found = hashlib.sha256()
        for program in PROGRAMS:
            found.update((self.build / program).read_bytes())
        return found.hexdigest()[:16]

    def __exit__(self, *_):
        for server in self._servers:
            if server.running():
                server.kill()
        os.sched_setaffinity(0, self._affinity)
        self._scratch.cleanup()

    def cpus(self):
        """The processors that slots use."""
        return set(self._affinity) if self.server_cpu is None else {self.server_cpu, self.client_cpu}

    def scratch(self, name):
        """A path at which no file is."""
        path = Path(self._scratch.name) / name
        path.unlink(missing_ok=True)
        return str(path)

    def new_file(self, kind):
        """Another one each time, with a name as long as the last: it stands on command lines."""
        self._files += 1
        return self.scratch(f"{kind}-{self._files:06}")

    def deck(self, scenario):
        """What a client sends in this scenario."""
        if scenario.own:
            return script.deck(scenario.requests)
        key = scenario.name, scenario.rows
        if key not in self._decks:
            rows = self._store(scenario.rows)[0] if scenario.rows else None
            self._decks[key] = payload.deck(scenario.requests, rows)
        return self._decks[key]

    def request_file(self, server, scenario):
        """The deck as the clients read it: each request as it goes over the wire, behind a line with
        its length, how many of the bytes are sent, the status that is due (0: no answer), and whether
        the connection ends with it."""
        path = self.new_file("requests")
        with open(path, "wb") as f:
            for request in self.deck(scenario).order:
                text = server.arm.request(request).text(server.address)
                status = request.status if request.cut == 1 else 0
                f.write(b"%d %d %d %d\n%b" % (len(text), len(text) * request.cut, status,
                                             request.ends_connection(), text))
        return path

    def _store(self, count):
        if count not in self._stores:
            rows, path = store.Rows(count), self.new_file("store")
            scenario = SimpleNamespace(threads=1, flags=store.BULK, body_limit=None)
            server = self._start(ARENA, scenario, path)
            wrong = rows.insert(server)
            if server.stop() != 0 or wrong:
                raise BenchError(f"a store with {count} rows could not be made: {wrong or server.log()}")
            self._stores[count] = rows, path
        return self._stores[count]

    def start_server(self, arm, scenario, preloaded=(), **more_env):
        path = None
        if scenario.rows:
            _, filled = self._store(scenario.rows)
            path = self.new_file("store")
            store.copy(filled, path)
        if scenario.litter:
            preloaded = (*preloaded, str(self.build / "loadtest/litter.so"))
        server = self._start(arm, scenario, path, preloaded, **more_env)
        server.store = path
        return server

    def _start(self, arm, scenario, path, preloaded=(), **more_env):
        self._servers = [server for server in self._servers if server.running()]
        port = {"port": _free_port()} if arm.needs_port else {}
        server = Server(arm, arm.command(str(self.build), scenario, path, **port),
                        arm.environment(preloaded) | more_env,
                        {self.server_cpu} if scenario.threads == 1 and self.server_cpu is not None
                        else self._affinity, self.new_file("log"), **port)
        self._servers.append(server)
        return server

    def check_answer(self, server, arm, scenario):
        """A real request of each kind: the answer has to be the right JSON, on a connection that is
        kept."""
        for request in map(arm.request, self.deck(scenario).samples):
            if request.cut < 1:
                continue
            what = f"{arm.name}: {request.method} {request.path}"
            status, headers, answer = server.ask(request.method, request.path, request.body,
                                                 headers=request.headers())
            if (not request.is_due(status) or
                    (headers.get("Connection") == "close") != request.ends_connection()):
                raise ServerError(f"{what} answered {status}, Connection: {headers.get('Connection')}"
                                  f"{_detail(headers, answer)}")
            if status >= 300:
                continue
            if scenario.own and "json" not in headers.get("Content-Type", ""):
                continue
            key = scenario.name, request.path, answer
            if key not in self._checked:
                self._checked[key] = _is_json(answer, request)
            if not self._checked[key]:
                raise ServerError(f"{what} gave a wrong answer: {answer[:200]!r}")

    def try_out(self, scenario, arms):
        """What would spoil each slot of a load of the user's is better said at once."""
        for arm in arms:
            server = self.start_server(arm, scenario)
            try:
                self.check_answer(server, arm, scenario)
            finally:
                status = server.stop()
            if status != 0:
                raise ServerError(f"{arm.name}: exit status {status} after SIGTERM; it said: "
                                  f"{server.log().decode(errors='replace').strip()}")

    def probe_handover(self):
        """Nanoseconds to hand a cache line from the one processor to the other, or None."""
        if self.server_cpu is None:
            return None
        said = subprocess.run([self.build / "loadtest/handover", str(self.server_cpu),
                               str(self.client_cpu)], capture_output=True, check=False)
        return float(said.stdout) if said.returncode == 0 else None


def _free_port():
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def _detail(headers, answer):
    """What a problem says of itself."""
    try:
        return f": {json.loads(answer)['detail']}" if "json" in headers.get("Content-Type", "") else ""
    except (ValueError, KeyError, TypeError):
        return ""


def _is_json(text, request):
    try:
        if request.accept == NDJSON:
            return [json.loads(line) for line in text.splitlines()] == request.answer
        return json.loads(text) == request.answer
    except ValueError:
        return False
