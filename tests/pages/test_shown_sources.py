"""The guides to sources show what the examples hold: every part that they name, and all of one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guide"
MARKER = re.compile(r"^ *# --8<-- \[(start|end):([a-z]+)\]\n", re.MULTILINE)
WHOLE = [
    ("write-a-source.md", "examples/lookup_source/client.py"),
    ("write-a-source.md", "examples/lookup_source/source.py"),
    ("a-source-that-plays.md", "examples/line_source/source.py"),
]


def shown(page: str) -> list[tuple[str, str]]:
    """The parts that a page shows: of which file, and which."""
    return re.findall(r'^--8<-- "([^:"]+):([a-z]+)"$', (GUIDE / page).read_text(), re.MULTILINE)


@pytest.mark.parametrize("page", sorted({page for page, _ in WHOLE}))
def test_every_part_that_a_guide_shows_is_there(page: str) -> None:
    assert len(shown(page)) >= 6
    for path, part in shown(page):
        text = (ROOT / path).read_text()
        assert f"# --8<-- [start:{part}]" in text
        assert f"# --8<-- [end:{part}]" in text


@pytest.mark.parametrize(("page", "path"), WHOLE)
def test_a_guide_shows_every_part_of_its_source(page: str, path: str) -> None:
    there = [name for kind, name in MARKER.findall((ROOT / path).read_text()) if kind == "start"]
    assert sorted(part for file, part in shown(page) if file == path) == sorted(there)


@pytest.mark.parametrize(("page", "path"), WHOLE[:2])
def test_the_first_guide_walks_through_all_of_its_client_and_its_adapter_in_order(
    page: str, path: str
) -> None:
    text = (ROOT / path).read_text()
    marks = [(kind, name) for kind, name in MARKER.findall(text)]
    order = [part for file, part in shown(page) if file == path]
    assert marks == [(kind, part) for part in order for kind in ("start", "end")]
    outside = re.split(r"\[start:[a-z]+\].*?\[end:[a-z]+\]", text, flags=re.DOTALL)
    assert not "".join(outside).replace("# --8<--", "").strip()


def test_the_whole_adapter_is_about_a_hundred_lines() -> None:
    lines = (ROOT / "examples/lookup_source/source.py").read_text().splitlines()
    assert sum(bool(line.strip()) and not line.lstrip().startswith("#") for line in lines) <= 110
