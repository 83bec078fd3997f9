"""One document: GET, HEAD, PUT, DELETE, and the preconditions of RFC 9110."""
import email.utils
import json

import pytest

from documents import Documents

BAD_NAMES = ["a%2Fb", "a%20b", ".", "..", "%2E%2e", "%C3%A4", "x" * 129, "a:b", "a@b", "a*"]
BAD_TAGS = ["17", '"17', "w/\"17\"", '"17" "18"', "*, \"1\"", "W/17"]


def test_a_document_comes_back_as_it_was_put(db):
    made = db.put("/a", {"name": "Ann", "n": [1, 2.5, None, True, "\u00e4\u0000"], "o": {}})
    assert made.status == 201
    assert made.header("Location") == db.path("/a")
    assert made.json() == {"id": "a", "revision": int(made.header("ETag").strip('"'))}
    got = db.get("/a")
    assert got.status == 200 and got.media_type == "application/json"
    assert got.header("ETag") == made.header("ETag")
    assert got.json() == {"name": "Ann", "n": [1, 2.5, None, True, "\u00e4\u0000"], "o": {}}
    assert got.body == json.dumps(got.json(), separators=(",", ":"), ensure_ascii=False).replace(
        "\u0000", "\\u0000").encode()


def test_replacing_is_200_and_grows_the_revision(db):
    first = db.put("/a", 1)
    second = db.put("/a", 2)
    assert (first.status, second.status) == (201, 200)
    assert second.header("Location") is None
    assert second.json()["revision"] > first.json()["revision"]
    assert db.get("/a").json() == 2


@pytest.mark.parametrize("document", [None, True, 0, -1.5, "text", [], {}, [[[]]], "", 2**63 - 1])
def test_every_json_value_is_a_document(db, document):
    assert db.put("/it", document).status == 201
    assert db.get("/it").json() == document
    assert db.rows() == [{"id": "it", "revision": db.rows()[0]["revision"], "document": document}]


def test_the_stored_form_is_compact_and_exact(db):
    answer = db.request("PUT", "/a", body=b' { "b" : 7.6 ,\n"a":[ 1e2, 0.1 ] } ')
    assert answer.status == 201
    assert db.get("/a").body == b'{"b":7.6,"a":[100.0,0.1]}'


def test_representation_is_answered_if_preferred(db):
    answer = db.request("PUT", "/a", "Prefer: return=representation", body=b'{ "a": 1 }')
    assert (answer.status, answer.body) == (201, b'{"a":1}')
    assert answer.header("Preference-Applied") == "return=representation"
    assert answer.header("ETag") == db.get("/a").header("ETag")


def test_head_is_get_without_the_body(db):
    db.put("/a", [1, 2, 3])
    get, head = db.get("/a"), db.request("HEAD", "/a")
    assert head.status == 200 and head.body == b""
    for name in ("ETag", "Content-Length", "Content-Type", "Last-Modified"):
        assert head.header(name) == get.header(name), name
    assert db.request("HEAD", "/b").status == 404


def test_last_modified_is_the_time_of_writing(db):
    before = int(db.put("/a", 1).status == 201)
    written = email.utils.parsedate_to_datetime(db.get("/a").header("Last-Modified"))
    date = email.utils.parsedate_to_datetime(db.get("/a").header("Date"))
    assert before and abs((date - written).total_seconds()) <= 5


def test_what_is_not_there_is_404(db):
    for method, body in (("GET", None), ("DELETE", None), ("PATCH", b"{}")):
        media = "application/merge-patch+json"
        answer = db.request(method, "/nobody", body=body, media_type=media)
        assert answer.status == 404
        assert "nobody" in answer.problem("document-not-found")["detail"]


def test_delete_removes(db):
    db.put("/a", 1)
    answer = db.delete("/a")
    assert (answer.status, answer.body) == (204, b"")
    assert db.get("/a").status == 404
    assert db.delete("/a").status == 404
    assert db.put("/a", 2).status == 201


def test_a_revision_is_never_given_twice(db):
    tags = set()
    for _ in range(5):
        tags.add(db.put("/a", 1).header("ETag"))
        db.delete("/a")
    assert len(tags) == 5


@pytest.mark.parametrize("name", BAD_NAMES)
def test_other_names_are_refused(db, name):
    for method in ("GET", "PUT", "DELETE"):
        body = b"1" if method == "PUT" else None
        for target in (f"/db/{db.name}/{name}", f"/db/{name}/a"):
            answer = db.server.request(method, target, body=body)
            assert answer.status == 400, answer
            assert "1 to 128 of A-Z" in answer.problem("db-name")["detail"]
    answer = db.server.request("GET", f"/db/{name}")
    assert answer.status == 400
    answer.problem("db-name")


def test_every_allowed_character_may_be_in_a_name(db):
    for name in ("AZaz09._~-", "...", "x" * 128, "%41"):
        assert db.put(f"/{name}", name).status == 201
    assert db.get("/A").json() == "%41"


def test_a_slash_too_many_is_another_path(db):
    for tail in ("/", "/a/", "/a/b"):
        assert db.get(tail).status == 404


@pytest.mark.parametrize("body,status,slug", [
    (b"", 400, "json-syntax"), (b"{", 400, "json-syntax"), (b"1 2", 400, "json-syntax"),
    (b'{"a":1,"a":2}', 400, "json-duplicate-key"), (b'"\xff"', 400, "json-syntax"),
    (b"[" * 200 + b"]" * 200, 422, "json-refused"), (b"99999999999999999999", 422, "json-refused")])
def test_a_bad_body_writes_nothing(db, body, status, slug):
    answer = db.request("PUT", "/a", body=body)
    assert answer.status == status
    problem = answer.problem(slug)
    assert problem["line"] == 1 and problem["column"] >= 1
    assert db.get("/a").status == 404
    assert db.request("POST", "", body=body).status == status
    assert db.rows() == []


def test_another_media_type_is_refused(db):
    answer = db.request("PUT", "/a", body=b"1", media_type="text/plain")
    assert answer.status == 415
    assert db.get("/a").status == 404


def test_methods_come_from_the_route_table(db):
    for tail, allow in (("/a", "GET, HEAD, PUT, PATCH, DELETE, OPTIONS"),
                        ("", "GET, HEAD, POST, DELETE, OPTIONS")):
        assert db.request("OPTIONS", tail).header("Allow") == allow
    assert db.request("POST", "/a", body=b"1").status == 405


# ---- Preconditions --------------------------------------------------------------------------------


def tag(db, tail="/a"):
    return db.get(tail).header("ETag")


def test_not_modified(db):
    db.put("/a", 1)
    old, weak = tag(db), "W/" + tag(db)
    for value in (old, weak, "*", f'"999999", {weak}', f' "x" ,{old}, '):
        answer = db.get("/a", f"If-None-Match: {value}")
        assert (answer.status, answer.body, answer.header("ETag")) == (304, b"", old), value
        assert db.request("HEAD", "/a", f"If-None-Match: {value}").status == 304
    db.put("/a", 2)
    assert db.get("/a", f"If-None-Match: {old}").json() == 2


def test_dates_matter_where_no_tag_does(db):
    db.put("/a", 1)
    date = db.get("/a").header("Last-Modified")
    old = "Sun, 06 Nov 1994 08:49:37 GMT"
    assert db.get("/a", f"If-Modified-Since: {date}").status == 304
    assert db.get("/a", f"If-Modified-Since: {old}").status == 200
    assert db.get("/a", f"If-Modified-Since: {date}", 'If-None-Match: "x"').status == 200
    assert db.get("/a", "If-Modified-Since: yesterday").status == 200
    assert db.get("/a", f"If-Unmodified-Since: {old}").status == 412
    assert db.put("/a", 2, f"If-Unmodified-Since: {old}").status == 412
    assert db.patch("/a", {}, f"If-Unmodified-Since: {old}").status == 412
    assert db.delete("/a", f"If-Unmodified-Since: {old}").status == 412
    assert db.get("/a").json() == 1
    future = "Fri, 31 Dec 9999 23:59:59 GMT"
    assert db.put("/a", 2, f"If-Unmodified-Since: {future}").status == 200
    assert db.put("/a", 2, "If-Unmodified-Since: yesterday").status == 200
    for date in (old, future):  # ignored where there is none to compare with (section 13.1.4)
        assert db.get("/b", f"If-Unmodified-Since: {date}").status == 404
        assert db.patch("/b", {}, f"If-Unmodified-Since: {date}").status == 404
        assert db.delete("/b", f"If-Unmodified-Since: {date}").status == 404
        assert db.put("/b", 2, f"If-Unmodified-Since: {date}").status == 201
        assert db.delete("/b").status == 204
    assert db.delete("/a", f"If-Unmodified-Since: {future}").status == 204


def test_if_match_keeps_what_others_wrote(db):
    db.put("/a", 1)
    first = tag(db)
    second = db.put("/a", 2, f"If-Match: {first}").header("ETag")
    for value in (first, "W/" + second, '"x"', '"1", "2x"'):
        answer = db.put("/a", 3, f"If-Match: {value}")
        assert answer.status == 412, value
        assert second.strip('"') in answer.problem("precondition-failed")["detail"]
        assert answer.header("ETag") == second
        assert db.delete("/a", f"If-Match: {value}").status == 412
        assert db.get("/a", f"If-Match: {value}").status == 412
    assert db.get("/a").json() == 2
    assert db.put("/a", 4, f'If-Match: "77777", {second}').status == 200
    assert db.put("/a", 5, "If-Match: *").status == 200
    assert db.put("/b", 5, "If-Match: *").status == 412
    assert db.put("/b", 5, 'If-Match: "1"').status == 412
    assert db.get("/b").status == 404
    assert db.delete("/a", f"If-Match: {tag(db)}").status == 204
    assert db.delete("/a", "If-Match: *").status == 404


def test_if_none_match_makes_only_what_is_not_there(db):
    assert db.put("/a", 1, "If-None-Match: *").status == 201
    assert db.put("/a", 2, "If-None-Match: *").status == 412
    assert db.put("/a", 2, f"If-None-Match: W/{tag(db)}").status == 412
    assert db.get("/a").json() == 1
    assert db.put("/a", 2, 'If-None-Match: "999999"').status == 200
    assert db.put("/b", 2, 'If-None-Match: "999999"').status == 201
    assert db.delete("/a", "If-None-Match: *").status == 412
    assert db.delete("/a", f"If-None-Match: {tag(db)}").status == 412
    assert db.delete("/a", f"If-None-Match: W/{tag(db)}").status == 412
    assert db.delete("/a", f'If-None-Match: "1x", {tag(db)}').status == 412
    assert db.delete("/none", "If-None-Match: *").status == 404
    assert db.delete("/a", 'If-None-Match: "999999"').status == 204


def test_a_collection_has_no_entity_tag(db):
    db.put("/a", 1)
    for method in ("GET", "POST", "DELETE"):
        def ask(*fields, method=method):
            body = b"2" if method == "POST" else None
            return db.request(method, "", *fields, body=body)
        also = ("If-Match: *",) if method == "DELETE" else ()
        assert ask('If-Match: "1"').problem("precondition-failed")["status"] == 412, method
        assert ask("If-None-Match: *", *also).status == (304 if method == "GET" else 412), method
        for bad in ("If-Match: 1", "If-None-Match: x"):
            assert ask(bad, *(also if "None" in bad else ())).status == 400, method
        assert db.get("/a").status == 200 and len(db.rows()) == 1
    assert db.get("", "If-Match: *", 'If-None-Match: "1"').status == 200
    assert db.request("POST", "", "If-Match: *", body=b"2").status == 201
    assert db.delete("", "If-Match: *", 'If-None-Match: "1"').status == 204


def test_a_list_may_be_divided_over_lines(db):
    """RFC 9110, section 5.3: all lines of a name count, not the first."""
    db.put("/a", 1)
    old = tag(db)
    assert db.get("/a", 'If-None-Match: "x"', f"if-none-match: {old}").status == 304
    assert db.get("/a", 'If-None-Match: "x"', "If-None-Match:", 'If-None-Match: "y"').status == 200
    assert db.put("/a", 2, 'If-Match: "x"', 'If-Match: "y"').status == 412
    assert db.put("/a", 2, 'If-Match: "x", "y"', f"If-Match: {old}").status == 200
    assert db.put("/a", 3, 'If-None-Match: "x"', f"If-None-Match: {tag(db)}").status == 412
    assert db.get("/a", "If-Match: *", 'If-Match: "x').status == 400
    assert db.get("/a").json() == 2
    answer = db.put("/a", 3, "Prefer: respond-async", "Prefer: return=representation")
    assert answer.json() == 3
    rows = db.get("", "Accept: text/html", "Accept: application/x-ndjson", "Accept: application/json;q=0")
    assert rows.media_type == "application/x-ndjson" and len(rows.body.splitlines()) == 1
    assert db.delete("", "If-Match: *", "If-Match: *").status == 400
    assert db.get("/a").json() == 3


def test_both_must_hold(db):
    db.put("/a", 1)
    now = tag(db)
    assert db.put("/a", 2, f"If-Match: {now}", f"If-None-Match: {now}").status == 412
    assert db.put("/a", 2, "If-Match: *", f"If-None-Match: {now}").status == 412
    assert db.put("/a", 2, "If-Match: *", "If-None-Match: *").status == 412
    assert db.put("/b", 2, "If-Match: *", "If-None-Match: *").status == 412
    assert db.put("/a", 2, "If-Match: *", 'If-None-Match: "999999"').status == 200
    assert db.delete("/a", f"If-Match: {now}", 'If-None-Match: "1"').status == 412
    assert db.delete("/a", f"If-Match: {tag(db)}", 'If-None-Match: "0"').status == 204


@pytest.mark.parametrize("value", BAD_TAGS)
@pytest.mark.parametrize("name", ["If-Match", "If-None-Match"])
def test_a_malformed_tag_is_refused(db, name, value):
    db.put("/a", 1)
    for answer in (db.get("/a", f"{name}: {value}"), db.put("/a", 2, f"{name}: {value}"),
                   db.patch("/a", {}, f"{name}: {value}"), db.delete("/a", f"{name}: {value}")):
        assert answer.status == 400
        assert name in answer.problem("etag-syntax")["detail"]
    assert db.get("/a").json() == 1


def test_a_precondition_can_be_required(store):
    db = Documents(store("--require-precondition", "on"))
    assert db.put("/a", 1).status == 201  # nobody's work can be lost
    for answer in (db.put("/a", 2), db.patch("/a", {"x": 1}), db.delete("/a")):
        assert answer.status == 428
        assert "If-Match" in answer.problem("precondition-required")["detail"]
    bad = "If-Unmodified-Since: 31 February"  # counts as if it was not there
    for answer in (db.put("/a", 2, bad), db.patch("/a", {"x": 1}, bad), db.delete("/a", bad)):
        assert answer.status == 428
    assert db.get("/a").json() == 1
    assert db.delete("/b").status == 404
    assert db.patch("/b", {}).status == 404
    good = f"If-Unmodified-Since: {db.get('/a').header('Last-Modified')}"
    assert db.put("/a", 2, good).status == 200
    assert db.put("/a", 2, "If-Match: *").status == 200
    assert db.put("/a", 3, f"If-Match: {tag(db)}").status == 200
    assert db.patch("/a", {"x": 1}, f"If-Match: {tag(db)}").status == 200
    assert db.delete("/a", f"If-Match: {tag(db)}").status == 204
    assert db.post(1).status == 201


# ---- Collections --------------------------------------------------------------------------------


def test_collections_are_listed_with_their_sizes(db):
    db.fill({"n": n} for n in range(3))
    answer = db.server.request("GET", "/db")
    assert answer.status == 200
    [found] = [one for one in answer.json() if one["name"] == db.name]
    assert found["documents"] == 3 and found["bytes"] >= 3 * len('{"n":0}')


def test_a_collection_is_cleared_only_on_purpose(db):
    db.fill([1, 2, 3])
    assert db.delete("").status == 428
    assert db.delete("", 'If-Match: "1"').status == 412
    assert len(db.rows()) == 3
    assert db.delete("", "If-Match: *").status == 204
    assert db.rows() == []
    assert db.delete("", "If-Match: *").status == 404
    assert db.name not in [one["name"] for one in db.server.request("GET", "/db").json()]
