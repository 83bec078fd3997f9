"""Lists of any length as NDJSON, in constant memory."""
import json

import pytest

from documents import Documents
from process import SANITIZED

LINES = "Accept: application/x-ndjson"
MANY = 20_000 if SANITIZED else 100_000


@pytest.fixture(scope="module")
def many(store_server):
    db = Documents(store_server)
    db.fill({"n": n, "k": n % 7, "text": "x" * 20} for n in range(MANY))
    return db


def rows(answer):
    assert answer.status == 200 and answer.media_type == "application/x-ndjson"
    assert answer.header("Transfer-Encoding") == "chunked"
    assert answer.body == b"" or answer.body.endswith(b"\n")
    return [json.loads(line) for line in answer.body.splitlines()]


def test_nothing_is_an_empty_stream(db):
    assert rows(db.get("", LINES)) == []


def test_all_rows_come_in_order(many):
    found = rows(many.get("", LINES))
    assert [row["document"]["n"] for row in found] == list(range(MANY))
    assert list(found[0]) == ["id", "revision", "document"]


def test_filter_order_select_and_limit_apply(many):
    found = rows(many.get("?k=eq.3&order=-n&select=n&limit=2500", LINES))
    expected = [n for n in range(MANY) if n % 7 == 3][::-1][:2500]
    assert [row["document"] for row in found] == [{"n": n} for n in expected]


@pytest.mark.parametrize("limit", [1, 999, 1000, 1001, 3000])
def test_a_limit_is_kept_exactly(many, limit):
    assert len(rows(many.get(f"?limit={limit}", LINES))) == limit


def test_pages_of_any_size_of_documents(db):
    sizes = [1, 70_000, 10, 200_000, 65_536, 5, 130_000, 1]
    db.fill("x" * size for size in sizes)
    assert [len(row["document"]) for row in rows(db.get("", LINES))] == sizes


def test_a_stream_goes_on_after_a_page(many):
    link = many.get("?limit=1000").header("Link")
    after = link.split("after=")[1].split(">")[0]
    found = rows(many.get(f"?limit=10&after={after}", LINES))
    assert [row["document"]["n"] for row in found] == list(range(1000, 1010))


def test_values_too_long_for_a_cursor_do_not_matter(db):
    """Pages of 56 KiB, each of which begins among rows that are equal in all that they are ordered by."""
    many = range(300)
    db.fill({"a": "\u4e16" * 250 + str(n % 10), "b": "x" * 250, "c": "y" * 250, "n": n} for n in many)
    found = rows(db.get("?order=a,b,c", LINES))
    assert [row["document"]["n"] for row in found] == sorted(many, key=lambda n: n % 10)


def test_a_bad_query_is_answered_before_the_stream(db):
    assert db.get("?limit=x", LINES).status == 400
    assert db.get("?x=foo.1", LINES).status == 400


def test_the_connection_goes_on_after_a_stream(many):
    with many.server.connect() as connection:
        for _ in range(3):
            connection.start("GET", many.path("?limit=2000"), LINES)
            assert len(rows(connection.read())) == 2000
        connection.assert_open()


def test_a_client_that_leaves_is_forgotten(many):
    """In the middle of a stream, while the server writes or waits for the store."""
    for n in range(20):
        connection = many.server.connect(window=4096)
        connection.start("GET", many.path(""), LINES)
        connection.read_head()
        connection.read_bytes(1000 * n + 1)
        connection.reset()
    many.server.assert_at_rest()
    assert len(rows(many.get("?limit=10", LINES))) == 10


def test_rows_inserted_meanwhile_do_not_disturb(many):
    """A slow reader gets every row that was there from the start, once."""
    other = Documents(many.server)
    other.fill({"n": n} for n in range(30_000))
    with many.server.connect(window=4096) as connection:
        connection.start("GET", other.path("?order=n"), LINES)
        head = connection.read_head()
        assert head.status == 200
        for n in range(50):
            other.put(f"/0{n}", {"n": n + 0.5})
        body = connection.read_chunks()
    numbers = [json.loads(line)["document"]["n"] for line in body.splitlines()]
    assert [n for n in numbers if n == int(n)] == list(range(30_000))
    assert len(numbers) == len(set(numbers))


@pytest.mark.resident
def test_memory_does_not_grow_with_the_rows(many):
    """What is resident of the process while a stream is read, the pages of its files included."""
    def peak(limit):
        highest = 0
        with many.server.connect(window=65536) as connection:
            connection.start("GET", many.path(f"?limit={limit}"), LINES)
            connection.read_head()
            while (size := int(connection.read_line(), 16)) > 0:
                connection.read_bytes(size + 2)
                highest = max(highest, many.server.resident())
        return highest
    few = peak(1000)
    assert peak(MANY) - few < 2 * 1024 * 1024
