"""A real nginx with the configuration that deploy/ ships, only its two addresses replaced."""
import json
import os
import re
import shutil
import subprocess

import pytest

from process import ROOT, free_port
from wire import Connection, chunked, until

NGINX = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
CONFIGURATION = os.path.join(ROOT, "deploy", "nginx", "slate.conf")

MAIN = """
user root;
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/slate.conf;
}}
"""


class Proxy:
    def __init__(self, folder, upstream):
        holder, port = free_port()
        self.address = ("127.0.0.1", port)
        with open(CONFIGURATION, encoding="utf-8") as file:
            text = file.read()
        text, servers = re.subn(r"server 127\.0\.0\.1:8080;", "server {}:{};".format(*upstream), text)
        text, listens = re.subn(r"listen 80;", f"listen 127.0.0.1:{port};", text)
        assert (servers, listens) == (1, 1), "deploy/nginx/slate.conf has other addresses"
        (folder / "slate.conf").write_text(text, encoding="utf-8")
        (folder / "nginx.conf").write_text(MAIN.format(folder=folder), encoding="utf-8")
        holder.close()
        self.errors = folder / "errors"
        with open(self.errors, "wb") as errors:
            self.process = subprocess.Popen(
                [NGINX, "-e", "stderr", "-p", str(folder), "-c", str(folder / "nginx.conf")],
                stdin=subprocess.DEVNULL, stdout=errors, stderr=errors)
        until(self.listens, "nginx listens")

    def listens(self):
        assert self.process.poll() is None, self.errors.read_text()
        try:
            Connection(self.address).close()
            return True
        except ConnectionRefusedError:
            return False

    def request(self, method, target, *fields, **keywords):
        with Connection(self.address) as connection:
            return connection.request(method, target, *fields, **keywords)

    def stop(self):
        self.process.terminate()
        self.process.wait(30)


@pytest.fixture
def proxy(tmp_path):
    started = []

    def start(upstream):
        started.append(Proxy(tmp_path, upstream))
        return started[-1]

    if NGINX is None:
        pytest.skip("nginx is not installed")
    yield start
    for one in started:
        one.stop()


def test_requests_pass_on_few_connections(server, proxy):
    one = server()
    front = proxy(one.address)
    for _ in range(30):
        assert front.request("GET", "/json").json() == {"message": "Hello, World!"}
        assert front.request("POST", "/echo", body=b'{"a": [7.6]}').body == b'{"a":[7.6]}'
    assert front.request("HEAD", "/plaintext").header("Content-Length") == "13"
    assert one.metric("slate_connections_total") <= 5


def test_problems_pass_as_they_are(server, proxy):
    front = proxy(server().address)
    for method, target, body, status in (("GET", "/nope", None, 404), ("POST", "/echo", b"[", 400),
                                         ("DELETE", "/json", None, 405)):
        answer = front.request(method, target, body=body)
        assert answer.status == status
        answer.problem()
        assert status != 405 or "GET" in answer.header("Allow")


def test_escapes_in_the_path_pass(server, proxy):
    front = proxy(server().address)
    assert front.request("GET", "/json%2Fx").status == 404
    assert front.request("GET", "/transform%2Fpatch").status == 404


def test_the_request_id_passes(server, proxy):
    one = server("--access-log", "json")
    front = proxy(one.address)
    assert front.request("GET", "/json", "X-Request-Id: from-a-client").header(
        "X-Request-Id") == "from-a-client"
    one.log(1)  # written after the answer was sent, maybe by another worker than the next
    made = front.request("GET", "/nope", "X-Request-Id: no token, and \"quoted\"")
    ids = [json.loads(line)["id"] for line in one.log(2)]
    assert ids[0] == "from-a-client"
    assert re.match(r"[0-9a-f]{32}\Z", ids[1])
    assert made.problem()["instance"] == ids[1]


def test_a_large_body_passes(server, proxy):
    front = proxy(server("--request-memory", "64M").address)
    rows = [{"id": i, "name": f"row {i}"} for i in range(28_000)]
    text = json.dumps(rows).encode()
    assert 900_000 < len(text) < 1024 * 1024
    for _ in range(2):
        assert front.request("POST", "/echo", body=text).json() == rows
    with Connection(front.address) as connection:
        connection.send(connection.head("POST", "/echo", "Content-Type: application/json",
                                        "Transfer-Encoding: chunked") + chunked(text, 10_000))
        assert connection.read("POST").json() == rows


def test_a_413_of_the_server_passes(server, proxy):
    """The server answers at once and closes, maybe while nginx still sends: it lingers, or nginx
    would take a reset for a failure and make a 502 of it."""
    one = server("--body-limit", "1K")
    front = proxy(one.address)
    for size in (1_025, 6_000, 60_000, 200_000, 1_000_000):
        answer = front.request("POST", "/echo", body=b'"' + b"x" * (size - 2) + b'"')
        assert answer.status == 413, (size, answer)
        assert answer.problem()["limit"] == 1_024
    assert front.request("GET", "/json").status == 200


def test_a_413_of_nginx_is_a_problem_too(server, proxy):
    front = proxy(server().address)
    with Connection(front.address) as connection:
        connection.send(connection.head("POST", "/echo", "Content-Type: application/json",
                                        "Content-Length: 2000000"))
        answer = connection.read("POST")
    assert answer.status == 413
    assert answer.media_type == "application/problem+json"
    assert answer.json()["type"] == "/problems/body-too-large"


def test_a_server_that_is_gone_is_a_503(proxy):
    holder, port = free_port()
    holder.close()
    answer = proxy(("127.0.0.1", port)).request("GET", "/json")
    assert answer.status == 503
    assert answer.media_type == "application/problem+json"
    assert answer.header("Retry-After") == "1"
    assert answer.json()["type"] == "/problems/unavailable"
