"""A provider of simulated sources, for tests: in process, on the world's clock, no threads.

    provider = SimulatedProvider(world, SimulationOptions(lifetime=60.0))
    async with open_renewal(provider, world=world) as renewal:
        await renewal.enqueue(ClipRequest({"frames": 50}))

A source does what a real one does: it takes requests that need time to arrive and be answered,
builds clips, plays them at its frame rate, reconnects, and is cut off some time after its life.
Its pictures carry a stamp (`read_stamp`) that says which source, clip and frame they are, so that a
test can check order by content; its sound is a tone, one pitch for each source.

A request's payload is `{"frames": 50}`; `"build"` sets the seconds that this clip takes to build,
and `"fails": true` makes the building fail.

What is to go wrong is planned with `trio_reactor.testing.Faults`.  These are its places, each
counted over all sources of the provider:

| place | what passes there |
|---|---|
| `open` | an open, before anything is allocated |
| `attach`, `media` | the setting up of events, and of a media generation |
| `request` | a request on its way, before it has had any effect |
| `reply` | an answer on its way, after the request took effect |
| `input` | a piece of input, before it is heard |
| `event` | an event on its way: late, twice, out of order or never |
| `connection` | a connection; failing is its loss, after so many seconds |
| `life` | a source; failing is its end, after so many seconds |
| `reconnect` | a reconnect |
| `losses` | a look at the losses of a media generation; in one step |
| `terminate` | the termination of what a dead process left |
| `journal`, `record` | a transaction of a `SimulatedJournal`: before it, and in it |
| `media-close`, `close` | the end of a media generation, and of a source |

Where a test wants to decide the moment by itself, it calls the source: `lose_connection`, `die`,
`crash`, `end_media`, `go_away`, `tell`, `forget`, `drop`.
"""

from __future__ import annotations

from .journal import SimulatedJournal
from .media import SimulatedMedia
from .options import SimulationOptions
from .picture import Stamp, read_stamp
from .provider import SimulatedAllocation, SimulatedProvider
from .source import ReconnectableSource, Recorder, SimulatedSource

__all__ = [
    "ReconnectableSource",
    "Recorder",
    "SimulatedAllocation",
    "SimulatedJournal",
    "SimulatedMedia",
    "SimulatedProvider",
    "SimulatedSource",
    "SimulationOptions",
    "Stamp",
    "read_stamp",
]
