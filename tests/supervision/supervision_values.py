"""Any value of the supervision's model, for properties."""

from __future__ import annotations

from hypothesis import strategies as st

from trio_reactor.events import FailureRecord
from trio_reactor.supervision.model.child import Child, Launch, ProcessIdentity
from trio_reactor.supervision.model.ends import (
    STOP_REASONS,
    Exited,
    ExitStatus,
    Killed,
    NotStarted,
    Stop,
)
from trio_reactor.supervision.model.keys import Handle, Key
from trio_reactor.supervision.model.records import (
    Loaded,
    Loading,
    Open,
    SessionRecord,
    Stopped,
    Stopping,
)
from trio_reactor.supervision.model.work import (
    CodeIdentity,
    Command,
    Enforced,
    Limits,
    PythonCode,
)

__all__ = ["handles", "keys", "limits", "phases", "records", "works"]

integers = st.integers(min_value=-(2**63), max_value=2**63 - 1)
floats = st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(max_size=20)
words = texts.filter(lambda text: "\0" not in text)
names = st.text(
    st.characters(exclude_categories=("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs")),
    min_size=1,
    max_size=20,
)
identifiers = st.from_regex(r"[a-z_][a-z0-9_]{0,5}", fullmatch=True)
variables = st.tuples(
    st.text(st.characters(exclude_characters="\0=", exclude_categories=("Cs",)), min_size=1), words
)

keys = st.builds(Key, names, st.one_of(st.just(""), names))
handles = st.builds(Handle, keys, st.integers(1, 2**62), texts)
limits = st.builds(
    Limits,
    memory=st.none() | st.integers(1, 2**62),
    cpu_time=st.none() | st.floats(min_value=0.001, max_value=1e9),
    open_files=st.none() | st.integers(1, 2**31),
    processes=st.none() | st.integers(1, 2**31),
)
python = st.builds(
    PythonCode,
    st.builds("{}.{}:{}".format, identifiers, identifiers, identifiers).filter(
        lambda specifier: all(
            part.isidentifier() for part in specifier.replace(":", ".").split(".")
        )
    ),
    st.lists(words, max_size=2).map(tuple),
    st.none() | texts,
    st.lists(variables, max_size=2).map(tuple),
    st.none() | words.filter(bool),
)
commands = st.builds(Command, st.lists(words.filter(bool), min_size=1, max_size=3).map(tuple))
works = st.one_of(python, commands)
processes = st.builds(ProcessIdentity, integers, integers, texts, integers)
launches = st.builds(Launch, texts, floats, texts)
children = st.builds(Child, st.none() | processes, texts, texts)
enforcements = st.none() | st.sampled_from(["cgroup", "rlimit", "none"])
enforced = st.builds(Enforced, enforcements, enforcements, enforcements, enforcements)
codes = st.builds(CodeIdentity, texts, texts, st.none() | texts, st.none() | texts)
exits = st.builds(ExitStatus, st.none() | integers, st.none() | integers)
failures = st.builds(
    FailureRecord,
    texts,
    texts,
    st.none() | st.sampled_from(["not-submitted", "unknown", "replied"]),
    st.booleans(),
    st.none() | texts,
)
causes = st.lists(failures, max_size=2).map(tuple)
stops = st.builds(
    Stop, st.sampled_from(STOP_REASONS), st.none() | exits, st.none() | failures, st.none() | texts
)
terminations = st.one_of(
    st.builds(NotStarted, causes),
    st.builds(Exited, exits, causes),
    st.builds(Killed, exits, causes),
)
live = st.one_of(
    st.just(Open()),
    st.builds(Loading, works, launches, st.none() | children, st.none() | enforced),
    st.builds(Loaded, works, launches, children, enforced, codes),
)
phases = st.one_of(
    live,
    st.builds(Stopping, stops, live),
    st.builds(Stopped, stops, terminations, st.none() | works, st.none() | codes, st.booleans()),
)
records = st.builds(SessionRecord, handles, texts, floats, limits, floats, phases, texts)
