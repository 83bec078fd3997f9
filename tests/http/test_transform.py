"""/transform/patch (RFC 6902) and /transform/merge (RFC 7396) over HTTP, and their limits."""
import json

import pytest

# RFC 6902, appendix A, and sections 4 and 5: document, patch, result or the status of a refusal.
PATCHES = {
    "A.1 adding an object member": (
        {"foo": "bar"}, [{"op": "add", "path": "/baz", "value": "qux"}],
        {"foo": "bar", "baz": "qux"}),
    "A.2 adding an array element": (
        {"foo": ["bar", "baz"]}, [{"op": "add", "path": "/foo/1", "value": "qux"}],
        {"foo": ["bar", "qux", "baz"]}),
    "A.3 removing an object member": (
        {"baz": "qux", "foo": "bar"}, [{"op": "remove", "path": "/baz"}], {"foo": "bar"}),
    "A.4 removing an array element": (
        {"foo": ["bar", "qux", "baz"]}, [{"op": "remove", "path": "/foo/1"}],
        {"foo": ["bar", "baz"]}),
    "A.5 replacing a value": (
        {"baz": "qux", "foo": "bar"}, [{"op": "replace", "path": "/baz", "value": "boo"}],
        {"baz": "boo", "foo": "bar"}),
    "A.6 moving a value": (
        {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
        [{"op": "move", "from": "/foo/waldo", "path": "/qux/thud"}],
        {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}}),
    "A.7 moving an array element": (
        {"foo": ["all", "grass", "cows", "eat"]},
        [{"op": "move", "from": "/foo/1", "path": "/foo/3"}],
        {"foo": ["all", "cows", "eat", "grass"]}),
    "A.8 testing a value: success": (
        {"baz": "qux", "foo": ["a", 2, "c"]},
        [{"op": "test", "path": "/baz", "value": "qux"}, {"op": "test", "path": "/foo/1", "value": 2}],
        {"baz": "qux", "foo": ["a", 2, "c"]}),
    "A.9 testing a value: error": (
        {"baz": "qux"}, [{"op": "test", "path": "/baz", "value": "bar"}], 409),
    "A.10 adding a nested member object": (
        {"foo": "bar"}, [{"op": "add", "path": "/child", "value": {"grandchild": {}}}],
        {"foo": "bar", "child": {"grandchild": {}}}),
    "A.11 ignoring unrecognized elements": (
        {"foo": "bar"}, [{"op": "add", "path": "/baz", "value": "qux", "xyz": 123}],
        {"foo": "bar", "baz": "qux"}),
    "A.12 adding to a nonexistent target": (
        {"foo": "bar"}, [{"op": "add", "path": "/baz/bat", "value": "qux"}], 422),
    "A.14 escape ordering": (
        {"/": 9, "~1": 10}, [{"op": "test", "path": "/~01", "value": 10}], {"/": 9, "~1": 10}),
    "A.15 comparing strings and numbers": (
        {"/": 9, "~1": 10}, [{"op": "test", "path": "/~01", "value": "10"}], 409),
    "A.16 adding an array value": (
        {"foo": ["bar"]}, [{"op": "add", "path": "/foo/-", "value": ["abc", "def"]}],
        {"foo": ["bar", ["abc", "def"]]}),
    "no operation": ({"a": 1}, [], {"a": 1}),
    "add replaces a member": ({"a": 1}, [{"op": "add", "path": "/a", "value": 2}], {"a": 2}),
    "add replaces the whole document": (
        {"a": 1}, [{"op": "add", "path": "", "value": [1]}], [1]),
    "copy is a copy": (
        {"a": {"x": 1}},
        [{"op": "copy", "from": "/a", "path": "/b"}, {"op": "add", "path": "/b/y", "value": 2}],
        {"a": {"x": 1}, "b": {"x": 1, "y": 2}}),
    "copy into itself": (
        {"a": {"x": 1}}, [{"op": "copy", "from": "/a", "path": "/a/self"}],
        {"a": {"x": 1, "self": {"x": 1}}}),
    "move onto itself": (
        {"a": 1}, [{"op": "move", "from": "/a", "path": "/a"}], {"a": 1}),
    "test compares numbers by value": (
        {"a": 1}, [{"op": "test", "path": "/a", "value": 1.0}], {"a": 1}),
    "test ignores the order of members": (
        {"a": {"x": 1, "y": 2}}, [{"op": "test", "path": "/a", "value": {"y": 2, "x": 1}}],
        {"a": {"x": 1, "y": 2}}),
    "test does not ignore the order of elements": (
        {"a": [1, 2]}, [{"op": "test", "path": "/a", "value": [2, 1]}], 409),
    "test tells null from false": (
        {"a": None}, [{"op": "test", "path": "/a", "value": False}], 409),
    "a later failure undoes nothing that anyone sees": (
        {"a": 1}, [{"op": "add", "path": "/b", "value": 1}, {"op": "test", "path": "/a", "value": 2}],
        409),
    "replace needs a target": ({"a": 1}, [{"op": "replace", "path": "/b", "value": 1}], 422),
    "remove needs a target": ({"a": 1}, [{"op": "remove", "path": "/b"}], 422),
    "move into a child": (
        {"a": {"b": 1}}, [{"op": "move", "from": "/a", "path": "/a/b/c"}], (400, 422)),
    "index beyond the end": ({"a": [1]}, [{"op": "add", "path": "/a/2", "value": 1}], 422),
    "index with a leading zero": (
        {"a": [1, 2]}, [{"op": "replace", "path": "/a/01", "value": 9}], (400, 422)),
    "index far too large": (
        {"a": [1]}, [{"op": "remove", "path": "/a/18446744073709551616"}], (400, 422)),
    "a member of a string": ({"a": "x"}, [{"op": "add", "path": "/a/0", "value": 1}], 422),
    "unknown operation": ({}, [{"op": "spam", "path": "/a"}], 400),
    "no operation named": ({}, [{"path": "/a", "value": 1}], 400),
    "no path": ({}, [{"op": "add", "value": 1}], 400),
    "no value": ({}, [{"op": "add", "path": "/a"}], 400),
    "no from": ({"a": 1}, [{"op": "copy", "path": "/b"}], 400),
    "a path that is no pointer": ({"a": 1}, [{"op": "remove", "path": "a"}], 400),
    "a bad escape in a pointer": ({"a~": 1}, [{"op": "remove", "path": "/a~2"}], 400),
    "a path that is no string": ({"a": 1}, [{"op": "remove", "path": 1}], 400),
    "an operation that is no object": ({"a": 1}, ["remove"], 400),
    "a patch that is no array": ({"a": 1}, {"op": "remove", "path": "/a"}, 400),
}

# RFC 7396, appendix A: original, patch, result.
MERGES = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


def post(server, name, document, patch):
    body = json.dumps({"doc": document, "patch": patch}).encode()
    return server.post(f"/transform/{name}", body)


@pytest.mark.parametrize("name", PATCHES)
def test_patch(shared, name):
    document, patch, expected = PATCHES[name]
    answer = post(shared, "patch", document, patch)
    if isinstance(expected, (int, tuple)):
        statuses = expected if isinstance(expected, tuple) else (expected,)
        assert answer.status in statuses, answer
        answer.problem()
    else:
        assert answer.status == 200, answer
        assert answer.json() == expected


@pytest.mark.parametrize("document, patch, expected", MERGES)
def test_merge(shared, document, patch, expected):
    answer = post(shared, "merge", document, patch)
    assert answer.status == 200, answer
    assert answer.json() == expected


def test_a_refused_operation_says_which(shared):
    answer = post(shared, "patch", {"a": 1}, [{"op": "test", "path": "/a", "value": 1},
                                              {"op": "remove", "path": "/nope"}])
    assert answer.status == 422
    assert "/nope" in answer.problem()["detail"] or "1" in answer.problem()["json_pointer"]


@pytest.mark.parametrize("name", ["patch", "merge"])
@pytest.mark.parametrize("body", [b"[]", b"1", b"{}", b'{"doc":{}}', b'{"patch":[]}', b"{"])
def test_a_body_that_is_no_transform(shared, name, body):
    answer = shared.post(f"/transform/{name}", body)
    assert answer.status in (400, 422), answer
    answer.problem()


@pytest.mark.parametrize("name", ["patch", "merge"])
def test_a_member_twice_is_refused(shared, name):
    assert shared.post(f"/transform/{name}", b'{"doc":{},"doc":[],"patch":[]}').status == 400
    assert shared.post(f"/transform/{name}", b'{"doc":{"a":1,"a":2},"patch":{}}').status == 400


def test_copies_that_double_the_tree_are_capped(server):
    """RFC 6902 lets twenty operations make a million nodes; a limit must stop them."""
    one = server()
    document = {"a": ["x" * 100] * 10}
    patch = [{"op": "copy", "from": "/a", "path": "/a/-"}] * 20
    answer = post(one, "patch", document, patch)
    assert answer.status in (413, 422), answer
    answer.problem()
    one.assert_at_rest()
    assert one.request("GET", "/json").status == 200


def test_copies_that_nest_the_tree_are_capped(server):
    """Every copy puts the document into itself, one level deeper than the reader would let in."""
    one = server()
    document = {"a": {}}
    patch = [{"op": "copy", "from": "", "path": "/a" * (i + 1) + "/a"} for i in range(12)]
    deeper = [{"op": "move", "from": "/a", "path": "/b"}, {"op": "add", "path": "/a", "value": {}},
              {"op": "move", "from": "/b", "path": "/a/a"}] * 300
    assert post(one, "patch", document, patch).status in (200, 413, 422)
    assert post(one, "patch", document, deeper).status in (413, 422)
    one.assert_at_rest()
    assert one.request("GET", "/json").status == 200


def test_many_operations_are_capped(server):
    one = server()
    patch = [{"op": "add", "path": "/a", "value": 1}] * 20_000
    answer = post(one, "patch", {}, patch)
    assert answer.status in (413, 422), answer
    answer.problem()
    one.assert_at_rest()


def test_a_real_document_is_patched(shared):
    with open("/usr/share/iso-codes/json/iso_3166-1.json", encoding="utf-8") as file:
        document = json.load(file)
    patch = [{"op": "test", "path": "/3166-1/0/alpha_2", "value": document["3166-1"][0]["alpha_2"]},
             {"op": "add", "path": "/3166-1/0/visited", "value": True},
             {"op": "remove", "path": "/3166-1/1"}]
    answer = post(shared, "patch", document, patch)
    document["3166-1"][0]["visited"] = True
    del document["3166-1"][1]
    assert answer.status == 200, answer
    assert answer.json() == document


def test_a_real_document_is_merged(shared):
    with open("/usr/share/iso-codes/json/iso_3166-1.json", encoding="utf-8") as file:
        document = json.load(file)
    answer = post(shared, "merge", document, {"version": 2, "3166-1": None, "more": {"a": None}})
    assert answer.status == 200, answer
    assert answer.json() == {"version": 2, "more": {}}
