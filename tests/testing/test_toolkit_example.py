"""The worked example of the package, as a user would copy it."""

from __future__ import annotations

import gc
import re
import textwrap

import pytest
import trio

import trio_reactor.testing
from trio_reactor.testing import InvariantViolated, Run, Summary, run, simulate


def example(**changes: str) -> dict[str, object]:
    """The names that the example defines, after it ran; with some of its text replaced."""
    assert trio_reactor.testing.__doc__ is not None
    block = re.search(r"\n\n((?: {4}.*\n|\n)+)", trio_reactor.testing.__doc__)
    assert block is not None
    source = textwrap.dedent(block[1])
    for before, after in changes.items():
        assert before in source
        source = source.replace(before, after)
    names: dict[str, object] = {"__name__": "example"}
    exec(compile(source, "example.py", "exec"), names)
    return names


def test_the_example_runs_as_it_is_written() -> None:
    summary = example()["summary"]
    assert isinstance(summary, Summary)
    assert summary.runs == 50
    assert summary.counts["opened"] == summary.counts["left"] > 500
    assert summary.counts["fault"] > summary.counts["lost"] > 0


def test_a_mistake_in_the_example_is_found_and_shown() -> None:
    with pytest.raises(InvariantViolated) as caught:
        example(**{"trio.Semaphore(size)": "trio.Semaphore(size + 1)"})
    shown = str(caught.value)
    assert "at most 3 between 'opened' and 'left': there are 4: connection-" in shown
    assert f"run(example.world, seed={caught.value.seed}, faults=example.faults)" in shown


@pytest.mark.parametrize("seed", [3, 17, 42])
def test_seeds_that_failed_once_are_kept_as_a_list(seed: int) -> None:
    names = example(**{"range(50)": "range(9)"})
    done: Run[None] = run(names["world"], seed=seed, faults=names["faults"])  # type: ignore[arg-type]
    assert done.trace.counts["closed"] == 1


def test_a_scenario_of_dozens_of_tasks_runs_under_many_seeds_without_leaking() -> None:

    names = example(**{"range(50)": "range(9)"})

    def tasks() -> int:
        gc.collect()
        return sum(isinstance(each, trio.lowlevel.Task) for each in gc.get_objects())

    before = tasks()
    simulate(names["world"], range(100, 150), faults=names["faults"])  # type: ignore[arg-type]
    assert tasks() <= before
