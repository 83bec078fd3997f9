"""The server under test: started on ports of its own, and never let go without a check.

Every server ends by SIGTERM, must exit with 0, and must not have reported anything: a leak, a race
or undefined behaviour fails the test that caused it.
"""
import os
import re
import signal
import socket
import subprocess
import tempfile

from wire import DEADLINE, Connection, until

BINARY = os.environ.get("SLATE_BIN", "build/handlers/slate")
ALLOC = os.environ.get("SLATE_ALLOC", "arena")
TREE = os.environ.get("SLATE_TREE", "release")  # release, asan or tsan
SANITIZED = TREE != "release"
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

REPORT = re.compile(r"ERROR: \w+Sanitizer|WARNING: \w+Sanitizer|runtime error:|Assertion .* failed"
                    r"|double free|corrupted|stack smashing|SUMMARY: \w+Sanitizer")
LISTENING = re.compile(r"listening on http://([0-9.]+|\[[0-9a-f:]+\]):([0-9]+)")
ADMIN = re.compile(r"admin on http://([0-9.]+|\[[0-9a-f:]+\]):([0-9]+)")


def personality():
    """ThreadSanitizer needs the address space laid out without randomness on newer kernels."""
    if TREE != "tsan":
        return []
    works = subprocess.run(["setarch", "-R", "true"], capture_output=True, check=False)
    return ["setarch", "-R"] if works.returncode == 0 else []


PREFIX = personality()


def environment():
    env = {name: value for name, value in os.environ.items() if not name.startswith("SLATE_")}
    env["ASAN_OPTIONS"] = "detect_leaks=1:exitcode=86:detect_stack_use_after_return=1"
    env["UBSAN_OPTIONS"] = "halt_on_error=1:print_stacktrace=1"
    env["TSAN_OPTIONS"] = "exitcode=66"
    return env


def run(*flags, env=None, timeout=DEADLINE):
    """Runs the program to its end; for command lines that are not served."""
    return subprocess.run([*PREFIX, BINARY, *flags], env={**environment(), **(env or {})},
                          capture_output=True, text=True, timeout=timeout, check=False)


class Server:
    def __init__(self, *flags, env=None, alloc=ALLOC, binary=BINARY, admin="127.0.0.1:0",
                 stdout=None):
        self.connections = []
        self.stdout = tempfile.TemporaryFile()
        self.stderr = tempfile.TemporaryFile()
        arguments = ["--listen", "127.0.0.1:0", "--admin", admin, "--alloc", alloc, "--db", "off",
                     *flags]
        self.process = subprocess.Popen(
            [*PREFIX, binary, *arguments], stdin=subprocess.DEVNULL,
            stdout=self.stdout if stdout is None else stdout,
            stderr=self.stderr, env={**environment(), **(env or {})})
        try:
            self.address = self.wait_for_address(LISTENING)
            self.admin_address = None if admin == "off" else self.wait_for_address(ADMIN)
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise

    @property
    def pid(self):
        return self.process.pid

    def wait_for_address(self, pattern):
        def found():
            match = pattern.search(self.errors())
            assert match or self.process.poll() is None, \
                f"exit {self.process.returncode} at start:\n{self.errors()}"
            return match
        match = until(found, f"a line like {pattern.pattern!r} on stderr")
        return match[1].strip("[]"), int(match[2])

    # ---- What it has written -------------------------------------------------------------------

    @staticmethod
    def written(file):
        return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode("utf-8", "replace")

    def errors(self):
        return self.written(self.stderr)

    def output(self):
        return self.written(self.stdout)

    def log(self, lines):
        """The access log, once it has at least that many complete lines."""
        return until(lambda: self.output().count("\n") >= lines and self.output(),
                     f"{lines} lines of access log").splitlines()

    # ---- Talking to it -------------------------------------------------------------------------

    def connect(self, to=None, **keywords):
        connection = Connection(to or self.address, **keywords)
        self.connections.append(connection)
        return connection

    def request(self, method, target, *fields, **keywords):
        """One request on a connection of its own."""
        with Connection(self.address) as connection:
            return connection.request(method, target, *fields, **keywords)

    def post(self, target, body, *fields, **keywords):
        return self.request("POST", target, *fields, body=body, **keywords)

    def admin(self, target, method="GET"):
        with Connection(self.admin_address) as connection:
            return connection.request(method, target)

    def memory(self):
        return self.admin("/debug/memory").json()

    def metric(self, name, **labels):
        """The sum of the samples of that name whose labels include these. Where allocations fail at
        random, those of this request may, too: then it is asked again."""
        def ask():
            answer = self.admin("/metrics")
            return answer if answer.status != 503 else None
        return sum(value for sample, found, value in samples(until(ask, "metrics").body.decode())
                   if sample == name and labels.items() <= found.items())

    def anonymous(self):
        """Bytes of anonymous memory that the process holds now."""
        with open(f"/proc/{self.pid}/smaps_rollup", encoding="ascii") as rollup:
            kilobytes = {line.split()[0]: int(line.split()[1]) for line in rollup.readlines()[1:]}
        return 1024 * (kilobytes["Anonymous:"] - kilobytes["LazyFree:"])

    def resident(self):
        """Bytes of memory that the process holds now, pages of files included."""
        with open(f"/proc/{self.pid}/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def assert_at_rest(self):
        """No request is in flight any more, and what requests held is back."""
        until(lambda: self.metric("slate_requests_in_flight") == 0, "no request in flight")
        until(lambda: self.metric("slate_live_bytes") == 0, "live bytes back to 0")

    # ---- Ending --------------------------------------------------------------------------------

    def signal(self, number=signal.SIGTERM):
        self.process.send_signal(number)

    def close_connections(self):
        for connection in self.connections:
            connection.close()
        self.connections.clear()

    def wait(self, timeout=DEADLINE):
        """Waits for the process to end by itself; returns its exit status."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {timeout} s:\n{self.errors()}") from None

    def check(self):
        """Nothing has gone wrong so far."""
        errors = self.errors()
        assert not REPORT.search(errors), errors
        assert self.process.poll() in (None, 0), f"exit {self.process.returncode}:\n{errors}"

    def stop(self):
        """Ends the server the way an operator does, and checks that it ended well."""
        self.close_connections()
        try:
            if self.process.poll() is None:
                self.signal()
            status = self.wait(2 * DEADLINE)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
        errors = self.errors()
        assert not REPORT.search(errors), errors
        assert status == 0, f"exit {status}:\n{errors}"

    def release(self):
        self.stdout.close()
        self.stderr.close()


def samples(text):
    """The samples of the Prometheus text format: (name, labels, value)."""
    line_pattern = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)(?: -?[0-9]+)?\Z')
    label_pattern = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(?:,|\Z)')
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        match = line_pattern.match(line)
        assert match, f"not a sample: {line!r}"
        labels, rest = {}, match[2] or ""
        while rest:
            label = label_pattern.match(rest)
            assert label, f"not labels: {line!r}"
            assert label[1] not in labels, f"a label twice: {line!r}"
            labels[label[1]] = label[2]
            rest = rest[label.end():]
        yield match[1], labels, float(match[3])


def free_port():
    """A socket that holds a port of 127.0.0.1, and the port."""
    holder = socket.socket()
    holder.bind(("127.0.0.1", 0))
    return holder, holder.getsockname()[1]
