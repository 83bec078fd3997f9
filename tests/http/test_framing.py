"""Requests whose framing is wrong. Whoever answers one and keeps the connection may take the rest
of it for a second request: each is followed here by one that must never be answered."""
import pytest

SECOND = b"GET /plaintext HTTP/1.1\r\nHost: x\r\n\r\n"


def get(*fields, line=b"GET /json HTTP/1.1", host=b"Host: x"):
    return b"\r\n".join([line, *([host] if host else []), *fields, b"", b""])


def post(*fields, body=b"[]"):
    return b"\r\n".join([b"POST /echo HTTP/1.1", b"Host: x", b"Content-Type: application/json",
                         *fields, b"", b""]) + body


# Our own checks: one problem, then the end of the connection.
REFUSED = {
    "no Host": (get(host=None), 400),
    "no Host, with a body": (b"POST /echo HTTP/1.1\r\nContent-Length: 2\r\n\r\n[]", 400),
    "two Hosts": (get(b"Host: y"), 400),
    "the same Host twice": (get(b"Host: x"), 400),
    "two Hosts in other letters": (get(b"hOST: y"), 400),
    "a Host that is two": (get(host=b"Host: a, b"), 400),
    "a Host with a space": (get(host=b"Host: a b"), 400),
    "a Host that is a colon": (get(host=b"Host: :"), 400),
    "a Host with a path": (get(host=b"Host: a/b"), 400),
    "two lengths": (post(b"Content-Length: 2", b"Content-Length: 3"), 400),
    "the same length twice": (post(b"Content-Length: 2", b"Content-Length: 2"), 400),
    "two lengths on GET": (get(b"Content-Length: 0", b"Content-Length: 36"), 400),
    "length and coding": (post(b"Content-Length: 2", b"Transfer-Encoding: chunked",
                               body=b"2\r\n[]\r\n0\r\n\r\n"), 400),
    "coding and length": (post(b"Transfer-Encoding: chunked", b"Content-Length: 12",
                               body=b"2\r\n[]\r\n0\r\n\r\n"), 400),
    "chunked twice": (post(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked",
                           body=b"2\r\n[]\r\n0\r\n\r\n"), 400),
    "two codings in one field": (post(b"Transfer-Encoding: gzip, chunked",
                                      body=b"2\r\n[]\r\n0\r\n\r\n"), 501),
    "chunked not last": (post(b"Transfer-Encoding: chunked, gzip",
                              body=b"2\r\n[]\r\n0\r\n\r\n"), (400, 501)),
    "an unknown coding": (post(b"Transfer-Encoding: xchunked", body=b"2\r\n[]\r\n0\r\n\r\n"), 501),
    "gzip": (post(b"Transfer-Encoding: gzip", body=b""), 501),
    "identity": (post(b"Transfer-Encoding: identity", body=b""), 501),
    "an empty coding": (post(b"Transfer-Encoding:", body=b""), (400, 501)),
    "a coding on GET": (get(b"Transfer-Encoding: nope"), 501),
    "a space before the colon of the length": (post(b"Content-Length : 2"), 400),
    "a space before the colon of the coding": (
        post(b"Transfer-Encoding : chunked", body=b"2\r\n[]\r\n0\r\n\r\n"), 400),
    "a tab before the colon": (post(b"Content-Length\t: 2"), 400),
    "a space in a name": (get(b"X Y: 1"), 400),
    "a quote in a name": (get(b'X"Y: 1'), 400),
    "a slash in a name": (get(b"X/Y: 1"), 400),
    "a byte beyond ASCII in a name": (get(b"X\xe9: 1"), 400),
    "a control byte in a name": (get(b"X\x01Y: 1"), 400),
    "a NUL in the path": (get(line=b"GET /%00 HTTP/1.1"), 400),
    "a percent sign alone": (get(line=b"GET /% HTTP/1.1"), 400),
    "a bad percent code": (get(line=b"GET /json%4g HTTP/1.1"), 400),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(shared, name):
    sent, statuses = REFUSED[name]
    connection = shared.connect()
    connection.send(sent + SECOND)
    answer = connection.read()
    assert answer.status in (statuses if isinstance(statuses, tuple) else (statuses,)), answer
    answer.problem()
    assert answer.closes
    connection.assert_closed()


LETTERS = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
TCHAR = LETTERS + b"!#$%&'*+-.^_`|~"  # RFC 9110, section 5.6.2
# RFC 3986, section 3.2.2: unreserved, "%", sub-delims without the comma, and what an IP literal and
# a port need.
HOST = LETTERS + b"-._~" + b"%" + b"!$&'()*+;=" + b"[]:"


@pytest.mark.parametrize("field,allowed", [(b"X%cY: 1", TCHAR), (b"Host: a%cb", HOST)])
def test_every_character_of_a_name_and_of_a_host(shared, field, allowed):
    for character in range(0x21, 0x7f):
        if character == ord(":") and field.startswith(b"X"):
            continue  # it ends the name
        of_host = field.startswith(b"Host")
        connection = shared.connect()
        connection.send(get(field % character, host=None) if of_host else get(field % character))
        assert connection.read().status == (200 if character in allowed else 400), chr(character)


# What libmicrohttpd refuses before any handler runs, or what may also be read as something
# harmless: a client error or the bare end of the connection, never an answer to the second request.
LIBRARY = {
    "a length that is no number": post(b"Content-Length: two"),
    "a negative length": post(b"Content-Length: -2"),
    "a length with a sign": post(b"Content-Length: +2"),
    "a length in hexadecimal": post(b"Content-Length: 0x2"),
    "an empty length": post(b"Content-Length:"),
    "a list of lengths": post(b"Content-Length: 2, 2"),
    "a length beyond 64 bits": post(b"Content-Length: 99999999999999999999999"),
    "a length of 2^64": post(b"Content-Length: 18446744073709551616"),
    "a chunk size that is no number": post(b"Transfer-Encoding: chunked", body=b"zz\r\n[]\r\n0\r\n\r\n"),
    "an empty chunk size": post(b"Transfer-Encoding: chunked", body=b"\r\n[]\r\n0\r\n\r\n"),
    "a negative chunk size": post(b"Transfer-Encoding: chunked", body=b"-2\r\n[]\r\n0\r\n\r\n"),
    "a chunk size beyond 64 bits": post(
        b"Transfer-Encoding: chunked", body=b"fffffffffffffffff2\r\n[]\r\n0\r\n\r\n"),
    "a chunk longer than its size": post(
        b"Transfer-Encoding: chunked", body=b"2\r\n[1,2]\r\n0\r\n\r\n"),
    "no target": get(line=b"GET "),
    "no target, no space": get(line=b"GET"),
    "an empty method": get(line=b" /json HTTP/1.1"),
    "three words of nonsense": b"a b c\r\n\r\n",
    "a version that is not HTTP": get(line=b"GET /json FTP/1.1"),
    "a version from the future": get(line=b"GET /json HTTP/9.9"),
    "a TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(1, 100)) + b"\r\n\r\n",
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "fields larger than the connection's memory": get(b"X: " + b"a" * 100_000),
    "more fields than the connection's memory": get(*[b"X-%d: a" % i for i in range(20_000)]),
}


@pytest.mark.parametrize("name", LIBRARY)
def test_refused_by_the_library(shared, name):
    connection = shared.connect()
    connection.send_if_open(LIBRARY[name] + SECOND)
    connection.finish()
    received = connection.read_to_end()
    assert b"Hello, World!" not in received, received
    assert not received or received[:9] == b"HTTP/1.1 " and received[9:10] in b"45", received
    assert shared.request("GET", "/json").status == 200


def test_an_early_end_of_the_fields_is_no_second_request(shared):
    """A bare CR, or a line that starts with a colon, must not split one request into two."""
    for field in (b"X: a\rGET /plaintext HTTP/1.1", b": x", b"\0: x"):
        connection = shared.connect()
        connection.send(get(field) + get(b"Connection: close", line=b"GET /nothing HTTP/1.1"))
        answer = connection.read()
        assert answer.status == 400 or answer.json() == {"message": "Hello, World!"}, answer
        if not answer.closes:
            assert connection.read().status == 404
        connection.assert_closed()


def test_a_connection_that_was_refused_stays_shut(shared):
    """What comes after the refusal, in a segment of its own, is not served either."""
    connection = shared.connect()
    connection.send(get(host=None))
    assert connection.read().status == 400
    connection.send_if_open(SECOND * 3)
    connection.assert_closed()


@pytest.mark.parametrize("value", ["localhost", "localhost:8080", "127.0.0.1", "[::1]:80", "[::1]",
                                   "a-b.example.", "EXAMPLE.com:", "a_b"])
def test_a_host_that_is_taken(shared, value):
    connection = shared.connect()
    connection.send(connection.head("GET", "/json", f"Host: {value}", host=False))
    assert connection.read().status == 200


def test_fields_that_look_odd_and_are_right(shared):
    connection = shared.connect()
    connection.send(get(b"X:1", b"Y:   2  ", b"!#$%&'*+-.^_`|~: 3", b"Empty:", b"Z: \xe9", b"A: b: c"))
    assert connection.read().status == 200
    connection.send(post(b"CONTENT-LENGTH: 2"))
    assert connection.read("POST").body == b"[]"
    connection.send(post(b"transfer-encoding: CHUNKED", body=b"2;a=b\r\n[]\r\n0\r\nX: trailer\r\n\r\n"))
    assert connection.read("POST").body == b"[]"
    connection.assert_open()


def test_a_length_inside_the_query_is_no_length(shared):
    connection = shared.connect()
    connection.send(get(line=b"GET /json?content-length:200 HTTP/1.1") + SECOND)
    assert connection.read().status == 200
    assert connection.read().body == b"Hello, World!"
