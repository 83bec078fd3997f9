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
    body: bytes  # empty: none
    answer: object  # the JSON value that the server has to answer with


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
    that make `at_least` so many bytes, or the records `by` one of their members and a `patch`."""
    body, answer = b"", None
    if "body" in spec:
        body, answer = _body(**{"from_": spec["body"]["from"]} |
                             {k: v for k, v in spec["body"].items() if k != "from"})
    if "answer" in spec:
        answer = json.loads(spec["answer"])
    return Request(spec["method"], spec["path"], body, answer)


def _body(from_, at_least=None, by=None, patch=None):
    try:
        text = (DOCUMENTS / from_).read_bytes()
    except OSError as error:
        raise PayloadError(f"{error.strerror}: {error.filename} (Debian package iso-codes)") from error
    document = json.loads(text)
    if at_least is not None:
        text = _first_records(document, at_least)
        document = json.loads(text)
    if by is not None:
        (records,) = document.values()
        document = {record[by]: record for record in records}
    if patch is not None:
        change = json.loads(patch)
        whole = {"doc": document, "patch": change}
        compact = json.dumps(whole, ensure_ascii=False, separators=(",", ":"))
        return compact.encode(), merge_patch(document, change)
    return text, document


def _first_records(document, at_least):
    ((name, records),) = document.items()
    few, many = 0, len(records)
    while few < many:
        middle = (few + many) // 2
        if len(_as_published({name: records[:middle]})) < at_least:
            few = middle + 1
        else:
            many = middle
    return _as_published({name: records[:few]})


def _as_published(document):
    return json.dumps(document, ensure_ascii=False, indent=2).encode() + b"\n"
