"""PATCH of a document: JSON Patch and merge patch, read and written as one."""
import json

import pytest

from documents import MERGE, PATCH, Documents


def json_patch(db, *operations, fields=(), tail="/a"):
    return db.patch(tail, list(operations), *fields, media_type=PATCH)


def test_a_merge_patch_changes_the_document(db):
    before = db.put("/a", {"name": "Ann", "age": 1, "o": {"x": 1, "y": 2}}).json()["revision"]
    answer = db.patch("/a", {"age": 2, "name": None, "o": {"x": None, "z": [1]}})
    assert answer.status == 200
    assert answer.json() == {"id": "a", "revision": int(answer.header("ETag").strip('"'))}
    assert answer.json()["revision"] > before
    assert db.get("/a").header("ETag") == answer.header("ETag")
    assert db.get("/a").json() == {"age": 2, "o": {"y": 2, "z": [1]}}
    assert db.patch("/a", [1]).status == 200
    assert db.get("/a").json() == [1]


def test_a_json_patch_changes_the_document(db):
    db.put("/a", {"n": 1, "list": [1, 2]})
    answer = json_patch(db, {"op": "test", "path": "/n", "value": 1},
                        {"op": "add", "path": "/list/-", "value": 3},
                        {"op": "move", "from": "/n", "path": "/m"})
    assert answer.status == 200
    assert db.get("/a").json() == {"list": [1, 2, 3], "m": 1}
    assert json_patch(db, {"op": "replace", "path": "", "value": None}).status == 200
    assert db.get("/a").json() is None


def test_the_result_is_answered_if_preferred(db):
    db.put("/a", {"n": 1})
    answer = db.patch("/a", {"m": 2}, "Prefer: return=representation")
    assert (answer.status, answer.json()) == (200, {"n": 1, "m": 2})
    assert answer.header("ETag") == db.get("/a").header("ETag")


@pytest.mark.parametrize("patch,status,slug,pointer", [
    ([{"op": "test", "path": "/n", "value": 2}], 409, "patch-test-failed", "/0"),
    ([{"op": "remove", "path": "/x"}], 422, "patch-impossible", "/0/path"),
    ([{"op": "add", "path": "/x/y", "value": 1}], 422, "patch-impossible", "/0/path"),
    ([{"op": "spill", "path": "/n"}], 400, "patch-malformed", "/0/op"),
    ([{"op": "add", "path": "/ok", "value": 1}, {"op": "test", "path": "/n", "value": 9}], 409,
     "patch-test-failed", "/1"),
    ({}, 400, "patch-malformed", ""),
    ([{"op": "add", "path": "/n", "value": 1}] * 1001, 422, "patch-limit", ""),
])
def test_a_patch_that_fails_changes_nothing(db, patch, status, slug, pointer):
    db.put("/a", {"n": 1})
    before = db.get("/a").header("ETag")
    answer = db.patch("/a", patch, media_type=PATCH)
    assert answer.status == status
    assert answer.problem(slug)["json_pointer"].startswith(pointer)
    assert db.get("/a").header("ETag") == before
    assert db.get("/a").json() == {"n": 1}


@pytest.mark.parametrize("body", [b"", b"{", b'{"a":1,"a":2}'])
@pytest.mark.parametrize("media_type", [MERGE, PATCH])
def test_a_body_that_is_no_json_is_400(db, body, media_type):
    db.put("/a", {"n": 1})
    answer = db.request("PATCH", "/a", body=body, media_type=media_type)
    assert answer.status == 400
    assert answer.problem()["line"] == 1
    assert db.get("/a").json() == {"n": 1}


@pytest.mark.parametrize("media_type", ["application/json", "text/plain", "application/foo+json"])
def test_other_media_types_learn_what_is_accepted(db, media_type):
    db.put("/a", {"n": 1})
    answer = db.request("PATCH", "/a", body=b"{}", media_type=media_type)
    assert answer.status == 415
    assert set(answer.header("Accept-Patch").replace(" ", "").split(",")) == {MERGE, PATCH}


def test_a_patch_keeps_preconditions(db):
    old = db.put("/a", {"n": 1}).header("ETag")
    new = db.patch("/a", {"n": 2}, f"If-Match: {old}").header("ETag")
    assert db.patch("/a", {"n": 3}, f"If-Match: {old}").status == 412
    assert db.patch("/a", {"n": 3}, f"If-None-Match: {new}").status == 412
    assert db.patch("/a", {"n": 3}, "If-None-Match: *").status == 412
    assert db.get("/a").json() == {"n": 2}
    assert db.patch("/a", {"n": 3}, "If-Match: *").status == 200
    assert db.patch("/b", {"n": 3}, "If-Match: *").status == 404


def test_a_document_cannot_grow_beyond_what_could_be_put(store):
    """Depth and length are bounded for the result, too."""
    db = Documents(store("--body-limit", "2K", "--json-depth", "4"))
    db.put("/a", [[["x" * 1000]]])
    answer = json_patch(db, {"op": "copy", "from": "/0/0/0", "path": "/-"},
                        {"op": "copy", "from": "/0/0/0", "path": "/-"})
    assert answer.status == 422
    assert answer.problem("document-too-large")["limit"] == 2048
    answer = json_patch(db, {"op": "add", "path": "/0/0/0", "value": [1]})
    assert answer.status == 200
    answer = json_patch(db, {"op": "add", "path": "/0/0/0/0", "value": [1]})
    assert answer.status == 422
    assert answer.problem("json-refused")["limit"] == 4


def test_members_stay_in_their_order(db):
    body = b'{"z":1,"a":{"y":[],"b":1e-9},"m":"\xc3\xa4"}'
    db.request("PUT", "/a", body=body)
    assert db.patch("/a", {}).status == 200
    assert db.get("/a").body == body
    assert json_patch(db, {"op": "add", "path": "/q", "value": 1}).status == 200
    assert db.get("/a").body == body[:-1] + b',"q":1}'
    assert list(json.loads(db.get("/a").body)) == ["z", "a", "m", "q"]
