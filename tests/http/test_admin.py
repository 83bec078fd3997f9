"""The admin listener: health, version, metrics that agree with what was sent, and who holds memory."""
import json
import os
import re
import signal

import pytest

from process import ALLOC, samples
from wire import until


def test_health(shared):
    answer = shared.admin("/healthz")
    assert answer.status == 200
    assert answer.media_type == "text/plain"
    assert answer.body.strip() == b"ok"


def test_readiness(shared):
    answer = shared.admin("/readyz")
    assert answer.status == 200
    assert answer.json()["status"] == "pass"
    assert isinstance(answer.json()["checks"], dict)


def test_version(shared):
    version = shared.admin("/version").json()
    assert version["name"] == "slate"
    assert re.match(r"\d+\.\d+\.\d+", version["version"])
    assert version["alloc"] == ALLOC
    assert version["libmicrohttpd"].startswith("0.9.") or version["libmicrohttpd"][0] == "1"
    assert version["jansson"].startswith("2.")
    for member in ("pool", "threads", "json_reader", "json_walk", "libc", "connection_memory", "options"):
        assert member in version
    assert version["options"]["alloc"] == ALLOC
    assert version["options"]["body-limit"]
    assert version["json_reader"] == version["options"]["json-reader"] == "slate"


def test_admin_routes_behave_like_the_others(shared):
    for path in ("/healthz", "/readyz", "/version", "/metrics", "/debug/memory"):
        assert shared.admin(path, "HEAD").body == b""
        answer = shared.admin(path, "DELETE")
        assert answer.status == 405
        assert {"GET", "HEAD"} <= set(answer.header("Allow").split(", "))
    assert shared.admin("/trim").status == 405
    assert shared.admin("/nope").status == 404
    assert shared.admin("/json").status == 404


def test_trim(shared):
    assert shared.admin("/trim", "POST").status in (200, 202, 204)
    assert shared.request("GET", "/json").status == 200


def test_metrics_are_prometheus_text(shared):
    shared.request("GET", "/json")
    answer = shared.admin("/metrics")
    assert answer.status == 200
    assert answer.header("Content-Type").startswith("text/plain")
    assert "version=0.0.4" in answer.header("Content-Type")
    text = answer.body.decode()
    assert text.endswith("\n")

    types, helped, seen = {}, set(), []
    for line in text.splitlines():
        words = line.split(" ", 3)
        if line.startswith("# TYPE "):
            assert words[2] not in types, f"typed twice: {line}"
            assert words[3] in ("counter", "gauge", "histogram")
            types[words[2]] = words[3]
        elif line.startswith("# HELP "):
            assert words[2] not in helped, f"explained twice: {line}"
            helped.add(words[2])
    series = set()
    for name, labels, value in samples(text):
        family = name
        if family not in types:
            family = re.sub(r"_(bucket|sum|count)\Z", "", name)
            assert types.get(family) == "histogram", f"{name} has no type"
        assert family in helped, f"{name} is not explained"
        assert types[family] != "counter" or name.endswith("_total"), name
        key = (name, tuple(sorted(labels.items())))
        assert key not in series, f"{key} is there twice"
        series.add(key)
        assert value == value, f"{key} is not a number"
        if not seen or seen[-1] != family:
            assert family not in seen, f"the samples of {family} are not together"
            seen.append(family)
    for name in ("http_requests_total", "slate_build_info", "slate_requests_in_flight",
                 "slate_connections", "slate_live_bytes", "process_resident_memory_bytes",
                 "process_cpu_seconds_total", "process_open_fds", "process_start_time_seconds"):
        assert name in types, f"{name} is not there"


def test_histograms_add_up(shared):
    for _ in range(5):
        shared.request("GET", "/json")
    histograms = {}
    for name, labels, value in samples(shared.admin("/metrics").body.decode()):
        if name.startswith("http_request_duration_seconds"):
            kind = name.rsplit("_", 1)[1]
            bound = labels.pop("le", None)
            one = histograms.setdefault(tuple(sorted(labels.items())), {"bucket": []})
            if kind == "bucket":
                one["bucket"].append((float(bound), value))
            else:
                one[kind] = value
    assert histograms
    for labels, one in histograms.items():
        bounds = [bound for bound, _ in one["bucket"]]
        counts = [count for _, count in one["bucket"]]
        assert bounds == sorted(bounds) and bounds[-1] == float("inf"), labels
        assert counts == sorted(counts), labels
        assert counts[-1] == one["count"], labels
        assert one["sum"] >= 0, labels


def test_the_allocator_shows(server):
    one = server()
    assert one.metric("slate_build_info", alloc=ALLOC) == 1
    assert f"alloc={ALLOC}" in one.errors() or f"--alloc {ALLOC}" in one.errors()


def test_requests_are_counted_by_route_method_and_code(server):
    one = server()
    sent = [("GET", "/json", None, 200, "/json", 7), ("HEAD", "/json", None, 200, "/json", 2),
            ("GET", "/json?x=1", None, 200, "/json", 3),
            ("POST", "/echo", b"[1]", 200, "/echo", 5), ("POST", "/echo", b"[", 400, "/echo", 4),
            ("DELETE", "/json", None, 405, "/json", 2),
            ("POST", "/transform/merge", b'{"doc":1,"patch":2}', 200, "/transform/merge", 3)]
    connection = one.connect()
    for method, target, body, code, _, times in sent:
        for _ in range(times):
            assert connection.request(method, target, body=body).status == code
    for at in range(6):
        assert connection.request("GET", f"/nope/{at}").status == 404

    expected = {}
    for method, _, _, code, route, times in sent:
        key = (route, method, str(code))
        expected[key] = expected.get(key, 0) + times
    # An answer may reach the client a moment before it is counted.
    until(lambda: one.metric("http_requests_total", code="404") == 6, "every request counted")
    found = {}
    for name, labels, value in samples(one.admin("/metrics").body.decode()):
        if name == "http_requests_total" and value:
            assert "nope" not in labels["route"], "a path that a client made up became a label"
            if labels["code"] != "404" and labels["route"] in ("/json", "/echo", "/transform/merge"):
                found[labels["route"], labels["method"], labels["code"]] = value
    assert found == expected
    assert one.metric("http_request_duration_seconds_count") >= sum(expected.values())


def test_framing_errors_are_counted(server):
    one = server()
    for _ in range(3):
        connection = one.connect()
        connection.send(b"GET /json HTTP/1.1\r\n\r\n")
        assert connection.read().status == 400
    until(lambda: one.metric("http_requests_total", code="400") == 3, "three counted")


def test_in_flight(server):
    one = server()
    for count in range(1, 4):
        connection = one.connect()
        connection.send(connection.head("POST", "/echo", "Content-Type: application/json",
                                        "Content-Length: 10") + b"[1,")
        until(lambda wanted=count: one.metric("slate_requests_in_flight") == wanted,
              f"{count} in flight")
    one.close_connections()
    one.assert_at_rest()


def test_live_bytes_follow_the_body(server):
    one = server()
    connection = one.connect()
    connection.send(connection.head("POST", "/echo", "Content-Type: application/json",
                                    "Content-Length: 900000") + b"[" + b"1," * 100_000)
    until(lambda: one.metric("slate_live_bytes") >= 200_000, "the body is live")
    assert one.memory()["live_bytes"] >= 200_000
    one.close_connections()
    one.assert_at_rest()
    assert one.memory()["live_bytes"] == 0


def numbers(value):
    if isinstance(value, dict):
        for member in value.values():
            yield from numbers(member)
    elif isinstance(value, list):
        for element in value:
            yield from numbers(element)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield value


def test_memory_is_explained(server):
    """Who holds how much, while an upload is under way; and the figures add up."""
    one = server()
    for _ in range(20):
        assert one.post("/echo", json.dumps(list(range(5000))).encode()).status == 200
    upload = one.connect()
    upload.send(upload.head("POST", "/echo", "Content-Type: application/json",
                            "Content-Length: 500000") + b"[1,")
    until(lambda: one.metric("slate_live_bytes") >= 500_000, "the body is reserved")
    until(lambda: one.metric("slate_requests_in_flight") == 1, "the requests before it have ended")

    memory = one.memory()
    for member in ("alloc", "live_bytes", "contexts", "workers", "depot", "pools", "mallinfo2",
                   "smaps_rollup"):
        assert member in memory, f"{member} is not there"
    assert memory["alloc"] == ALLOC
    assert all(0 <= number < 1 << 48 for number in numbers(memory)), memory

    contexts = memory["contexts"]
    assert contexts[0]["name"] == "process" and contexts[0]["level"] == 0
    for context in contexts:
        assert context["total_bytes"] == context["used_bytes"] + context["free_bytes"], context
    assert {context["name"]: context["level"] for context in contexts}.items() >= {
        "process": 0, "worker": 1, "request": 2}.items()
    body = [context for context in contexts
            if context["name"] == "request" and context["used_bytes"] >= 500_000]
    assert len(body) == 1
    assert body[0]["type"] == {"arena": "arena", "malloc": "heap"}[ALLOC]
    assert body[0]["large_blocks"] == 1

    workers = memory["workers"]
    for name in ("requests", "connections"):
        pool = memory["pools"][name]
        assert pool["live"] == sum(worker["pools"][name]["live"] for worker in workers)
        assert pool["held_bytes"] == sum(worker["pools"][name]["held_bytes"] for worker in workers)
        assert pool["live"] * pool["cell_bytes"] <= pool["held_bytes"]
    assert sum(worker["requests_in_flight"] for worker in workers
               if worker["listener"] == "public") == 1
    blocks = sum(worker["magazine"]["idle_bytes"] + worker["magazine"]["lent_bytes"]
                 for worker in workers) + memory["depot"]["idle_bytes"]
    assert contexts[0]["total_bytes"] == blocks
    if ALLOC == "arena":
        assert blocks >= memory["live_bytes"] >= 500_000


def test_process_figures(server):
    one = server()
    assert one.metric("process_open_fds") >= 5
    assert 0 < one.metric("process_resident_memory_bytes")
    started = one.metric("process_start_time_seconds")
    assert abs(os.stat(f"/proc/{one.pid}").st_ctime - started) < 3600
    before = one.metric("process_cpu_seconds_total")
    for _ in range(50):
        one.request("GET", "/json")
    assert one.metric("process_cpu_seconds_total") >= before


def test_the_access_log(server):
    one = server("--access-log", "json")
    connection = one.connect()
    connection.request("GET", "/json?q=1", "X-Request-Id: first")
    connection.request("HEAD", "/plaintext")
    posted = connection.request("POST", "/echo", "X-Request-Id: third", body=b'{"a": [1]}')
    connection.request("GET", "/a%22b%5c", "X-Request-Id: fourth")
    connection.request("HEAD", "/json", f"X-Request-Id: {'f' * 64}")
    bad = one.connect()
    bad.send(b"GET /json HTTP/1.1\r\n\r\n")
    refused = bad.read()

    lines = [json.loads(line) for line in one.log(6)]
    assert len(lines) == 6
    for line in lines:
        for member in ("time", "id", "remote", "method", "path", "status", "bytes", "duration_us"):
            assert member in line, line
        assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z\Z", line["time"])
        assert line["remote"].startswith("127.0.0.1")
        assert 0 <= line["duration_us"] < 600_000_000
    by_id = {line["id"]: line for line in lines}
    assert len(by_id) == 6, "ids are not unique"
    assert by_id["first"]["status"] == 200
    assert by_id["first"]["path"].startswith("/json")
    assert by_id["third"]["method"] == "POST"
    assert by_id["third"]["bytes"] == len(posted.body)
    assert by_id["fourth"]["status"] == 404
    assert by_id["f" * 64]["bytes"] == 0
    assert refused.problem()["instance"].split("/")[-1].split(":")[-1] in by_id


def test_the_common_log_format(server):
    one = server("--access-log", "clf")
    one.request("GET", '/a"b')
    one.log(1)  # another worker may serve, and log, the next
    with one.connect() as connection:
        connection.send(b"HEAD /json HTTP/1.0\r\n\r\n")
        connection.read("HEAD")
    lines = [re.sub(r"\[\d\d/\w{3}/\d{4}(:\d\d){3} \+0000\]", "[TIME]", line)
             for line in one.log(2)]
    assert re.match(r'127\.0\.0\.1 - - \[TIME\] "GET /a\\"b HTTP/1\.1" 404 [1-9]\d*\Z', lines[0])
    assert lines[1] == '127.0.0.1 - - [TIME] "HEAD /json HTTP/1.0" 200 0'


def test_the_access_log_is_one_line_a_request_under_load(server):
    one = server("--access-log", "json")
    connections = [one.connect() for _ in range(8)]
    for turn in range(25):
        for at, connection in enumerate(connections):
            connection.start("GET", f"/json?{at}", f"X-Request-Id: {turn}-{at}")
        for connection in connections:
            assert connection.read().status == 200
    ids = [json.loads(line)["id"] for line in one.log(200)]
    assert sorted(ids) == sorted(f"{turn}-{at}" for turn in range(25) for at in range(8))


def test_no_access_log_unless_asked_for(server):
    one = server()
    one.request("GET", "/json")
    one.signal()
    one.wait()
    assert one.output() == ""


@pytest.mark.parametrize("path", ["/version", "/debug/memory", "/metrics", "/healthz", "/trim"])
def test_nothing_of_it_is_public(shared, path):
    assert shared.request("GET", path).status == 404
    assert shared.request("POST", path, body=b"{}").status == 404


def test_a_signal_writes_the_tree_of_contexts(server):
    """The rows of /debug/memory as text, at most 100 requests of a worker one by one."""
    one = server("--threads", "1")
    for _ in range(120):
        connection = one.connect()
        connection.send(connection.head("POST", "/echo", "Content-Type: application/json",
                                        "Content-Length: 1000") + b"[" * 500)
    until(lambda: one.metric("slate_requests_in_flight") == 120, "120 requests in flight")
    rows = one.memory()["contexts"]
    one.signal(signal.SIGUSR1)
    until(lambda: "20 more requests" in one.errors(), "the end of the tree")
    tree = re.search(r"Memory contexts, in bytes:\n(.*)", one.errors(), re.DOTALL)[1].splitlines()
    assert re.match(r"process: \d+ total; \d+ free; \d+ used$", tree[0])
    levels = [(len(line) - len(line.lstrip())) // 2 for line in tree]
    assert levels.count(2) in (101, 102)  # an admin request may not be over yet
    assert [row["level"] for row in rows].count(2) in (102, 103)  # and the one that asked
    request = next(line for line in tree if line.startswith("    request"))
    kind = "arena" if ALLOC == "arena" else "heap"
    assert re.match(rf"    request: \d+ total in \d+ blocks; \d+ free; \d+ used; peak \d+; \d+ large; "
                    rf"\d+ resets; 0 refusals \({kind}\)$", request)
    one.close_connections()
    one.assert_at_rest()


def test_a_reader_of_the_access_log_that_stops_reading_stops_nobody(server):
    """Lines that the pipe does not take are lost, and counted."""
    reader, writer = os.pipe()
    try:
        one = server("--access-log", "json", "--threads", "1", stdout=writer)
        connection = one.connect()
        for _ in range(1000):
            assert connection.request("GET", "/json").status == 200
        assert one.metric("slate_access_log_lines_lost_total") > 0
        one.assert_at_rest()  # the last may end a moment after its answer was read
    finally:
        os.close(reader)
        os.close(writer)
