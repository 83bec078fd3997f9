#!/usr/bin/python3
"""Which turns of an experiment are taken and which count (alloc/bench/turns.py): invented turns.

Argument: the source directory.
"""
import sys
import unittest

sys.path.insert(0, f"{sys.argv.pop(1)}/alloc/bench")
from turns import MOST, Turns  # noqa: E402 pylint: disable=wrong-import-position

ARENA, MALLOC = ("mixed", "arena"), ("mixed", "malloc")


def turn(*looks, ns=1):
    return {"ns": ns, "own_lowest": min(looks), "own_mean": sum(looks) / len(looks),
            "own_highest": max(looks)}


OWN, SHARED = turn(3.8, 3.9), turn(2.0, 2.1)


def play(turns, asked, repeated, results):
    """Takes the turns that are planned. `results`: what each pair measures; its last, for ever."""
    taken = []
    for pair in turns.plan(asked, repeated):
        taken.append(pair)
        mine = results[pair]
        turns.add(pair, mine.pop(0) if len(mine) > 1 else mine[0])
    return taken


class TurnsTest(unittest.TestCase):
    def setUp(self):
        self.turns = Turns()

    def play(self, asked, results, repeated=(ARENA, MALLOC)):
        return play(self.turns, asked, list(repeated), results)

    def test_nothing_is_repeated_on_a_core_of_ones_own(self):
        taken = self.play({ARENA: 2, MALLOC: 2}, {ARENA: [OWN], MALLOC: [OWN]})
        self.assertEqual(taken, [ARENA, MALLOC, MALLOC, ARENA])
        self.assertEqual(self.turns.describe([ARENA, MALLOC]),
                         "Of 4 turns that count, none was measured on a shared core.")

    def test_only_those_that_lack_turns_take_more_and_the_shared_do_not_count(self):
        best, worst = turn(3.9, ns=7), turn(3.6, ns=9)
        taken = self.play({ARENA: 2, MALLOC: 2},
                          {ARENA: [OWN], MALLOC: [turn(2.0, 2.1, ns=1), SHARED, best, SHARED, worst]})
        self.assertEqual(taken[4:], [MALLOC] * 3)
        self.assertEqual([result["ns"] for result in self.turns.counted(MALLOC)], [7, 9])
        self.assertEqual([counts for _, counts in self.turns.judge(MALLOC)],
                         [False, False, True, False, True])
        self.assertEqual(self.turns.describe([ARENA, MALLOC]),
                         "Of 4 turns that count, none was measured on a shared core. 3 more were set aside.")

    def test_turns_are_bounded_and_the_least_shared_count(self):
        least = turn(2.1, 3.9, 3.9, ns=7)
        taken = self.play({ARENA: 2, MALLOC: 2}, {ARENA: [OWN], MALLOC: [SHARED, least, SHARED]})
        self.assertEqual(len(taken), 4 * MOST)
        self.assertEqual(taken.count(ARENA), 2)
        self.assertIn(least, self.turns.counted(MALLOC))
        self.assertEqual(self.turns.describe([ARENA, MALLOC]),
                         "Of 4 turns that count, 2 were measured while another used the core's other thread "
                         f"(mixed: malloc 2). {4 * MOST - 4} more were set aside.")

    def test_a_turn_that_was_not_shared_counts_before_one_that_was_at_times(self):
        narrow, at_times = turn(3.6, 3.6), turn(3.0, 3.9, 3.9, 3.9)
        self.play({MALLOC: 1}, {MALLOC: [at_times, narrow]}, repeated=[MALLOC])
        self.assertEqual(self.turns.counted(MALLOC), [narrow])

    def test_a_core_that_is_shared_all_the_time_is_known_by_its_best_moment(self):
        self.play({ARENA: 1}, {ARENA: [turn(2.0, 3.9)]}, repeated=[])
        self.assertIn("1 were measured while", self.turns.describe([ARENA]))

    def test_later_turns_tell_that_earlier_ones_were_shared(self):
        taken = self.play({ARENA: 1, MALLOC: 1}, {ARENA: [SHARED, OWN], MALLOC: [OWN]})
        self.assertEqual(taken, [ARENA, MALLOC, ARENA])

    def test_what_takes_seconds_is_noted_and_not_repeated(self):
        taken = self.play({ARENA: 2, MALLOC: 1}, {ARENA: [OWN], MALLOC: [SHARED]}, repeated=[ARENA])
        self.assertEqual(taken, [ARENA, MALLOC, ARENA])
        self.assertEqual(self.turns.counted(MALLOC), [SHARED])
        self.assertIn("(mixed: malloc 1).", self.turns.describe([ARENA, MALLOC]))

    def test_without_a_gauge_each_turn_counts_and_nothing_is_said(self):
        taken = self.play({ARENA: 2, MALLOC: 2}, {ARENA: [{"ns": 1}], MALLOC: [{"ns": 2}]})
        self.assertEqual(len(taken), 4)
        self.assertEqual(self.turns.counted(MALLOC), [{"ns": 2}, {"ns": 2}])
        self.assertEqual(self.turns.describe([ARENA, MALLOC]), "")


if __name__ == "__main__":
    unittest.main()
