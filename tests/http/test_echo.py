"""/echo: what is read is what is written, and what is refused says where."""
import glob
import json
import random

import pytest

ISO_CODES = sorted(glob.glob("/usr/share/iso-codes/json/iso_*.json"))

# Text sent, text that must come back (None: the same).
VALUES = {
    "null": ("null", None),
    "true": ("true", None),
    "false": ("false", None),
    "empty array": ("[]", None),
    "empty object": ("{}", None),
    "white space": (" \t\r\n[ 1 ,\r\n\t2 ] \n", "[1,2]"),
    "nested": ('{"a":[{"b":[[],{}]},null]}', None),
    "order of members": ('{"z":1,"a":2,"m":{"y":1,"b":2}}', None),
    "zero": ("0", None),
    "negative": ("-17", None),
    "beyond a double's integers": ("9007199254740993", None),
    "largest integer": ("9223372036854775807", None),
    "smallest integer": ("-9223372036854775808", None),
    "7.6": ("7.6", None),
    "0.1": ("0.1", None),
    "a third": ("0.3333333333333333", None),
    "more digits than a double has": ("0.10000000000000000555", "0.1"),
    "1e23": ("1e23", "1e+23"),
    "1e21": ("1e21", "1e+21"),
    "1e20": ("1e20", "100000000000000000000.0"),
    "a whole real stays a real": ("1.0", None),
    "capital exponent": ("25E-1", "2.5"),
    "negative zero": ("-0.0", None),
    "smallest double": ("5e-324", None),
    "underflow": ("1e-400", "0.0"),
    "largest double": ("1.7976931348623157e308", "1.7976931348623157e+308"),
    "small": ("0.000001", None),
    "smaller": ("0.0000001", "1e-7"),
    "halfway between two doubles": ("9007199254740993.0", "9007199254740992.0"),
    "empty string": ('""', None),
    "NUL in a value": (r'"a\u0000b"', None),
    "escapes": (r'"\"\\\/\b\f\n\r\t"', r'"\"\\/\b\f\n\r\t"'),
    "control character": (r'"\u001f\u0001"', None),
    "escaped letters": (r'"\u0041\u00e9\u20ac"', '"Aé€"'),
    "surrogate pair": (r'"\ud83d\ude00"', '"😀"'),
    "raw text": ('"Aé€😀\u2028\x7f"', None),
    "last code point": (r'"\udbff\udfff"', '"\U0010ffff"'),
    "not a character": (r'"\uffff"', '"\uffff"'),
    "empty key": ('{"":{"":1}}', None),
    "keys that look alike": ('{"a":1,"A":2,"a ":3}', None),
    "escaped key": (r'{"\u0061\n":1}', r'{"a\n":1}'),
}


@pytest.mark.parametrize("name", VALUES)
def test_value(shared, name):
    sent, expected = VALUES[name]
    answer = shared.post("/echo", sent.encode())
    assert answer.status == 200, answer
    assert answer.media_type == "application/json"
    assert answer.body.decode() == (sent if expected is None else expected)


def test_negative_zero_as_an_integer_keeps_its_value(shared):
    assert shared.post("/echo", b"[-0]").json() == [0]


# What is sent, status, line, column, offset (None: wherever). Columns count from 1, offsets bytes.
ERRORS = {
    "nothing": (b"", 400, 1, 1, 0),
    "white space alone": (b" \n ", 400, 2, None, 3),
    "a word": (b"nope", 400, 1, None, None),
    "capitals": (b"True", 400, 1, 1, 0),
    "comma before the end of an array": (b"[1,\n2,\n ]", 400, 3, 2, 8),
    "comma before the end of an object": (b'{"a":1,}', 400, 1, 8, 7),
    "no comma": (b"[1 2]", 400, 1, 4, 3),
    "no colon": (b'{"a" 1}', 400, 1, 6, 5),
    "no quotes": (b"{a:1}", 400, 1, 2, 1),
    "single quotes": (b"['a']", 400, 1, 2, 1),
    "a comment": (b"[1] // x", 400, 1, 5, 4),
    "never closed": (b'{"a":[1,2', 400, 1, None, 9),
    "closed by the other": (b"[1}", 400, 1, 3, 2),
    "something after the value": (b"{}\n{}", 400, 2, 1, 3),
    "NUL after the value": (b"123\0", 400, 1, 4, 3),
    "NUL before the value": (b"\x00123", 400, 1, 1, 0),
    "NUL in a string": (b'"a\0b"', 400, 1, None, None),
    "byte order mark": (b"\xef\xbb\xbf[]", 400, 1, 1, 0),
    "a string without an end": (b'["abc', 400, 1, None, None),
    "a line end in a string": (b'["a\nb"]', 400, None, None, None),
    "a tab in a string": (b'["a\tb"]', 400, 1, None, None),
    "unknown escape": (rb'["\x"]', 400, 1, None, None),
    "short escape": (rb'["\u12"]', 400, 1, None, None),
    "lone high surrogate": (rb'["\ud800"]', 400, 1, None, None),
    "lone low surrogate": (rb'["\udc00"]', 400, 1, None, None),
    "high surrogate before a letter": (rb'["\ud800\u0041"]', 400, 1, None, None),
    "leading zero": (b"[01]", 400, 1, None, None),
    "plus": (b"[+1]", 400, 1, 2, 1),
    "no digits after the point": (b"[1.]", 400, 1, None, None),
    "no digits before the point": (b"[.5]", 400, 1, 2, 1),
    "no digits in the exponent": (b"[1e]", 400, 1, None, None),
    "minus alone": (b"[-]", 400, 1, None, None),
    "NaN": (b"[NaN]", 400, 1, 2, 1),
    "Infinity": (b"[-Infinity]", 400, 1, None, None),
    "hexadecimal": (b"[0x10]", 400, 1, None, None),
    "bad UTF-8": (b'["a\xff"]', 400, 1, None, None),
    "overlong UTF-8": (b'["\xc0\xaf"]', 400, 1, None, None),
    "a surrogate in UTF-8": (b'["\xed\xa0\x80"]', 400, 1, None, None),
    "beyond Unicode": (b'["\xf4\x90\x80\x80"]', 400, 1, None, None),
    "UTF-8 cut short": (b'["\xe2\x82"]', 400, 1, None, None),
    "UTF-16": ("[1]".encode("utf-16-le"), 400, 1, None, None),
    "a key twice": (b'{"a":1,\n"b":2,\n"a":3}', 400, 3, None, None),
    "a key twice, deep": (b'[{"k":{"x":1,"x":1}}]', 400, 1, None, None),
    "a key twice, once escaped": (rb'{"a":1,"\u0061":2}', 400, 1, None, None),
    "integer too large": (b"[9223372036854775808]", 422, 1, None, None),
    "integer too small": (b"[-9223372036854775809]", 422, 1, None, None),
    "integer far too large": (b"1" * 400, 422, 1, None, None),
    "real too large": (b"[1,\n1E400]", 422, 2, None, None),
    "real too small": (b"-1e400", 422, 1, None, None),
    "NUL in a key": (rb'{"a\u0000b":1}', 422, 1, None, None),
    "too deep": (b"[" * 129 + b"]" * 129, 422, 1, None, None),
    "too deep in objects": (b'{"a":' * 129 + b"1" + b"}" * 129, 422, 1, None, None),
    "too deep and never closed": (b"[" * 100_000, 422, 1, None, None),
}


@pytest.mark.parametrize("name", ERRORS)
def test_error(shared, name):
    sent, status, line, column, offset = ERRORS[name]
    connection = shared.connect()
    answer = connection.request("POST", "/echo", body=sent)
    assert answer.status == status, answer
    problem = answer.problem()
    for member, expected in (("line", line), ("column", column), ("offset", offset)):
        assert isinstance(problem[member], int), problem
        assert expected is None or problem[member] == expected, problem
    assert 0 <= problem["offset"] <= len(sent)
    connection.assert_open()


def test_both_readers_answer_alike(server):
    ours, theirs = server(), server("--json-reader", "jansson")
    assert theirs.admin("/version").json()["json_reader"] == "jansson"
    texts = [text for text, *_ in ERRORS.values()]
    texts += [sent.encode() for sent, _ in VALUES.values()]
    for text in texts:
        one, other = ours.post("/echo", text), theirs.post("/echo", text)
        assert one.status == other.status, text
        if one.status == 200:
            assert one.body == other.body
        else:
            problem, same = one.problem(), other.problem()
            del problem["instance"], same["instance"]
            assert problem == same, text


def test_deep_as_allowed(shared):
    for text in (b"[" * 128 + b"]" * 128, b'{"a":' * 128 + b"1" + b"}" * 128):
        answer = shared.post("/echo", text)
        assert answer.status == 200
        assert answer.body == text


def test_every_place_where_a_document_may_be_cut(shared):
    text = r'{"a": [1, -2.5e3, true, null, "x\u00e9\n"], "b": {"c": {}}}'.encode()
    connection = shared.connect()
    for size in range(1, len(text)):
        answer = connection.request("POST", "/echo", body=text[:size])
        assert answer.status == 400, (size, answer)
        assert answer.problem()["offset"] <= size
    assert connection.request("POST", "/echo", body=text).status == 200


def test_pretty(shared):
    sent = b'{"a":[1,{"b":null}],"c":{},"d":[]}'
    for target in ("/echo?pretty", "/echo?x=1&pretty=", "/echo?pretty=1"):
        answer = shared.post(target, sent)
        assert answer.status == 200
        assert answer.json() == json.loads(sent)
        lines = answer.body.decode().rstrip("\n").split("\n")
        assert lines[0] == "{" and lines[-1] == "}"
        assert lines[1].startswith('  "a"')
    assert b"\n" not in shared.post("/echo", sent).body


@pytest.mark.parametrize("media_type", [
    "application/json", "application/json; charset=utf-8", "APPLICATION/JSON",
    "application/json;charset=UTF-8", "application/vnd.api+json", 'application/json; charset="utf-8"',
    "application/json; v=2; charset=utf-8", "application/json; x-charset=latin1"])
def test_a_media_type_that_is_taken(shared, media_type):
    assert shared.post("/echo", b"[1]", media_type=media_type).status == 200


@pytest.mark.parametrize("media_type", [
    None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
    "application/jsonx", "application/", "json", "text/json+xml", "",
    "application/json; charset=latin1", "application/json; charset=utf-8-x",
    "application/json; v=2;charset=utf-16"])
def test_a_media_type_that_is_not_taken(shared, media_type):
    connection = shared.connect()
    answer = connection.request("POST", "/echo", body=b"[1]", media_type=media_type)
    assert answer.status == 415, answer
    assert "json" in answer.problem()["detail"]
    connection.assert_open()


def test_no_body_at_all(shared):
    connection = shared.connect()
    connection.send(connection.head("POST", "/echo", "Content-Type: application/json"))
    assert connection.read().status == 400
    connection.assert_open()


@pytest.mark.parametrize("path", ISO_CODES)
def test_real_documents_come_back_equal(server, path):
    with open(path, "rb") as file:
        text = file.read()
    connection = server("--request-memory", "64M").connect()
    answer = connection.request("POST", "/echo", body=text)
    assert answer.status == 200, answer
    assert answer.json() == json.loads(text)
    again = connection.request("POST", "/echo", body=answer.body)
    assert again.body == answer.body
    pretty = connection.request("POST", "/echo?pretty", body=text)
    assert pretty.json() == json.loads(text)


def test_there_are_real_documents():
    assert len(ISO_CODES) >= 8, "the package iso-codes is not installed"


def random_value(source, depth):
    kind = source.randrange(9 if depth else 7)
    if kind == 0:
        return source.choice([None, True, False])
    if kind == 1:
        return source.randrange(-2 ** 63, 2 ** 63)
    if kind == 2:
        return source.randrange(-1000, 1000)
    if kind == 3:
        return source.uniform(-1, 1) * 10.0 ** source.randrange(-300, 300)
    if kind in (4, 5, 6):
        return random_text(source, source.choice([0, 1, 7, 40, 300]))
    if kind == 7:
        return [random_value(source, depth - 1) for _ in range(source.randrange(12))]
    return {random_text(source, source.randrange(20)).replace("\0", ""):
            random_value(source, depth - 1) for _ in range(source.randrange(12))}


def random_text(source, length):
    ranges = [(0, 0x20), (0x20, 0x7f), (0x20, 0x7f), (0x80, 0x800), (0x800, 0xd800),
              (0xe000, 0x10000), (0x10000, 0x110000)]
    return "".join(chr(source.randrange(*source.choice(ranges))) for _ in range(length))


@pytest.mark.parametrize("seed", range(8))
def test_random_documents_come_back_equal(shared, seed):
    source = random.Random(seed)
    connection = shared.connect()
    for _ in range(25):
        value = random_value(source, 5)
        text = json.dumps(value, ensure_ascii=source.random() < 0.5,
                          indent=source.choice([None, 1])).encode()
        answer = connection.request("POST", "/echo", body=text)
        assert answer.status == 200, (text, answer)
        assert json.dumps(answer.json()) == json.dumps(value), text
