"""/transfer: a transfer of money in, a receipt out; each member that is missing or of another type is
named by its JSON Pointer."""
import copy
import datetime
import json

import pytest

TRANSFER = {
    "from": {"id": 48210, "firstName": "Alexandra", "lastName": "Hamilton",
             "address": {"street": "1600 Commonwealth Avenue", "city": "Boston", "state": "MA",
                         "zip": "02135"},
             "email": "alexandra@example.com"},
    "to": {"id": 73516, "firstName": "Jörg", "lastName": "O'Neill \"Jo\"",
           "address": {"street": "742 Evergreen Terrace", "city": "Springfield", "state": "OR",
                       "zip": "97477"},
           "email": "jo@example.org"},
    "amount": 125000,
    "sendOn": "2026-03-14T09:26:53Z",
}

ACCOUNT = ("id", "firstName", "lastName", "address", "email")
ADDRESS = ("street", "city", "state", "zip")
POINTERS = ["/amount", "/sendOn"] + [
    pointer for side in ("/from", "/to")
    for pointer in (side, *(f"{side}/{name}" for name in ACCOUNT),
                    *(f"{side}/address/{name}" for name in ADDRESS))]


def post(server, document):
    return server.post("/transfer", json.dumps(document).encode())


def holder(document, pointer):
    """The object that holds what the pointer names, and the name."""
    *way, name = pointer[1:].split("/")
    for token in way:
        document = document[token]
    return document, name


def test_a_transfer_is_answered_with_a_receipt(shared):
    before = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
    answer = post(shared, TRANSFER)
    assert answer.status == 200, answer
    assert answer.media_type == "application/json"
    receipt = answer.json()
    created = datetime.datetime.fromisoformat(receipt.pop("created_on"))
    assert created.utcoffset() is not None
    assert before <= created <= datetime.datetime.now(datetime.timezone.utc)
    assert receipt == {
        "from_account": "Alexandra Hamilton",
        "to_account": "Jörg O'Neill \"Jo\"",
        "to_address": "742 Evergreen Terrace, Springfield, OR, 97477",
        "amount": 125000,
    }


@pytest.mark.parametrize("zone, minutes", [("UTC0", 0), ("IST-5:30", 330), ("NST3:30", -210),
                                           ("XXX0:01", -1)])
def test_the_time_carries_the_offset_of_the_zone(server, zone, minutes):
    created = post(server(env={"TZ": zone}), TRANSFER).json()["created_on"]
    assert len(created) == 25, created
    time = datetime.datetime.fromisoformat(created)
    assert time.utcoffset() == datetime.timedelta(minutes=minutes)
    assert abs(time - datetime.datetime.now(datetime.timezone.utc)) < datetime.timedelta(minutes=5)


def test_members_that_nobody_asked_for_are_ignored(shared):
    document = copy.deepcopy(TRANSFER)
    document["note"] = document["from"]["note"] = document["to"]["address"]["note"] = [1]
    assert post(shared, document).status == 200


def test_empty_texts_and_any_integer_are_taken(shared):
    document = copy.deepcopy(TRANSFER)
    document["amount"] = -2 ** 63
    document["to"].update(firstName="", lastName="", address=dict.fromkeys(ADDRESS, ""))
    receipt = post(shared, document).json()
    assert receipt["amount"] == -2 ** 63
    assert receipt["to_account"] == " "
    assert receipt["to_address"] == ", , , "


def test_long_texts_are_taken(shared):
    document = copy.deepcopy(TRANSFER)
    document["to"]["address"]["street"] = "é\n" * 50_000
    receipt = post(shared, document).json()
    assert receipt["to_address"] == "é\n" * 50_000 + ", Springfield, OR, 97477"


@pytest.mark.parametrize("pointer", POINTERS)
def test_a_missing_member_is_named(shared, pointer):
    document = copy.deepcopy(TRANSFER)
    inside, name = holder(document, pointer)
    del inside[name]
    answer = post(shared, document)
    assert answer.status == 422, answer
    problem = answer.problem()
    assert problem["type"].endswith("/transfer-body")
    assert problem["json_pointer"] == pointer
    assert pointer in problem["detail"] and "missing" in problem["detail"]


@pytest.mark.parametrize("pointer", POINTERS)
def test_a_member_of_another_type_is_named(shared, pointer):
    document = copy.deepcopy(TRANSFER)
    inside, name = holder(document, pointer)
    good = type(inside[name])
    for value in (None, True, False, 1, 1.5, "text", [], {}):
        if type(value) is good:
            continue
        inside[name] = value
        answer = post(shared, document)
        assert answer.status == 422, (value, answer)
        assert answer.problem()["json_pointer"] == pointer, value


def test_the_first_fault_is_the_one_that_is_named(shared):
    document = copy.deepcopy(TRANSFER)
    del document["amount"], document["to"]["email"], document["from"]["address"]["zip"]
    assert post(shared, document).problem()["json_pointer"] == "/from/address/zip"


@pytest.mark.parametrize("body", ["[]", "null", "1", '"from"'])
def test_a_body_that_is_no_object(shared, body):
    answer = shared.post("/transfer", body.encode())
    assert answer.status == 422, answer
    assert answer.problem()["json_pointer"] == ""


def test_what_is_not_json_is_refused_before(shared):
    assert shared.post("/transfer", b"{").status == 400
    assert shared.post("/transfer", b"").status == 400
    assert shared.post("/transfer", b"{}", media_type="text/plain").status == 415
    assert shared.request("GET", "/transfer").status == 405


def test_nothing_is_left_behind(server):
    one = server()
    for document in (TRANSFER, {}, {**TRANSFER, "to": 1}):
        for _ in range(20):
            post(one, document)
    one.assert_at_rest()
