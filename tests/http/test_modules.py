"""What a module adds to the server, in tests/http/waiting.c: routes, a start and a stop, readiness,
figures; and what follows for a route from its table."""
import random
import subprocess
import urllib.parse

import pytest

from process import ALLOC, PREFIX, environment
from test_waiting import WAITING, waiting  # pylint: disable=unused-import
from wire import until


def test_a_module_that_cannot_start_ends_the_program():
    ended = subprocess.run([*PREFIX, WAITING, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
                            "--alloc", ALLOC, "--db", "off"],
                           env={**environment(), "WAITING_CANNOT_START": "1"},
                           capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == 1
    assert ended.stderr == "The module cannot start.\n"


def test_a_module_may_be_unready(waiting):
    one = waiting()
    assert one.admin("/readyz").json() == {"status": "pass",
                                           "checks": {"drain": "pass", "waiting": "pass"}}
    assert one.request("PUT", "/unready").status == 204
    answer = one.admin("/readyz")
    assert answer.status == 503
    assert answer.json() == {"status": "fail", "checks": {"drain": "pass", "waiting": "fail"},
                             "reasons": {"waiting": "It was told to be unready."}}
    assert one.request("GET", "/json").status == 200
    one.request("DELETE", "/unready")
    assert one.admin("/readyz").status == 200


def test_a_draining_server_says_why_it_is_not_ready(waiting):
    one = waiting("--drain-timeout", "5s")
    connection = one.connect()
    connection.start("GET", "/wait/1000")
    until(lambda: one.metric("slate_requests_in_flight") == 1, "one request in flight")
    one.signal()
    answer = until(lambda: (answer := one.admin("/readyz")).status == 503 and answer, "not ready")
    assert answer.json()["checks"] == {"drain": "fail", "waiting": "pass"}
    assert list(answer.json()["reasons"]) == ["drain"]
    assert connection.read().body == b"w"


def test_figures_are_metrics(waiting):
    one = waiting()
    one.request("GET", "/wait/own,own")
    one.assert_at_rest()
    text = one.admin("/metrics").body.decode()
    assert "# HELP slate_waiting_waits_total Waits begun.\n" \
           "# TYPE slate_waiting_waits_total counter\n" \
           "slate_waiting_waits_total 2\n" in text
    assert "# TYPE slate_waiting_held gauge\nslate_waiting_held 0\n" in text
    assert one.memory()["modules"] == {"waiting": {"held": 0, "alarms": 0, "waits": 2}}


@pytest.mark.parametrize("method, header, accepted, refused", [
    ("POST", "Accept-Post", ["application/json", "application/vnd.x+json"], ["text/plain"]),
    ("PUT", "Accept", ["text/plain", "text/plain; charset=UTF-8"], ["application/json"]),
    ("PATCH", "Accept-Patch", ["application/merge-patch+json", "application/json-patch+json"],
     ["application/json", "text/plain"]),
])
def test_each_method_has_media_types_of_its_own(waiting, method, header, accepted, refused):
    one = waiting()
    for media_type in accepted:
        answer = one.request(method, "/take", body=b"12345", media_type=media_type)
        assert answer.status == 200 and answer.json() == 5, answer
    for media_type in refused + [None]:
        answer = one.request(method, "/take", body=b"12345", media_type=media_type)
        assert answer.status == 415
        answer.problem("media-type")
        assert accepted[0] in answer.header(header)


def test_a_method_without_media_types_reads_no_body(waiting):
    one = waiting()
    connection = one.connect()
    for method in ("GET", "DELETE"):
        for media_type in ("application/json", "text/plain", None):
            answer = connection.request(method, "/take", body=b"12345", media_type=media_type)
            assert answer.status == 200 and answer.json() == 0


def test_options_say_which_patches_are_taken(waiting):
    one = waiting()
    answer = one.request("OPTIONS", "/take")
    assert answer.header("Allow") == "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"
    assert answer.header("Accept-Patch") == \
        "application/merge-patch+json, application/json-patch+json"
    assert one.request("OPTIONS", "/query").header("Accept-Patch") is None
    assert one.request("OPTIONS", "*").status == 204


@pytest.mark.parametrize("query, found", [
    ("", []),
    ("a", [["a", ""]]),
    ("a=1&b=2&a=3", [["a", "1"], ["b", "2"], ["a", "3"]]),
    ("a=b+c%2Bd%20e", [["a", "b+c+d e"]]),
    ("%61+=%C3%A9&=x", [["a+", "é"], ["", "x"]]),
    ("a=b=c&d=%26", [["a", "b=c"], ["d", "&"]]),
])
def test_query_parameters_come_decoded_and_in_order(waiting, query, found):
    one = waiting()
    assert one.request("GET", f"/query?{query}").json() == [*found, True]


def parameters_of(query):
    """What a query says, told by Python's library."""
    parts = query.split("&")
    if parts[-1] == "":
        parts.pop()
    return [[urllib.parse.unquote(half) for half in (*part.split("=", 1), "")[:2]] for part in parts]


def test_any_query_is_read_as_the_model_reads_it(waiting):
    one, rng = waiting(), random.Random(20261201)
    for _ in range(300):
        query = "".join(rng.choices(["a", "b", "=", "&", "%41", "%26", "%3D", "%C3%A9", "+", "?", "/", "stop"],
                                    k=rng.randrange(12)))
        found = one.request("GET", f"/query?{query}").json()
        told = parameters_of(query)
        names = [name for name, _ in told]
        ends = "stop" in names
        assert found == [*(told[:names.index("stop") + 1] if ends else told), not ends], query


@pytest.mark.parametrize("memory", ["4K", "12K"])
def test_a_query_has_as_many_parameters_as_its_bytes_allow(waiting, memory):
    one = waiting("--connection-memory", memory)
    for count in (1, 50, 100, 150, 200, 300, 400):
        query = "&".join(f"{number}=" for number in range(count))
        answer = one.request("GET", f"/query?{query}")
        if len(query) < 1000 or memory == "12K":
            assert answer.json() == [*([str(number), ""] for number in range(count)), True]
        else:
            assert answer.status in (200, 414, 431)


def test_the_walk_over_the_query_can_be_ended(waiting):
    one = waiting()
    assert one.request("GET", "/query?a=1&stop=2&b=3").json() == [["a", "1"], ["stop", "2"], False]
