"""Properties that Hypothesis looks for exceptions to: patches, filters, orders, select and pages do
what a plain model of them does (model.py), on both stores, whatever the values are.

The examples are the same in every run, and few. For many others:

    SLATE_TEST_EXAMPLES=5000 tests/run --tree release --only http -k properties
"""
import itertools
import json
import os
from urllib.parse import quote

import pytest

import model
from documents import MERGE, NDJSON, PATCH, Documents, next_page
from wire import Connection

hypothesis = pytest.importorskip("hypothesis")
from hypothesis import HealthCheck, assume, event, given, settings, strategies as st  # noqa: E402

MANY = os.environ.get("SLATE_TEST_EXAMPLES")
settings.register_profile("few", derandomize=True, max_examples=100, database=None, deadline=None,
                          suppress_health_check=list(HealthCheck))
settings.register_profile("many", settings.get_profile("few"), derandomize=False, print_blob=True,
                          max_examples=int(MANY or 100))
settings.load_profile("many" if MANY else "few")

FLAGS = ("--idle-timeout", "10m")  # of the one connection, however long an example takes to be made
QUERY_MAX = 2048
CURSOR_MAX = 700
ENOUGH = 100  # rows, of a list that goes in circles

# ---- Values -------------------------------------------------------------------------------------------

MIXED = [0, -0.0, 0.0, 1, 1.0, False, True, None, "", "0", "1", "null", "true", [], {}, [0]]
NUMBERS = [0, -0.0, 1, 1.0, -1, 2, 18, 18.0, 0.1, 0.2, 0.1 + 0.2, -2.5, 1e300, -1e300, 5e-324, 1e18,
           1.7976931348623157e308]
CLOSE = [2**53 - 1, 2**53, 2**53 + 1, 2.0**53, 2.0**53 + 2, -2**53 - 1, -2.0**53, -2**53,
         2**60, 2**60 + 1, 2.0**60, 1152921504606847000, 2**63 - 1, 2**63 - 2, 2.0**63, -2**63,
         -2**63 + 1, -2.0**63]
STRINGS = ["", " ", "a", "A", "b", "aa", "1", "01", "18", "null", "true", "-0", "[1]", "(", "a,b",
           "%", "%25", "_", "a%", "'", "''", "' OR 1=1 --", '"', '\\', '\\"', "\\u0000", "a\\", "$", "?",
           "\0", "a\0", "a\0b", "\1", "\1\1", "a\1", "\x1f", "\x7f", "\t\n\r\b\f", "e\u0301", "\u00e9",
           "\u00c9", "\u00df", "\ufffd", "\uffff", "\ufeff", "\ue000", "\U0001f600", "\U0010ffff"]
ALIKE = ["x" * 255, "x" * 256, "x" * 257, "x" * 256 + "a", "x" * 256 + "b", "x" * 255 + "\u00e9",
         "x" * 255 + "\u00e9\u00e9", "\u00e9" * 256, "\u00e9" * 257, "x" * 200 + "\U0001f600" * 60]
LONG = "long " * 20_000
KEYS = ["a", "b", "c", "A", "0", "1", "00", "01", "-", "-1", "", " ", "a/b", "~", "~1", "%", "'", '"',
        "\\", "a\"b", "$.a", "\u00e9", "\U0001f600", "limit", "order", "a,b", "-a", "\1", "#", "&", "+"]
PATHS = [["a"], ["b"], ["c"], ["a", "0"], ["a", "1"], ["a", "b"], ["b", "a"], ["0"], ["1"],
         ["a", "00"], ["a", "-"], ["a", "-1"], ["a", "99999999999"], ["a", "9" * 30], ["a"] * 8]

text = st.text(st.characters(blacklist_categories=["Cs"]), max_size=6)
numbers = (st.sampled_from(NUMBERS + CLOSE) | st.integers(-100, 100) | st.integers(-2**63, 2**63 - 1)
           | st.floats(allow_nan=False, allow_infinity=False))
strings = st.sampled_from(STRINGS + ALIKE) | text
scalars = st.sampled_from([None, False, True]) | numbers | strings
keys = st.sampled_from(KEYS[:3]) | st.sampled_from(KEYS)


def containers(of):
    return st.lists(of, max_size=4) | st.dictionaries(keys, of, max_size=4)


values = st.recursive(scalars, containers, max_leaves=12)
deep = st.builds(lambda value, depth: nested(value, ["a"] * depth), scalars, st.integers(5, 9))
documents = (st.dictionaries(keys, values, min_size=1, max_size=5) | values | deep)


def nested(value, path):
    for key in reversed(path):
        value = {key: value}
    return value


def wire_form(value, escaped):
    return json.dumps(value, ensure_ascii=escaped).encode()


def same(a, b):
    """Exactly: the order of members, 1 and 1.0, and 0.0 and -0.0, too."""
    return json.dumps(a) == json.dumps(b)


# ---- The server ---------------------------------------------------------------------------------------


class Wire:
    """Documents by one connection, which is faster than one for each request."""

    def __init__(self, server):
        self.server = server
        self.connection = None
        on_postgresql = any("postgresql:" in word for word in server.process.args)
        self.text_of = model.jsonb if on_postgresql else model.compact

    def request(self, method, target, *fields, **keywords):
        if self.connection is None:
            self.connection = Connection(self.server.address)
        connection, self.connection = self.connection, None
        answer = connection.request(method, target, *fields, **keywords)
        if answer.closes:
            connection.close()
        else:
            self.connection = connection
        return answer


@pytest.fixture(scope="module")
def wire(store_server):
    one = Wire(store_server)
    yield one
    if one.connection:
        one.connection.close()
    store_server.check()
    assert store_server.process.poll() is None, "the server has ended"


def collection(wire):
    """A new one for every example."""
    return Documents(wire)


# ---- One document -------------------------------------------------------------------------------------


@given(document=documents, escaped=st.booleans())
def test_a_document_is_kept_as_it_is(wire, document, escaped):
    db = collection(wire)
    assert db.request("PUT", "/d", body=wire_form(document, escaped)).status == 201
    assert same(db.get("/d").json(), document)


def test_a_very_long_document_is_kept_as_it_is(wire):
    db = collection(wire)
    document = {"a": LONG, LONG[:3000]: [LONG] * 3, "n": list(range(20_000))}
    assert db.put("/d", document).status == 201
    assert same(db.get("/d").json(), document)
    assert same(db.documents("?a=neq.x&order=a")[0], document)


@st.composite
def new_places(draw, document):
    """Where something can be added; sometimes where nothing can."""
    holders = [place for place in model.places(document)
               if isinstance(model.find(document, place)[1], (list, dict))]
    if not holders or draw(st.integers(0, 19)) == 0:
        return draw(st.lists(keys, max_size=2))
    place = draw(st.sampled_from(holders))
    value = model.find(document, place)[1]
    if isinstance(value, list) and draw(st.integers(0, 9)):
        return [*place, draw(st.sampled_from(["-", *map(str, range(len(value) + 1))]))]
    return [*place, draw(keys)]


@st.composite
def operations(draw, document):
    """A patch that mostly fits the document, as it is by then."""
    made = []
    for _ in range(draw(st.integers(1, 6))):
        there = list(model.places(document))
        inside = st.sampled_from(there[1:] or there)
        kind = draw(st.sampled_from(["add", "add", "remove", "replace", "move", "copy", "test"]))
        is_new = kind in ("add", "move", "copy") or draw(st.integers(0, 19)) == 0
        path = draw(new_places(document) if is_new else inside)
        operation = {"op": kind, "path": model.pointer(path)}
        if kind in ("move", "copy"):
            operation["from"] = model.pointer(draw(inside))
        if kind in ("add", "replace"):
            operation["value"] = draw(values)
        if kind == "test":
            found, value = model.find(document, path)
            operation["value"] = value if found and draw(st.integers(0, 9)) else draw(values)
        made.append(operation)
        try:
            document = model.json_patch(document, [operation])
        except (model.Impossible, model.TestFailed):
            break  # what follows is not reached
        if len(json.dumps(document)) > 20_000:
            break
    return made


@given(data=st.data())
def test_json_patches_do_what_the_model_does(wire, data):
    db = collection(wire)
    document = data.draw(documents, "document")
    assert db.put("/d", document).status == 201
    for _ in range(data.draw(st.integers(1, 3))):
        patch = data.draw(operations(document), "patch")
        status = 200
        try:
            document = model.json_patch(document, patch)
        except model.Impossible:
            status = 422
        except model.TestFailed:
            status = 409
        event(f"{status}")
        answer = db.patch("/d", patch, "Prefer: return=representation", media_type=PATCH)
        assert answer.status == status, answer
        assert status != 200 or same(answer.json(), document)
        assert same(db.get("/d").json(), document)


members = st.recursive(st.none() | scalars, containers, max_leaves=12)


@st.composite
def merge_patches(draw, document):
    """Some of the document's own members are removed, changed or gone into."""
    patch = draw(members)
    if not isinstance(document, dict) or draw(st.integers(0, 9)) == 0:
        return patch
    patch = patch if isinstance(patch, dict) else {}
    for key in document:
        way = draw(st.integers(0, 3))
        if way == 0:
            patch[key] = None
        elif way == 1:
            patch[key] = draw(merge_patches(document[key]))
    return patch


@given(data=st.data())
def test_merge_patches_do_what_the_model_does(wire, data):
    db = collection(wire)
    document = data.draw(documents, "document")
    assert db.put("/d", document).status == 201
    for _ in range(data.draw(st.integers(1, 3))):
        patch = data.draw(merge_patches(document), "patch")
        document = model.merge_patch(document, patch)
        answer = db.patch("/d", patch, "Prefer: return=representation", media_type=MERGE)
        assert answer.status == 200, answer
        assert same(answer.json(), document)
        assert same(db.get("/d").json(), document)


# ---- Lists --------------------------------------------------------------------------------------------


def is_bare(name):
    return name.isascii() and name.isalpha() and name not in ("limit", "order", "select", "after")


def parameter(name, value):
    return quote(name, safe="") + "=" + quote(value, safe="")


def path_text(path):
    return path[0] if len(path) == 1 and is_bare(path[0]) else model.pointer(path)


def item(path):
    """In a list of paths."""
    written = path_text(path)
    return json.dumps(written) if "," in written else written


def operand_text(value, bare):
    """A string stands in quotes, unless it can be read as nothing else. A number may have more digits
    than anybody needs."""
    if isinstance(value, float) and bare:
        return f"{value:.25e}"
    if isinstance(value, str) and bare and value and value[0] != '"':
        try:
            json.loads(value)
        except ValueError:
            return value if "\0" not in value else json.dumps(value)
    return json.dumps(value)


def has_one_text(value):
    """Arrays and objects are sorted by their text, in which each store writes some things its way."""
    if not isinstance(value, (list, dict)):
        return True
    inside = (model.find(value, place)[1] for place in model.places(value))
    return not any(isinstance(one, float) for one in inside) and "\\u000" not in model.compact(value)


def cursor_size(orders, found):
    """What the cursors of a list hold of its documents, at the most; too much is refused."""
    return sum(max(len(str(model.find(document, path)[1])[:model.SORTED].encode()) for document in found)
               for path, _ in orders)


@st.composite
def queries(draw, found):
    """Filters, orders and paths to select, about values of `found` documents."""
    there = [place for document in found for place in model.places(document) if 0 < len(place) <= 8]
    path = st.sampled_from(PATHS[:2]) | st.sampled_from(there or PATHS) | st.sampled_from(PATHS)
    filters = []
    for _ in range(draw(st.sampled_from([0, 1, 1, 1, 2, 3]))):
        at = draw(path)
        operator = draw(st.sampled_from(["eq", "neq", "lt", "lte", "gt", "gte", "in"]))
        is_ordered = operator[0] in "lg"  # only numbers and strings are
        near = [value for document in found for value in [model.find(document, at)[1]]
                if type(value) in (int, float, str)
                or not is_ordered and not isinstance(value, (list, dict))]
        far = numbers | strings if is_ordered else scalars
        family = [one for one in (CLOSE, ALIKE) if set(one) & set(near)]
        near += family[0] if family else []
        operand = st.sampled_from(near) | far if near else far
        count = draw(st.integers(1, 4)) if operator == "in" else 1
        filters.append((at, operator, [draw(operand) for _ in range(count)]))
    sortable = path.filter(lambda at: all(has_one_text(model.find(document, at)[1])
                                          for document in found))
    orders = draw(st.lists(st.tuples(sortable, st.booleans()), max_size=3,
                           unique_by=lambda order: tuple(order[0])))
    assume(cursor_size(orders, found) <= CURSOR_MAX)
    select = draw(st.lists(path, max_size=3, unique_by=lambda chosen: chosen[-1]))
    return filters, orders, select


def query_text(filters, orders, select, bare):
    parts = []
    for path, operator, operands in filters:
        shown = [operand_text(value, bare and operator != "in") for value in operands]
        shown = f"({','.join(shown)})" if operator == "in" else shown[0]
        parts.append(parameter(path_text(path), f"{operator}.{shown}"))
    if orders:
        parts.append(parameter("order", ",".join("-" * down + item(path) for path, down in orders)))
    if select:
        parts.append(parameter("select", ",".join(map(item, select))))
    text_of = "&".join(parts)
    assume(len(text_of) < QUERY_MAX - 10)
    return text_of


def insert(db, made):
    """[(id, document)]"""
    answer = db.request("POST", "", body=json.dumps(made).encode())
    assert answer.status == 201, answer
    return [(row["id"], document) for row, document in zip(answer.json(), made)]


def collections_of(scalar):
    alike = st.fixed_dictionaries({"a": scalar}, optional={"b": scalar, "c": values})
    return st.lists(alike, min_size=2, max_size=12)


# Values that are told apart by little, or values of all kinds.
families = st.sampled_from([MIXED, CLOSE, ALIKE, ALIKE, STRINGS])
listed = (families.map(st.sampled_from).flatmap(collections_of) | collections_of(scalars)
          | st.lists(documents, min_size=1, max_size=8))


@given(data=st.data())
def test_lists_are_what_the_model_lists(wire, data):
    db = collection(wire)
    rows = insert(db, data.draw(listed, "documents"))
    query = data.draw(queries([document for _, document in rows]), "query")
    filters, orders, select = query
    asked = query_text(*query, data.draw(st.booleans()))
    wanted = [row for row in rows if all(model.passes(row[1], one) for one in filters)]
    event(f"{min(len(wanted), 3)} of {min(len(rows), 3)}")
    wanted = model.order_rows(wanted, orders, wire.text_of)
    wanted = [(name, model.select_from(document, select)) for name, document in wanted]

    limit = data.draw(st.integers(1, 4), "limit")
    pages = itertools.islice(db.pages(f"?limit={limit}&{asked}"), ENOUGH)
    pages = [page.json() for page in pages]
    found = [(row["id"], row["document"]) for row in itertools.chain(*pages)]
    assert same(found, wanted)
    assert [len(page) for page in pages[:-1]] == [limit] * (len(pages) - 1)
    assert len(pages[-1]) <= limit and (pages[-1] or not pages[1:])

    answer = db.get(f"?limit={limit}&{asked}", "Prefer: count=exact")
    assert answer.header("Content-Range").rsplit("/", 1)[1] == str(len(wanted))
    lines = db.get(f"?{asked}", f"Accept: {NDJSON}").body.splitlines()
    found = [(row["id"], row["document"]) for row in map(json.loads, lines)]
    assert same(found, wanted)


@given(data=st.data())
def test_pages_skip_and_repeat_nothing_while_others_write(wire, data):
    db = collection(wire)
    before = dict(insert(db, data.draw(listed, "documents")))
    filters, orders, _ = query = data.draw(queries(list(before.values())), "query")
    asked = query_text(*query, False)
    there, ever = dict(before), dict(before)
    found, target = [], db.path(f"?limit=2&{asked}")
    while target:
        answer = wire.request("GET", target)
        assert answer.status == 200, answer
        found += [row["id"] for row in answer.json()]
        target = next_page(answer)
        assert len(found) < ENOUGH, "it does not end"
        if data.draw(st.booleans()) and len(ever) < 30:
            new = dict(insert(db, data.draw(st.lists(documents, min_size=1, max_size=3))))
            ever.update(new)
        elif there:
            gone = data.draw(st.sampled_from(sorted(there)))
            assert db.delete(f"/{gone}").status == 204
            del there[gone]

    assert len(set(found)) == len(found), "a row came twice"
    in_order = [row for row in ever.items() if all(model.passes(row[1], one) for one in filters)]
    in_order = model.order_rows(in_order, orders, wire.text_of)
    assert [name for name, _ in in_order if name in set(found)] == found
    stayed = {name for name, _ in in_order if name in there and name in before}
    assert stayed <= set(found), "a row was left out"
