"""A state machine's table as a diagram, and as a table to read.

A machine is a mapping from a state and what occurs in it to the state that follows.  Two things
keep a large one readable, and neither hides a transition:

`one`
    The states of these classes are drawn as one, where the difference between them is only why the
    machine is there.
`any`
    What the states of these classes all have in common, the same occurrence leading to the same
    state, is drawn once, from a node of its own that names them.

The diagram is Mermaid's `stateDiagram-v2`.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from enum import Enum
from typing import TypeAlias

import msgspec

from .names import NotDocumented, cell, table

__all__ = ["Edge", "Machine", "diagram", "edges", "label", "transitions"]

Machine: TypeAlias = Mapping[tuple[Hashable, str], Hashable]
"""From a state and what occurs to the state that follows."""


class Edge(msgspec.Struct, frozen=True):
    """Something leads from some states to another."""

    sources: tuple[str, ...]
    """The labels of the states; more than one where all of them have this in common."""
    called: str
    """What the states are called together; the label where there is one."""
    target: str
    occurrences: tuple[str, ...]
    """What leads there, in the order of the table."""


def label(state: Hashable) -> str:
    """What a state is called: its class, with what tells it from others of that class."""
    match state:
        case str():
            return state
        case Enum():
            return str(state.value)
        case msgspec.Struct():
            told = [_field(name, getattr(state, name)) for name in state.__struct_fields__]
            return type(state).__name__ + (f" ({', '.join(told)})" if told else "")
        case _:
            return str(state)


def _field(name: str, value: object) -> str:
    words = name.replace("_", " ")
    match value:
        case True:
            return words
        case False:
            return f"not {words}"
        case str():
            return value
        case _:
            return f"{words} {value}"


def edges(machine: Machine, *, one: Collection[str] = (), any_: Collection[str] = ()) -> list[Edge]:
    """The transitions, those between the same states together.

    Args:
        machine: The table.
        one: Names of classes whose states are drawn as one.
        any_: Names of classes whose states' common transitions are drawn once.

    Raises:
        NotDocumented: If the table has no state of one of these classes.
    """
    states = _states(machine)
    for name in (*one, *any_):
        if not any(_kind(state) == name for state in states):
            raise NotDocumented(f"the table has no state {name}")

    def shown(state: Hashable) -> str:
        return _kind(state) if _kind(state) in one else label(state)

    members = tuple(dict.fromkeys(shown(state) for state in states if _kind(state) in any_))
    leads: dict[tuple[str, str], set[str]] = {}
    for (source, occurrence), target in machine.items():
        leads.setdefault((occurrence, shown(target)), set()).add(shown(source))
    common = f"any of {', '.join(any_)}"
    found: dict[tuple[str, str], Edge] = {}
    for (source, occurrence), target in machine.items():
        called, after = shown(source), shown(target)
        sources: tuple[str, ...] = (called,)
        if len(members) > 1 and called in members and leads[occurrence, after] >= set(members):
            called, sources = common, members
        before = found.get((called, after))
        why = () if before is None else before.occurrences
        if occurrence not in why:
            found[called, after] = Edge(sources, called, after, (*why, occurrence))
    return list(found.values())


def diagram(machine: Machine, *, one: Collection[str] = (), any_: Collection[str] = ()) -> str:
    """The machine as a Mermaid diagram; see `edges` for the arguments."""
    drawn = edges(machine, one=one, any_=any_)
    nodes = list(dict.fromkeys(node for edge in drawn for node in (edge.called, edge.target)))
    names = {node: f"s{number}" for number, node in enumerate(nodes, 1)}
    within = {state for edge in drawn if len(edge.sources) > 1 for state in edge.sources}
    entered = {edge.target for edge in drawn}
    left = {edge.called for edge in drawn} | within
    together = {edge.called for edge in drawn if len(edge.sources) > 1}
    lines = ["stateDiagram-v2"]
    lines += [f'state "{node}" as {names[node]}' for node in nodes]
    lines += [f"[*] --> {names[node]}" for node in nodes if node not in entered | together]
    lines += [
        f"{names[edge.called]} --> {names[edge.target]} : {', '.join(edge.occurrences)}"
        for edge in drawn
    ]
    lines += [f"{names[node]} --> [*]" for node in nodes if node not in left]
    return "\n    ".join(lines)


def transitions(machine: Machine, *, one: Collection[str] = (), any_: Collection[str] = ()) -> str:
    """The machine as a Markdown table; see `edges` for the arguments."""
    rows = [
        (cell(edge.called), ", ".join(f"`{why}`" for why in edge.occurrences), cell(edge.target))
        for edge in edges(machine, one=one, any_=any_)
    ]
    return table(("in the state", "this", "leads to"), rows)


def _states(machine: Machine) -> Iterable[Hashable]:
    return dict.fromkeys(
        state for (source, _), target in machine.items() for state in (source, target)
    )


def _kind(state: Hashable) -> str:
    """What `one` and `any` name: the class of a state that is a value, else the state itself."""
    return type(state).__name__ if isinstance(state, msgspec.Struct) else label(state)
