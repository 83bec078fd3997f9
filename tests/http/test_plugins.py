"""--plugin: what is loaded is served, described and named; what does not fit is refused with one line
before anything listens. The wrong ones are tests/http/plugin.c."""
import json
import os
import re
import subprocess

import pytest

from process import BINARY, ROOT, SANITIZED, run
from test_transfer import TRANSFER

BUILD = os.path.dirname(os.path.dirname(os.path.abspath(BINARY)))
TRANSFERS, LEASES = (f"{BUILD}/plugins/{name}.so" for name in ("transfer", "leases"))
ELSEWHERE = ("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--db", "off")
with open(f"{ROOT}/server/slate.h", encoding="utf-8") as header:
    ABI = int(re.search(r"^#define SLATE_ABI (\d+)", header.read(), re.MULTILINE)[1])


def wrong(name):
    return f"{BUILD}/tests/http/plugin_{name}.so"


def refused(*plugins, **keywords):
    """What the one line says of it, without its time."""
    ended = run(*ELSEWHERE, *(f"--plugin={one}" for one in plugins), **keywords)
    assert ended.returncode == 1, ended
    lines = ended.stderr.splitlines()
    assert len(lines) == 1 and ended.stdout == "", ended
    assert " error   " in lines[0]
    return lines[0].split(" error   ", 1)[1]


# ---- What fits -----------------------------------------------------------------------------------

def test_plugins_are_served_beside_the_program(server):
    one = server("--plugin", TRANSFERS, "--plugin", LEASES)
    body = json.dumps(TRANSFER).encode()
    receipts = [one.post(path, body).json() for path in ("/transfers", "/transfer")]
    for receipt in receipts:
        del receipt["created_on"]
    assert receipts[0] == receipts[1] and receipts[0]["amount"] == TRANSFER["amount"]
    assert one.request("OPTIONS", "/leases/a").header("Allow") == "GET, HEAD, PUT, DELETE, OPTIONS"
    assert one.request("GET", "/json").status == 200


def test_what_is_loaded_is_named(server):
    one = server("--plugin", f"{TRANSFERS},{LEASES}")
    assert one.admin("/version").json()["plugins"] == [{"module": "transfer", "file": TRANSFERS},
                                                       {"module": "leases", "file": LEASES}]
    for module, file in (("transfer", TRANSFERS), ("leases", LEASES)):
        assert f'Plugin {file} brings the module "{module}".' in one.errors()
    assert server().admin("/version").json()["plugins"] == []


def test_what_is_loaded_is_described(server):
    one = server("--plugin", LEASES)
    document = one.request("GET", "/openapi.json").json()
    item = document["paths"]["/leases/{name}"]
    assert {"summary", "parameters", "get", "put", "delete"} == set(item)
    assert item["summary"].endswith(".")
    assert item["parameters"] == [{"name": "name", "in": "path", "required": True,
                                   "schema": {"type": "string"}}]
    assert item["put"]["requestBody"]["content"] == {"application/json": {}}
    assert "requestBody" not in item["get"]
    assert {"name": "leases"} in document["tags"] and item["get"]["tags"] == ["leases"]
    assert "/echo" in document["paths"]
    assert one.request("GET", "/openapi.json", f"If-None-Match: "
                       f"{server().request('GET', '/openapi.json').header('ETag')}").status == 200


def test_the_environment_and_a_file_name_plugins_too(server, tmp_path):
    config = tmp_path / "slate.conf"
    config.write_text(f"plugin = {TRANSFERS}\nplugin = {LEASES}\n")
    names = [one["module"] for one in
             server("--config", str(config)).admin("/version").json()["plugins"]]
    assert names == ["transfer", "leases"]
    one = server("--config", str(config), env={"SLATE_PLUGIN": LEASES})
    assert [one["module"] for one in one.admin("/version").json()["plugins"]] == ["leases"]


def test_a_name_without_a_slash_is_a_file_here(server, tmp_path, monkeypatch):
    os.symlink(LEASES, tmp_path / "mine.so")
    monkeypatch.chdir(tmp_path)
    assert server("--plugin", "mine.so", binary=os.path.join(BUILD, "handlers/slate")).request(
        "GET", "/leases/a").status == 404


@pytest.mark.parametrize("instruments", ["poison,guard", "count,trip"])
def test_plugins_work_behind_instruments(server, instruments):
    one = server("--plugin", TRANSFERS, "--plugin", LEASES, "--mem-debug", instruments)
    assert one.post("/transfers", json.dumps(TRANSFER).encode()).status == 200
    assert one.request("PUT", "/leases/a", body=b'{"holder":"x","seconds":9}').status == 201
    one.assert_at_rest()


# ---- What does not --------------------------------------------------------------------------------

def test_a_file_that_is_no_plugin_is_refused(tmp_path):
    absent, text, short = (str(tmp_path / name) for name in ("absent.so", "text.so", "short.so"))
    with open(text, "w", encoding="ascii") as file:
        file.write("#!/bin/sh\n")
    open(short, "w", encoding="ascii").close()
    broken = str(tmp_path / "broken.so")
    with open(LEASES, "rb") as whole, open(broken, "wb") as part:
        part.write(whole.read(200))
    assert refused(absent) == f"Plugin {absent} cannot be read: No such file or directory."
    assert refused(str(tmp_path)) == f"Plugin {tmp_path} cannot be read: Is a directory."
    assert refused(text) == f"Plugin {text} is not a shared object."
    assert refused(short) == f"Plugin {short} is not a shared object."
    assert refused(broken) == f"Plugin {broken} is not whole: it has been cut short."
    assert refused(wrong("no_record")) == f"Plugin {wrong('no_record')} is a shared object, but no " \
                                          "plugin of slate: it has no SLATE_PLUGIN."


@pytest.mark.parametrize("part", [0.05, 0.3, 0.6, 0.9])
def test_a_file_that_was_cut_short_is_refused(tmp_path, part):
    with open(LEASES, "rb") as file:
        whole = file.read()
    cut = str(tmp_path / "cut.so")
    end = whole.rindex(b"GCC: (")  # what is behind is for debuggers, and not mapped
    with open(cut, "wb") as file:
        file.write(whole[:int(end * part)])
    assert refused(cut) == f"Plugin {cut} is not whole: it has been cut short."


def test_a_file_for_another_machine_is_refused(tmp_path):
    with open(LEASES, "rb") as file:
        content = bytearray(file.read())
    content[18] ^= 1
    other = str(tmp_path / "other.so")
    with open(other, "wb") as file:
        file.write(content)
    assert refused(other) == f"Plugin {other} was built for another kind of machine."


@pytest.mark.parametrize("name, says", [
    ("newer", [f"was built against ABI {ABI + 1} of slate.h", f"with ABI {ABI}: build it again",
               "or take a newer slate"]),
    ("older", [f"was built against ABI {ABI - 1} of slate.h", f"with ABI {ABI}: build it again"]),
    ("layout", [f"another slate.h with the same ABI {ABI}", "build it again"]),
    ("asan", ["with it: build both alike" if SANITIZED else "without it: build both alike"]),
    ("jansson", ["was built against jansson 2.", "runs with"]),
    ("jansson_2", ["was built against jansson 1.", "runs with"]),
    ("own_jansson", ["brings a jansson of its own"]),
    ("symbol", ["cannot be loaded: undefined symbol: slate_nothing_has_this", "build it again"]),
    ("no_module", ["has no module with a name"]),
    ("unnamed", ["has no module with a name"]),
    ("misnamed", ["has no module with a name of 1 to 32 letters"]),
    ("unrouted", ['has a module "wrong" without a route']),
    ("program", ['has a module "builtin", and so has the program']),
])
def test_what_does_not_fit_is_refused(name, says):
    if name == "asan" and os.environ.get("SLATE_TREE") == "tsan":
        says = ["without it: build both alike"]
    line = refused(wrong(name))
    assert line.startswith(f"Plugin {wrong(name)} ")
    for words in says:
        assert words in line


def test_a_name_belongs_to_one_plugin():
    assert refused(LEASES, TRANSFERS, LEASES) == \
        f'Plugin {LEASES} has a module "leases", and so has {LEASES}: a name belongs to one.'


def test_a_route_belongs_to_one_module():
    assert refused(wrong("route")) == 'Route "/echo" (GET, HEAD, POST) of module "wrong" is there ' \
                                      'already: "/echo" (POST) of module "builtin".'
    assert refused(LEASES, wrong("pattern")) == \
        'Route "/leases/{other}" (GET, HEAD, POST) of module "wrong" is there already: ' \
        '"/leases/{name}" (GET, HEAD, PUT, DELETE) of module "leases".'
    assert refused(wrong("mute")) == 'Route "/wrong" of module "wrong" has no handler.'


def test_a_list_that_is_wrong_is_bad_usage():
    for value in ("", f"{LEASES},", ",".join([LEASES] * 9)):
        ended = run(*ELSEWHERE, "--plugin", value)
        assert ended.returncode == 2 and "up to 8 names of files" in ended.stderr


def test_a_plugin_that_cannot_start_ends_the_program():
    ended = run(*ELSEWHERE, "--plugin", wrong("unstartable"))
    assert ended.returncode == 1 and "listening" not in ended.stderr
    ended = run(*ELSEWHERE, "--plugin", LEASES, env={"LEASES_MAX": "many"})
    assert ended.returncode == 1
    assert "leases: LEASES_MAX is 'many'; it takes a number from 1 to 10000000.\n" in ended.stderr


def test_the_program_exports_what_its_headers_declare():
    """And nothing else that a plugin could come to depend on, or clash with."""
    found = subprocess.run(["nm", "-D", "--defined-only", BINARY], capture_output=True, text=True,
                           check=True).stdout
    exported = {line.split()[-1] for line in found.splitlines()}
    ours = {name for name in exported if re.match(r"(slate|mem|json)_", name)}
    declared = set()
    for path in ("server/slate.h", "server/json/json.h", *(f"alloc/{name}.h" for name in
                                                          ("mem", "blocks", "pool", "array", "debug"))):
        with open(f"{ROOT}/{path}", encoding="utf-8") as file:
            text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.DOTALL)
        declared |= set(re.findall(r"\b((?:slate|mem|json)_\w+)(?:\(|\[\]|;)", text))
    assert {"slate_body_json", "slate_modules", "mem_pool_take", "mem_current_context",
            "json_write_tree"} <= ours <= declared
    assert "slate_main" not in exported and "slate_version" not in exported
    if not SANITIZED:  # their own are there, too
        replaced = {"epoll_wait"}  # libmicrohttpd's own calls it (server/listener.c)
        assert ours == {name for name in exported - replaced
                        if not name.startswith(("_", "std", "environ"))}
