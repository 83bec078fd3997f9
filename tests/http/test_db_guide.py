"""The examples of handlers/db/README.md: what they print is what the guide says they print."""
import os
import re
import shutil
import subprocess

import pytest

from process import ROOT

GUIDE = os.path.join(ROOT, "handlers", "db", "README.md")


def examples():
    """(command, expected output) in their order; "…" stands for anything."""
    with open(GUIDE, encoding="utf-8") as file:
        blocks = re.findall(r"```console\n(.*?)```", file.read(), re.S)
    found = []
    for line in "".join(blocks).splitlines(keepends=True):
        if line.startswith("$ "):
            found.append([line[2:].rstrip("\n"), ""])
        else:
            found[-1][1] += line
    return found


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
def test_the_examples_print_what_they_say(server, tmp_path):
    one = server("--db", f"sqlite:{tmp_path}/guide.db")
    address = f"http://{one.address[0]}:{one.address[1]}"
    commands = examples()
    assert len(commands) > 15
    for command, expected in commands:
        end = subprocess.run(["sh", "-c", command.replace("http://127.0.0.1:8080", address)],
                             capture_output=True, text=True, timeout=60, check=False)
        pattern = ".*?".join(re.escape(piece) for piece in expected.rstrip("\n").split("…"))
        assert re.fullmatch(pattern, end.stdout.rstrip("\n"), re.S), \
            f"{command}\nprinted:\n{end.stdout}{end.stderr}\nnot:\n{expected}"
