"""What the Makefile offers: every example that the documentation names, by its name."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted(
    {each.parent.name for each in (ROOT / "examples").glob("*/__main__.py")}
    | {each.stem for each in (ROOT / "examples").glob("*.py")}
)

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """What `make` takes for an environment that is ready: this interpreter."""
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    (tmp_path / ".ready").touch()
    return tmp_path


def make(environment: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", f"VENV={environment}", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def named_in_the_readme() -> list[str]:
    readme = (ROOT / "README.md").read_text()
    row = re.search(r"^\| `make example [^|]*\|([^|]*)\|$", readme, re.MULTILINE)
    assert row is not None
    return re.findall(r"`(\w+)`", row[1])


def test_the_readme_names_every_example() -> None:
    assert named_in_the_readme() == EXAMPLES


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_runs_by_its_name(environment: Path, name: str) -> None:
    done = make(environment, "example", f"NAME={name}", "ARGS=--help")
    assert done.returncode == 0, done.stderr
    assert "Usage: " in done.stdout


@pytest.mark.parametrize("name", ["renewin", "line_source", "media", "renewing broadcast"])
def test_an_example_that_there_is_not_is_refused_with_those_that_there_are(
    environment: Path, name: str
) -> None:
    done = make(environment, "example", f"NAME={name}")
    assert done.returncode == 2
    assert f"There is no example '{name}'. There are: {' '.join(EXAMPLES)}." in done.stderr


def test_help_names_every_example(environment: Path) -> None:
    done = make(environment, "help")
    assert f"any example: {' '.join(EXAMPLES)}" in done.stdout
