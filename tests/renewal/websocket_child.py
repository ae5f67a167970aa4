"""A process that holds a session of a film server and kills itself.  Run as a program.

python websocket_child.py URL JOURNAL
"""

from __future__ import annotations

import os
import signal
import sys

import trio

from trio_reactor.renewal import Allocations, RenewalOptions, open_journal, open_renewal
from trio_reactor.renewal.websocket import websocket_source, websocket_terminate


async def main(url: str, path: str) -> None:
    """Hold a session, and die."""
    async with (
        open_journal(path) as journal,
        open_renewal(
            websocket_source(url),
            allocations=Allocations(journal=journal, terminate=websocket_terminate(url)),
            options=RenewalOptions(lead=1.0),
        ),
    ):
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2])
