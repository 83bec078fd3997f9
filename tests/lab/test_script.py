"""A load of the user's own: what is made of a script for wrk, and that a plugin is measured with it."""
import json
import subprocess
import sys
from dataclasses import replace

import pytest

from conftest import ROOT
from lab import advise, counting, payload, script
from lab.arm import ARENA, MALLOC
from lab.bench import Bench
from lab.server import ServerError
from lab.slot import run_alone
from test_programs import PLACE, TIMED

ADDRESS = ("127.0.0.1", 8080)


@pytest.fixture
def own(tmp_path):
    """The scenario of a script with that text."""
    def make(text, plugins=(), flags=()):
        path = tmp_path / "my script.lua"
        path.write_text(text, encoding="utf-8")
        return script.scenario(str(path), plugins, flags, 8)
    return make


@pytest.fixture
def sample(build):
    def make(name):
        return script.scenario(str(ROOT / f"plugins/{name}.lua"), [str(build / f"plugins/{name}.so")], [], 8)
    return make


@pytest.fixture(scope="module")
def bench(build):
    with Bench(build) as made:
        yield made


# ---- What a script says ------------------------------------------------------------------------------

def test_a_script_without_functions_is_one_request(own):
    item = own('wrk.method = "POST"\nwrk.path = "/echo?pretty"\nwrk.body = "[1]"\nwrk.headers["X-A"] = "b"')
    (request,) = item.requests
    text = request.text(ADDRESS).decode()
    assert text.startswith("POST /echo?pretty HTTP/1.1\r\n") and text.endswith("\r\n\r\n[1]")
    assert "\r\nHost: 127.0.0.1:8080\r\n" in text and "\r\nContent-Length: 3\r\n" in text
    assert (request.method, request.path, request.body, request.headers()) == \
        ("POST", "/echo?pretty", b"[1]", {"X-A": "b"})
    assert item.name == "my-script" and item.load.connections == 8


def test_a_script_with_request_is_asked_in_its_order(own):
    item = own("local n = 0\nfunction init(args) wrk.headers['X-Init'] = tostring(#args) end\n"
               "function request() n = n + 1 return wrk.format('PUT', '/n/' .. n, nil, string.rep('x', n % 3)) end")
    assert len(item.requests) == script.COUNT
    assert [request.path for request in item.requests] == [f"/n/{n}" for n in range(1, script.COUNT + 1)]
    assert [request.body for request in item.requests[:3]] == [b"x", b"xx", b""]
    assert item.requests[0].headers() == {"X-Init": "0"}
    deck = script.deck(item.requests)
    assert deck.order == item.requests and deck.samples == item.requests[:script.SAMPLES]


def test_requests_that_are_all_the_same_are_one(own):
    assert len(own("function request() return wrk.format('GET', '/json') end").requests) == 1


def test_a_host_of_the_script_s_own_stays(own):
    (request,) = own('wrk.headers["Host"] = "example.org"').requests
    assert b"\r\nHost: example.org\r\n" in request.text(ADDRESS)


def test_plugins_and_flags_are_slate_s(own, build):
    item = own("", [str(build / "plugins/transfer.so")], ["--body-limit", "2M"])
    assert item.flags == ["--plugin", str(build / "plugins/transfer.so"), "--body-limit", "2M"]


@pytest.mark.parametrize("text, says", [
    ("wrk.path = (", "unexpected symbol"),
    ("local x\nx.y = 1", ":2: attempt to index local 'x'"),
    ("function init() error('not today') end", "not today"),
    ("function request() return nil end", "request() gave nil, and not a request"),
    ("function request() return wrk.thread.addr end", "attempt to index field 'thread'"),
    ("wrk.format = function() return 'hello' end", "'hello' does not begin a request"),
    ("function request() return wrk.format() .. wrk.format() end", "one request at a time"),
    ("function response() end", "response(), which the lab does not support: requests are made before"),
    ("function delay() return 1 end", "delay(), which the lab does not support"),
    ("function setup(thread) end", "setup(), which the lab does not support"),
])
def test_what_cannot_be_a_load_is_said_in_a_sentence(own, text, says):
    with pytest.raises(script.ScriptError) as error:
        own(text)
    assert says in str(error.value) and "\n" not in str(error.value)


def test_a_script_without_end_is_ended(own, monkeypatch):
    monkeypatch.setattr(script, "SECONDS", 0.5)
    with pytest.raises(script.ScriptError, match="did not come to its end"):
        own("while true do end")


@pytest.mark.parametrize("status, due, right", [
    (200, 200, True), (201, 200, False), (404, 404, True),
    (200, payload.SUCCESS, True), (204, payload.SUCCESS, True), (304, payload.SUCCESS, False),
    (404, payload.SUCCESS, False)])
def test_a_status_is_due_or_any_success_is(status, due, right):
    assert payload.is_due(status, due) == right


# ---- On servers ----------------------------------------------------------------------------------------

@pytest.mark.parametrize("arm", [MALLOC, ARENA], ids=lambda arm: arm.name)
@pytest.mark.parametrize("name", ["transfer", "leases"])
def test_a_plugin_is_measured(bench, sample, name, arm):
    item = sample(name)
    bench.try_out(item, (arm,))
    item = replace(item, idle=[0.1], load=replace(item.load, warm_up=0.2, seconds=1))
    report = run_alone(bench, item, arm, PLACE)
    assert [gate for gate in report["gates"] if not gate["passed"] and gate["name"] not in TIMED] == []
    assert report["requests"] > 0 and report["metrics"]["cpu_us_per_request"] > 0
    calls = counting.Counting(bench, item, arm).run()["calls"]
    assert calls["allocations"] < 6 if arm is ARENA else calls["allocations"] > 10


def test_a_plugin_is_advised_on(bench, sample):
    item = sample("transfer")
    with_malloc, with_arena = (advise.profile(bench, item, arm) for arm in (MALLOC, ARENA))
    assert with_malloc.calls > 50 > with_arena.calls


@pytest.mark.parametrize("text, says", [
    ('wrk.path = "/nothing"', 'GET /nothing answered 404, Connection: None: There is nothing at "/nothing".'),
    ('wrk.method = "POST" wrk.path = "/echo" wrk.body = "{" wrk.headers["Content-Type"] = "application/json"',
     "POST /echo answered 400"),
])
def test_an_answer_that_is_not_right_is_said_before_anything_is_measured(bench, own, text, says):
    with pytest.raises(ServerError) as error:
        bench.try_out(own(text), (ARENA,))
    assert says in str(error.value)


def test_any_media_type_will_do(bench, own):
    bench.try_out(own('wrk.path = "/plaintext"'), (ARENA,))


# ---- The command -----------------------------------------------------------------------------------------

def command(build, *words):
    return subprocess.run([sys.executable, ROOT / "loadtest/run", *words[:1], "--build", build, *words[1:]],
                          capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.parametrize("words, status, says", [
    (["--script", "{tmp}/absent.lua"], 2, "absent.lua is no file"),
    (["--script", "{lua}", "--plugin", "{tmp}/absent.so"], 2, "absent.so is no file"),
    (["--plugin", "{build}/plugins/leases.so"], 2, "--plugin needs --script FILE.lua"),
    (["--plugin-flags=--pool off"], 2, "--plugin-flags are for what --script"),
    (["--script", "{lua}", "--scenario", "json"], 2, "--script and --scenario exclude each other"),
    (["--script", "{lua}"], 1, "PUT /leases/job-1 answered 404"),
    (["--script", "{lua}", "--plugin", "{build}/tests/http/plugin_older.so"], 1, "was built against ABI 0 of slate.h"),
    (["--script", "{lua}", "--plugin", "{build}/plugins/leases.so", "--plugin-flags=--nonsense 1"], 1,
     "--nonsense is unknown"),
])
@pytest.mark.parametrize("what", ["compare", "advise"])
def test_what_goes_wrong_is_one_line(build, tmp_path, monkeypatch, what, words, status, says):
    monkeypatch.chdir(tmp_path)
    places = {"tmp": tmp_path, "build": build, "lua": ROOT / "plugins/leases.lua"}
    ended = command(build, what, "--pairs", "1", *(word.format(**places) for word in words))
    assert ended.returncode == status and ended.stdout == ""
    assert ended.stderr.startswith("loadtest/run: ") and ended.stderr.count("\n") == 1
    assert says in ended.stderr


def test_a_run_from_start_to_end(build, tmp_path, monkeypatch):
    """The verdicts are the machine's; what they are made of is here."""
    monkeypatch.chdir(tmp_path)
    ended = command(build, "compare", "--pairs", "1", "--plugin", build / "plugins/transfer.so",
                    "--script", ROOT / "plugins/transfer.lua", "--connections", "10")
    assert ended.returncode in (0, 1) and "transfer: POST /transfers, 10 connections" in ended.stdout
    (item,) = json.loads((tmp_path / "report.json").read_text())["scenarios"]
    assert item["name"] == "transfer" and item["connections"] == 10
    assert {slot["arm"] for slot in item["slots"]} == {"malloc", "arena"}
    for slot in item["slots"]:
        assert not [gate for gate in slot["gates"] if not gate["passed"] and gate["name"] not in TIMED]
    assert set(item["counted"]) == {"malloc", "arena"}
    assert "transfer.lua on transfer.so" in (tmp_path / "report.html").read_text()
