"""Clients that write while a server or its database is being ended, and a ledger of what they were
told. Every write is acknowledged, refused or unknown (its answer never came, or says so), and the
documents that are found afterwards are held against that: what was acknowledged is there, with its
revision; what was refused is not; what is unknown is there whole or not at all; nothing else is.

A client writes documents of its own, a member of its own in a document that it shares with others,
and new documents, one or many at a time, under an idempotency key.
"""
import collections
import contextlib
import json
import random
import resource
import sqlite3
import threading
import time

from documents import MERGE, NDJSON, PATCH
from wire import DEADLINE, Closed, Connection, until

ACKNOWLEDGED, REFUSED, UNKNOWN = "acknowledged", "refused", "unknown"
SHARERS = 10  # clients of one shared document
BULK = 20  # documents inserted at once
AFTER_RESTART = 4 * DEADLINE


class Write:
    """A request, and what became of it."""

    def __init__(self, who, method, tail, body=None, fields=(), media_type="application/json",
                 expected=200):
        self.who, self.method, self.tail, self.fields = who, method, tail, fields
        self.id = who.replace(" ", ".")
        self.body = None if body is None else json.dumps(body).encode()
        self.media_type, self.expected = media_type, expected
        self.outcome = None
        self.revision = None
        self.floor = 0  # a revision that was acknowledged to somebody before this was sent
        self.sent = None  # when


class Own:
    """A document that one client writes. Once a write of it is unknown it is left alone."""

    def __init__(self, name):
        self.name = name
        self.revision, self.document = 0, None  # as acknowledged; None: there is none
        self.write, self.wanted = None, None  # what is under way, or unknown; what it makes of it
        self.number = 0

    def next(self, rng):
        self.number += 1
        self.wanted = {"of": self.name, "n": self.number, "pad": [7] * rng.choice([0, 10, 1000])}
        who = f"{self.name} {self.number}"
        if self.document is None:
            self.write = Write(who, "PUT", f"/{self.name}", self.wanted, expected=201)
        else:
            self.write = self.change(who, rng)
        return self.write

    def change(self, who, rng):
        way = rng.randrange(6)
        if way == 0:
            self.wanted = None
            return Write(who, "DELETE", f"/{self.name}", expected=204)
        if way == 1:
            self.wanted = self.document
            return Write(who, "GET", f"/{self.name}")
        if way == 2:
            return Write(who, "PATCH", f"/{self.name}", self.wanted, media_type=MERGE)
        if way == 3:
            patch = [{"op": "test", "path": "/n", "value": self.document["n"]},
                     {"op": "replace", "path": "", "value": self.wanted}]
            return Write(who, "PATCH", f"/{self.name}", patch, media_type=PATCH)
        if way == 4:
            return Write(who, "PUT", f"/{self.name}", self.wanted,
                         fields=(f'If-Match: "{self.revision}"',))
        return Write(who, "PUT", f"/{self.name}", self.wanted)

    def took(self, answer):
        write = self.write
        if write.outcome == ACKNOWLEDGED:
            if write.method == "GET":
                assert answer.json() == self.document, f"{write.who}: {answer}"
                assert answer.header("ETag") == f'"{self.revision}"', f"{write.who}: {answer}"
            else:
                self.document = self.wanted
                self.revision = write.revision
        if write.outcome != UNKNOWN or write.method == "GET":
            self.write = None  # nothing is in doubt

    def settle(self, ledger, found):
        """What it was found to be, (revision, document) or None, is one of what it can be."""
        known = (self.revision, self.document) if self.document is not None else None
        if found == known:
            return
        assert self.write, f"{self.name} is {short(found)}, but {short(known)} was acknowledged last"
        if self.wanted is None:
            assert found is None, f"{self.name} is {short(found)}, neither {short(known)} nor removed"
            return
        assert found and found[1] == self.wanted, \
            f"{self.name} is {short(found)}, neither {short(known)} nor {short(self.wanted)}"
        assert found[0] > self.write.floor, f"{self.name}: {found[0]} was a revision before"
        ledger.claim(found[0], self.write.who)


class Member:
    """What one client keeps in a document that others patch at the same time."""

    def __init__(self, shared, name):
        self.shared, self.name = shared, name
        self.acknowledged = self.sent = 0

    def next(self):
        self.sent += 1
        return Write(f"{self.name} {self.sent}", "PATCH", f"/{self.shared}",
                     {self.name: self.sent}, media_type=MERGE)

    def took(self, write):
        if write.outcome == ACKNOWLEDGED:
            self.acknowledged = self.sent

    def settle(self, document):
        value = document.get(self.name, 0)
        assert self.acknowledged <= value <= self.sent, \
            f"{self.shared}: {self.name} is {value}, not {self.acknowledged} to {self.sent}"


class Insert:
    """New documents, all or none."""

    def __init__(self, key, count, lines):
        self.documents = [{"key": key, "n": n} for n in range(count)]
        body = self.documents if count > 1 else self.documents[0]
        self.write = Write(key, "POST", "", body, (f"Idempotency-Key: {key}",), expected=201)
        if lines and count > 1:
            self.write.body = b"\n".join(json.dumps(one).encode() for one in self.documents)
            self.write.media_type = NDJSON
        self.ids = []

    def took(self, answer):
        made = answer.json()
        made = made if len(self.documents) > 1 else [made]
        assert len(made) == len(self.documents), f"{self.write.who}: {answer}"
        assert {one["revision"] for one in made} == {self.write.revision}, answer
        self.ids = [one["id"] for one in made]

    def rows(self):
        return {one: (self.write.revision, document)
                for one, document in zip(self.ids, self.documents)}

    def settle(self, ledger, found):
        """`found`: the rows of its key."""
        if self.write.outcome == ACKNOWLEDGED:
            assert found == self.rows(), f"{self.write.who} is {found}, not {self.rows()}"
        elif self.write.outcome == REFUSED:
            assert not found, f"{self.write.who} was refused, and is there: {found}"
        else:
            assert len(found) in (0, len(self.documents)), f"{self.write.who} is half there: {found}"
            self.send_again(ledger, found)

    def send_again(self, ledger, found):
        """The same key makes the documents once, whether they had been made or not."""
        answer = ledger.request(self.write)
        assert answer.status == 201, f"{self.write.who}: {answer}"
        replayed = answer.header("Idempotency-Replayed") == "true"
        assert replayed == bool(found), f"{self.write.who} was {found}, and is made again: {answer}"
        self.write.revision = revision_of(answer)
        self.took(answer)
        if found:
            assert found == self.rows(), f"{self.write.who} is {found}, not {self.rows()}"
        ledger.claim(self.write.revision, self.write.who)


class Client:
    """One connection, one request at a time. Used by one thread."""

    def __init__(self, ledger, name, shared):
        self.ledger, self.name = ledger, name
        self.rng = random.Random(name)
        self.connection, self.address = None, None
        self.member = Member(shared, name)
        self.owns, self.inserts = [], []
        self.write, self.took = None, None

    def connect(self, addresses):
        """To one of them, another than before if there is another. False: it does not listen."""
        others = [address for address in addresses if address != self.address] or addresses
        self.address = self.rng.choice(others)
        try:
            self.connection = Connection(self.address)
        except OSError:
            return False
        return True

    def choose(self):
        way = self.rng.randrange(20)
        if way == 0:
            insert = Insert(f"{self.name}-{len(self.inserts)}", BULK, self.rng.randrange(2))
        elif way < 4:
            insert = Insert(f"{self.name}-{len(self.inserts)}", 1, False)
        elif way < 7:
            self.write = self.member.next()
            self.took = lambda _: self.member.took(self.write)
            return
        else:
            if not self.owns or self.owns[-1].write:
                self.owns.append(Own(f"{self.name}-own-{len(self.owns)}"))
            self.write, self.took = self.owns[-1].next(self.rng), self.owns[-1].took
            return
        self.inserts.append(insert)
        self.write = insert.write
        self.took = lambda answer: insert.write.outcome == ACKNOWLEDGED and insert.took(answer)

    def send(self):
        self.choose()
        self.write.floor = self.ledger.highest
        self.write.sent = time.monotonic()
        try:
            self.connection.start(self.write.method, self.ledger.path(self.write.tail),
                                  f"X-Request-Id: {self.write.id}", *self.write.fields,
                                  body=self.write.body,
                                  media_type=self.write.media_type)
        except OSError:
            self.lose()

    def receive(self):
        if not self.connection:
            return
        try:
            answer = self.connection.read()
        except (Closed, OSError):  # a time limit, too, is an answer that never came
            self.lose()
            return
        self.write.outcome = self.judge(answer)
        if self.write.outcome == ACKNOWLEDGED and self.write.method not in ("GET", "DELETE"):
            self.write.revision = revision_of(answer)
        self.ledger.note(self.write)
        self.took(answer)
        if answer.closes:
            self.connection.close()
            self.connection = None

    def judge(self, answer):
        if answer.status == self.write.expected:
            return ACKNOWLEDGED
        assert answer.status in (502, 503, 504), f"{self.write.who}: {answer}"
        assert answer.header("Retry-After"), f"{self.write.who}: {answer}"
        kind = answer.json()["type"]
        if kind == "/problems/unavailable":  # a proxy's own answer
            self.ledger.broken.append(self.write)
        else:
            answer.problem()
        return UNKNOWN if answer.status != 503 or kind == "/problems/outcome-unknown" else REFUSED

    def lose(self):
        self.connection.close()
        self.connection = None
        self.ledger.broken.append(self.write)
        self.write.outcome = UNKNOWN
        self.ledger.note(self.write)
        self.took(None)


class Ledger:
    """What clients were told, all together. `lock` guards what the threads of clients change."""

    def __init__(self, db):
        self.db = db  # a Documents; its server is the one that is asked afterwards
        self.lock = threading.Lock()
        self.counts = collections.Counter()
        self.claims = {}  # revision: the write that got it
        self.highest = 0
        self.broken = []  # writes that a proxy answered itself, or whose connection has ended
        self.settled = {}  # id: (revision, document), of earlier rounds
        self.clients = []
        self.rounds = 0

    def path(self, tail):
        return self.db.path(tail)

    def request(self, write):
        """Once more, as it was; a store that has just come back may need a moment."""
        def ask():
            answer = self.db.request(write.method, write.tail, *write.fields, body=write.body,
                                     media_type=write.media_type)
            return answer if answer.status != 503 else None
        return until(ask, f"{write.who} is answered")

    def claim(self, revision, who):
        with self.lock:
            assert self.claims.setdefault(revision, who) == who, \
                f"revision {revision} is of {self.claims[revision]}, and of {who}"
            self.highest = max(self.highest, revision)

    def note(self, write):
        if write.revision is not None:
            assert write.revision > write.floor, \
                f"{write.who} got {write.revision}, but {write.floor} was given before it was sent"
            self.claim(write.revision, write.who)
        with self.lock:
            self.counts[write.outcome] += 1

    # ---- Afterwards

    def rows(self):
        """All that is stored: id: (revision, document)."""
        answer = until(lambda: self.whole_stream(), "a list of all", AFTER_RESTART)
        rows = [json.loads(line) for line in answer.body.splitlines()]
        found = {row["id"]: (row["revision"], row["document"]) for row in rows}
        assert len(found) == len(rows), "an id is there twice"
        return found

    def whole_stream(self):
        try:
            answer = self.db.get("", f"Accept: {NDJSON}")
        except Closed:
            return None
        return answer if answer.status == 200 else None

    def check(self):
        """Holds what is stored against what was said. All that was unknown is known then."""
        rows = self.rows()
        for name, was in self.settled.items():
            assert rows.get(name) == was, f"{name} was {short(was)} and is {short(rows.get(name))}"
        self.check_count(len(rows))
        new = {name: row for name, row in rows.items() if name not in self.settled}
        by_key = collections.defaultdict(dict)
        for name, row in new.items():
            by_key[row[1].get("key")][name] = row
        explained = {name: row for name, row in new.items() if "key" not in row[1]}
        now = dict(new)
        for client in self.clients:
            for own in client.owns:
                own.settle(self, new.get(own.name))
                explained.pop(own.name, None)
            for insert in client.inserts:
                insert.settle(self, by_key.pop(insert.write.who, {}))
                if insert.ids:
                    now.update(insert.rows())
        by_key.pop(None, None)
        assert not by_key, f"nobody inserted {list(by_key.items())[:3]}"
        self.check_shared(new, explained)
        assert not explained, f"nobody wrote {list(explained.items())[:3]}"
        self.settled.update(now)
        self.clients = []

    def check_count(self, count):
        """The store's own count is right, too."""
        listed = {one["name"]: one["documents"] for one in
                  self.db.server.request("GET", "/db").json()}
        assert listed.get(self.db.name, 0) == count

    def check_shared(self, new, explained):
        members = collections.defaultdict(list)
        for client in self.clients:
            members[client.member.shared].append(client.member)
        for name, sharers in members.items():
            assert name in new, f"{name} is lost"
            revision, document = explained.pop(name)
            for member in sharers:
                member.settle(document)
            others = document.keys() - {member.name for member in sharers}
            assert not others, f"{name}: nobody wrote {others}"
            with self.lock:
                who = self.claims.get(revision, name)
                self.highest = max(self.highest, revision)
            assert who.rsplit(" ", 1)[0] in (name, *document), f"{name}: revision of {who}"


class Load:
    """Many clients at once, each with a request under way, until `end`; every thread serves some.
    Without `patient`, a client whose connection is lost gives up."""

    def __init__(self, ledger, addresses, clients=1000, threads=40, patient=False):
        self.ledger, self.addresses, self.patient = ledger, addresses, patient
        self.ending = threading.Event()
        self.failures = []
        allow_files()
        ledger.rounds += 1
        shared = [f"r{ledger.rounds}-shared-{n}" for n in range(max(1, clients // SHARERS))]
        for name in shared:
            assert ledger.db.put(f"/{name}", {}).status == 201
        ledger.clients = [Client(ledger, f"r{ledger.rounds}-c{n}", shared[n % len(shared)])
                          for n in range(clients)]
        for client in ledger.clients:
            assert client.connect(addresses)
        self.threads = [threading.Thread(target=self.run, args=(ledger.clients[n::threads],))
                        for n in range(threads)]
        for thread in self.threads:
            thread.start()

    def run(self, clients):
        try:
            while not self.ending.is_set():
                connected = [one for one in clients if self.is_connected(one)]
                if not connected and not self.patient:
                    return
                for one in connected:
                    one.send()
                for one in connected:
                    one.receive()
                if not connected:
                    time.sleep(0.02)
        except BaseException as failure:  # raised again by `end`
            self.failures.append(failure)
        finally:
            for one in clients:
                if one.connection:
                    one.connection.close()

    def is_connected(self, client):
        return client.connection or (self.patient and client.connect(self.addresses))

    def more(self, count):
        """Waits until so many more writes have been acknowledged."""
        wanted = self.ledger.counts[ACKNOWLEDGED] + count
        until(lambda: self.failures or self.ledger.counts[ACKNOWLEDGED] >= wanted
              or not any(thread.is_alive() for thread in self.threads),
              f"{count} writes are acknowledged", 4 * DEADLINE)
        self.check()
        assert self.ledger.counts[ACKNOWLEDGED] >= wanted, "all clients have gone"

    def end(self):
        """What is under way is waited for."""
        self.ending.set()
        for thread in self.threads:
            thread.join()
        self.check()

    def check(self):
        if self.failures:
            self.ending.set()
            raise self.failures[0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ending.set()
        for thread in self.threads:
            thread.join()


def check_file(path):
    """A SQLite file, as any other program sees it beside the server."""
    with contextlib.closing(sqlite3.connect(path)) as file:
        assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        newest = file.execute("SELECT max(revision) FROM document").fetchone()[0]
        assert file.execute("SELECT revision FROM counter").fetchone()[0] >= newest


def revision_of(answer):
    tag = answer.header("ETag")
    return int(tag.strip('"')) if tag else answer.json()[0]["revision"]  # of a bulk insert


def short(value):
    """For messages."""
    text = str(value)
    return text if len(text) < 200 else f"{text[:200]}…"


def allow_files():
    """A connection is a file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
