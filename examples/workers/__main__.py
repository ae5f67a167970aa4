"""The command line of the plugin host."""

from __future__ import annotations

import signal
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import msgspec
import trio
import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from trio_reactor.errors import EXPECTED, ReactorError, leaves
from trio_reactor.supervision.timeline import supervision_timeline
from trio_reactor.timeline import render_svg

from .catalogue import of_file
from .story import Story

__all__ = ["app"]

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
DEFAULT = Path(__file__).with_name("words.py")
REFRESH = 0.25
"""Seconds between two looks of a person's at the clock."""
MAX_PLUGINS = 32


@app.command()
def main(
    *,
    plugin: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE.py", help="A plugin of your own; may be given again.", show_default=False
        ),
    ] = None,
    directory: Annotated[
        Path | None,
        typer.Option(help="Where the journal is kept; by default for the while alone."),
    ] = None,
    timeline: Annotated[
        Path | None, typer.Option(metavar="FILE.svg", help="Where to draw what happened when.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", metavar="", help="Print one line of JSON instead of a table.")
    ] = False,
) -> None:
    """Run plugins as leased processes; let one expire, crash and hang, and kill their host."""
    files, refused = _looked_at(plugin or [DEFAULT])
    for complaint in refused:
        typer.echo(f"error: {complaint}", err=True)
    with ExitStack() as kept:
        try:
            if directory is None:
                directory = Path(kept.enter_context(tempfile.TemporaryDirectory(prefix="workers-")))
            else:
                directory.mkdir(parents=True, exist_ok=True)
            ended = trio.run(_run_until_interrupted, directory.absolute(), files, not as_json)
        except BaseException as failure:
            if not all(isinstance(leaf, EXPECTED) for leaf in leaves(failure)):
                raise  # a defect, to be seen whole
            for leaf in leaves(failure):
                detail = leaf.detail if isinstance(leaf, ReactorError) else None
                typer.echo(f"error: {leaf}{f': {detail}' if detail else ''}", err=True)
            raise typer.Exit(1) from failure
    if isinstance(ended, int):
        typer.echo("interrupted", err=True)
        raise typer.Exit(128 + ended)
    ledger = ended.ledger
    for problem in ledger.problems.values():
        typer.echo(f"error: {problem.plugin}: {problem.message}", err=True)
    if timeline is not None:
        try:
            timeline.write_text(_drawn(ended))
        except OSError as failure:
            typer.echo(f"error: --timeline {timeline}: {failure.strerror}", err=True)
            raise typer.Exit(1) from failure
    if as_json:
        typer.echo(msgspec.json.encode(ledger.numbers))
    else:
        _show(ended, timeline)
    if refused or ledger.problems or ledger.orphans:
        raise typer.Exit(1)


def _looked_at(files: list[Path]) -> tuple[list[Path], list[str]]:
    """Those that may be plugins, and what is wrong with the others."""
    good: dict[Path, None] = {}
    complaints: list[str] = []
    for file in files:
        path = file.absolute()
        if not path.is_file():
            complaints.append(f"plugin {file}: there is no such file")
        elif len(good) >= MAX_PLUGINS:
            complaints.append(f"plugin {file}: only {MAX_PLUGINS} can be run")
        else:
            try:
                of_file(path, 1)
            except ValueError as failure:
                complaints.append(f"plugin {file}: {failure}")
            else:
                good[path] = None
    return list(good), complaints


async def _run_until_interrupted(directory: Path, files: list[Path], show: bool) -> Story | int:
    """Run it, shown; a signal ends it in order, and is returned."""
    story = Story(directory, files)
    ended_by: int | None = None
    console = Console(stderr=True)

    def table() -> Table:
        return story.ledger.table(time.clock_gettime(time.CLOCK_BOOTTIME))

    with ExitStack() as shown, trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:

            async def stop_on_signal() -> None:
                nonlocal ended_by
                async for number in signals:
                    ended_by = number
                    nursery.cancel_scope.cancel()

            async def keep_showing(live: Live) -> None:
                while True:
                    live.update(table(), refresh=True)
                    await trio.sleep(REFRESH)

            nursery.start_soon(stop_on_signal)
            if show and console.is_terminal:
                live = Live(console=console, auto_refresh=False, transient=True)
                nursery.start_soon(keep_showing, shown.enter_context(live))
            await story.run()
            nursery.cancel_scope.cancel()
    return story if ended_by is None else ended_by


def _show(story: Story, timeline: Path | None) -> None:
    """Tell a person what came of it."""
    ledger, console = story.ledger, Console()
    console.print(ledger.table(0.0))
    for said in ledger.said:
        console.print(f"{said.key}, {said.what}:", highlight=False)
        console.print(said.text.rstrip(), markup=False, highlight=False, style="dim")
    numbers = ledger.numbers
    console.print(
        f"{numbers.sessions} sessions answered {numbers.calls} calls. {ledger.at_work} processes "
        f"were below the host when it was killed; {ledger.left} of them outlived it by a moment. "
        f"The next host recovered {numbers.recovered} sessions. Orphans: {numbers.orphans}.",
        highlight=False,
    )
    if timeline is not None:
        console.print(f"timeline: {timeline}", soft_wrap=True, highlight=False)


def _drawn(story: Story) -> str:
    """The timeline of both of the host's lives."""
    builder = supervision_timeline("A plugin host, killed and started again")
    for number, envelope in enumerate(story.envelopes, 1):
        # Two processes' clocks begin anywhere, and their wall time is the same.
        builder.feed(msgspec.structs.replace(envelope, seq=number, clock=envelope.wall))
    return render_svg(builder.build())


if __name__ == "__main__":
    app()
