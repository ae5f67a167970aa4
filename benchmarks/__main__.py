"""`python -m benchmarks [NAME …]`: measure, write `build/bench.json`, show a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from .harness import Discovery, Result, discover, run, select, write

__all__ = ["build_app", "table"]

QUICK_ROUNDS = 1


def table(results: list[Result]) -> Table:
    """The results as a person reads them, each with its limit and whether it holds."""
    shown = Table(title="Benchmarks (medians)")
    shown.add_column("name", overflow="fold")
    for heading in ("value", "baseline"):
        shown.add_column(heading, justify="right")
    shown.add_column("unit")
    for heading in ("ratio", "limit"):
        shown.add_column(heading, justify="right")
    shown.add_column("holds")
    for result in results:
        benchmark = result.benchmark
        limits = [
            f"{sign} {limit:g}"
            for sign, limit in (("≤", benchmark.at_most), ("≥", benchmark.at_least))
            if limit is not None
        ]
        holds = {None: "", True: "[green]yes[/]", False: "[bold red]NO[/]"}[result.holds]
        shown.add_row(
            benchmark.name,
            _number(result.value),
            _number(result.baseline),
            benchmark.unit,
            "" if result.ratio is None else f"{result.ratio:.3g}",
            ", ".join(limits),
            holds,
        )
    return shown


def build_app(package: str = "benchmarks") -> typer.Typer:
    """The command line for the benchmarks of a package."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

    @app.command()
    def bench(
        names: Annotated[
            list[str] | None,
            typer.Argument(metavar="NAME", help="Benchmarks, or modules of them; else all."),
        ] = None,
        rounds: Annotated[
            int | None,
            typer.Option(min=1, max=1000, help="Rounds of each, if not their own number."),
        ] = None,
        quick: Annotated[
            bool, typer.Option("--quick", help="One round of each: to see that they run.")
        ] = False,
        check: Annotated[
            bool, typer.Option("--check", help="Exit with status 1 if a limit does not hold.")
        ] = False,
        output: Annotated[
            Path, typer.Option(dir_okay=False, help="Where the results go, as JSON.")
        ] = Path("build/bench.json"),
    ) -> None:
        """Measure what the library costs, and write and show the medians."""
        if quick and rounds is not None:
            raise typer.BadParameter("it is a number of rounds itself", param_hint="--quick")
        console = Console()
        notes = Console(stderr=True)
        discovery: Discovery = discover(package)
        try:
            chosen = select(discovery, names or [])
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="NAME") from None
        try:
            # Before hours of measuring rather than after.
            output.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise typer.BadParameter(str(error), param_hint="--output") from None
        if not names:
            for module, dependency in discovery.missing.items():
                notes.print(f"left out: {module} needs {dependency}, which is not installed")
        results: list[Result] = []
        for benchmark in chosen:
            with notes.status(benchmark.name):
                results.append(run(benchmark, QUICK_ROUNDS if quick else rounds))
        write(results, output)
        console.print(table(results))
        console.print(f"written: {output}", highlight=False, markup=False, soft_wrap=True)
        broken = [result.benchmark.name for result in results if result.holds is False]
        if check and broken:
            notes.print(f"beyond the limit: {', '.join(broken)}")
            raise typer.Exit(1)

    return app


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


if __name__ == "__main__":
    build_app()(prog_name="python -m benchmarks")
