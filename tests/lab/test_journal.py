"""A run that was interrupted goes on where it stopped."""
import json
from types import SimpleNamespace

import pytest

from lab import compare
from lab.journal import Journal, JournalError

ABOUT = {"revision": "abc", "pairs": 2}


def slot(arm, block=0, pair=0, repeat=False, valid=True, number=0):
    return {"arm": arm, "block": block, "pair": pair, "repeat": repeat, "valid": valid, "number": number}


@pytest.fixture
def path(tmp_path):
    journal = Journal(tmp_path / "state", ABOUT, seed=7)
    journal.slot("echo", slot("malloc"))
    journal.slot("echo", slot("arena", number=1))
    journal.count("echo", "malloc", {"calls": {}})
    journal.version("arena", {"alloc": "arena"})
    journal.close()
    return tmp_path / "state"


def test_what_was_found_is_there_again_and_so_is_the_seed(path):
    journal = Journal(path, ABOUT, seed=8)
    assert journal.seed == 7 and journal.counted == {("echo", "malloc"): {"calls": {}}}
    assert [s["arm"] for s in journal.slots.values()] == ["malloc", "arena"]
    assert journal.versions == {"arena": {"alloc": "arena"}}
    journal.slot("echo", slot("malloc", valid=False))
    journal.close()
    assert len(Journal(path, ABOUT, seed=8).slots) == 2  # the later one counts


def test_a_line_that_was_cut_off_is_as_if_it_were_not_there(path):
    with open(path, "a", encoding="utf-8") as f:
        f.write('{"seconds": 1, "scenario"')
    assert len(Journal(path, ABOUT, seed=8).slots) == 2


def test_slots_of_another_build_are_not_mixed_in(path):
    with pytest.raises(JournalError, match="revision was 'abc', is 'def'.*--state"):
        Journal(path, ABOUT | {"revision": "def"}, seed=7)


@pytest.mark.parametrize("text", ["", "nonsense\n", '{"seed": 1}\n', "[]\n"])
def test_what_is_no_journal_is_not_overwritten(tmp_path, text):
    (tmp_path / "state").write_text(text)
    with pytest.raises(JournalError, match="no journal"):
        Journal(tmp_path / "state", ABOUT, seed=7)
    assert (tmp_path / "state").read_text() == text


def test_two_runs_do_not_share_a_journal(path):
    journal = Journal(path, ABOUT, seed=7)
    with pytest.raises(JournalError, match="in use by another run"):
        Journal(path, ABOUT, seed=7)
    journal.close()


def test_a_line_that_was_cut_off_does_not_spoil_the_next(path):
    with open(path, "a", encoding="utf-8") as f:
        f.write('{"seconds": 1, "scenario"')
    journal = Journal(path, ABOUT, seed=7)
    journal.slot("echo", slot("plain"))
    journal.close()
    assert len(Journal(path, ABOUT, seed=7).slots) == 3


def test_time_adds_up_over_sessions(path):
    lines = path.read_text().splitlines()
    path.write_text("".join(json.dumps(json.loads(line) | {"seconds": 100.0}) + "\n" for line in lines))
    assert 100 <= Journal(path, ABOUT, seed=7).seconds() < 110


def step(name, block, arm, pair=0):
    return block, SimpleNamespace(name=name), SimpleNamespace(name=arm), pair


def test_only_whole_blocks_count_as_done(path):
    run = compare.Run(None, None, Journal(path, ABOUT, seed=7))
    done = [step("echo", 0, "malloc"), step("echo", 0, "arena")]
    others = [step("spike", 0, "malloc"), step("echo", 1, "arena", 1)]
    assert run._not_done(done + others) == others
    half = done + [step("echo", 0, "plain", None)]
    assert run._not_done(half) == half and run.slots["echo"] == []
