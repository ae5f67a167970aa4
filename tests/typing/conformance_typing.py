"""What the type checkers know of the conformance suite; checked by `make check`, never run."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import assert_type

from trio_reactor.renewal import ClipRequest, Source, SourceOpener
from trio_reactor.renewal.conformance import Case, Environment, Length, Rig, cases, run_all


class Mine(Rig):
    name = "mine"
    capabilities = frozenset({"playable", "mortal"})
    quiet = 0.05

    def __init__(self, opener: SourceOpener) -> None:
        self._opener = opener

    @property
    def opener(self) -> SourceOpener:
        return self._opener

    def allocated(self) -> int:
        return 0

    def request(self, length: Length, /) -> ClipRequest:
        return ClipRequest({"frames": 5 if length == "short" else 500})

    async def end(self, source: Source, /) -> None:
        assert_type(source, Source)


async def suite(rig: Mine, environment: Environment) -> None:
    assert_type(cases(Mine), tuple[Case, ...])
    for case in cases(Mine):
        assert_type(case.sentence, str)
        await case.run(rig)
    assert_type(await run_all(Mine, environment), tuple[str, ...])


def fresh(make: AbstractAsyncContextManager[Mine]) -> Environment:
    return lambda: make
