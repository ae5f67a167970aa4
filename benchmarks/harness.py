"""How a benchmark is described, found and measured.

A benchmark is two functions that each measure once and return a number in the same unit: the
subject, and, where there is something fair to compare it with, a baseline.  They are measured in
turn (subject, baseline, subject, baseline, …) after a warm-up, and the medians are reported, so a
machine that slows down half-way slows both.  A limit belongs to the benchmark: it is put on the
ratio where there is a baseline and on the value where there is none.

A module of this package that offers `BENCHMARKS: Sequence[Benchmark]` is found by itself.
"""

from __future__ import annotations

import gc
import importlib
import json
import math
import pkgutil
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Benchmark", "Discovery", "Result", "discover", "run", "select", "write"]


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One thing that is measured.

    Args:
        name: Its name, unique among all benchmarks.
        unit: The unit of the numbers, such as `us/op` or `events/s`.
        measure: Measures the subject once.
        baseline: Measures, in the same unit, what the subject is compared with.
        at_most: The most that the ratio (without a baseline: the value) may be.
        at_least: The least that it may be.
        rounds: How many times each is measured, beside the warm-up.

    Raises:
        ValueError: If the name or unit is empty, or `rounds` is less than one.
    """

    name: str
    unit: str
    measure: Callable[[], float]
    baseline: Callable[[], float] | None = None
    at_most: float | None = None
    at_least: float | None = None
    rounds: int = 7

    def __post_init__(self) -> None:
        if not self.name or not self.unit:
            raise ValueError("a benchmark has a name and a unit")
        if self.rounds < 1:
            raise ValueError(f"{self.name}: rounds must be at least 1, not {self.rounds}")


@dataclass(frozen=True, slots=True)
class Result:
    """What was measured: the medians, and their ratio (value / baseline) where it has one."""

    benchmark: Benchmark
    value: float
    baseline: float | None

    @property
    def ratio(self) -> float | None:
        """The value as a multiple of the baseline."""
        return None if self.baseline is None else self.value / self.baseline

    @property
    def holds(self) -> bool | None:
        """Whether the limit holds; `None` if there is none."""
        most, least = self.benchmark.at_most, self.benchmark.at_least
        if most is None and least is None:
            return None
        compared = self.value if self.ratio is None else self.ratio
        return (most is None or compared <= most) and (least is None or compared >= least)


@dataclass(frozen=True, slots=True)
class Discovery:
    """What was found in a package: its benchmarks by module, and the modules it could not load.

    Args:
        modules: The benchmarks of each module, by the module's name.
        missing: For each module that was left out, the optional dependency that is not installed.
    """

    modules: dict[str, tuple[Benchmark, ...]]
    missing: dict[str, str]

    def __iter__(self) -> Iterator[Benchmark]:
        for benchmarks in self.modules.values():
            yield from benchmarks


def discover(package: str = "benchmarks") -> Discovery:
    """Every benchmark of the package's modules, in the order of the modules' names.

    A module whose third-party dependency is not installed is named in `missing`; any other failure
    to load one is a bug and is raised.

    Raises:
        TypeError: If a module's `BENCHMARKS` holds something else.
        ValueError: If two benchmarks have one name.
    """
    modules: dict[str, tuple[Benchmark, ...]] = {}
    missing: dict[str, str] = {}
    names: dict[str, str] = {}
    for info in sorted(
        pkgutil.iter_modules(importlib.import_module(package).__path__), key=lambda each: each.name
    ):
        if info.name in {"__main__", "harness"}:
            continue
        try:
            module = importlib.import_module(f"{package}.{info.name}")
        except ModuleNotFoundError as error:
            wanted = error.name or ""
            if wanted.partition(".")[0] in {"", package.partition(".")[0], "trio_reactor"}:
                raise
            missing[info.name] = wanted
            continue
        found: Iterable[object] | None = getattr(module, "BENCHMARKS", None)
        if found is None:
            continue
        benchmarks: list[Benchmark] = []
        for benchmark in found:
            if not isinstance(benchmark, Benchmark):
                raise TypeError(f"{info.name}.BENCHMARKS holds {benchmark!r}, not a Benchmark")
            if benchmark.name in names:
                raise ValueError(
                    f"{benchmark.name!r} is a benchmark of both {names[benchmark.name]} "
                    f"and {info.name}"
                )
            names[benchmark.name] = info.name
            benchmarks.append(benchmark)
        modules[info.name] = tuple(benchmarks)
    return Discovery(modules, missing)


def select(discovery: Discovery, names: Sequence[str]) -> list[Benchmark]:
    """The benchmarks so named, by their own names or by their module's; all if none is named.

    Raises:
        ValueError: If a name is unknown, or its module's dependency is not installed.
    """
    if not names:
        return list(discovery)
    chosen: dict[str, Benchmark] = {}
    by_name = {benchmark.name: benchmark for benchmark in discovery}
    for name in names:
        if name in discovery.missing:
            raise ValueError(f"{name} needs {discovery.missing[name]}, which is not installed")
        if name in by_name:
            chosen[name] = by_name[name]
        elif name in discovery.modules:
            chosen.update((each.name, each) for each in discovery.modules[name])
        else:
            known = ", ".join([*discovery.modules, *by_name])
            raise ValueError(f"no benchmark is named {name!r}; there are: {known}")
    return list(chosen.values())


def run(benchmark: Benchmark, rounds: int | None = None) -> Result:
    """Measure the benchmark: a warm-up, then rounds of subject and baseline in turn.

    Args:
        benchmark: What to measure.
        rounds: How many rounds, if not the benchmark's own number.

    Raises:
        ValueError: If a measurement is not a finite number, or the baseline's median is zero.
    """
    sides = [benchmark.measure]
    if benchmark.baseline is not None:
        sides.append(benchmark.baseline)
    measured: list[list[float]] = [[] for _ in sides]
    count = benchmark.rounds if rounds is None else rounds
    for number in range(count + 1):
        for side, values in zip(sides, measured, strict=True):
            gc.collect()  # so that none pays for what another left behind
            value = side()
            if not math.isfinite(value):
                raise ValueError(f"{benchmark.name} measured {value}")
            if number > 0:  # the first is the warm-up
                values.append(value)
    medians = [statistics.median(values) for values in measured]
    baseline = medians[1] if benchmark.baseline is not None else None
    if baseline == 0:
        raise ValueError(f"the baseline of {benchmark.name} is zero: there is no ratio to it")
    return Result(benchmark, medians[0], baseline)


def write(results: Iterable[Result], output: Path) -> None:
    """Write the results as a JSON list of `{name, value, unit, baseline, ratio}`."""
    rows = [
        {
            "name": result.benchmark.name,
            "value": result.value,
            "unit": result.benchmark.unit,
            "baseline": result.baseline,
            "ratio": result.ratio,
        }
        for result in results
    ]
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(rows, indent=2, allow_nan=False) + "\n", encoding="utf-8")
