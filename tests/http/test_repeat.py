"""Answers that repeat are sent from one response of libmicrohttpd (server/repeat.c), which the housekeeper
makes within a tenth of a second. Whatever was answered before, each answer is its own: status, media
type, headers and bytes."""
import random
import threading
import time
import urllib.parse

import pytest

from test_waiting import waiting  # pylint: disable=unused-import
from wire import until

TYPES = ("text/plain", "text/troff", "text/html", "application/json", "text/" + "x" * 230)
TEXTS = ("a", "b", "aa", "", "text/plain", "x" * 229, "y" * 229, "x" * 230, "x" * 240, "x" * 241, "x" * 5000)


def target(text, media_type="text/plain", status=200, note=None):
    said = {"text": text, "type": media_type, "status": status} | ({"note": note} if note else {})
    return "/say?" + urllib.parse.urlencode(said, quote_via=urllib.parse.quote)


def have_kept(one, *said):
    """Until its response has been made; nothing shows from outside when that is."""
    for _ in range(2):
        assert_said(one.request("GET", target(*said)), *said)
    time.sleep(0.25)


def assert_said(answer, text, media_type="text/plain", status=200, note=None, identity=None, method="GET"):
    assert answer.status == status
    assert answer.header("Content-Type") == media_type
    assert answer.header("Content-Length") == str(len(text))
    assert answer.header("X-Note") == note
    assert answer.header("X-Request-Id") == identity
    assert answer.body == (b"" if method == "HEAD" else text.encode())
    assert len(answer.fields) == 3 + (note is not None) + (identity is not None), "Date, and what is checked above"


@pytest.mark.parametrize("seed", range(4))
def test_each_answer_is_its_own_whatever_came_before(waiting, seed):
    one, rng = waiting("--threads", "1"), random.Random(seed)
    connections = [one.connect() for _ in range(3)]
    for turn in range(150):
        text, media_type, status = rng.choice(TEXTS), rng.choice(TYPES), rng.choice((200, 203))
        if turn % 15 == 0:
            have_kept(one, *(rng.choice(((text, media_type), (rng.choice(TEXTS), media_type),
                                         (text, rng.choice(TYPES))))))
        connection = rng.choice(connections)
        asked = [(rng.choice(("GET", "GET", "HEAD")), rng.choice((None, None, None, "mine")),
                  rng.choice((None, None, None, "noted"))) for _ in range(rng.randrange(1, 5))]
        for method, identity, note in asked:
            connection.start(method, target(text, media_type, status, note),
                             *([f"X-Request-Id: {identity}"] if identity else []))
        for method, identity, note in asked:
            assert_said(connection.read(), text, media_type, status, note, identity, method)


def test_what_changes_while_its_response_is_made_is_answered(waiting):
    """The answers change faster and slower than the housekeeper looks."""
    one = waiting("--threads", "1")
    with one.connect() as connection:
        for turn in range(400):
            text = "abcdefgh"[turn // (1 + turn // 50) % 8] * 100  # each comes more often in a row
            assert_said(connection.request("GET", target(text)), text)
            if turn % 40 == 39:
                time.sleep(0.11)


def test_routes_do_not_share_an_answer(waiting):
    one = waiting("--threads", "1")
    with one.connect() as connection:
        for _ in range(4):
            time.sleep(0.1)
            assert_said(connection.request("GET", target('{"message":"Hello, World?"}', "application/json")),
                        '{"message":"Hello, World?"}', "application/json")
            assert_said(connection.request("GET", "/json"), '{"message":"Hello, World!"}', "application/json")
            assert_said(connection.request("GET", "/plaintext"), "Hello, World!")


def test_an_answer_that_is_still_being_sent_stays_what_it_was(waiting):
    """A client that does not read holds answers that have been given up since."""
    one, count, text = waiting("--threads", "1"), 40000, "x" * 200
    have_kept(one, text)
    slow = one.connect(window=4096)
    sender = threading.Thread(target=slow.send, args=(slow.head("GET", target(text)) * count,))
    sender.start()

    def stuck(seen=[-1]):  # pylint: disable=dangerous-default-value
        before, seen[0] = seen[0], one.metric("http_requests_total", route="/say")
        return before == seen[0] and one.metric("slate_requests_in_flight") == 1

    until(stuck, "the server waits for its client")
    for other in ("y" * 200, "z" * 200) * 3:
        have_kept(one, other)
    for _ in range(count):
        assert_said(slow.read("GET"), text)
    sender.join()
    slow.close()


def test_a_draining_server_says_that_it_closes_though_the_answer_repeats(waiting):
    one = waiting("--threads", "1", "--drain-timeout", "5s")
    connection, holder = one.connect(), one.connect()
    have_kept(one, "same")
    holder.start("GET", "/wait/1000")
    until(lambda: one.metric("slate_requests_in_flight") == 1, "one request in flight")
    one.signal()
    until(lambda: one.admin("/readyz").status == 503, "the server drains")
    answer = connection.request("GET", target("same"))
    assert answer.closes and answer.body == b"same"
    assert holder.read().body == b"w"
