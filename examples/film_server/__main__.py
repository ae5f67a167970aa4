"""The command line of the film server."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import trio
import typer
from pydantic import ValidationError

from trio_reactor.renewal.websocket.failures import one_failure

from .film import Film, FilmUnusable
from .options import Faults, FilmServerOptions
from .server import FilmServer

__all__ = ["app", "main"]

TERMS = FilmServerOptions()
FAULTS = TERMS.faults

app = typer.Typer(add_completion=False)


@app.command()
def main(
    film: Annotated[Path, typer.Argument(help="A film file, decoded once at the start.")],
    *,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 for a free one.")] = 0,
    width: Annotated[int, typer.Option(help="Of the picture, in pixels.")] = 320,
    height: Annotated[int, typer.Option(help="Of the picture, in pixels.")] = 180,
    lifetime: Annotated[
        float, typer.Option(help="Seconds that a session lives; 0 for as long as it is wanted.")
    ] = 60.0,
    grace: Annotated[
        float, typer.Option(help="Seconds that a session outlives its socket.")
    ] = TERMS.grace,
    build_time: Annotated[
        float, typer.Option(help="Seconds that it takes at least to build a clip.")
    ] = TERMS.build_time,
    max_sessions: Annotated[int, typer.Option(help="Sessions at a time.")] = TERMS.max_sessions,
    token: Annotated[
        str | None,
        typer.Option(envvar="FILM_SERVER_TOKEN", help="What admits; none for everyone."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of everything that goes wrong.")] = None,
    refuse_opens: Annotated[
        int, typer.Option(help="How many sessions are refused first.")
    ] = FAULTS.refuse_opens,
    slow_open: Annotated[
        float, typer.Option(help="Seconds before a session is given.")
    ] = FAULTS.slow_open,
    drop_rate: Annotated[
        float, typer.Option(help="How often a second a socket is dropped, at random.")
    ] = FAULTS.drop_rate,
    drop_after: Annotated[
        float | None, typer.Option(help="Seconds after which every socket is dropped.")
    ] = None,
    drop_limit: Annotated[
        int | None, typer.Option(help="How many sockets are dropped in all.")
    ] = None,
    fail_rate: Annotated[
        float, typer.Option(help="The share of clips that cannot be built.")
    ] = FAULTS.fail_rate,
    going_away_after: Annotated[
        float | None, typer.Option(help="Seconds after which a session says that it will end.")
    ] = None,
    going_away_notice: Annotated[
        float, typer.Option(help="Seconds between saying so and its end.")
    ] = FAULTS.going_away_notice,
    until_eof: Annotated[
        bool, typer.Option("--until-eof", metavar="", help="Stop when the standard input ends.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", metavar="", help="Say what happens.")
    ] = False,
) -> None:
    """Serve sessions that play scenes of a film, and print {"port": …} when ready."""
    logging.basicConfig(level=logging.DEBUG if verbose else logging.WARNING, stream=sys.stderr)
    logging.getLogger("trio-websocket").setLevel(logging.WARNING)
    try:
        options = FilmServerOptions(
            lifetime=lifetime or None,
            grace=grace,
            build_time=build_time,
            max_sessions=max_sessions,
            token=token,
            faults=Faults(
                seed=seed,
                refuse_opens=refuse_opens,
                slow_open=slow_open,
                drop_rate=drop_rate,
                drop_after=drop_after,
                drop_limit=drop_limit,
                fail_rate=fail_rate,
                going_away_after=going_away_after,
                going_away_notice=going_away_notice,
            ),
        )
        decoded = Film.load(film, width, height)
    except ValidationError as error:
        for problem in error.errors():
            name = str(problem["loc"][-1]).replace("_", "-")
            typer.echo(f"--{name}: {problem['msg']}", err=True)
        raise typer.Exit(2) from error
    except (FilmUnusable, ValueError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from error
    try:
        trio.run(_serve, FilmServer(decoded, options), host, port, until_eof)
    except _Unheard as error:
        typer.echo(f"cannot tell the port: {error}", err=True)
        raise typer.Exit(1) from error
    except OSError as error:
        typer.echo(f"--port: {host}:{port} cannot be had: {error.strerror or error}", err=True)
        raise typer.Exit(1) from error


class _Unheard(Exception):
    """The port could not be told on the standard output."""


async def _serve(server: FilmServer, host: str, port: int, until_eof: bool) -> None:
    with one_failure(), trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:

            async def stop_on_signal() -> None:
                async for _ in signals:
                    server.stop()

            async def stop_on_eof() -> None:
                if sys.stdin is not None:  # it is None if it was closed before the start
                    async with trio.lowlevel.FdStream(os.dup(sys.stdin.fileno())) as stdin:
                        while await stdin.receive_some():
                            pass
                server.stop()

            async def announce(*, task_status: trio.TaskStatus[int]) -> None:
                await server.serve(port, host=host, task_status=task_status)
                nursery.cancel_scope.cancel()

            nursery.start_soon(stop_on_signal)
            if until_eof:
                nursery.start_soon(stop_on_eof)
            bound = await nursery.start(announce)
            try:
                print(json.dumps({"port": bound}), flush=True)
            except OSError as error:
                raise _Unheard(error.strerror or str(error)) from error


if __name__ == "__main__":
    app(prog_name="python -m examples.film_server")
