"""The lab's own arithmetic, its clients and its report; what needs programs takes them from the
release build (LAB_BUILD names another)."""
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "loadtest"))


@pytest.fixture(scope="session")
def build():
    path = Path(os.environ.get("LAB_BUILD", ROOT / "build"))
    if not (path / "loadtest/plain").exists():
        pytest.skip(f"{path} is not built")
    return path
