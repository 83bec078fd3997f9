"""HTTP/1.1 over a plain socket, with control of every byte.

A test decides what is sent and in which segments; what comes back is read strictly, as RFC 9112
asks: a status line, fields whose names are tokens, a body framed by chunks, by Content-Length or by
the end of the connection, and nothing after it that was not asked for.
"""
import errno
import json
import re
import socket
import struct
import time

DEADLINE = 30.0  # seconds that anything may take on a noisy machine under a sanitizer

READY_MADE = ("/problems/request-memory", "/problems/overloaded", "/problems/no-answer")
STATUS_LINE = re.compile(rb"HTTP/1\.1 ([1-5][0-9][0-9]) ([\x20-\x7e]*)\Z")
FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t]*\Z")


def until(check, what, deadline=DEADLINE):
    """Polls `check` until it returns something true, which is returned; never a fixed sleep."""
    end = time.monotonic() + deadline
    while True:
        value = check()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline} s: {what} (last: {value!r})")
        time.sleep(0.01)


class Closed(Exception):
    """The peer closed, or reset, the connection in the middle of what was being read."""


class Response:
    def __init__(self, status, reason, fields):
        self.status = status
        self.reason = reason
        self.fields = fields
        self.body = b""
        self.interim = []  # 1xx answers that came before

    def __repr__(self):
        return f"<{self.status} {self.fields} {self.body[:400]!r}>"

    def header(self, name):
        """The value of the field, None if absent; a field that is there twice is an error."""
        found = [value for field, value in self.fields if field.lower() == name.lower()]
        assert len(found) <= 1, f"{name} is there {len(found)} times: {self}"
        return found[0] if found else None

    @property
    def media_type(self):
        return (self.header("Content-Type") or "").split(";")[0].strip().lower()

    @property
    def closes(self):
        options = (self.header("Connection") or "").lower()
        return "close" in [option.strip() for option in options.split(",")]

    def json(self):
        return json.loads(self.body.decode("utf-8"))

    def problem(self, slug=None):
        """The members of an RFC 9457 problem, checked for what every problem must say."""
        assert self.media_type == "application/problem+json", self
        problem = self.json()
        assert problem["type"].startswith("/problems/"), problem
        assert slug is None or problem["type"] == f"/problems/{slug}", problem
        assert problem["status"] == self.status, problem
        members = ["title", "detail", "instance"]
        if problem["type"] in READY_MADE:  # built at start-up, for when there is no memory
            members.remove("instance")
        for member in members:
            assert isinstance(problem[member], str) and problem[member], problem
        return problem


class Connection:
    """One connection. Not thread-safe; the tests that use threads give each its own."""

    def __init__(self, address, timeout=DEADLINE, window=None):
        """`window`: bytes that the system takes in before anyone reads (before the connection is
        made, or it has no effect); by default it may take megabytes."""
        self.sock = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
        if window:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        self.sock.settimeout(timeout)
        try:
            self.sock.connect(address)
        except OSError:
            self.sock.close()
            raise
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.host = f"{address[0]}:{address[1]}"
        self.buffer = b""
        self.expected = []  # methods of the requests sent with `request` and not yet answered

    # ---- Sending -------------------------------------------------------------------------------

    def send(self, data):
        self.sock.sendall(data)

    def send_if_open(self, data):
        """Sends what a server that has answered already may refuse to read."""
        try:
            self.sock.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def send_bytewise(self, data):
        """Every byte a segment of its own (TCP_NODELAY is set)."""
        for i in range(len(data)):
            self.sock.sendall(data[i:i + 1])

    def head(self, method, target, *fields, host=True):
        """The bytes of a request's head; each of `fields` is a "Name: value" string."""
        lines = [f"{method} {target} HTTP/1.1"] + ([f"Host: {self.host}"] if host else [])
        return "\r\n".join([*lines, *fields, "", ""]).encode("latin-1")

    def start(self, method, target, *fields, body=None, media_type="application/json"):
        """Sends a request without reading its answer, so that requests can be pipelined."""
        if body is not None:
            fields = (*fields, f"Content-Length: {len(body)}")
            if media_type is not None:
                fields = (*fields, f"Content-Type: {media_type}")
        self.expected.append(method)
        self.send(self.head(method, target, *fields) + (body or b""))

    # ---- Reading -------------------------------------------------------------------------------

    def fill(self):
        """Reads what has come; False at the end of the connection."""
        try:
            data = self.sock.recv(1 << 18)
        except ConnectionResetError as error:
            raise Closed("reset by the server") from error
        self.buffer += data
        return bool(data)

    def read_line(self):
        while b"\r\n" not in self.buffer:
            if not self.fill():
                raise Closed(f"closed in the middle of a line: {self.buffer[:200]!r}")
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        assert b"\n" not in line and b"\r" not in line, f"stray line end: {line!r}"
        return line

    def read_bytes(self, size):
        if len(self.buffer) < size:
            pieces = [self.buffer]
            missing = size - len(self.buffer)
            self.buffer = b""
            while missing > 0:
                if not self.fill():
                    raise Closed(f"closed {missing} bytes before the end of {size}")
                pieces.append(self.buffer)
                missing -= len(self.buffer)
                self.buffer = b""
            self.buffer = b"".join(pieces)
        data, self.buffer = self.buffer[:size], self.buffer[size:]
        return data

    def read_head(self):
        line = self.read_line()
        match = STATUS_LINE.match(line)
        assert match, f"not a status line: {line!r}"
        response = Response(int(match[1]), match[2].decode(), [])
        while True:
            line = self.read_line()
            if not line:
                return response
            match = FIELD.match(line)
            assert match, f"not a field: {line!r}"
            response.fields.append((match[1].decode(), match[2].decode("latin-1")))

    def read_chunks(self):
        pieces = []
        while True:
            size = int(self.read_line().split(b";")[0], 16)
            pieces.append(self.read_bytes(size))
            if size == 0:
                while self.read_line():
                    pass  # trailers
                return b"".join(pieces)
            assert self.read_line() == b"", "a chunk does not end where it said"

    def read(self, method=None):
        """The next answer, to a request of that method (known if it was sent with `start`)."""
        if method is None:
            method = self.expected.pop(0) if self.expected else "GET"
        interim = []
        response = self.read_head()
        while response.status < 200:
            interim.append(response)
            response = self.read_head()
        response.interim = interim

        length = response.header("Content-Length")
        coding = response.header("Transfer-Encoding")
        assert length is None or coding is None, f"framed twice: {response}"
        if method == "HEAD" or response.status in (204, 304):
            return response
        if coding is not None:
            assert coding.lower() == "chunked", response
            response.body = self.read_chunks()
        elif length is not None:
            response.body = self.read_bytes(int(length))
        else:
            response.body = self.read_to_end()
        return response

    def request(self, method, target, *fields, body=None, media_type="application/json"):
        self.start(method, target, *fields, body=body, media_type=media_type)
        return self.read()

    def read_to_end(self):
        """Everything until the server closes; a reset counts as an end."""
        try:
            while self.fill():
                pass
        except Closed:
            pass
        data, self.buffer = self.buffer, b""
        return data

    def assert_open(self):
        """The connection still serves: a second request on it is answered."""
        assert self.request("GET", "/json").status == 200

    def assert_closed(self):
        """The server closes, and sends nothing more before it does."""
        rest = self.read_to_end()
        assert rest == b"", f"more bytes than asked for: {rest[:300]!r}"

    # ---- Ending --------------------------------------------------------------------------------

    def finish(self):
        """Sends no more, and still reads."""
        try:
            self.sock.shutdown(socket.SHUT_WR)
        except OSError as error:
            if error.errno != errno.ENOTCONN:  # the server has reset it already
                raise

    def reset(self):
        """Ends with a RST instead of a FIN: the peer sees an error at once."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()


def swelling(rows):
    """A document that `?pretty` makes twelve times as long: about 22 bytes in, 270 out, a row."""
    return b"[" + b",".join([b"[" * 10 + b"1" + b"]" * 10] * rows) + b"]"


def chunked(data, size):
    """`data` in the chunked coding, `size` bytes a chunk."""
    pieces = [data[i:i + size] for i in range(0, len(data), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
