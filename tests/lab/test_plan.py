"""The order of slots."""
import random
from types import SimpleNamespace

import pytest

from lab import compare, plan

SCENARIOS = [SimpleNamespace(name="a", baseline=True, yardstick=True),
             SimpleNamespace(name="b", baseline=False, yardstick=True),
             SimpleNamespace(name="c", baseline=False, yardstick=False)]


def steps(pairs, seed=1, name="a"):
    return [(block, arm.name, pair) for block, scenario, arm, pair
            in plan.blocks(SCENARIOS, pairs, seed, compare.others) if scenario.name == name]


@pytest.mark.parametrize("pairs", [1, 2, 5, 6])
def test_every_pair_is_run_once_by_both_arms_as_neighbours(pairs):
    order = steps(pairs)
    for pair in range(pairs):
        at = [i for i, (_, _, p) in enumerate(order) if p == pair]
        assert at[1] == at[0] + 1 and len(at) == 2
        assert {order[i][1] for i in at} == {"malloc", "arena"}


def test_a_block_is_abba_or_baab_and_the_seed_decides():
    def arms(seed):
        return ["".join(arm[0] for b, arm, p in steps(6, seed) if b == block and p is not None)
                for block in range(3)]
    assert {order for seed in range(30) for order in arms(seed)} == {"maam", "amma"}
    assert arms(4) == arms(4)
    assert any(arms(4) != arms(seed) for seed in range(5, 15))


def test_the_yardsticks_join_each_block_once_in_a_rotating_place():
    places = set()
    for block in range(3):
        order = [arm for b, arm, _ in steps(6) if b == block]
        assert order.count("plain") == 1 and order.count("static") == 1
        places.add(order.index("plain"))
    assert len(places) == 3
    assert "static" not in {arm for _, arm, _ in steps(6, name="b")}
    assert {arm for _, arm, _ in steps(6, name="c")} == {"malloc", "arena"}


def test_scenarios_take_turns_block_by_block():
    names = [scenario.name for _, scenario, _, _ in plan.blocks(SCENARIOS, 4, 1, compare.others)]
    assert "".join(dict.fromkeys(names)) == "abc"
    assert names.index("b") < len(names) // 2 < len(names) - names[::-1].index("a")


def test_blocks_of_one_pair_mirror_each_other():
    order = [(block, arm.name, pair) for block, scenario, arm, pair in
             plan.blocks(SCENARIOS, 6, 1, compare.others, at_once=1) if scenario.name == "a"]
    blocks = [[arm for b, arm, _ in order if b == block] for block in range(6)]
    assert all(sorted(block) == ["arena", "malloc", "plain", "static"] for block in blocks)
    assert all(blocks[i] == blocks[i + 1][::-1] for i in (0, 2, 4))
    assert [pair for _, arm, pair in order if arm == "arena"] == list(range(6))


def test_any_two_arms_can_be_compared():
    arms = (SimpleNamespace(name="x"), SimpleNamespace(name="y"))
    order = plan.block(random.Random(1), 0, 2, 0, [], arms)
    assert sorted(arm.name for arm, _ in order) == ["x", "x", "y", "y"]
