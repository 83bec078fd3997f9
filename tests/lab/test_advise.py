"""What a route asks of malloc, and what follows from it."""
from dataclasses import replace

import pytest

from lab import advise, scenario
from lab.advise import Profile
from lab.arm import ARENA, MALLOC
from lab.bench import Bench

KIB = 1024
NOTHING = Profile(calls=4, bytes=300, small=1, at_once=300, stays=0, largest=300)
TREE = Profile(calls=4800, bytes=330 * KIB, small=0.6, at_once=290 * KIB, stays=0, largest=350 * KIB)


@pytest.mark.parametrize("with_malloc, with_arena, choice", [
    (TREE, NOTHING, "arena"),
    (replace(NOTHING, calls=20), NOTHING, "either"),
    (replace(TREE, at_once=40 * KIB), NOTHING, "malloc"),  # most of it dies on the way
    (replace(TREE, stays=500), NOTHING, "malloc"),
    (replace(TREE, stays=500), replace(TREE, calls=400, bytes=9 * KIB, at_once=5 * KIB, stays=500), "arena"),  # a store's
    (replace(TREE, bytes=99 << 20), replace(TREE, bytes=99 << 20), "either"),  # all of it is
])
def test_the_choice_follows_from_what_an_arena_would_take_over(with_malloc, with_arena, choice):
    assert advise.advise(with_malloc, with_arena).choice == choice


def test_sizes_follow_from_the_requests():
    advice = advise.advise(TREE, NOTHING)
    assert advice.flags() == ("--request-memory", "2M", "--retain", "1M")
    assert advise.advise(NOTHING, NOTHING).flags() == ("--request-memory", "2M", "--retain", "64K")


@pytest.mark.parametrize("choice, cpu, peak, kept, verdict", [
    ("arena", "better", "equivalent", "better", "right"),
    ("arena", "better", "worse", "better", "right, at a price in memory"),
    ("arena", "equivalent", "better", "better", "wrong"),
    ("arena", "inconclusive", "better", "better", "not settled"),
    ("malloc", "equivalent", "worse", "equivalent", "right"),
    ("malloc", "better", "equivalent", "equivalent", "wrong"),
    ("either", "equivalent", "equivalent", "better", "right"),
    ("either", "better", "equivalent", "equivalent", "wrong"),
    ("either", None, None, None, "not settled"),
])
def test_advice_is_told_whether_it_was_right(choice, cpu, peak, kept, verdict):
    ratios = {name: {"verdict": said} for name, said in zip(advise.MEASURED, (cpu, peak, kept)) if said}
    assert advise.right(choice, ratios) == verdict


@pytest.mark.parametrize("largest, says", [
    (350 * KIB, "--request-memory 2M --retain 1M (the limit is the least that is advised"),
    (900 * KIB, "--request-memory 4M --retain 2M (the limit is at least four times the largest request;"),
])
def test_where_a_size_comes_from_is_said(largest, says):
    tree = replace(TREE, largest=largest)
    text = "\n".join(advise._said(scenario.load("echo"), tree, NOTHING, advise.advise(tree, NOTHING)))
    assert f"for an arena: {says}" in text


@pytest.fixture(scope="module")
def bench(build):
    with Bench(build) as made:
        yield made


def test_what_a_request_asks_of_malloc_is_counted(bench):
    item = scenario.load("echo")
    with_malloc, with_arena = (advise.profile(bench, item, arm) for arm in (MALLOC, ARENA))
    assert with_malloc.calls > 1000 > 20 > with_arena.calls
    assert with_malloc.bytes >= with_malloc.at_once > len(item.requests[0].body)
    assert with_malloc.stays < advise.STAYS and 0.3 < with_malloc.small < 0.9


def test_advice_has_flags_that_the_server_takes(bench):
    item = scenario.load("json")
    advice = advise.advise(NOTHING, NOTHING)
    arm = replace(ARENA, flags=ARENA.flags + advice.flags())
    server = bench.start_server(arm, item)
    options = server.version()["options"]
    assert (options["request-memory"], options["retain"]) == ("2M", "64K")
    assert server.stop() == 0
