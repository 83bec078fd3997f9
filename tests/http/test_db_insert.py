"""POST to a collection: ids, many documents at once, and Idempotency-Key."""
import json
import re
import time

import pytest

from documents import NDJSON, Documents

ID = re.compile(r"[0-9a-hjkmnp-tv-z]{26}\Z")


def lines(count, bad=None, text="{"):
    """That many good documents, one a line, and one that is bad."""
    return "".join((text if n == bad else json.dumps({"n": n})) + "\n"
                   for n in range(1, count + 1)).encode()


def test_one_document_gets_an_id(db):
    answer = db.post({"n": 1})
    assert answer.status == 201
    made = answer.json()
    assert ID.match(made["id"])
    assert answer.header("Location") == db.path("/" + made["id"])
    assert answer.header("ETag") == f'"{made["revision"]}"'
    got = db.server.request("GET", answer.header("Location"))
    assert (got.json(), got.header("ETag")) == ({"n": 1}, answer.header("ETag"))


def test_ids_sort_as_the_documents_came(db):
    ids = []
    for n in range(30):
        ids.append(db.made(n))
        if n % 10 == 9:
            time.sleep(0.002)
    assert ids == sorted(ids) and len(set(ids)) == 30
    assert db.documents() == list(range(30))


def test_the_representation_is_answered_if_preferred(db):
    answer = db.post({"n": 1}, "Prefer: return=representation")
    assert (answer.status, answer.body) == (201, b'{"n":1}')


@pytest.mark.parametrize("document", [None, 1, "text", {}])
def test_any_value_but_an_array_is_one_document(db, document):
    made = db.made(document)
    assert db.get(f"/{made}").json() == document
    assert db.documents() == [document]


def test_an_array_is_many_documents(db):
    answer = db.post([{"n": 1}, 2, [3], None])
    assert answer.status == 201
    assert answer.header("Location") is None and answer.header("ETag") is None
    made = answer.json()
    assert [row["id"] for row in made] == sorted(row["id"] for row in made)
    assert [(row["id"], row["revision"], row["document"]) for row in db.rows()] == \
        [(one["id"], one["revision"], document)
         for one, document in zip(made, [{"n": 1}, 2, [3], None])]


def test_lines_are_many_documents(db):
    answer = db.post_lines(b'{"n":1}\n\n  \r\n"a\\nb"\r\n  [3]  \nnull')
    assert answer.status == 201
    assert len(answer.json()) == 4
    assert db.documents() == [{"n": 1}, "a\nb", [3], None]


def test_ten_thousand_lines_are_one_insert(db):
    answer = db.post_lines(lines(10000))
    assert answer.status == 201
    assert len({row["id"] for row in answer.json()}) == 10000
    answer = db.get("?limit=1", "Prefer: count=exact")
    assert answer.header("Content-Range") == "items 0-0/10000"


@pytest.mark.parametrize("bad", [1, 2, 9999, 10000])
def test_the_first_bad_line_is_named_and_nothing_is_written(db, bad):
    body = lines(10000, bad, '{"n": ]}')
    answer = db.post_lines(body)
    assert answer.status == 400
    problem = answer.problem("json-syntax")
    assert problem["line"] == bad
    assert problem["offset"] == body.index(b"]")
    assert problem["column"] == len('{"n": ]')
    assert db.rows() == []


@pytest.mark.parametrize("text,status,slug", [
    ('{"a":1,"a":2}', 400, "json-duplicate-key"), ("99999999999999999999", 422, "json-refused"),
    ("[" * 200 + "]" * 200, 422, "json-refused"), ("1 2", 400, "json-syntax"),
    ('{"a":\n1}', 400, "json-syntax"), ("\ufeff1", 400, "json-syntax")])
def test_what_is_bad_in_a_line(db, text, status, slug):
    answer = db.post_lines(b'1\n\n2\n' + text.encode() + b"\n{")
    assert answer.status == status
    assert answer.problem(slug)["line"] == 4
    assert db.rows() == []


def test_the_bad_element_of_an_array_is_named(store):
    db = Documents(store("--body-limit", "2K"))
    answer = db.request("POST", "", body=b'[1,{"a":[' + b",".join([b"1e20"] * 100) + b"]},2]")
    assert answer.status == 422
    problem = answer.problem("document-too-large")
    assert (problem["json_pointer"], problem["limit"]) == ("/1", 2048)
    answer = db.post_lines(b'1\n\n{"a":[' + b",".join([b"1e20"] * 100) + b"]}\n2\n")
    assert answer.status == 422
    problem = answer.problem("document-too-large")
    assert (problem["line"], problem["offset"], problem["limit"]) == (3, 3, 2048)
    assert db.rows() == []


@pytest.mark.parametrize("body,media_type", [(b"[]", "application/json"), (b"", NDJSON),
                                             (b"\n \r\n", NDJSON)])
def test_nothing_to_insert_is_refused(db, body, media_type):
    answer = db.request("POST", "", body=body, media_type=media_type)
    assert answer.status == 400
    answer.problem("bulk-empty")


@pytest.mark.parametrize("body,media_type", [
    (b"1\n" * 10001, NDJSON), (b"[" + b",".join([b"1"] * 10001) + b"]", "application/json")])
def test_too_many_are_refused(db, body, media_type):
    answer = db.request("POST", "", body=body, media_type=media_type)
    assert answer.status == 413
    assert answer.problem("bulk-too-large")["limit"] == 10000
    assert db.rows() == []


# ---- Idempotency-Key ------------------------------------------------------------------------------


def test_the_same_request_again_gets_the_same_answer(db):
    first = db.post({"n": 1}, "Idempotency-Key: k-1")
    db.put("/" + first.json()["id"], {"n": 2})  # whatever has happened since
    again = db.post({"n": 1}, "Idempotency-Key: k-1")
    assert first.header("Idempotency-Replayed") is None
    assert again.header("Idempotency-Replayed") == "true"
    for name in ("Location", "ETag"):
        assert again.header(name) == first.header(name)
    assert (again.status, again.body) == (201, first.body)
    assert len(db.rows()) == 1


@pytest.mark.parametrize("body,media_type", [
    (b'[{"n":1},{"n":2}]', "application/json"), (b'{"n":1}\n{"n":2}\n', NDJSON),
    (b"[1]", "application/json"), (b"1", NDJSON)])
def test_many_are_replayed_too(db, body, media_type):
    answers = [db.request("POST", "", 'Idempotency-Key: "many"', body=body, media_type=media_type)
               for _ in range(3)]
    assert [answer.status for answer in answers] == [201] * 3
    assert isinstance(answers[0].json(), list)
    assert answers[0].body == answers[1].body == answers[2].body
    assert len(db.rows()) == len(answers[0].json())


def test_the_key_of_another_body_is_refused(db):
    db.post({"n": 1}, "Idempotency-Key: k")
    for body, media_type in ((b'{"n": 2}', "application/json"), (b'{"n":1}', "application/json"),
                             (b'{"n": 1}', NDJSON)):
        answer = db.request("POST", "", "Idempotency-Key: k", body=body, media_type=media_type)
        assert answer.status == 422
        answer.problem("idempotency-key-reused")
    assert db.documents() == [{"n": 1}]


def test_a_key_is_of_its_collection(db):
    other = Documents(db.server)
    assert db.post(1, "Idempotency-Key: k").status == 201
    answer = other.post(2, "Idempotency-Key: k")
    assert (answer.status, answer.header("Idempotency-Replayed")) == (201, None)
    assert other.documents() == [2]


def test_quotes_are_no_part_of_the_key(db):
    db.post(1, "Idempotency-Key: a\"b\\c")
    again = db.post(1, 'Idempotency-Key: "a\\"b\\\\c"')
    assert again.header("Idempotency-Replayed") == "true"
    assert db.post(1, "Idempotency-Key: " + "k" * 255).status == 201


@pytest.mark.parametrize("key", ['""', '"a', '"a"b', '"a\\x"', "k" * 256, "\u00e4", "a\tb"])
def test_other_keys_are_refused(db, key):
    answer = db.post(1, f"Idempotency-Key: {key}")
    assert answer.status == 400
    assert "1 to 255" in answer.problem("idempotency-key")["detail"]
    assert db.rows() == []


def test_a_failed_request_uses_up_no_key(db):
    assert db.request("POST", "", "Idempotency-Key: k", body=b"{").status == 400
    assert db.post(1, "Idempotency-Key: k").header("Idempotency-Replayed") is None
