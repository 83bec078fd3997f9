"""Every gate lets a sound slot pass and stops the fault it is for."""
import pytest

from lab import gates, scenario
from lab.arm import ARENA, MALLOC, MORE, YARDSTICK

SOUND = {"requests": 10_000, "seconds": 2.0, "connections": 32, "errors": 0, "unrecorded": 0,
         "wrong_status": 0, "different": 0}

VERSION = {"alloc": "arena", "pool": True, "json_reader": "slate", "json_walk": False}  # of ARENA


def client(**changes):
    return SOUND | changes


@pytest.mark.parametrize("gate, passes", [
    (gates.errors(client()), True),
    (gates.errors(client(errors=1)), False),
    (gates.errors(client(unrecorded=1)), False),
    (gates.status(client()), True),
    (gates.status(client(wrong_status=1)), False),
    (gates.content(client()), True),
    (gates.content(client(different=1)), False),
    (gates.served(client()), True),
    (gates.served(client(requests=0)), False),
    (gates.counts(client(), 10_000, 0), True),
    (gates.counts(client(), 10_032, 32), True),
    (gates.counts(client(), 10_033, 32), False),
    (gates.counts(client(), 9_999, 32), False),
    (gates.duration(client(), 2.1, 0.25), True),
    (gates.duration(client(), 2.4, 0.25), False),
    (gates.duration(client(seconds=2.5), 2.1, 0.25), False),  # its clock jumped ahead
    (gates.allocator(ARENA, VERSION | {"libc": "2"}), True),
    (gates.allocator(ARENA, VERSION | {"alloc": "malloc"}), False),
    (gates.allocator(ARENA, VERSION | {"json_walk": True}), False),
    (gates.allocator(MORE["arena-no-pool"], VERSION), False),
    (gates.allocator(MORE["arena-walk"], VERSION | {"json_walk": True}), True),
    (gates.allocator(MORE["arena-walk"], VERSION), False),
    (gates.allocator(MALLOC, VERSION | {"alloc": "malloc", "json_walk": True}), True),
    (gates.malloc_in_force(MALLOC, ["/usr/lib/libc.so.6"], {}), True),
    (gates.malloc_in_force(MALLOC, ["/usr/lib/libc.so.6", "/usr/lib/libjemalloc.so.2"], {}), False),
    (gates.malloc_in_force(MORE["jemalloc"], ["/usr/lib/libjemalloc.so.2"], {}), True),
    (gates.malloc_in_force(MORE["jemalloc"], ["/usr/lib/libc.so.6"], {}), False),
    (gates.malloc_in_force(MORE["tcmalloc"], ["/usr/lib/libtcmalloc_minimal.so.4.5.10"], {}), True),
    (gates.malloc_in_force(MORE["mimalloc"], ["/usr/lib/libtcmalloc_minimal.so.4.5.10"], {}), False),
    (gates.malloc_in_force(MORE["malloc-1-arena"], [], {"MALLOC_ARENA_MAX": "1"}), True),
    (gates.malloc_in_force(MORE["malloc-1-arena"], [], {}), False),
    (gates.malloc_used(MALLOC, {"mallinfo2": {"arena": 9, "hblkhd": 0}}), True),
    (gates.malloc_used(MALLOC, {"mallinfo2": {"arena": 0, "hblkhd": 0}}), False),
    (gates.malloc_used(MORE["jemalloc"], {"mallinfo2": {"arena": 0, "hblkhd": 0}}), True),
    (gates.malloc_used(MORE["jemalloc"], {"mallinfo2": {"arena": 0, "hblkhd": 9}}), False),
    (gates.allocator(ARENA, None), False),
    (gates.allocator(YARDSTICK, None), True),
    (gates.silence([{"t": 0.11}, {"t": 5.9}], [0.1, 5]), True),
    (gates.silence([{"t": 0.11}, {"t": 6.1}], [0.1, 5]), False),
    (gates.silence([{"t": 0.11}], [0.1, 5]), False),
    (gates.ledger(0, 0), True),
    (gates.ledger(64, 64), True),
    (gates.ledger(0, 1), False),
    (gates.ended(0), True),
    (gates.ended(1), False),
    (gates.ended(-9), False),
])
def test_gate(gate, passes):
    assert gate.passed is passes
    assert any(letter.isdigit() for letter in gate.said) or "/version" in gate.said


@pytest.mark.parametrize("changes, passes", [
    ({}, True),
    ({"requests": 9_700}, False),  # of 10,000 that were planned
    ({"late_us": 5_000}, False),
    ({"seconds": 2.2}, False),
])
def test_a_plan_has_to_be_kept(changes, passes):
    load = scenario.Load("pace", 64, rate=5_000, seconds=2)
    assert gates.plan(client(late_us=20) | changes, load).passed is passes


def little(mean_us, client_occupied=0.1, max_us=20_000):
    return gates.littles_law(client(), mean_us, max_us, client_occupied).passed


def test_littles_law_misses_no_connection():
    # 5,000 requests a second on 32 connections: 6.4 ms each.
    assert little(6_400)
    assert not little(6_400 / 2)  # half of the connections stand still
    assert not little(6_400 * 1.2)


def test_littles_law_allows_for_a_busy_client_and_for_what_was_cut_off():
    assert not little(4_000)
    assert little(4_000, client_occupied=0.5)
    assert little(4_000, max_us=1_000_000)


def test_the_client_is_the_limit_only_if_the_server_is_not():
    assert gates.client_bound(0.95, 0.6)
    assert not gates.client_bound(0.95, 0.95)
    assert not gates.client_bound(0.5, 0.5)


def test_one_failed_gate_is_enough():
    valid, said = gates.verdict([gates.ended(0), gates.ended(1)])
    assert not valid and [g["passed"] for g in said] == [True, False]
