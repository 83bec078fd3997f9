"""The bench that slots run on: which processors, where the programs are, scratch files, whoever is
running. Made once per run of the lab."""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from .idle import Watches
from .server import Server, ServerError


class BenchError(Exception):
    pass


class Bench:
    """A context manager: whatever still runs at its end is killed, its files are removed."""

    def __init__(self, build):
        self.build = Path(build).resolve()
        self.watches = Watches()
        self._servers = []
        self._checked = {}
        self._bodies = {}
        cpus = sorted(os.sched_getaffinity(0))
        # Server on one processor, client and lab on another; on one processor, all together.
        self.server_cpu, self.client_cpu = (cpus[0], cpus[1]) if len(cpus) > 1 else (None, None)
        self._affinity = cpus

    def __enter__(self):
        for program in ("handlers/slate", "loadtest/plain", "loadtest/malloc_count.so"):
            if not (self.build / program).exists():
                raise BenchError(f"{self.build / program} is missing: build first "
                                 "(meson setup build && meson compile -C build)")
        if not shutil.which("wrk"):
            raise BenchError("wrk is not installed (Debian package wrk)")
        self._scratch = tempfile.TemporaryDirectory(prefix="slate-lab-")
        if self.client_cpu is not None:
            os.sched_setaffinity(0, {self.client_cpu})
        return self

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

    def body_files(self, scenario):
        """The scenario's bodies as files."""
        if scenario.name not in self._bodies:
            paths = [self.scratch(f"{scenario.name}-{i}.json")
                     for i in range(len(scenario.request.bodies))]
            for path, body in zip(paths, scenario.request.bodies):
                Path(path).write_bytes(body)
            self._bodies[scenario.name] = paths
        return self._bodies[scenario.name]

    def start_server(self, arm, scenario, **more_env):
        self._servers = [server for server in self._servers if server.running()]
        server = Server(arm, arm.command(str(self.build), scenario),
                        arm.environment() | more_env, self.server_cpu,
                        self.scratch(f"server-{arm.name}-{len(self._servers)}.log"))
        self._servers.append(server)
        return server

    def check_answer(self, server, arm, scenario):
        """One real request: the answer has to be the right JSON, on a connection that is kept."""
        request = scenario.request
        path, body = arm.path or request.path, request.bodies[0] if request.bodies else b""
        status, headers, answer = server.ask(request.method, path, body)
        if status != 200 or headers.get("Connection", "keep-alive").lower() == "close":
            raise ServerError(f"{arm.name}: {path} answered {status}, "
                              f"Connection: {headers.get('Connection')}")
        key = scenario.name, answer
        if key not in self._checked:
            self._checked[key] = _is_json(answer, request.answers[0])
        if not self._checked[key]:
            raise ServerError(f"{arm.name}: {path} gave a wrong answer: {answer[:200]!r}")

    def probe_handover(self):
        """Nanoseconds to hand a cache line from the one processor to the other, or None."""
        if self.server_cpu is None:
            return None
        said = subprocess.run([self.build / "loadtest/handover", str(self.server_cpu),
                               str(self.client_cpu)], capture_output=True, check=False)
        return float(said.stdout) if said.returncode == 0 else None


def _is_json(text, value):
    try:
        return json.loads(text) == value
    except ValueError:
        return False
