"""Every route: methods, Allow, HEAD, what is not found, and how paths are read."""
import pytest

ROUTES = {
    "/json": {"GET", "HEAD", "OPTIONS"},
    "/plaintext": {"GET", "HEAD", "OPTIONS"},
    "/echo": {"POST", "OPTIONS"},
    "/transfer": {"POST", "OPTIONS"},
    "/transform/patch": {"POST", "OPTIONS"},
    "/transform/merge": {"POST", "OPTIONS"},
}
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


def allowed(response):
    return {method.strip() for method in response.header("Allow").split(",")}


def test_json(shared):
    answer = shared.request("GET", "/json")
    assert answer.status == 200
    assert answer.media_type == "application/json"
    assert answer.json() == {"message": "Hello, World!"}
    assert answer.header("Date")
    assert not answer.closes


def test_plaintext(shared):
    answer = shared.request("GET", "/plaintext")
    assert answer.status == 200
    assert answer.media_type == "text/plain"
    assert answer.body == b"Hello, World!"


@pytest.mark.parametrize("path", ["/json", "/plaintext"])
def test_head_has_the_fields_of_get_and_no_body(shared, path):
    connection = shared.connect()
    get = connection.request("GET", path)
    head = connection.request("HEAD", path)
    assert head.status == get.status == 200
    for name in ("Content-Type", "Content-Length"):
        assert head.header(name) == get.header(name)
    assert head.header("Content-Length") == str(len(get.body))
    connection.assert_open()  # a body after HEAD would be read as the next answer


@pytest.mark.parametrize("path", ROUTES)
def test_options_lists_the_methods(shared, path):
    connection = shared.connect()
    answer = connection.request("OPTIONS", path)
    assert answer.status == 204
    assert allowed(answer) == ROUTES[path]
    assert answer.header("Content-Length") in (None, "0")
    connection.assert_open()


@pytest.mark.parametrize("target, status", [
    ("http://example.org/json", 200),
    ("HTTPS://example.org:8080/js%6fn?q=/x", 200),
    ("http://example.org/", 404),
    ("http://example.org", 404),
    ("ftp://example.org/json", 404),
    ("example.org/json", 404),
])
def test_a_target_in_absolute_form(shared, target, status):
    answer = shared.request("GET", target)
    assert answer.status == status
    if target == "http://example.org":
        assert '"/"' in answer.problem()["detail"]


def test_options_for_the_server_as_a_whole(shared):
    connection = shared.connect()
    answer = connection.request("OPTIONS", "*")
    assert answer.status == 204
    assert allowed(answer) >= {"GET", "HEAD", "POST", "OPTIONS"}
    connection.assert_open()


@pytest.mark.parametrize("path, method", [
    (path, method) for path, methods in ROUTES.items() for method in METHODS
    if method not in methods])
def test_a_method_that_the_route_has_not(shared, path, method):
    connection = shared.connect()
    body = None if method in ("GET", "HEAD") else b'{"a": 1}'
    answer = connection.request(method, path, body=body)
    assert answer.status == 405
    assert allowed(answer) == ROUTES[path]
    if method != "HEAD":
        answer.problem()
    connection.assert_open()


@pytest.mark.parametrize("method", ["BREW", "TRACE", "PROPFIND", "get"])
def test_a_method_that_the_server_has_not(shared, method):
    answer = shared.request(method, "/json")
    assert answer.status in (405, 501)
    answer.problem()


@pytest.mark.parametrize("path", [
    "/", "/nope", "/json/", "//json", "/JSON", "/json/x", "/echo/", "/transform", "/transform/",
    "/transform/patch/x", "/transform/nope", "/./json", "/x/../json", "/json%2F", "/%2Fjson",
    "/transform%2Fpatch", "/+json", "/json;x", "/healthz", "/metrics", "/debug/memory", "/version",
])
def test_a_path_that_is_not_there(shared, path):
    connection = shared.connect()
    answer = connection.request("GET", path)
    assert answer.status == 404
    answer.problem()
    assert connection.request("HEAD", path).status == 404
    connection.assert_open()


def test_a_path_that_is_not_there_drains_the_body(shared):
    connection = shared.connect()
    answer = connection.request("POST", "/nope", body=b"x" * 300_000)
    assert answer.status == 404
    connection.assert_open()


def test_a_method_that_is_not_allowed_drains_a_chunked_body(shared):
    connection = shared.connect()
    connection.send(connection.head("PUT", "/json", "Transfer-Encoding: chunked")
                    + b"5\r\nGET /\r\n0\r\n\r\n")
    assert connection.read().status == 405
    connection.assert_open()


@pytest.mark.parametrize("path", ["/%00", "/json%00", "/%", "/%2", "/%zz", "/json%4", "/a%g0/b",
                                  "/%-1", "/% 0"])
def test_a_path_that_cannot_be_decoded(shared, path):
    connection = shared.connect()
    answer = connection.request("GET", path.replace(" ", "+"))
    assert answer.status == 400
    answer.problem()
    connection.assert_closed()


@pytest.mark.parametrize("query", ["?", "?a=1", "?a=1&a=2&b", "?pretty", "?=", "?&&", "?x=%41+b",
                                   "?x=%F0%9F%98%80", "?" + "a=1&" * 20])
def test_a_query_does_not_change_the_route(shared, query):
    connection = shared.connect()
    assert connection.request("GET", "/json" + query).status == 200
    connection.assert_open()


def test_a_request_line_of_8000_octets_is_taken(shared):
    target = "/json?x="
    target += "a" * (8000 - len(target) - len("GET  HTTP/1.1\r\n"))
    assert shared.request("GET", target).status == 200


def test_a_target_larger_than_any_limit_is_refused(shared):
    connection = shared.connect()
    connection.send_if_open(connection.head("GET", "/json?x=" + "a" * 200_000))
    assert connection.read_to_end()[9:12] in (b"414", b"431", b"400", b"413")


def test_pipelined_requests_are_answered_in_order(shared):
    connection = shared.connect()
    echo = b'{"n": [1, 2, 3]}'
    connection.send(
        connection.head("GET", "/plaintext") + connection.head("HEAD", "/json")
        + connection.head("POST", "/echo", "Content-Type: application/json",
                          f"Content-Length: {len(echo)}") + echo
        + connection.head("GET", "/nope") + connection.head("OPTIONS", "/json")
        + connection.head("GET", "/json"))
    assert connection.read("GET").body == b"Hello, World!"
    assert connection.read("HEAD").status == 200
    assert connection.read("POST").json() == {"n": [1, 2, 3]}
    assert connection.read("GET").status == 404
    assert connection.read("OPTIONS").status == 204
    assert connection.read("GET").json() == {"message": "Hello, World!"}


def test_a_connection_is_kept_over_many_requests(shared):
    connection = shared.connect()
    for _ in range(200):
        assert connection.request("GET", "/json").status == 200


def test_close_is_honoured(shared):
    connection = shared.connect()
    answer = connection.request("GET", "/json", "Connection: close")
    assert answer.status == 200
    assert answer.closes
    connection.assert_closed()


def test_http_1_0_is_answered_and_closed(shared):
    connection = shared.connect()
    connection.send(b"GET /json HTTP/1.0\r\n\r\n")
    assert connection.read().status == 200
    connection.assert_closed()


def test_problems_name_their_request(shared):
    """`instance` is the request's id, which the client may choose."""
    answer = shared.request("GET", "/nope", "X-Request-Id: trace-1234.5_6~7")
    assert answer.header("X-Request-Id") == "trace-1234.5_6~7"
    assert "trace-1234.5_6~7" in answer.problem()["instance"]

    first, second = (shared.request("GET", "/nope").problem()["instance"] for _ in range(2))
    assert first != second


@pytest.mark.parametrize("identity", ["a", "A-9", "x" * 64])
def test_a_request_id_comes_back(shared, identity):
    for method, path in (("GET", "/json"), ("HEAD", "/plaintext"), ("OPTIONS", "/json"),
                         ("POST", "/echo")):
        answer = shared.request(method, path, f"X-Request-Id: {identity}",
                                body=b"[]" if method == "POST" else None)
        assert answer.header("X-Request-Id") == identity


@pytest.mark.parametrize("identity", ["x" * 65, "a b", 'a"b', "a\\b", "a/b<script>", "\xe9", ""])
def test_a_request_id_that_is_no_token_does_not_come_back(shared, identity):
    answer = shared.request("GET", "/nope", f"X-Request-Id: {identity}")
    assert answer.status == 404
    assert answer.header("X-Request-Id") != identity or not identity
    assert not identity or identity not in answer.problem()["instance"]


def test_routes_answer_without_pools(server):
    """--pool off is a factor of its own: connections and requests come from malloc."""
    one = server("--pool", "off")
    connection = one.connect()
    for _ in range(20):
        assert connection.request("GET", "/json").status == 200
        assert connection.request("POST", "/echo", body=b"[1]").json() == [1]
        assert one.request("GET", "/nope").status == 404
