"""Which turns to take, and which of them count: those whose core was not shared.

A core with two threads gives each of them less while both are busy, and one allocator suffers more
from that than another (gauge.c). So a turn says how many additions per cycle the core did at some
looks: "own_lowest", "own_mean", "own_highest". It was shared if its lowest is clearly below the highest
that any turn has seen. What a turn measured has no part in the judgement.
"""
OWN = 0.9  # of the highest; a core that is shared all the time gives half to three quarters
MOST = 4  # times the turns asked for, of those that may be repeated, are taken at most


class Turns:
    """The turns of a run. A pair is a row and an arm; a result is what mem_bench printed."""

    def __init__(self):
        self.taken = {}  # pair: results, in the order of the turns
        self.asked = {}  # pair: how many turns are to count
        self.highest = 0  # that any turn saw; 0: there is no gauge

    def add(self, pair, result):
        self.taken.setdefault(pair, []).append(result)
        self.highest = max(self.highest, result.get("own_highest", 0))

    def is_shared(self, result):
        return result.get("own_lowest", 0) < OWN * self.highest

    def plan(self, asked, repeated):
        """Yields pairs; the turn of each is to be added before the next is asked for. Back and forth over
        those `asked`, a dictionary, then over those `repeated` that lack turns on a core of their own."""
        self.asked.update(asked)
        for turn in range(max(asked.values(), default=0)):
            yield from in_turn([pair for pair in asked if turn < asked[pair]], turn)
        left = (MOST - 1) * sum(asked[pair] for pair in repeated)
        turn = 0
        while again := [pair for pair in repeated if self.lacks(pair)][:left]:
            yield from in_turn(again, turn)
            left -= len(again)
            turn += 1

    def lacks(self, pair):
        return sum(not self.is_shared(result) for result in self.taken[pair]) < self.asked[pair]

    def judge(self, pair):
        """Each result and whether it counts: as many do as were asked for, first those that were not
        shared, then those that were least."""
        results = self.taken.get(pair, [])
        order = sorted(range(len(results)),
                       key=lambda i: (self.is_shared(results[i]), -results[i].get("own_mean", 0)))
        counted = set(order[:self.asked.get(pair, 0)])
        return [(result, i in counted) for i, result in enumerate(results)]

    def counted(self, pair):
        return [result for result, counts in self.judge(pair) if counts]

    def describe(self, pairs):
        """What a reader must know of the core, in a sentence; "" where there is no gauge."""
        count = sum(len(self.counted(pair)) for pair in pairs)
        if not self.highest or not count:
            return ""
        shared, rows = 0, {}
        for row, arm in pairs:
            if number := sum(map(self.is_shared, self.counted((row, arm)))):
                shared += number
                rows.setdefault(row, []).append(f"{arm} {number}")
        text = f"Of {count} turns that count, none was measured on a shared core"
        if shared:
            which = "; ".join(f"{row}: {', '.join(arms)}" for row, arms in rows.items())
            text = (f"Of {count} turns that count, {shared} were measured while another used the core's "
                    f"other thread ({which})")
        aside = sum(len(self.taken[pair]) for pair in pairs) - count
        return text + (f". {aside} more were set aside." if aside else ".")


def in_turn(pairs, turn):
    return pairs if turn % 2 == 0 else pairs[::-1]
