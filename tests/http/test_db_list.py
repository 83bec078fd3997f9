"""GET of a collection: filters, order, select, pages and cursors."""
import base64
import itertools
import random
from urllib.parse import quote

import pytest

PEOPLE = {
    "ann": {"name": "Ann", "age": 17, "address": {"city": "Bonn"}, "tags": ["a", "b"], "limit": 1},
    "bob": {"name": "Bob", "age": 18, "address": {"city": "K\u00f6ln"}, "tags": ["c"]},
    "cem": {"name": "Cem", "age": 18.0, "address": {"city": "Bonn, Rhein"}, "vip": True},
    "dee": {"name": "Dee", "age": "18", "address": {}, "vip": False, "tags": []},
    "eve": {"name": "Eve", "age": None, "note": "18\"(x)"},
    "fay": {"name": "Fay", "age": -2.5e1, "": {"": "empty"}, "a/b": {"~": 1}},
    "gus": [1, 2], "hal": "Hal", "ida": {"age": {"n": 1}, "name": True}, "jon": {"age": [18]},
}

# Query, ids that it finds.
FILTERS = [
    ("age=eq.18", "bob cem"), ("age=eq.18.0", "bob cem"), ("age=eq.1.8e1", "bob cem"),
    ('age=eq."18"', "dee"), ("age=gte.18", "bob cem"), ("age=gt.17", "bob cem"),
    ("age=lt.18", "ann fay"), ("age=lte.17", "ann fay"), ("age=lt.0", "fay"),
    ("age=gt.17&age=lt.18", ""), ("age=gte.-25&age=lt.18", "ann fay"),
    ('age=lt."2"', "dee"), ("age=eq.null", "eve gus hal"), ("vip=eq.true", "cem"),
    ("vip=eq.false", "dee"), ("vip=neq.true", "ann bob dee eve fay gus hal ida jon"),
    ("age=neq.18", "ann dee eve fay gus hal ida jon"),
    ("age=neq.null", "ann bob cem dee fay ida jon"),
    ("name=eq.Ann", "ann"), ("name=eq.ann", ""), ("name=gt.Dee", "eve fay"),
    ("name=in.(Ann,Bob,7)", "ann bob"), ("age=in.(17,\"18\",null)", "ann dee eve gus hal"),
    ("/address/city=eq.Bonn", "ann"), ("/address/city=eq.K\u00f6ln", "bob"),
    ('/address/city=in.("Bonn, Rhein",x)', "cem"), ("/address/city=eq.Bonn, Rhein", "cem"),
    ("/tags/0=eq.a", "ann"), ("/tags/1=eq.b", "ann"), ("/tags/0=in.(a,c)", "ann bob"),
    ("/tags/2=eq.null&/tags/0=neq.null", "ann bob"), ("/0=eq.1", "gus"), ("/age/n=eq.1", "ida"),
    ("/age/0=eq.18", "jon"), ("/limit=eq.1", "ann"), ("/a~1b/~0=eq.1", "fay"), ("//=eq.empty", "fay"),
    ('note=eq."18\\"(x)"', "eve"), ("note=eq.18\"(x)", "eve"), ("name=eq.\"Ann\"", "ann"),
    ("name=eq.Ann&age=eq.17&/address/city=eq.Bonn", "ann"), ("nothing=eq.1", ""),
    ("name=eq.true", "ida"), ("name=eq.%", ""), ("name=eq.' OR 1=1 --", ""),
    ("') OR (1 --=eq.1", ""), ("name=eq.\\", ""), ('na"me=eq.1', ""), ("name=eq.$.name", ""),
]

# Order, ids in it.
ORDERS = [
    ("", "ann bob cem dee eve fay gus hal ida jon"),
    ("order=name", "gus hal jon ida ann bob cem dee eve fay"),
    ("order=-name", "fay eve dee cem bob ann ida gus hal jon"),
    ("order=age,-name", "eve gus hal fay ann cem bob dee jon ida"),
    ("order=-age", "ida jon dee bob cem ann fay eve gus hal"),
    ("order=vip,/address/city", "eve fay gus hal ida jon ann bob dee cem"),
]


def query(text):
    """A query string with what could be misread percent-encoded."""
    return "?" + "&".join(quote(name, safe="/~'") + "=" + quote(value, safe="().,-:/'")
                          for name, value in (part.split("=", 1) for part in text.split("&")))


@pytest.fixture
def people(db):
    for name, document in PEOPLE.items():
        assert db.put(f"/{name}", document).status == 201
    return db


def ids(rows):
    return [row["id"] for row in rows]


def test_a_collection_that_nobody_wrote_to_is_empty(db):
    answer = db.get("")
    assert (answer.status, answer.body, answer.media_type) == (200, b"[]", "application/json")
    assert answer.header("Link") is None


def test_rows_have_id_revision_and_document(people):
    row = people.rows("?limit=1")[0]
    assert list(row) == ["id", "revision", "document"]
    assert row["document"] == PEOPLE["ann"]
    assert people.get("/ann").header("ETag") == f'"{row["revision"]}"'


@pytest.mark.parametrize("text,found", FILTERS, ids=[text for text, _ in FILTERS])
def test_a_filter_finds(people, text, found):
    assert ids(people.rows(query(text))) == found.split()


@pytest.mark.parametrize("text,found", ORDERS, ids=[text or "none" for text, _ in ORDERS])
def test_an_order_sorts(people, text, found):
    found = found.split()
    if "vip" in text:  # what has no city comes first
        assert set(ids(people.rows(query(text)))[:6]) == set(found[:6])
        assert ids(people.rows(query(text)))[6:] == found[6:]
        return
    assert ids(people.rows("?" + text)) == found


def test_select_takes_values_by_their_last_name(people):
    rows = people.rows("?select=/name,/address/city,/tags/0,nothing&limit=2")
    assert [row["document"] for row in rows] == [
        {"name": "Ann", "city": "Bonn", "0": "a", "nothing": None},
        {"name": "Bob", "city": "K\u00f6ln", "0": "c", "nothing": None}]
    assert people.rows("?select=name&name=eq.true")[0]["document"] == {"name": True}


def test_names_with_commas_stand_in_quotes(db):
    db.post([{"a,b": 2}, {"a,b": 1}])
    assert db.documents(query('order="a,b"&select="a,b"')) == [{"a,b": 1}, {"a,b": 2}]
    assert db.documents(query('order=-"a,b"')) == [{"a,b": 2}, {"a,b": 1}]


REFUSED = [
    ("age=foo.1", "age"), ("age=", "age"), ("age", "age"), ("=eq.1", "empty"), ("age=eq.", "age"),
    ("age=in.(1", "age"), ("age=in.()", "age"), ("age=eq.[1]", "age"), ("age=lt.null", "age"),
    ("limit=abc", "limit"), ("limit=0", "limit"), ("limit=-1", "limit"), ("limit=1001", "1000"),
    ("limit=1&limit=2", "twice"), ("order=", "order"), ("order=a,a", "twice"), ("order=a,,b", "order"),
    ("order=a,b,c,d,e", "4"), ("select=", "select"), ("select=/a/x,/b/x", '"x"'),
    ("after=", "after"), ("after=abc", "after"), ("after=%00", None), ("/a~2=eq.1", "pointer"),
    ("/1/2/3/4/5/6/7/8/9=eq.1", "8"), ("age=eq.%ff", "UTF-8"), ("pretty", "pretty"),
    ("x=eq." + "y" * 2100, "2048"), ("&".join(["a=eq.1"] * 17), "16"),
    ("age=eq.99999999999999999999", "age"),
]


@pytest.mark.parametrize("text,words", REFUSED, ids=[text[:30] for text, _ in REFUSED])
def test_what_is_wrong_is_named(db, text, words):
    answer = db.get("?" + text)
    assert answer.status == 400
    if words:
        assert words in answer.problem("db-query")["detail"], answer.problem()


# ---- Pages ------------------------------------------------------------------------------------------


def test_fifty_rows_are_a_page(db):
    db.fill(range(120))
    sizes = [len(page.json()) for page in db.pages("")]
    assert sizes == [50, 50, 20]
    assert len(db.rows("?limit=1000")) == 120


@pytest.mark.parametrize("order", ["", "order=n", "order=-n", "order=k,-n", "order=-k,/o/x,n"])
@pytest.mark.parametrize("limit", [1, 3, 7])
def test_pages_together_are_the_whole_list(db, order, limit):
    values = [None, False, True, 1, 1.0, -5, 2.5, 10**15, "", "a", "\u00e4\u4e16\U0001f600", "a\u0000b",
              [1], {"x": 1}, "x" * 300, "x" * 299]
    rng = random.Random(limit)
    db.fill({"n": rng.choice(values), "k": rng.choice(values), "o": {"x": rng.choice(values)}}
            for _ in range(40))
    whole = ids(db.rows(f"?limit=1000&{order}"))
    assert len(whole) == 40
    pages = list(db.pages(f"?limit={limit}&{order}"))
    assert ids(itertools.chain(*(page.json() for page in pages))) == whole
    assert all(len(page.json()) == limit for page in pages[:-1])


def test_pages_do_not_shift_while_others_write(db):
    """What was there all along comes exactly once, whatever is inserted and removed meanwhile."""
    for n in range(100, 200, 2):
        db.put(f"/{n}", {"n": n})
    seen = []
    for number, page in enumerate(db.pages("?order=-n&limit=10")):
        seen += [row["document"]["n"] for row in page.json()]
        for n in (101 + number, 151 + 2 * number, 199 - 2 * number):
            db.put(f"/new{n}", {"n": n + 0.5})
        db.delete(f"/{seen[-1]}")  # the very row where the cursor stands
    assert [n for n in seen if n == int(n)] == list(range(198, 98, -2))
    assert len(seen) == len(set(seen))


def test_a_link_repeats_every_parameter(db):
    db.fill({"a&b": "c d", "x": "100%+\u00e4", "n": n} for n in range(5))
    text = query("a&b".replace("&", "\x00") + "=eq.c d").replace("%00", "%26")
    text += "&x=" + quote('eq."100%+\u00e4"', safe="") + "&order=-n&limit=2&select=n"
    pages = list(db.pages(text))
    assert [row["document"]["n"] for page in pages for row in page.json()] == [4, 3, 2, 1, 0]
    link = pages[0].header("Link")
    assert link.count("&after=") == 1 and "c%20d" in link and "%2B" in link
    assert pages[1].header("Link").count("&after=") == 1


def cursor(db, text):
    link = db.get(text).header("Link")
    return link.split("after=")[1].split(">")[0]


def test_a_cursor_of_another_query_is_refused(db):
    db.fill({"n": n} for n in range(5))
    other = type(db)(db.server)
    after = cursor(db, "?order=n&limit=2&n=gte.1")
    assert len(db.rows(f"?order=n&limit=1&n=gte.1&after={after}")) == 1
    for one, text in ((db, "order=-n&n=gte.1"), (db, "order=n&n=gte.2"), (db, "order=n"),
                      (db, "n=gte.1"), (other, "order=n&n=gte.1")):
        answer = one.get(f"?{text}&after={after}")
        assert answer.status == 400
        assert "after" in answer.problem("db-query")["detail"]


def test_a_forged_cursor_does_no_harm(db):
    db.fill({"n": f"x{n}"} for n in range(5))
    after = cursor(db, "?order=n&limit=2")
    good = base64.urlsafe_b64decode(after + "=" * (-len(after) % 4))
    rng = random.Random(7)
    for _ in range(300):
        forged = bytearray(good)
        for _ in range(rng.randint(1, 3)):
            forged[rng.randrange(len(forged))] = rng.randrange(256)
        forged = forged[:rng.randint(0, len(forged) + 2)] + bytes(rng.randint(0, 2))
        text = base64.urlsafe_b64encode(forged).decode().rstrip("=")
        answer = db.get(f"?order=n&limit=2&after={text}")
        assert answer.status in (200, 400), answer
    for text in (after + "=", after + "A", "*" + after, "A" * 2000, "AQ"):
        assert db.get(f"?order=n&limit=2&after={text}").status == 400


def test_counting(db):
    db.fill({"n": n} for n in range(25))
    first = db.get("?limit=10&n=gte.3", "Prefer: count=exact")
    assert first.header("Content-Range") == "items 0-9/22"
    assert first.header("Preference-Applied") == "count=exact"
    target = first.header("Link").split(";")[0].strip("<>")
    second = db.server.request("GET", target, "Prefer: count=exact")
    assert second.header("Content-Range") == "items 10-19/22"
    answer = db.get("?n=gt.100", "Prefer: count=exact")
    assert (answer.header("Content-Range"), answer.body) == ("items */0", b"[]")
    assert db.get("").header("Content-Range") is None
    assert db.get("", "Prefer: count=planned").header("Content-Range") is None


def test_a_page_of_large_documents_ends_early(db):
    for n in range(20):
        db.put(f"/{n:02}", "x" * 200_000)
    pages = list(db.pages("?limit=20"))
    assert len(pages) >= 3
    assert all(len(page.body) < 1_500_000 for page in pages)
    assert ids(itertools.chain(*(page.json() for page in pages))) == [f"{n:02}" for n in range(20)]


def test_values_too_long_for_a_cursor_are_told(db):
    db.fill({name: "\u4e16" * 400 + str(n) for name in "abcd"} for n in range(3))
    answer = db.get("?order=a,b,c,d&limit=1")
    assert answer.status == 422
    assert "x-ndjson" in answer.problem("db-cursor")["detail"]
    assert len(db.rows("?order=a,b,c,d&limit=3")) == 3


# ---- Forms of the answer ------------------------------------------------------------------------------


@pytest.mark.parametrize("accept,media_type", [
    (None, "application/json"), ("*/*", "application/json"), ("application/*", "application/json"),
    ("application/x-ndjson", "application/x-ndjson"),
    ("application/json;q=0.5, application/x-ndjson", "application/x-ndjson"),
    ("application/json, application/x-ndjson", "application/json"),
    ("text/html, */*;q=0.1", "application/json"), ("*/*, application/json;q=0", "application/x-ndjson")])
def test_accept_chooses(db, accept, media_type):
    db.post({"n": 1})
    answer = db.get("", *([f"Accept: {accept}"] if accept else []))
    assert (answer.status, answer.media_type) == (200, media_type)
    assert answer.header("Vary") == "Accept"
    head = db.request("HEAD", "", *([f"Accept: {accept}"] if accept else []))
    assert (head.status, head.media_type, head.body) == (200, media_type, b"")


@pytest.mark.parametrize("accept", ["text/html", "application/json;q=0", "image/*"])
def test_no_other_form_can_be_had(db, accept):
    answer = db.get("", f"Accept: {accept}")
    assert answer.status == 406
    assert "application/x-ndjson" in answer.problem("not-acceptable")["detail"]
