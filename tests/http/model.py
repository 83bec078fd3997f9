"""What the document API should do, in plain Python: patches of documents, and lists of them. Slow and
obvious; the property tests hold the server against it."""
import copy
import decimal
import json

KINDS = {type(None): 0, bool: 1, int: 3, float: 3, str: 4, list: 5, dict: 5}
SORTED = 256  # characters of a string that sorting regards


class Impossible(Exception):
    """A patch names a place that is not there."""


class TestFailed(Exception):
    """A patch tests for another value."""


# ---- Places: JSON pointers (RFC 6901) -----------------------------------------------------------------


def pointer(tokens):
    return "".join("/" + token.replace("~", "~0").replace("/", "~1") for token in tokens)


def tokens_of(text):
    return [token.replace("~1", "/").replace("~0", "~") for token in text.split("/")[1:]]


def index_of(token):
    """The index that a token is, or None: no sign, no leading zero."""
    good = token.isascii() and token.isdigit() and (token == "0" or token[0] != "0")
    return int(token) if good else None


def has(value, token):
    if isinstance(value, list):
        index = index_of(token)
        return index is not None and index < len(value)
    return isinstance(value, dict) and token in value


def step(value, token):
    return value[int(token)] if isinstance(value, list) else value[token]


def find(document, tokens):
    """(True, value), or (False, None)."""
    for token in tokens:
        if not has(document, token):
            return False, None
        document = step(document, token)
    return True, document


def places(document, tokens=()):
    """All places of a document, as lists of tokens."""
    yield list(tokens)
    if isinstance(document, (list, dict)):
        keys = map(str, range(len(document))) if isinstance(document, list) else document
        for key in keys:
            yield from places(step(document, key), (*tokens, key))


# ---- Patches ------------------------------------------------------------------------------------------


def equal(a, b):
    """RFC 6902, section 4.6."""
    if KINDS[type(a)] != KINDS[type(b)] or isinstance(a, list) != isinstance(b, list):
        return False
    if isinstance(a, list):
        return len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    return a == b


def must_find(document, tokens):
    found, value = find(document, tokens)
    if not found:
        raise Impossible(tokens)
    return value


def put_in(document, tokens, value):
    """The document, with the value at that place."""
    if not tokens:
        return value
    parent, last = must_find(document, tokens[:-1]), tokens[-1]
    if isinstance(parent, dict):
        parent[last] = value
    elif isinstance(parent, list) and last == "-":
        parent.append(value)
    elif isinstance(parent, list) and index_of(last) is not None and index_of(last) <= len(parent):
        parent.insert(index_of(last), value)
    else:
        raise Impossible(tokens)
    return document


def take_out(document, tokens):
    must_find(document, tokens)
    if not tokens:
        raise Impossible(tokens)
    parent = must_find(document, tokens[:-1])
    return parent.pop(int(tokens[-1]) if isinstance(parent, list) else tokens[-1])


def json_patch(document, operations):
    document = copy.deepcopy(document)
    for operation in operations:
        path = tokens_of(operation["path"])
        source = tokens_of(operation.get("from", ""))
        value = copy.deepcopy(operation.get("value"))
        if operation["op"] == "add":
            document = put_in(document, path, value)
        elif operation["op"] == "remove":
            take_out(document, path)
        elif operation["op"] == "replace":
            must_find(document, path)
            if path:
                parent = must_find(document, path[:-1])
                parent[int(path[-1]) if isinstance(parent, list) else path[-1]] = value
            else:
                document = value
        elif operation["op"] == "copy":
            document = put_in(document, path, copy.deepcopy(must_find(document, source)))
        elif operation["op"] == "move":
            must_find(document, source)
            if path != source:
                if path[:len(source)] == source:
                    raise Impossible(path)
                document = put_in(document, path, take_out(document, source))
        elif not equal(must_find(document, path), value):
            raise TestFailed(path)
    return document


def merge_patch(target, patch):
    """RFC 7396, section 2."""
    if not isinstance(patch, dict):
        return patch
    target = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        else:
            target[key] = merge_patch(target.get(key), value)
    return target


# ---- Lists --------------------------------------------------------------------------------------------


def kind(value):
    return 2 if value is True else KINDS[type(value)]


def number(value):
    """What its digits say: beyond 2^53 that may be another integer than the double is."""
    return decimal.Decimal(repr(value))


def comparable(value):
    return number(value) if kind(value) == 3 else value


def compact(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def jsonb(value):
    """PostgreSQL's text of it: members by the length of their names, then by their bytes."""
    if isinstance(value, list):
        return "[" + ", ".join(map(jsonb, value)) + "]"
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: (len(key.encode()), key.encode()))
        return "{" + ", ".join(f"{compact(key)}: {jsonb(value[key])}" for key in keys) + "}"
    return compact(value)


def sort_key(value, text_of):
    """Missing and null, false, true, numbers, strings, and then arrays and objects by their text."""
    if kind(value) == 3:
        return (3, number(value))
    if kind(value) == 4:
        return (4, value[:SORTED])
    return (5, text_of(value)[:SORTED]) if kind(value) == 5 else (kind(value), 0)


def passes(document, query_filter):
    path, operator, operands = query_filter
    _, value = find(document, path)
    same = any(kind(value) == kind(operand) and comparable(value) == comparable(operand)
               for operand in operands)
    if operator in ("eq", "in"):
        return same
    if operator == "neq":
        return not same
    if kind(value) != kind(operands[0]):
        return False
    value, operand = comparable(value), comparable(operands[0])
    return {"lt": value < operand, "lte": value <= operand, "gt": value > operand,
            "gte": value >= operand}[operator]


def order_rows(rows, orders, text_of):
    """Rows are (id, document); orders are (path, descending), the most important one first."""
    rows = sorted(rows)
    for path, descending in reversed(orders):
        rows.sort(key=lambda row: sort_key(find(row[1], path)[1], text_of), reverse=descending)
    return rows


def select_from(document, paths):
    if not paths:
        return document
    return {path[-1]: find(document, path)[1] for path in paths}
