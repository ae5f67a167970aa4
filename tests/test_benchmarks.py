"""The benchmarks' harness, with benchmarks that measure nothing but the harness."""

from __future__ import annotations

import io
import json
import math
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

import benchmarks
from benchmarks.__main__ import build_app, table
from benchmarks.harness import Benchmark, Result, discover, run, select, write

FAST = """
from benchmarks.harness import Benchmark

BENCHMARKS = [
    Benchmark("twice_as_slow", "us/op", lambda: 4.0, baseline=lambda: 2.0, at_most=1.5),
    Benchmark("fast_enough", "events/s", lambda: 300.0, baseline=lambda: 200.0, at_least=1.1),
]
"""
PLAIN = """
from benchmarks.harness import Benchmark

BENCHMARKS = (Benchmark("plain", "ms", lambda: 12345.678),)
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """Makes a package of benchmark modules with this text."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    for name in ("FORCE_COLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)

    def make(**modules: str) -> str:
        (tmp_path / "fakes").mkdir()
        for name, text in {"__init__": "", **modules}.items():
            (tmp_path / "fakes" / f"{name}.py").write_text(text)
        return "fakes"

    yield make
    for name in [name for name in sys.modules if name.partition(".")[0] == "fakes"]:
        del sys.modules[name]


def counting(order: list[str], name: str, values: list[float]) -> Callable[[], float]:
    remaining = iter(values)

    def measure() -> float:
        order.append(name)
        return next(remaining)

    return measure


# Measuring


def test_subject_and_baseline_are_measured_in_turn_and_the_warm_up_does_not_count() -> None:
    order: list[str] = []
    result = run(
        Benchmark(
            "name",
            "ms",
            counting(order, "subject", [999, 3, 9, 6]),
            baseline=counting(order, "baseline", [999, 2, 1, 4]),
            rounds=3,
        )
    )
    assert order == ["subject", "baseline"] * 4
    assert (result.value, result.baseline, result.ratio) == (6, 2, 3)


def test_the_rounds_asked_for_go_before_the_benchmarks_own() -> None:
    order: list[str] = []
    benchmark = Benchmark("name", "ms", counting(order, "subject", [1] * 20), rounds=7)
    assert run(benchmark, 2).baseline is None
    assert len(order) == 3
    run(benchmark)
    assert len(order) == 3 + 8


@pytest.mark.parametrize(
    ("limits", "baseline", "holds"),
    [
        ({}, 1.0, None),
        ({"at_most": 2.0}, 1.0, True),
        ({"at_most": 1.9}, 1.0, False),
        ({"at_least": 2.0}, 1.0, True),
        ({"at_least": 2.1}, 1.0, False),
        ({"at_least": 1.0, "at_most": 1.5}, 1.0, False),
        ({"at_most": 1.5}, 2.0, True),  # the ratio is limited where there is one …
        ({"at_most": 1.5}, None, False),  # … and the value where there is none
        ({"at_most": 2.0}, None, True),
    ],
)
def test_a_limit_is_put_on_the_ratio_or_on_a_plain_value(
    limits: dict[str, float], baseline: float | None, holds: bool | None
) -> None:
    benchmark = Benchmark("name", "ms", lambda: 2.0, **limits)
    assert Result(benchmark, 2.0, baseline).holds is holds


@pytest.mark.parametrize("measured", [math.nan, math.inf])
def test_a_measurement_that_is_no_number_is_refused_by_name(measured: float) -> None:
    with pytest.raises(ValueError, match="odd measured"):
        run(Benchmark("odd", "ms", lambda: measured))


def test_a_baseline_of_zero_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="baseline of odd is zero"):
        run(Benchmark("odd", "ms", lambda: 1.0, baseline=lambda: 0.0))


@pytest.mark.parametrize(
    ("name", "unit", "rounds"), [("", "ms", 7), ("name", "", 7), ("name", "ms", 0)]
)
def test_a_benchmark_without_name_unit_or_rounds_is_refused(
    name: str, unit: str, rounds: int
) -> None:
    with pytest.raises(ValueError, match=r"name and a unit|rounds must be at least 1"):
        Benchmark(name, unit, lambda: 1.0, rounds=rounds)


# Finding


def test_benchmarks_are_found_by_module_and_chosen_by_either_name(
    package: Callable[..., str],
) -> None:
    found = discover(package(fast=FAST, plain=PLAIN, shared="WHAT = 'no benchmarks here'"))
    assert [each.name for each in found] == ["twice_as_slow", "fast_enough", "plain"]
    assert [each.name for each in select(found, [])] == ["twice_as_slow", "fast_enough", "plain"]
    assert [each.name for each in select(found, ["plain", "twice_as_slow"])] == [
        "plain",
        "twice_as_slow",
    ]
    assert [each.name for each in select(found, ["fast", "fast_enough"])] == [
        "twice_as_slow",
        "fast_enough",
    ]
    with pytest.raises(ValueError, match=r"no benchmark is named 'nope'; there are: fast, plain, "):
        select(found, ["nope"])


def test_a_module_whose_dependency_is_not_installed_is_left_out_and_said(
    package: Callable[..., str],
) -> None:
    found = discover(package(plain=PLAIN, media="import not_installed_here.deeper"))
    assert [each.name for each in found] == ["plain"]
    assert found.missing == {"media": "not_installed_here"}
    with pytest.raises(ValueError, match="media needs not_installed_here"):
        select(found, ["media"])


@pytest.mark.parametrize("text", ["import fakes.gone", "import trio_reactor.gone", "1 / 0"])
def test_a_module_that_is_broken_is_not_left_out(package: Callable[..., str], text: str) -> None:
    with pytest.raises((ModuleNotFoundError, ZeroDivisionError)):
        discover(package(broken=text))


def test_two_benchmarks_of_one_name_are_refused(package: Callable[..., str]) -> None:
    with pytest.raises(ValueError, match="'plain' is a benchmark of both one and two"):
        discover(package(one=PLAIN, two=PLAIN))


def test_something_else_among_the_benchmarks_is_refused(package: Callable[..., str]) -> None:
    with pytest.raises(TypeError, match=r"odd\.BENCHMARKS holds 'no'"):
        discover(package(odd="BENCHMARKS = ['no']"))


# Showing


def test_the_results_are_a_list_of_five_facts_each(tmp_path: Path) -> None:
    compared = Benchmark("compared", "us/op", lambda: 1.0, at_most=9)
    plain = Benchmark("plain", "ms", lambda: 1.0)
    output = tmp_path / "deep" / "bench.json"
    write([Result(compared, 3.0, 2.0), Result(plain, 5.0, None)], output)
    assert json.loads(output.read_text()) == [
        {"name": "compared", "value": 3.0, "unit": "us/op", "baseline": 2.0, "ratio": 1.5},
        {"name": "plain", "value": 5.0, "unit": "ms", "baseline": None, "ratio": None},
    ]


def test_the_table_shows_each_limit_and_whether_it_holds() -> None:
    def measure() -> float:
        return 1.0

    shown = io.StringIO()
    Console(file=shown, width=120, force_terminal=False).print(
        table(
            [
                Result(Benchmark("slow", "us/op", measure, at_most=1.5), 4.0, 2.0),
                Result(Benchmark("fast", "events/s", measure, at_least=1.1), 3000.0, 2000.0),
                Result(Benchmark("plain", "ms", measure), 0.25, None),
            ]
        )
    )
    rows = {cells[0]: cells[1:] for cells in _rows(shown.getvalue())}
    assert rows["slow"] == ["4", "2", "us/op", "2", "≤ 1.5", "NO"]
    assert rows["fast"] == ["3,000", "2,000", "events/s", "1.5", "≥ 1.1", "yes"]
    assert rows["plain"] == ["0.25", "", "ms", "", "", ""]


# The command


def test_the_command_measures_everything_writes_it_and_shows_it(
    package: Callable[..., str], tmp_path: Path
) -> None:
    shown = CliRunner().invoke(build_app(package(fast=FAST, plain=PLAIN)), ["--rounds", "1"])
    assert shown.exit_code == 0, shown.output
    results = json.loads((tmp_path / "build" / "bench.json").read_text())
    assert [result["name"] for result in results] == ["twice_as_slow", "fast_enough", "plain"]
    assert [cells[0] for cells in _rows(shown.stdout)] == ["name", *(r["name"] for r in results)]
    assert "written: build/bench.json" in shown.stdout


def test_the_command_measures_what_is_named_and_says_what_is_left_out(
    package: Callable[..., str], tmp_path: Path
) -> None:
    app = build_app(package(fast=FAST, plain=PLAIN, media="import not_installed_here"))
    everything = CliRunner().invoke(app, ["--quick", "--output", "all.json"])
    assert "left out: media needs not_installed_here" in everything.stderr
    assert len(json.loads((tmp_path / "all.json").read_text())) == 3
    named = CliRunner().invoke(app, ["plain", "--rounds", "2", "--output", "one.json"])
    assert "left out" not in named.stderr
    assert [r["name"] for r in json.loads((tmp_path / "one.json").read_text())] == ["plain"]


def test_a_limit_that_does_not_hold_is_a_failure_only_when_checking(
    package: Callable[..., str],
) -> None:
    app = build_app(package(fast=FAST))
    assert CliRunner().invoke(app, ["--quick"]).exit_code == 0
    checked = CliRunner().invoke(app, ["--check", "--quick"])
    assert checked.exit_code == 1
    assert "beyond the limit: twice_as_slow" in checked.stderr
    assert CliRunner().invoke(app, ["--check", "--quick", "fast_enough"]).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nope"], "no benchmark is named 'nope'"),
        (["--rounds", "0"], "--rounds"),
        (["--rounds", "many"], "--rounds"),
        (["--quick", "--rounds", "3"], "--quick"),
        (["--output", "."], "directory"),
        (["--output", "file/bench.json"], "--output"),
        (["--unheard-of"], "--unheard-of"),
    ],
)
def test_a_wrong_argument_is_named_and_nothing_is_measured(
    package: Callable[..., str], tmp_path: Path, arguments: list[str], said: str
) -> None:
    (tmp_path / "file").touch()
    refused = CliRunner().invoke(build_app(package(plain=PLAIN)), arguments)
    assert refused.exit_code == 2
    assert said in _plain(refused.stderr)
    assert not (tmp_path / "build").exists()


def test_it_runs_as_a_person_runs_it(tmp_path: Path) -> None:
    output = tmp_path / "bench.json"
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks", "lanes", "--quick", "--output", str(output)],
        cwd=Path(benchmarks.__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "lanes_enter_vs_lock" in ran.stdout
    (result,) = json.loads(output.read_text())
    assert result["ratio"] == result["value"] / result["baseline"]


def test_the_projects_own_benchmarks_are_found_and_have_limits_where_they_compare() -> None:
    found = discover()
    assert "lanes_enter_vs_lock" in {each.name for each in found}
    for benchmark in found:
        if benchmark.baseline is not None:
            assert (benchmark.at_most, benchmark.at_least) != (None, None), benchmark.name


def _rows(shown: str) -> list[list[str]]:
    lines = (line.replace("┃", "│") for line in shown.splitlines())
    return [
        [cell.strip() for cell in line.split("│")[1:-1]] for line in lines if line.startswith("│")
    ]


def _plain(shown: str) -> str:
    """The words, without the frame, the styles and the lines that a terminal gets."""
    return " ".join(re.sub(r"\x1b\[[0-9;]*m", "", shown).replace("│", " ").split())
