"""The stores of the library keep every rule of the suite."""

from __future__ import annotations

from pathlib import Path

import pytest
from store_rigs import MemoryRig, SqliteRig

from trio_reactor.supervision.store.conformance import CASES, Case, cases


@pytest.mark.parametrize("case", cases(MemoryRig), ids=str)
async def test_the_store_in_memory_conforms(autojump_clock: object, case: Case) -> None:
    await case.run(MemoryRig())


@pytest.mark.parametrize("case", cases(SqliteRig), ids=str)
async def test_the_store_in_a_file_conforms(tmp_path: Path, case: Case) -> None:
    await case.run(SqliteRig(tmp_path))


@pytest.mark.parametrize("case", cases(SqliteRig), ids=str)
async def test_the_store_in_a_file_conforms_on_a_virtual_clock(
    autojump_clock: object, tmp_path: Path, case: Case
) -> None:
    rig = SqliteRig(tmp_path)
    rig.inline = True
    await case.run(rig)


def test_all_cases_apply_to_all_of_them() -> None:
    assert cases(MemoryRig) == cases(SqliteRig) == CASES
