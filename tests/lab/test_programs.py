"""The programs that the lab brings along, and a whole slot."""
import functools
import itertools
import json
import operator
import os
import re
import sqlite3
import subprocess
from dataclasses import replace

import pytest

from lab import counting, scenario, store
from lab.arm import ALL, ARENA, MALLOC, MORE, STATIC, YARDSTICK
from lab.bench import Bench
from lab.slot import Slot, run_alone, run_together

TIMED = {"duration", "little", "silence"}  # gates that a machine which others keep busy may not pass
PLACE = {"block": 0, "pair": 0, "repeat": False}


@pytest.fixture(scope="module")
def bench(build):
    with Bench(build) as made:
        yield made


@pytest.fixture(scope="module")
def plain(bench):
    server = bench.start_server(YARDSTICK, scenario.load("json"))
    yield server
    assert server.stop() == 0


@pytest.mark.parametrize("method, path, body, status, expected", [
    ("GET", "/json", b"", 200, {"message": "Hello, World!"}),
    ("GET", "/static", b"", 200, {"message": "Hello, World!"}),
    ("POST", "/echo", b'{"a":[1,2.5,"\\u0000\\ud83c\\udf0d"]}', 200, {"a": [1, 2.5, "\0🌍"]}),
    ("POST", "/echo", b" 1 ", 200, 1),
    ("POST", "/echo", b"", 400, None),
    ("POST", "/echo", b'{"a":1,"a":2}', 400, None),
    ("POST", "/transform/merge", b'{"doc":{"a":{"b":1,"c":2}},"patch":{"a":{"b":null,"d":{"e":null}}}}',
     200, {"a": {"c": 2, "d": {}}}),
    ("POST", "/transform/merge", b'{"doc":{}}', 400, None),
    ("POST", "/echo", b'"' + b"x" * (1 << 20) + b'"', 413, None),
    ("POST", "/transfer", b"[", 400, None),
    ("POST", "/transfer", b"[]", 422, None),
    ("GET", "/nothing", b"", 404, None),
])
def test_plain_answers(plain, method, path, body, status, expected):
    found, headers, text = plain.ask(method, path, body)
    assert found == status
    assert headers["Content-Type"] == ("application/json" if status == 200 else "application/problem+json")
    if status == 200:
        assert json.loads(text) == expected


@pytest.fixture(scope="module")
def slate(bench):
    server = bench.start_server(ARENA, scenario.load("transfer"))
    yield server
    assert server.stop() == 0


CREATED = re.compile(rb'"created_on":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d"')


def test_plain_gives_the_receipts_that_slate_gives(plain, slate):
    """Byte by byte, but for the second; and refuses what it refuses."""
    (request,) = scenario.load("transfer").requests
    transfers = [json.loads(request.body) for _ in range(2)]
    transfers[1]["to"] |= {"firstName": "J\u00f6rg", "lastName": "O'Neill \"Jo\" / \t \u007f"}
    transfers[1] |= {"amount": -2 ** 63, "more": [None]}
    for transfer in transfers:
        ours, theirs = (server.ask("POST", "/transfer", json.dumps(transfer).encode())
                        for server in (plain, slate))
        assert ours[0] == theirs[0] == 200
        assert len(CREATED.findall(ours[2])) == 1
        assert CREATED.sub(b"", ours[2]) == CREATED.sub(b"", theirs[2])

    def members(document, way=()):
        for name, value in document.items():
            yield *way, name
            if isinstance(value, dict):
                yield from members(value, (*way, name))
    ways = list(members(transfers[0]))
    assert len(ways) == 22
    for way in ways:
        for wrong in (None, 1.5, [], "missing"):
            transfer = json.loads(request.body)
            *path, name = way
            holder = functools.reduce(operator.getitem, path, transfer)
            if wrong == "missing":
                del holder[name]
            else:
                holder[name] = wrong
            body = json.dumps(transfer).encode()
            assert plain.ask("POST", "/transfer", body)[0] == 422, (way, wrong)
            assert slate.ask("POST", "/transfer", body)[0] == 422, (way, wrong)


def test_plain_counts_its_answers(plain):
    before = plain.requests()
    plain.ask("GET", "/json")
    assert plain.requests() == before + 1


@pytest.mark.parametrize("flag, value", [("--nonsense", "1"), ("--body-limit", "0"), ("--body-limit", "1G"),
                                         ("--body-limit", "1024"), ("--body-limit", "1KB"), ("--threads", "0")])
def test_plain_explains_its_flags(build, flag, value):
    said = subprocess.run([build / "loadtest/plain", flag, value], capture_output=True, text=True, check=False)
    assert said.returncode == 2 and "--threads" in said.stderr


def test_the_hand_over_probe_says_nanoseconds(bench):
    if bench.server_cpu is None:
        pytest.skip("one processor")
    assert 1 < bench.probe_handover() < 1e6


def test_malloc_calls_are_counted(bench):
    item = scenario.load("json")
    made_once = counting.Counting(bench, item, STATIC).run()["calls"]
    made_anew = counting.Counting(bench, item, YARDSTICK).run()["calls"]
    assert made_once["allocations"] == 1  # the request struct
    assert made_anew["allocations"] > 8
    for calls in (made_once, made_anew):
        assert calls["frees"] == pytest.approx(calls["allocations"], abs=0.1)


@pytest.mark.parametrize("arm", [MALLOC, ARENA, YARDSTICK, *MORE.values()], ids=lambda arm: arm.name)
def test_a_slot_from_start_to_end(bench, arm):
    if arm.missing():
        pytest.skip(f"{arm.missing()} is not installed")
    item = scenario.load("spike")
    item = replace(item, idle=[0.1, 0.3], load=replace(item.load, connections=8, requests=2))
    report = json.loads(json.dumps(run_alone(bench, item, arm, PLACE)))
    failed = [gate for gate in report["gates"] if not gate["passed"]]
    assert [gate for gate in failed if gate["name"] not in TIMED] == []
    assert report["requests"] == report["client"]["requests"] == 16
    assert report["metrics"]["cpu_us_per_request"] > 0 and len(report["idle"]) == 2
    assert report["metrics"]["peak_rss_bytes"] > report["baseline_bytes"] > 0


RUNNABLE = [name for name in scenario.names() if name not in (*scenario.COMPARED, "huge", "slow-reads", "open")]


@pytest.mark.parametrize("name, arm", [*zip(RUNNABLE, itertools.cycle((ARENA, MALLOC))),
                                       ("errors", YARDSTICK), ("transfer", YARDSTICK)], ids=lambda it: getattr(it, "name", it))
def test_every_scenario_can_be_run(bench, name, arm):
    """Shortened. Those that are left out are run by others here, or take long."""
    item = scenario.load(name)
    few = {"connections": min(8, item.load.connections), "requests": min(4, item.load.requests)}
    item = replace(item, rows=min(item.rows, 20_000), idle=[0.1],
                   load=replace(item.load, warm_up=0, seconds=1, upload=4 * item.load.upload, **few))
    report = run_alone(bench, item, arm, PLACE)
    failed = [gate for gate in report["gates"] if not gate["passed"]]
    # What was broken off is live until the server has noticed; nobody waits for that here.
    assert [gate for gate in failed if gate["name"] not in TIMED | {"ledger"}] == []
    assert report["metrics"]["cpu_us_per_request"] > 0 and report["requests"] > 0


def test_a_store_is_copied_with_its_log(tmp_path):
    """What SQLite has not moved into the file yet is there all the same."""
    source, target = str(tmp_path / "source"), str(tmp_path / "target")
    with sqlite3.connect(source) as kept:
        kept.execute("PRAGMA journal_mode = WAL")
        kept.execute("CREATE TABLE t AS SELECT 7 AS n")
        kept.commit()
        store.copy(source, target)
    kept.close()
    copied = sqlite3.connect(target)
    assert copied.execute("SELECT n FROM t").fetchall() == [(7,)]
    copied.close()
    store.remove(target)


@pytest.mark.parametrize("arm", [MALLOC, ARENA], ids=lambda arm: arm.name)
@pytest.mark.parametrize("name", ["mixed", "stream"])
def test_the_copy_of_a_store_goes_with_its_server(bench, arm, name):
    item = scenario.load(name)
    item = replace(item, rows=1000, idle=[0.1], load=replace(item.load, warm_up=0, seconds=1))
    slot = Slot(bench, item, arm, PLACE)
    run_together([slot])
    path = slot.server.store
    assert os.path.exists(path)
    while not slot.ready():
        bench.watches.pause(0.05)
    slot.finish()
    assert not os.path.exists(path) and not os.path.exists(path + "-wal")


def test_a_library_that_was_not_loaded_makes_the_slot_invalid(bench):
    item = replace(scenario.load("json"), idle=[0.1])
    item = replace(item, load=replace(item.load, warm_up=0, seconds=1))
    arm = replace(MORE["jemalloc"], library="libjemalloc.so.nowhere")
    gates = {gate["name"]: gate["passed"] for gate in run_alone(bench, item, arm, PLACE)["gates"]}
    assert gates["allocator"] and not gates["malloc"] and not gates["malloc used"]


def test_every_arm_starts_its_stack_at_the_same_place():
    def length(arm):
        env = arm.environment()
        return sum(map(len, arm.flags)) + sum(len(k) + len(v) + 2 for k, v in env.items())
    assert len({length(arm) for arm in ALL.values()}) == 1


def test_a_wrong_answer_makes_the_slot_invalid(bench):
    item = scenario.load("json")
    item = replace(item, name="wrong", requests=[replace(item.requests[0], answer={"message": "Goodbye"})])
    report = run_alone(bench, item, YARDSTICK, PLACE)
    assert not report["valid"] and "wrong answer" in report["gates"][-1]["said"]
