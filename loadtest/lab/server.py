"""One running server: start it, ask it, stop it."""

import ctypes
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import time

from . import store

START_SECONDS = 10
STOP_SECONDS = 40

_LISTENING = re.compile(rb"listening on http://([0-9.]+):([0-9]+)")
_ADMIN = re.compile(rb"admin on http://([0-9.]+):([0-9]+)")
_COUNTED = re.compile(rb"requests\n \d+ \d+ (\d+)")
_ANSWERED = re.compile(rb"^answered ([0-9]+)$", re.MULTILINE)


_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


class ServerError(Exception):
    pass


def _prepare(cpus):
    """In the child: no server outlives the lab, however that ends."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.sched_setaffinity(0, cpus)


class Server:
    def __init__(self, arm, command, env, cpus, log_path, port=None):
        """`port`: where it has been told to listen; else it says where it does."""
        self.arm = arm
        self._log = log_path
        self._own = 0  # requests for its count, which it counts too
        self.store = None  # the path of a database that goes when the server does
        with open(log_path, "wb") as log:
            self._process = subprocess.Popen(
                command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                preexec_fn=lambda: _prepare(cpus))
        self.pid = self._process.pid
        try:
            self.address = self._wait_until_open(port) if port else self._wait_for(_LISTENING)
            self.admin = self._wait_for(_ADMIN) if arm.is_slate else None
        except ServerError:
            self.kill()
            raise

    def log(self):
        with open(self._log, "rb") as f:
            return f.read()

    def _wait_for(self, pattern):
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            found = pattern.search(self.log())
            if found:
                return found[1].decode(), int(found[2])
            if self._process.poll() is not None:
                break
            time.sleep(0.005)
        said = self.log().decode(errors="replace").strip() or "nothing"
        raise ServerError(f"{self.arm.name}: the server did not start; it said: {said}")

    def _wait_until_open(self, port):
        address, end = ("127.0.0.1", port), time.monotonic() + START_SECONDS
        while time.monotonic() < end and self._process.poll() is None:
            try:
                socket.create_connection(address, timeout=1).close()
                return address
            except OSError:
                time.sleep(0.01)
        said = self.log().decode(errors="replace").strip() or "nothing"
        raise ServerError(f"{self.arm.name}: the server did not start; it said: {said}")

    def ask(self, method, path, body=b"", address=None, headers=None):
        """(status, headers, body) of one request on a connection of its own."""
        connection = http.client.HTTPConnection(*(address or self.address), timeout=30)
        try:
            if headers is None:
                headers = {"Content-Type": "application/json"} if body else {}
            connection.request(method, path, body=body or None, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise ServerError(f"{self.arm.name}: {method} {path}: {error!r}") from error
        finally:
            connection.close()

    def _ask_admin(self, path):
        status, _, body = self.ask("GET", path, address=self.admin)
        if status != 200:
            raise ServerError(f"{self.arm.name}: the admin listener answered {path} with {status}")
        return body

    def version(self):
        return json.loads(self._ask_admin("/version")) if self.admin else None

    def memory(self):
        """/debug/memory, or None. It costs the server work: not under load, not while it idles."""
        return json.loads(self._ask_admin("/debug/memory")) if self.admin else None

    def trim(self):
        """Has it give back what it can."""
        status, _, body = self.ask("POST", "/trim", address=self.admin)
        if status != 200:
            raise ServerError(f"{self.arm.name}: the admin listener answered POST /trim with {status}")
        return json.loads(body)

    def requests(self):
        """How many requests the server itself counts as answered so far."""
        if self.admin:
            lines = self._ask_admin("/metrics").decode().splitlines()
            return sum(int(float(line.rsplit(" ", 1)[1])) for line in lines
                       if line.startswith("http_requests_total{"))
        if self.arm.count_path:
            _, _, said = self.ask("GET", self.arm.count_path)
            self._own += 1
            return int(_COUNTED.search(said)[1]) - self._own
        before = len(_ANSWERED.findall(self.log()))
        os.kill(self.pid, self.arm.count_signal)
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            counts = _ANSWERED.findall(self.log())
            if len(counts) > before:
                return int(counts[-1])
            time.sleep(0.002)
        raise ServerError(f"{self.arm.name}: no count came for signal {self.arm.count_signal}")

    def running(self):
        return self._process.poll() is None

    def stop(self):
        """Asks it to end; the exit status (negative: the signal that ended it)."""
        self._process.terminate()
        try:
            status = self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            return -signal.SIGKILL
        self._clean()
        return status

    def kill(self):
        self._process.kill()
        self._process.wait()
        self._clean()

    def _clean(self):
        if self.store:
            store.remove(self.store)
