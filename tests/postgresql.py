#!/usr/bin/python3
"""A real PostgreSQL for tests, in a temporary directory that goes when it ends.

    tests/postgresql.py [--no-fsync] [--optional] COMMAND ARG...

runs COMMAND with the address of an empty database in SLATE_TEST_POSTGRESQL and ends with its status.
Where PostgreSQL is not installed it ends with 77 (skipped); with --optional COMMAND then runs without.
From Python: `with Cluster() as cluster: cluster.uri`.
Its server runs as an unprivileged user, with a password and with a collation that is not code point
order, so that what relies on either by accident fails. Debian's package: postgresql.
"""
import argparse
import contextlib
import ctypes
import glob
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
START_SECONDS = 120  # on a busy machine, with recovery after a crash
STOP_SECONDS = 60
PR_SET_PDEATHSIG = 1
USER, PASSWORD, DATABASE = "slate", "not-a-secret", "slate"
MODES = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}


def find_binaries():
    """The folder of the newest server's programs, or None."""
    def version(path):
        return [int(number) for number in re.findall(r"\d+", path)]
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/postgres"), key=version)
    found = found[-1] if found else shutil.which("postgres")
    return os.path.dirname(found) if found else None


class Cluster:
    """A server and its one database; everything of it ends with the `with`."""

    def __init__(self, fsync=True, settings=None):
        self.binaries = find_binaries()
        if not self.binaries:
            raise FileNotFoundError("PostgreSQL's server is not installed (package postgresql)")
        self.settings = {"fsync": "on" if fsync else "off", **(settings or {})}
        self.account = {}
        if os.geteuid() == 0:  # the server refuses to run as root
            try:
                entry = pwd.getpwnam("postgres")
            except KeyError:
                entry = pwd.getpwnam("nobody")
            self.account = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        self.folder = self.process = self.port = self.segment = None

    # ---- Addresses

    def address(self, user=USER, password=PASSWORD, database=DATABASE):
        return f"postgresql://{user}:{password}@127.0.0.1:{self.port}/{database}"

    @property
    def uri(self):
        return self.address()

    # ---- Life

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="slate-pg-")
        try:
            if self.account:
                os.chown(self.folder, self.account["user"], self.account["group"])
            password = os.path.join(self.folder, "password")
            with open(password, "w", encoding="utf-8") as file:
                file.write(PASSWORD)
            os.chmod(password, 0o644)
            self._run("initdb", "--pgdata", self._data, "--username", USER, "--pwfile", password,
                      "--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C.UTF-8",
                      "--locale-provider", "icu", "--icu-locale", "en-US", "--no-sync")
            self._first_start()
            self.sql(f"CREATE DATABASE {DATABASE}", database="postgres")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        try:
            if self.process:
                self.stop("immediate")
        finally:
            if self.segment:  # a killed server leaves it behind
                subprocess.run(["ipcrm", "-m", self.segment], capture_output=True, check=False)
            shutil.rmtree(self.folder, ignore_errors=True)

    def start(self):
        """Starts the server, on the port it had before, and waits until it takes connections."""
        with open(self._log, "ab") as log:
            self.process = subprocess.Popen(
                [os.path.join(self.binaries, "postgres"), "-D", self._data, *self._options()],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", env=self._environment(),
                start_new_session=True, preexec_fn=_die_with_parent, **self.account)
        end = time.monotonic() + START_SECONDS
        while not self._ready():
            if self.process.poll() is not None:
                self.process = None
                raise RuntimeError(f"PostgreSQL did not start:\n{self.log()}")
            if time.monotonic() > end:
                self.kill()
                raise TimeoutError(f"PostgreSQL is not ready:\n{self.log()}")
            time.sleep(0.02)

    def stop(self, mode="fast"):
        """As pg_ctl stop -m MODE: smart, fast or immediate (as in a crash, but announced)."""
        self.process.send_signal(MODES[mode])
        try:
            self.process.wait(STOP_SECONDS)
            self.process = self.segment = None
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self):
        """As when the machine loses power, but for what the kernel has not written yet."""
        doomed = list(self._processes())
        for pid in doomed:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        self.process = None
        while any(_state(pid) for pid in doomed):
            time.sleep(0.01)

    def pause(self):
        """The server's processes stand still, as on a machine that hangs; `resume` ends that."""
        for pid in self._processes():
            os.kill(pid, signal.SIGSTOP)

    def resume(self):
        for pid in self._processes():
            os.kill(pid, signal.SIGCONT)

    def restart(self, mode="fast"):
        self.stop(mode)
        self.start()

    # ---- Use

    def sql(self, text, database=DATABASE):
        """Runs statements as the superuser; what psql prints, without decoration."""
        return self._run("psql", "--no-psqlrc", "--quiet", "--tuples-only", "--no-align",
                         "--set", "ON_ERROR_STOP=1", "--dbname", self.address(database=database),
                         "--command", text).strip()

    def log(self):
        with open(self._log, encoding="utf-8", errors="replace") as file:
            return file.read()

    # ---- Details

    def _processes(self):
        """The first one, and those that it has started."""
        first = self.process.pid
        yield first
        for path in glob.glob("/proc/[0-9]*"):
            pid = int(os.path.basename(path))
            if (_state(pid) or (None, None))[1] == first:
                yield pid

    @property
    def _data(self):
        return os.path.join(self.folder, "data")

    @property
    def _log(self):
        return os.path.join(self.folder, "log")

    def _environment(self):
        return {"PATH": f"{self.binaries}:/usr/bin:/bin", "LC_ALL": "C.UTF-8", "HOME": self.folder}

    def _run(self, program, *arguments):
        done = subprocess.run([os.path.join(self.binaries, program), *arguments], cwd="/",
                              env=self._environment(), stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                              **self.account)
        if done.returncode:
            raise RuntimeError(f"{program} failed:\n{done.stdout}")
        return done.stdout

    def _options(self):
        # Shared memory in the folder, which is removed; no other trace outside of it.
        settings = {"listen_addresses": "127.0.0.1", "port": self.port,
                    "unix_socket_directories": self.folder, "shared_buffers": "64MB",
                    "dynamic_shared_memory_type": "mmap", "max_connections": 50, **self.settings}
        return [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]

    def _first_start(self):
        for attempt in range(5):
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self.port = probe.getsockname()[1]
            try:
                return self.start()
            except RuntimeError:  # somebody else may have taken the port meanwhile
                if attempt == 4:
                    raise

    def _ready(self):
        """Its lock file: pid, folder, time, port, socket's folder, address, segment, state."""
        with contextlib.suppress(OSError, IndexError):
            with open(os.path.join(self._data, "postmaster.pid"), encoding="utf-8") as file:
                lines = file.read().splitlines()
            if int(lines[0]) == self.process.pid and lines[7].strip() == "ready":
                self.segment = lines[6].split()[1]
                return True
        return False


def _die_with_parent():
    """In the child: an immediate shutdown if this program is killed."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGQUIT)


def _state(pid):
    """The state and parent of a live process, or None."""
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            text = file.read()
        state, parent = text[text.rindex(")") + 2:].split()[:2]
        if state not in "ZX":
            return state, int(parent)
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--no-fsync", action="store_true", help="faster, and not durable")
    parser.add_argument("--optional", action="store_true",
                        help="run COMMAND also where there is no PostgreSQL")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND ARG...")
    options = parser.parse_args()
    if not options.command:
        parser.error("a command to run is missing")
    if not find_binaries():
        if options.optional:
            os.execvp(options.command[0], options.command)
        print("skipped: PostgreSQL's server is not installed (package postgresql)")
        return SKIPPED

    def end(number, _frame):
        raise SystemExit(128 + number)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, end)
    with Cluster(fsync=not options.no_fsync) as cluster:
        with subprocess.Popen(options.command,
                              env={**os.environ, "SLATE_TEST_POSTGRESQL": cluster.uri}) as child:
            try:
                status = child.wait()
            except BaseException:
                child.terminate()
                try:
                    child.wait(5)
                except subprocess.TimeoutExpired:
                    child.kill()
                raise
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())
