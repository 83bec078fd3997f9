"""Many clients at once: nothing acknowledged is lost, nothing is done twice."""
import threading

from documents import PATCH, Documents


def together(count, work):
    """Runs work(n) in that many threads; every one must return."""
    results, failures = [None] * count, []

    def run(n):
        try:
            results[n] = work(n)
        except BaseException as failure:  # shown by the test
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return results


def test_no_update_is_lost_with_if_match(db):
    db.put("/sum", {"n": 0})

    def increment(_):
        while True:
            got = db.get("/sum")
            answer = db.put("/sum", {"n": got.json()["n"] + 1}, f"If-Match: {got.header('ETag')}")
            if answer.status == 200:
                return
            assert answer.status == 412, answer

    together(50, increment)
    assert db.get("/sum").json() == {"n": 50}


def test_patches_of_one_document_do_not_undo_each_other(db):
    db.put("/all", {})

    def add(n):
        while True:
            answer = db.patch("/all", {f"k{n}": n})
            if answer.status == 200:
                return
            assert answer.status == 503 and answer.header("Retry-After"), answer

    together(50, add)
    assert db.get("/all").json() == {f"k{n}": n for n in range(50)}


def test_a_tested_patch_is_an_increment(db):
    db.put("/sum", {"n": 0})

    def increment(_):
        while True:
            n = db.get("/sum").json()["n"]
            answer = db.patch("/sum", [{"op": "test", "path": "/n", "value": n},
                                       {"op": "replace", "path": "/n", "value": n + 1}],
                              media_type=PATCH)
            if answer.status == 200:
                return
            assert answer.status in (409, 503), answer

    together(50, increment)
    assert db.get("/sum").json() == {"n": 50}


def test_one_of_many_makes_the_document(db):
    answers = together(20, lambda n: db.put("/a", n, "If-None-Match: *"))
    assert sorted(answer.status for answer in answers) == [201] + [412] * 19
    [winner] = [n for n, answer in enumerate(answers) if answer.status == 201]
    assert db.get("/a").json() == winner


def test_one_key_makes_one_document(db):
    answers = together(20, lambda _: db.post({"n": 1}, "Idempotency-Key: once"))
    assert {answer.status for answer in answers} == {201}
    assert len({answer.body for answer in answers}) == 1
    assert sum(answer.header("Idempotency-Replayed") is None for answer in answers) == 1
    assert len(db.rows()) == 1


def test_ids_made_at_the_same_time_differ(db):
    made = together(20, lambda _: [db.made(n) for n in range(10)])
    assert len({one for ids in made for one in ids}) == 200
    assert all(ids == sorted(ids) for ids in made)


def test_bulk_inserts_come_whole(db):
    """A reader sees all of an insert or nothing of it."""
    stop = threading.Event()
    seen = []

    def read():
        while not stop.is_set():
            seen.append(len(db.rows("?limit=1000")))

    reader = threading.Thread(target=read)
    reader.start()
    together(8, lambda n: db.post([n] * 100))
    stop.set()
    reader.join()
    assert all(count % 100 == 0 for count in seen), seen
    assert len(db.rows("?limit=1000")) == 800


def test_two_servers_share_a_store(store):
    """With PostgreSQL the usual thing; with SQLite two processes on one file."""
    one, two = store(), store()
    db = Documents(one)
    other = Documents(two)
    other.name = db.name
    db.put("/sum", {"n": 0})

    def increment(n):
        via = (db, other)[n % 2]
        while True:
            got = via.get("/sum")
            answer = via.put("/sum", {"n": got.json()["n"] + 1}, f"If-Match: {got.header('ETag')}")
            if answer.status == 200:
                return
            assert answer.status in (412, 503), answer

    together(20, increment)
    assert db.get("/sum").json() == other.get("/sum").json() == {"n": 20}


def test_clients_that_leave_meanwhile_cost_nothing(db):
    """Their writes may happen or not; what their requests held is given back."""
    db.fill(range(100))
    for n in range(60):
        with db.server.connect() as connection:
            if n % 3 == 0:
                connection.start("POST", db.path(""), body=b'{"n":1}')
            elif n % 3 == 1:
                connection.start("PATCH", db.path("/none"), body=b"{}",
                                 media_type="application/merge-patch+json")
            else:
                connection.start("GET", db.path("?limit=100"))
            connection.reset()
    db.server.assert_at_rest()
    assert 100 <= len(db.rows("?limit=1000")) <= 120
