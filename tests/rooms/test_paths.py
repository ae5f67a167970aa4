"""Paths: one spelling each, and none that leaves its room, whatever the platform."""

# ruff: noqa: RUF001 - letters that can be taken for others are what this is about

from __future__ import annotations

import os
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trio_reactor.rooms.model.paths import (
    MAX_PART_BYTES,
    MAX_PATH_BYTES,
    beneath,
    check_path,
    check_root,
    folded,
)

BAD = [
    "",
    "/",
    "/etc/passwd",
    "//server/share",
    "..",
    ".",
    "../x",
    "x/..",
    "x/../../y",
    "./x",
    "x/.",
    "x//y",
    "x/",
    "C:\\x",
    "C:/x",
    "c:x",
    "\\\\server\\share",
    "a\\b",
    "a\0b",
    "\0",
    "a\nb",
    "a\x7fb",
    "a\x1bb",
    "a:stream",
    "a.txt::$DATA",
    "what?",
    "a*b",
    'a"b',
    "a<b",
    "a>b",
    "a|b",
    "trailing.",
    "trailing ",
    "dir./x",
    "dir /x",
    " leading",
    "x/ y",
    "...",
    "con",
    "CON",
    "con.txt",
    "Con.tar.gz",
    "CON .txt",
    "x/NUL",
    "nul/x",
    "aux.c",
    "prn",
    "COM1",
    "com9.log",
    "COM¹",
    "LPT³.txt",
    "CONIN$",
    "conout$",
    "ｃｏｎ",
    "ＮＵＬ.txt",
    ".git",
    ".GIT/config",
    "x/.Git",
    "．ｇｉｔ",
    "git~1",
    "GIT~1/config",
    ".g\u200cit",
    ".git\u200d",
    "\u202egnp.exe",
    "a\u00a0b",
    "a\u2028b",
    "a\ufeffb",
    "\ud800",
    "a\udfffb",
    "‥",
    "．．/x",
    "․",
    "x" * (MAX_PART_BYTES + 1),
    "é" * 128,
    "x" * 10_240,
    "/".join(["x" * 200] * 6),
    "é/" * 400 + "x",
    "\U0001f600/" * 250 + "x",
]


@pytest.mark.parametrize("path", BAD, ids=lambda path: ascii(path)[:40])
def test_a_path_that_some_platform_cannot_keep_in_its_room_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match=r"\S") as refused:
        check_path(path)
    # What is said of it can be shown and written into a log.
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 300
    str(refused.value).encode()


@pytest.mark.parametrize("path", [None, b"x", 7, ["x"], ("x",)])
def test_what_is_no_text_is_no_path(path: object) -> None:
    with pytest.raises(TypeError, match="a path must be a text"):
        check_path(path)


@pytest.mark.parametrize(
    "path",
    [
        "a",
        "a.txt",
        ".hidden",
        "..a",
        "a..b",
        "a b/c d.md",
        "console",
        "com10",
        "lpt",
        "com",
        "nul-and-void",
        "a-con",
        "git",
        ".gitignore",
        "x.git",
        "straße",
        "日本語/メモ.md",
        "\U0001f600.md",
        "x" * MAX_PART_BYTES,
        "/".join(["x"] * (MAX_PATH_BYTES // 2)),
    ],
)
def test_an_ordinary_path_stays_what_it_is(path: str) -> None:
    assert check_path(path) == path


def test_a_path_is_spelled_in_composed_form() -> None:
    assert check_path("cafe\u0301/e\u0301") == "café/é"
    assert check_path("\u212b") == "Å"  # the sign of Ångström is the letter


def test_only_a_root_may_be_empty() -> None:
    assert check_root("") == ""
    assert check_root("docs/e\u0301") == "docs/é"
    with pytest.raises(ValueError, match=r"'\.\.'"):
        check_root("..")


def test_what_lies_under_a_directory_is_told_by_whole_parts() -> None:
    assert beneath("", "anything")
    assert beneath("docs", "docs")
    assert beneath("docs", "docs/a")
    assert not beneath("docs", "docs2")
    assert not beneath("docs/a", "docs")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("README.md", "readme.MD"),
        ("É", "é"),
        ("É", "e\u0301"),
        ("straße", "STRASSE"),
        ("ﬁle", "file"),
        ("ΣΑΣ", "σας"),
        ("K", "\u212a"),
        ("ａ", "A"),
        ("ẞ", "ss"),
        ("ǰ", "J\u030c"),
        ("x²", "X2"),
    ],
)
def test_paths_that_some_file_system_takes_for_one_collide(one: str, other: str) -> None:
    assert folded(one) == folded(other)


@pytest.mark.parametrize(("one", "other"), [("a", "b"), ("a/b", "ab"), ("é", "e"), ("ı", "i")])
def test_other_paths_do_not_collide(one: str, other: str) -> None:
    assert folded(one) != folded(other)


anything = st.text(max_size=40)
likely = st.lists(
    st.sampled_from(
        ["..", ".", "", "a", "B", "é", "e\u0301", "con", " ", "x.", "\\", ":", "ß", "‥", "\u202e"]
    ),
    max_size=6,
).map("/".join)
paths = st.one_of(anything, likely, st.from_regex(r"[\w .~-]{1,8}(/[\w .~-]{1,8}){0,3}"))


def accepted(path: str) -> str | None:
    try:
        return check_path(path)
    except ValueError:
        return None


@given(paths)
def test_a_checked_path_is_checked_already_and_leaves_no_directory(path: str) -> None:
    normal = accepted(path)
    if normal is None:
        return
    assert check_path(normal) == normal
    assert len(normal.encode()) <= MAX_PATH_BYTES
    assert not os.path.isabs(normal)
    whole = os.path.normpath(os.path.join("/rooms/one", normal))
    assert whole == f"/rooms/one/{normal}"
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        there = os.path.normpath(os.path.join("/rooms/one", unicodedata.normalize(form, normal)))
        assert there.startswith("/rooms/one/")


@given(st.text(max_size=20))
@example("\u0345\u0300")
@example("İ")
@example("ΐ")
@example("ǅ")
def test_what_a_path_is_folded_to_does_not_depend_on_its_case_or_composition(path: str) -> None:
    once = folded(path)
    assert folded(once) == once
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        assert folded(unicodedata.normalize(form, path)) == once
    assert folded(unicodedata.normalize("NFD", path).casefold()) == once


@given(st.characters(max_codepoint=0x2FFFF, exclude_categories=["Cs"]))
def test_a_letter_and_its_other_case_collide(letter: str) -> None:
    if letter != "ı":  # its upper case is that of another letter
        assert folded(letter.upper().lower()) == folded(letter.lower())
    assert folded(letter.lower()) == folded(letter) or len(letter.lower()) > 1
