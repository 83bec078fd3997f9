"""One HTTP answer, read piece by piece: its status, and a digest of its body."""

import hashlib


class Answer:
    """Takes what arrives until `whole`. Knows Content-Length and chunks; answers have bodies."""

    def __init__(self):
        self.status = 0
        self.whole = False
        self._digest = hashlib.blake2b(digest_size=16)
        self._buffer = bytearray()  # what is not understood yet
        self._left = None  # of the body or of the chunk; None: a head or a chunk's size comes first
        self._chunked = False

    def body(self):
        """Equal for equal bodies."""
        return self._digest.digest()

    def feed(self, piece):
        self._buffer += piece
        while not self.whole and self._step():
            pass

    def _step(self):
        """False when more has to arrive first."""
        if self._left is None:
            return self._read_size() if self.status else self._read_head()
        taken = min(self._left, len(self._buffer))
        with memoryview(self._buffer) as view:
            self._digest.update(view[:taken])
        del self._buffer[:taken]
        self._left -= taken
        if self._left == 0:
            self.whole = not self._chunked
            self._left = None
        return taken > 0

    def _take_until(self, end):
        at = self._buffer.find(end)
        if at < 0:
            return None
        taken = bytes(self._buffer[:at])
        del self._buffer[:at + len(end)]
        return taken

    def _read_head(self):
        head = self._take_until(b"\r\n\r\n")
        if head is None:
            return False
        status, *lines = head.split(b"\r\n")
        self.status = int(status.split()[1])
        fields = {name.lower(): value.strip() for name, _, value in (l.partition(b":") for l in lines)}
        self._chunked = fields.get(b"transfer-encoding", b"").lower() == b"chunked"
        if not self._chunked:
            self._left = int(fields[b"content-length"])
            self.whole = self._left == 0
        return True

    def _read_size(self):
        """A chunk's size stands behind the end of the one before."""
        if self._buffer.startswith(b"\r\n"):
            del self._buffer[:2]
        line = self._take_until(b"\r\n")
        if line is None:
            return False
        size = int(line.split(b";")[0], 16)
        self._left = size or None
        if size == 0:  # then an empty line, that nobody here waits for
            self.whole = True
        return True
