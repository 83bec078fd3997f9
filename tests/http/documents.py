"""A server with a document store, for the tests of /db. Each test works in a collection of its own, so
that a store may be shared: SLATE_TEST_POSTGRESQL names one, beside SQLite on disk."""
import itertools
import json
import os
import re
import uuid

from process import Server

URIS = {"sqlite": None}  # None: a file of the server's own
if os.environ.get("SLATE_TEST_POSTGRESQL"):
    URIS["postgresql"] = os.environ["SLATE_TEST_POSTGRESQL"]

MERGE = "application/merge-patch+json"
PATCH = "application/json-patch+json"
NDJSON = "application/x-ndjson"


def uri(backend, folder):
    return URIS[backend] or f"sqlite:{folder}/documents.db"


class Documents:
    """One collection of a server's."""

    def __init__(self, server):
        self.server = server
        self.name = f"t-{uuid.uuid4().hex}"

    def path(self, tail):
        return f"/db/{self.name}{tail}"

    def request(self, method, tail, *fields, **keywords):
        return self.server.request(method, self.path(tail), *fields, **keywords)

    def get(self, tail="", *fields):
        return self.request("GET", tail, *fields)

    def put(self, tail, document, *fields):
        return self.request("PUT", tail, *fields, body=json.dumps(document).encode())

    def patch(self, tail, patch, *fields, media_type=MERGE):
        return self.request("PATCH", tail, *fields, body=json.dumps(patch).encode(),
                            media_type=media_type)

    def post(self, document, *fields):
        return self.request("POST", "", *fields, body=json.dumps(document).encode())

    def post_lines(self, text, *fields):
        return self.request("POST", "", *fields, body=text, media_type=NDJSON)

    def delete(self, tail="", *fields):
        return self.request("DELETE", tail, *fields)

    def made(self, document):
        """The id of a new document."""
        answer = self.post(document)
        assert answer.status == 201, answer
        return answer.json()["id"]

    def rows(self, query="", *fields):
        answer = self.get(query, *fields)
        assert answer.status == 200, answer
        return answer.json()

    def documents(self, query="", *fields):
        return [row["document"] for row in self.rows(query, *fields)]

    def fill(self, documents):
        """Inserts any number of documents, half a megabyte at a time."""
        lines, size = [], 0
        for document in itertools.chain(documents, [None]):
            line = json.dumps(document).encode() + b"\n"
            if size + len(line) > 500_000 or len(lines) == 10_000 or document is None:
                answer = self.post_lines(b"".join(lines))
                assert answer.status == 201, answer
                lines, size = [], 0
            lines.append(line)
            size += len(line)

    def pages(self, query):
        """The answers of a list and of all that its links lead to."""
        target = self.path(query)
        while target:
            answer = self.server.request("GET", target)
            assert answer.status == 200, answer
            yield answer
            target = next_page(answer)


def next_page(answer):
    """Where the answer's link leads to; None: it is the last page."""
    link = answer.header("Link")
    if not link:
        return None
    match = re.fullmatch(r'<([^<>]*)>; rel="next"', link)
    assert match, link
    return match[1]


def start(backend, folder, *flags, **keywords):
    return Server("--db", uri(backend, folder), *flags, **keywords)
