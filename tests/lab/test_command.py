"""The command line: what it refuses, in which words, and how it ends."""
import json
import os
import signal
import subprocess
import sys

import pytest

from conftest import ROOT

RUN = [sys.executable, ROOT / "loadtest/run"]


def ended(*words):
    return subprocess.run([*RUN, *words], capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("text, says", [
    (None, "cannot be read: No such file or directory"),
    ("{", "is no report of this lab: it is not JSON"),
    ("[]", "is no report of this lab: it has to have schema 1"),
    (json.dumps({"schema": 2, "scenarios": []}), "is no report of this lab: it has to have schema 1"),
])
def test_what_is_no_report_is_said_in_a_sentence(tmp_path, text, says):
    path = tmp_path / "some.json"
    if text is not None:
        path.write_text(text)
    for words in (["report", path], ["diff", path, path]):
        run = ended(*words)
        assert run.returncode == 2 and run.stdout == ""
        assert run.stderr.startswith("loadtest/run: ") and "Errno" not in run.stderr
        assert says in run.stderr and str(path) in run.stderr


@pytest.mark.parametrize("name, says", [
    ("absent/some.json", "the file 'some.json' cannot be written in the directory '{tmp}/absent': "
                         "there is no such directory"),
    ("taken", "the file 'taken' cannot be written in the directory '{tmp}': a directory has that name"),
])
@pytest.mark.parametrize("command", ["compare", "peers"])
def test_what_cannot_be_written_is_said_before_anything_runs(tmp_path, command, name, says):
    (tmp_path / "taken").mkdir()
    run = ended(command, "--out", tmp_path / name)
    assert run.returncode == 2 and run.stdout == ""
    assert run.stderr == f"loadtest/run: {says.format(tmp=tmp_path)}\n"


@pytest.mark.parametrize("command, words, says", [
    ("compare", ["--bogus"], "loadtest/run compare: error: unrecognized arguments: --bogus"),
    ("compare", ["--connections", "0"], "see loadtest/README.md"),
    ("peers", ["--workload", "json,nope"], "there is no workload 'nope'; there are: json, transfer,"),
])
def test_a_wrong_flag_is_answered_with_the_usage_of_its_command(command, words, says):
    run = ended(command, *words)
    assert run.returncode == 2 and run.stderr.startswith(f"usage: loadtest/run {command} ")
    assert says in " ".join(run.stderr.split())


def heed_interrupts():
    """A job in the background may have been started with them ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_however_often_it_is_interrupted_it_ends_once(build, tmp_path):
    with subprocess.Popen([*RUN, "compare", "--build", build, "--scenario", "json", "--pairs", "1"],
                          preexec_fn=heed_interrupts,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
                          start_new_session=True) as process:
        assert "json" in process.stderr.readline()  # a slot begins
        while process.poll() is None:
            os.kill(process.pid, signal.SIGINT)
        said = process.stderr.read()
    assert process.returncode == 130
    assert said.count("interrupted; nothing was written") == 1 and "Traceback" not in said
    assert not list(tmp_path.iterdir())
