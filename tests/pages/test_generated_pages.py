"""What the pages say that is made from the code: all of it, only it, and never in silence."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Hashable
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Literal, cast
from xml.etree import ElementTree as ET

import msgspec
import pytest
from mkdocs.exceptions import PluginError
from mkdocs.structure.pages import Page
from pydantic import BaseModel, ConfigDict, Field

from docs.generators import hook, transitions
from docs.generators.errors import errors, errors_of
from docs.generators.markers import filled, markers
from docs.generators.names import NotDocumented
from docs.generators.options import options
from docs.generators.pictures import PICTURES, one_session, two_sessions
from docs.generators.records import fields, records, records_of, summary
from trio_reactor import errors as floor_errors
from trio_reactor import renewal
from trio_reactor.errors import ReactorError
from trio_reactor.renewal import RenewalOptions, events
from trio_reactor.renewal.policy.phases import TRANSITIONS
from trio_reactor.supervision import errors as supervision_errors
from trio_reactor.supervision.errors import KeyHeld, TerminationUnconfirmed
from trio_reactor.supervision.events import SUPERVISION_EVENTS
from trio_reactor.supervision.model import machine as sessions
from trio_reactor.supervision.model.ends import STOP_REASONS
from trio_reactor.supervision.options import SupervisorOptions
from trio_reactor.supervision.simulation import MachineOptions

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
SVG = "{http://www.w3.org/2000/svg}"
LIVE = ("Prepared", "OnAir", "Recovering")

Edges = set[tuple[str, str, str]]


def drawn(diagram: str, members: dict[str, list[str]] | None = None) -> Edges:
    """The edges that a reader of a diagram sees, by the labels of their states."""
    called = {
        found[2]: found[1]
        for found in re.finditer(r'^ *state "(.*)" as (\w+)$', diagram, re.MULTILINE)
    }
    edges: Edges = set()
    for found in re.finditer(r"^ *(\w+) --> (\w+) : (.*)$", diagram, re.MULTILINE):
        source, target = called[found[1]], called[found[2]]
        for each in (members or {}).get(source, [source]):
            for occurrence in found[3].split(", "):
                assert (each, occurrence, target) not in edges, "drawn twice"
                edges.add((each, occurrence, target))
    return edges


def tabled(table: str) -> Edges:
    """The same of a table, where nothing is drawn together."""
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]
    return {
        (source, occurrence.strip("`"), target)
        for source, occurrences, target in rows
        for occurrence in occurrences.split(", ")
    }


def edges_of(machine: transitions.Machine, one: tuple[str, ...] = ()) -> Edges:
    def shown(state: Hashable) -> str:
        name = type(state).__name__
        return name if name in one else transitions.label(state)

    return {(shown(state), why, shown(after)) for (state, why), after in machine.items()}


# ----------------------------------------------------------------------------------- state machines


def test_the_diagram_of_a_sources_life_has_exactly_the_edges_of_the_table() -> None:
    machine = cast("transitions.Machine", TRANSITIONS)
    assert drawn(transitions.diagram(machine)) == edges_of(machine)
    assert len(edges_of(machine)) == len(TRANSITIONS), "no two states have one label"
    assert tabled(transitions.transitions(machine)) == edges_of(machine)


def test_the_diagram_of_a_sessions_life_has_exactly_the_edges_of_the_table() -> None:
    machine = cast("transitions.Machine", sessions.TRANSITIONS)
    page = filled((ROOT / "docs/reference/supervision-states.md").read_text())
    assert drawn(transitions.diagram(machine)) == edges_of(machine)
    assert transitions.diagram(machine) in page
    assert transitions.transitions(machine) in page
    for word in (*sessions.STATES, *sessions.OCCURRENCES):
        assert re.search(rf"^(\| {word} \||- `{word}`: )", page, re.MULTILINE), word


def test_every_reason_of_a_stop_is_told() -> None:
    page = (ROOT / "docs/reference/supervision-events.md").read_text()
    assert tuple(re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE)) == STOP_REASONS


def test_states_drawn_as_one_and_what_many_have_in_common_hide_no_edge() -> None:
    machine = cast("transitions.Machine", TRANSITIONS)
    one = ("Leaving", "Closed")
    live = [
        transitions.label(state)
        for state in dict.fromkeys(state for state, _ in TRANSITIONS)
        if type(state).__name__ in LIVE
    ]
    diagram = transitions.diagram(machine, one=one, any_=LIVE)
    together = "any of Prepared, OnAir, Recovering"
    assert drawn(diagram, {together: live}) == edges_of(machine, one)
    assert diagram.count(" --> ") < len(TRANSITIONS)
    assert diagram.count("[*] -->") == diagram.count("--> [*]") == 1


def test_a_machine_of_plain_states_is_drawn_too() -> None:
    class Door(Enum):
        OPEN = "open"
        SHUT = "shut"

    machine: transitions.Machine = {
        (Door.OPEN, "push"): Door.SHUT,
        (Door.SHUT, "pull"): Door.OPEN,
        (Door.SHUT, "burn"): "ashes",
    }
    assert transitions.diagram(machine).splitlines() == [
        "stateDiagram-v2",
        '    state "open" as s1',
        '    state "shut" as s2',
        '    state "ashes" as s3',
        "    s1 --> s2 : push",
        "    s2 --> s1 : pull",
        "    s2 --> s3 : burn",
        "    s3 --> [*]",
    ]
    with pytest.raises(NotDocumented, match="no state ajar"):
        transitions.diagram(machine, one=("ajar",))


# ------------------------------------------------------------------------------------------ records


def test_every_event_has_a_section_in_the_order_in_which_a_reader_sees_them() -> None:
    of = records_of(events.RENEWAL_EVENTS)
    names = [event.__name__ for event in events.RENEWAL_EVENTS]
    page = records(of)
    assert re.findall(r"^### (\w+)$", page, re.MULTILINE) == names
    assert re.findall(r"^\| \[(\w+)\]", summary(of), re.MULTILINE) == names
    for section, event in zip(page.split("### ")[1:], events.RENEWAL_EVENTS, strict=True):
        assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == list(event.__struct_fields__)
        assert event.__doc__ is not None
        assert event.__doc__.splitlines()[0] in section


def test_every_event_of_a_supervisor_has_a_section() -> None:
    page = filled((ROOT / "docs/reference/supervision-events.md").read_text())
    names = [event.__name__ for event in SUPERVISION_EVENTS]
    assert re.findall(r"^### (\w+)$", page, re.MULTILINE)[: len(names)] == names


def test_a_fields_meaning_is_its_own_docstring_and_else_that_of_its_type() -> None:
    (gap,) = (field for field in fields(events.HandedOver) if field.name == "gap")
    assert gap.default == "0.0"
    assert "only after an exclusive source" in gap.meaning
    (evidence,) = (field for field in fields(events.HandedOver) if field.name == "evidence")
    assert evidence.meaning == ""
    assert evidence.type_meaning.startswith("What was known in the step")
    assert evidence.type_meaning in records([events.HandedOver])


def test_the_page_gives_meanings_where_there_are_none_and_only_there() -> None:
    page = records([events.HandedOver], {"old": "The one that goes.", "gap": "never seen"})
    assert "The one that goes." in page
    assert "never seen" not in page
    with pytest.raises(NotDocumented, match="not there: ancient"):
        records([events.HandedOver], {"ancient": "It was there once."})


@pytest.mark.parametrize("system", ["renewal", "supervision"])
def test_the_events_page_leaves_no_field_of_an_event_without_a_meaning(system: str) -> None:
    page = filled((ROOT / f"docs/reference/{system}-events.md").read_text())
    assert re.findall(r"^\| `\w+` \|.*\|  \|$", page, re.MULTILINE) == []


# ------------------------------------------------------------------------------------------ options


class Tea(BaseModel):
    """Options with everything that an option can have."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    sort: Literal["green", "black"]
    """What is in it."""
    minutes: Annotated[float, Field(gt=0, lt=99)] = 3.5
    """Long | short."""
    cups: Annotated[int, Field(ge=1, le=64_000)] | None = None
    milk: bool = False


def test_an_option_is_told_with_its_type_default_bounds_and_meaning() -> None:
    assert options(Tea).splitlines()[2:] == [
        "| `sort` | <code>'green' &#124; 'black'</code> | must be given |  | What is in it. |",
        "| `minutes` | <code>float</code> | <code>3.5</code> | > 0, < 99 | Long \\| short. |",
        "| `cups` | <code>int &#124; None</code> | <code>None</code> | ≥ 1, ≤ 64,000 |  |",
        "| `milk` | <code>bool</code> | <code>False</code> |  |  |",
    ]


class Size(msgspec.Struct, frozen=True):
    """What is no model of pydantic's."""

    height: int
    width: int | None = None
    name: str = "cup"


def test_an_option_that_is_a_record_is_told_by_what_is_set_in_it() -> None:
    class Pot(BaseModel):
        model_config = ConfigDict(arbitrary_types_allowed=True)
        size: Size = Size(1_000, name="pot")

    told = "<code>Size</code> | <code>Size(height=1,000, name='pot')</code> |  |  |"
    assert options(Pot).splitlines()[2:] == [f"| `size` | {told}"]


@pytest.mark.parametrize("model", [RenewalOptions, SupervisorOptions, MachineOptions])
def test_every_option_is_told_and_has_a_meaning(model: type[BaseModel]) -> None:
    table = options(model)
    assert re.findall(r"^\| `(\w+)`", table, re.MULTILINE) == list(model.model_fields)
    assert "|  |\n" not in f"{table}\n"


# ------------------------------------------------------------------------------------------- errors


def test_every_error_that_can_be_imported_from_a_package_is_told() -> None:
    told = set(errors_of(renewal)) | set(errors_of(floor_errors))
    public = {
        each
        for module in (renewal, floor_errors)
        for each in (getattr(module, name) for name in module.__all__)
        if isinstance(each, type) and issubclass(each, ReactorError)
    }
    assert public
    assert public <= told
    table = errors(list(told))
    assert all(f"| `{each.__name__}` |" in table for each in public)


def test_an_error_says_what_it_is_and_what_it_says_of_the_operation() -> None:
    table = errors([renewal.OpenFailed, floor_errors.Lost], {"Lost": "Begin again."})
    assert "| `OpenFailed` | `ReactorError` | A source could not be opened. | `replied` |" in table
    lost = next(line for line in table.splitlines() if line.startswith("| `Lost`"))
    assert "`ReactorError`, `trio.BrokenResourceError`" in lost
    assert lost.endswith("| `not-submitted` | Begin again. |")
    with pytest.raises(NotDocumented, match="not there: Gone"):
        errors([floor_errors.Lost], {"Gone": "It was there once."})


# ------------------------------------------------------------------------------------------ markers


def test_an_error_that_always_says_the_same_of_the_operation_is_told_with_that() -> None:
    rows = errors([TerminationUnconfirmed, KeyHeld]).splitlines()[2:]
    assert ["`unknown`" in row for row in rows] == [True, False]
    assert ["`replied`" in row for row in rows] == [False, True]


def test_every_error_of_supervision_is_told_with_what_a_caller_does() -> None:
    page = filled((ROOT / "docs/reference/supervision-errors.md").read_text())
    rows = re.findall(r"^\| `(\w+)` \|.*\| (.*) \|$", page, re.MULTILINE)
    assert {name for name, _ in rows} == set(supervision_errors.__all__)
    assert all(does for _, does in rows)


def test_every_marker_of_every_page_resolves() -> None:
    asked = [marker for page in PAGES for marker in markers(page.read_text())]
    assert {marker.kind for marker in asked} >= {
        "diagram",
        "transitions",
        "summary",
        "records",
        "options",
        "errors",
    }
    for page in PAGES:
        assert "<!--" not in filled(page.read_text()), page


@pytest.mark.parametrize(
    ("marker", "complaint"),
    [
        ("picture trio_reactor", "unknown marker 'picture'"),
        ("", "unknown marker ''"),
        ("options", "names what it is about"),
        ("options trio_reactor.nowhere:Options", "no module trio_reactor.nowhere"),
        ("options trio_reactor.renewal:Nothing", "has no Nothing"),
        ("options trio_reactor.renewal:Renewal", "no model of options"),
        ("records trio_reactor.renewal:Renewal", "no record"),
        ("records trio_reactor.renewal:__doc__", "no record"),
        ("errors trio_reactor.renewal:Renewal", "no module"),
        ("diagram trio_reactor.renewal:Renewal", "no transition table"),
        ("diagram trio_reactor.renewal trio_reactor", "names one table"),
        ("options trio_reactor.renewal:RenewalOptions one=lead", "has no option one"),
        ("options trio_reactor.renewal:RenewalOptions\nlead: Long.", "takes no words"),
        ("errors trio_reactor.errors\nwithout a meaning", "not a word and its meaning"),
    ],
)
def test_a_marker_that_cannot_be_filled_is_refused(marker: str, complaint: str) -> None:
    with pytest.raises(NotDocumented, match=re.escape(complaint)):
        filled(f"# A page\n\n<!-- generated: {marker} -->\n")


def test_the_build_names_the_page_that_asks_for_what_is_not_there() -> None:
    page = cast("Page", SimpleNamespace(file=SimpleNamespace(src_uri="guide/tea.md")))
    with pytest.raises(PluginError, match=r"guide/tea\.md: unknown marker 'tea'"):
        hook.on_page_markdown("<!-- generated: tea -->", page=page, config=None, files=None)
    assert hook.on_page_markdown("plain", page=page, config=None, files=None) == "plain"


def test_the_links_of_the_readme_lead_to_the_pages_from_where_it_is_read() -> None:
    links = re.compile(r"\]\(([^)#]+)[^)]*\)")
    readme = (ROOT / "README.md").read_text()
    assert all((ROOT / link).is_file() for link in links.findall(readme))
    page = cast("Page", SimpleNamespace(file=SimpleNamespace(src_uri="index.md")))
    index = (ROOT / "docs" / "index.md").read_text()
    shown = hook.on_page_markdown(index, page=page, config=None, files=None)
    assert len(links.findall(shown)) == len(links.findall(readme)) > 2
    assert all((ROOT / "docs" / link).is_file() for link in links.findall(shown))


def test_the_site_builds_and_shows_what_was_generated(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", tmp_path],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    states = (tmp_path / "reference/renewal-states/index.html").read_text()
    assert '<pre class="mermaid">' in states
    told = (tmp_path / "reference/renewal-events/index.html").read_text()
    assert all(f'<h3 id="{event.__name__.lower()}">' in told for event in events.RENEWAL_EVENTS)
    assert all((tmp_path / where).read_text().startswith("<?xml") for where in PICTURES)


# ----------------------------------------------------------------------------------------- pictures


def test_the_picture_of_one_session_shows_what_its_page_says_of_it() -> None:
    svg = one_session()
    told = "\n".join(each.text or "" for each in ET.fromstring(svg).iter(f"{SVG}title"))
    assert told.count(", handover, ") >= 3
    assert "reconnecting (broken, held by source 2)" in told
    assert "recovered in" in told
    assert "replaced: died" in told
    assert svg == one_session(), "it is the same whenever the site is built"


def test_the_picture_of_two_sessions_shows_both() -> None:
    lanes = [each.text for each in ET.fromstring(two_sessions()).iter(f"{SVG}title")]
    assert "stage: output" in lanes
    assert "lobby: output" in lanes


def test_every_picture_is_shown_on_a_page() -> None:
    for where in PICTURES:
        folder, name = where.split("/")
        pages = [page.read_text() for page in PAGES if page.parent.name == folder]
        assert any(f"]({name})" in page for page in pages), where
