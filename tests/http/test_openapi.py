"""/openapi.json: what it describes is what is served, both ways; and it holds together."""
import re

import pytest

METHODS = {"get", "post", "put", "patch", "delete"}


@pytest.fixture
def document(shared):
    answer = shared.request("GET", "/openapi.json")
    assert answer.status == 200 and answer.media_type == "application/json"
    return answer.json()


def resolve(document, reference):
    assert reference.startswith("#/"), reference
    for token in reference[2:].split("/"):
        document = document[token.replace("~1", "/").replace("~0", "~")]
    return document


def walk(value):
    yield value
    for below in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from walk(below)


def test_it_has_a_strong_tag(shared):
    first = shared.request("GET", "/openapi.json")
    tag = first.header("ETag")
    assert re.fullmatch(r'"[0-9]+"', tag)
    assert shared.request("GET", "/openapi.json").body == first.body
    for value in (tag, f'"1", W/{tag}', "*"):
        answer = shared.request("GET", "/openapi.json", f"If-None-Match: {value}")
        assert (answer.status, answer.body, answer.header("ETag")) == (304, b"", tag)
    assert shared.request("GET", "/openapi.json", 'If-None-Match: "1"').status == 200
    assert shared.request("GET", "/openapi.json", "If-None-Match: 1").status == 400
    assert shared.request("HEAD", "/openapi.json").header("ETag") == tag


def test_every_described_operation_is_served(shared, document):
    for path, item in document["paths"].items():
        target = path.replace("{collection}", "c").replace("{id}", "i")
        allow = shared.request("OPTIONS", target).header("Allow").split(", ")
        assert {name.upper() for name in METHODS & set(item)} == set(allow) - {"HEAD", "OPTIONS"}, path


def test_every_served_route_is_described(document):
    """The start fails if one is not (test_openapi.c); here are those that are documented."""
    assert {"/json", "/plaintext", "/echo", "/transfer", "/transform/patch", "/transform/merge", "/db",
            "/db/{collection}", "/db/{collection}/{id}", "/openapi.json"} == set(document["paths"])


def test_every_body_is_of_an_accepted_type(shared, document):
    for path, item in document["paths"].items():
        target = path.replace("{collection}", "c").replace("{id}", "i")
        for method in METHODS & set(item):
            if "requestBody" not in item[method]:
                continue
            refused = shared.request(method.upper(), target, body=b"1", media_type="text/plain")
            assert refused.status == 415
            name = {"patch": "Accept-Patch", "post": "Accept-Post"}.get(method, "Accept")
            accepted = refused.header(name)
            assert set(item[method]["requestBody"]["content"]) == set(accepted.split(", ")), path


def test_the_structure_is_that_of_openapi_3_1(document):
    assert document["openapi"] == "3.1.0"
    assert set(document) <= {"openapi", "info", "tags", "paths", "components", "servers"}
    assert document["info"]["title"] == "slate" and re.match(r"\d+\.\d+", document["info"]["version"])
    tags = {tag["name"] for tag in document["tags"]}
    names = []
    for path, item in document["paths"].items():
        assert path.startswith("/")
        assert set(item) <= METHODS | {"summary", "parameters"} and item["summary"].endswith(".")
        shared_names = {resolve(document, one["$ref"])["name"] for one in item.get("parameters", [])}
        assert shared_names == set(re.findall(r"\{(\w+)\}", path))
        for method in METHODS & set(item):
            operation = item[method]
            names.append(operation["operationId"])
            assert set(operation) <= {"operationId", "tags", "description", "parameters",
                                      "requestBody", "responses"}
            assert set(operation["tags"]) <= tags
            assert operation["responses"] and all(
                re.fullmatch(r"[1-5][0-9][0-9]|default", status) for status in operation["responses"])
            for parameter in operation.get("parameters", []):
                parameter = resolve(document, parameter["$ref"])
                assert parameter["in"] in ("query", "header") and parameter["schema"]
            for response in operation["responses"].values():
                if "$ref" in response:
                    response = resolve(document, response["$ref"])
                assert response["description"]
    assert len(names) == len(set(names))


def test_every_reference_leads_somewhere_and_every_component_is_used(document):
    used = {value["$ref"] for value in walk(document) if isinstance(value, dict) and "$ref" in value}
    for reference in used:
        assert resolve(document, reference)
    for kind, members in document["components"].items():
        for name in members:
            assert f"#/components/{kind}/{name}" in used, name
