"""Requests made of real documents, each with the answer that is right for it."""

import json
from dataclasses import dataclass
from pathlib import Path

DOCUMENTS = Path("/usr/share/iso-codes/json")


class PayloadError(Exception):
    pass


@dataclass
class Request:
    method: str
    path: str
    bodies: list  # of bytes; empty: requests without a body
    answers: list  # the JSON value that the server has to answer with; one for each body, or one

    def body_bytes(self):
        """The mean length of a body."""
        return sum(map(len, self.bodies)) / len(self.bodies) if self.bodies else 0


def merge_patch(target, patch):
    """RFC 7396, section 2."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def build(spec):
    """From a scenario's [request]. A body is a document as it is on disk, or the first records of it
    that make `at_least` so many bytes (a list: one body for each), or the records `by` one of their
    members with a `patch`."""
    if "body" not in spec:
        return Request(spec["method"], spec["path"], [], [json.loads(spec["answer"])])
    known = {"from", "at_least", "by", "patch"}
    if set(spec["body"]) - known:
        raise PayloadError(f"a body knows {', '.join(sorted(known))}")
    text, document = _published(spec["body"]["from"])
    if "patch" in spec["body"]:
        bodies = [_merge_body(document, spec["body"]["by"], json.loads(spec["body"]["patch"]))]
    elif "at_least" in spec["body"]:
        sizes = spec["body"]["at_least"]
        bodies = [_first_records(document, size) for size in sizes]
    else:
        bodies = [(text, document)]
    return Request(spec["method"], spec["path"], [body for body, _ in bodies],
                   [answer for _, answer in bodies])


def _published(name):
    try:
        text = (DOCUMENTS / name).read_bytes()
    except OSError as error:
        raise PayloadError(f"{error.strerror}: {error.filename} (Debian package iso-codes)") from error
    return text, json.loads(text)


def _merge_body(document, by, patch):
    (records,) = document.values()
    document = {record[by]: record for record in records}
    text = json.dumps({"doc": document, "patch": patch}, ensure_ascii=False, separators=(",", ":"))
    return text.encode(), merge_patch(document, patch)


def _first_records(document, at_least):
    ((name, records),) = document.items()
    few, many = 0, len(records)
    while few < many:
        middle = (few + many) // 2
        if len(_as_published({name: records[:middle]})) < at_least:
            few = middle + 1
        else:
            many = middle
    return _as_published({name: records[:few]}), {name: records[:few]}


def _as_published(document):
    return json.dumps(document, ensure_ascii=False, indent=2).encode() + b"\n"
