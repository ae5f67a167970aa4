"""The command line of the broadcast."""

from __future__ import annotations

import errno
import logging
import secrets
import signal
import sys
from pathlib import Path
from typing import Annotated

import msgspec
import trio
import typer
from pydantic import ValidationError
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from examples.film_server.stamp import NoStamp
from trio_reactor.errors import EXPECTED, Closed, Failed, ReactorError, leaves

from .application import Result, Settings, run
from .broadcast import Broadcast
from .report import IN_WORDS, OutOfOrder, table

__all__ = ["app"]

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
DEFAULTS = Settings()


@app.command()
def main(
    *,
    film: Annotated[
        Path,
        typer.Option(help="The film that is shown; it repeats.", show_default="Big Buck Bunny"),
    ] = DEFAULTS.film,
    session_lifetime: Annotated[
        float,
        typer.Option(help="Seconds that a session lives; with --url, what its server gives them."),
    ] = DEFAULTS.session_lifetime,
    lead: Annotated[
        float | None,
        typer.Option(
            help="Seconds before its end at which the next session is prepared, "
            "0 for not at all; by default 0.6 of its life.",
        ),
    ] = None,
    duration: Annotated[float, typer.Option(help="Seconds of programme.")] = DEFAULTS.duration,
    drop: Annotated[
        bool, typer.Option("--drop", metavar="", help="Break connections at random.")
    ] = False,
    seed: Annotated[
        int | None,
        typer.Option(help="What all chance is drawn from; printed if it is not given."),
    ] = None,
    output_dir: Annotated[
        Path, typer.Option(help="Where the recording and the timeline go.")
    ] = DEFAULTS.output_dir,
    as_json: Annotated[
        bool, typer.Option("--json", metavar="", help="Print one line of JSON instead of a table.")
    ] = False,
    url: Annotated[
        str | None, typer.Option(help="A film server that runs already, ws://host:port.")
    ] = None,
    width: Annotated[int, typer.Option(help="Width of the picture, in pixels.")] = DEFAULTS.width,
    height: Annotated[
        int, typer.Option(help="Height of the picture, in pixels.")
    ] = DEFAULTS.height,
    frame_rate: Annotated[
        float, typer.Option(help="Pictures a second of the film behind --url.")
    ] = DEFAULTS.frame_rate,
    verbose: Annotated[
        bool, typer.Option("--verbose", metavar="", help="Say what happens.")
    ] = False,
) -> None:
    """Play one unbroken programme out of sessions that each live only a few seconds."""
    try:
        settings = Settings(
            film=film,
            session_lifetime=session_lifetime,
            lead=lead,
            duration=duration,
            drop=drop,
            seed=secrets.randbelow(10_000) if seed is None else seed,
            output_dir=output_dir,
            url=url,
            width=width,
            height=height,
            frame_rate=frame_rate,
        )
    except ValidationError as error:
        for problem in error.errors():
            option = "".join(f"--{name}: ".replace("_", "-") for name in problem["loc"])
            typer.echo(f"{option}{problem['msg'].removeprefix('Value error, ')}", err=True)
        raise typer.Exit(2) from error
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr)
    if verbose:
        logging.getLogger("trio_reactor").setLevel(logging.DEBUG)
    try:
        result = trio.run(_run_until_interrupted, settings, not as_json)
    except BaseException as failure:
        reason = _in_one_line(failure)
        if reason is None:
            raise  # a defect, to be seen whole
        typer.echo(f"error: {reason}", err=True)
        raise typer.Exit(1) from failure
    if isinstance(result, int):
        typer.echo("interrupted", err=True)
        raise typer.Exit(128 + result)
    try:
        _tell(result, settings, as_json=as_json)
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise  # nobody reads it any more, which is no error of ours
        typer.echo(f"error: cannot write the result: {error.strerror}", err=True)
        raise typer.Exit(1) from error


def _tell(result: Result, settings: Settings, *, as_json: bool) -> None:
    """Print what came of it."""
    if as_json:
        typer.echo(msgspec.json.encode(result.numbers))
    else:
        console = Console()
        console.print(table(result.numbers))
        for gap in result.gaps:
            console.print(f"lost: {gap}", soft_wrap=True, highlight=False)
        for term in result.terms:
            console.print(f"{term}: {IN_WORDS[term]}", soft_wrap=True, highlight=False)
        if settings.drop:
            console.print(f"seed:      {settings.seed}", highlight=False)
        if result.unproven:
            console.print(f"sessions not proven to have ended: {result.unproven}")
        console.print(f"recording: {result.numbers.recording}", soft_wrap=True, highlight=False)
        console.print(f"timeline:  {result.numbers.timeline}", soft_wrap=True, highlight=False)
        console.print(
            f"One programme of {settings.duration:g} s, out of sessions that were each prepared, "
            "put on air, handed over and closed while it played. Open the timeline in a browser to "
            "see who was on air when, and why it changed hands.",
            highlight=False,
        )


async def _run_until_interrupted(settings: Settings, show: bool) -> Result | int:
    """Run it with its progress shown; a signal ends it in order, and is returned."""
    result: Result | int | None = None
    with (
        trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals,
        _progress(show) as progress,
    ):
        async with trio.open_nursery() as nursery:

            async def stop_on_signal() -> None:
                nonlocal result
                async for number in signals:
                    result = number
                    nursery.cancel_scope.cancel()

            nursery.start_soon(stop_on_signal)
            result = await run(settings, _Display(progress, settings.duration))
            nursery.cancel_scope.cancel()
    assert result is not None  # noqa: S101 - it came to its end, or was cancelled by a signal
    return result


def _progress(show: bool) -> Progress:
    console = Console(stderr=True)
    return Progress(
        TextColumn("[bold]on air"),
        BarColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not (show and console.is_terminal),
    )


class _Display:
    """Shows the numbers of a broadcast as they change."""

    def __init__(self, progress: Progress, seconds: float) -> None:
        self._progress = progress
        self._task = progress.add_task("opening", total=seconds)

    def __call__(self, broadcast: Broadcast) -> None:
        tally = broadcast.tally
        self._progress.update(
            self._task,
            completed=broadcast.played,
            description=f"{tally.received} frames, {tally.lost} lost, "
            f"session {broadcast.sessions}, {broadcast.handovers} handovers",
        )


def _in_one_line(failure: BaseException) -> str | None:
    """What went wrong, for a person; `None` if any part of it is a defect."""
    parts = list(leaves(failure))
    if not all(isinstance(part, (*EXPECTED, OutOfOrder, NoStamp)) for part in parts):
        return None
    # Who only noticed that something else had failed has less to say than that itself.
    parts.sort(key=lambda part: isinstance(part, (Failed, Closed)))
    words = [str(parts[0])]
    cause: BaseException | None = parts[0]
    while isinstance(cause, ReactorError):
        words += [cause.message, cause.detail or ""]
        cause = cause.__cause__
    return ": ".join(dict.fromkeys(" ".join(word.split()) for word in words if word))


if __name__ == "__main__":
    app()
