"""What can be set about a renewal, with units and bounds."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from trio_reactor.options import Options

__all__ = ["DEFAULT_MAX_SESSIONS", "RenewalOptions", "Retention"]

Retention = Literal["complete", "bounded"]
"""Whether every source's clean-up is kept, or the newest and all that are unresolved."""

DEFAULT_MAX_SESSIONS: Final = 64
"""How many sessions a chain opens that keeps every clean-up, unless told otherwise."""

# A year.  What is longer is a mistake of unit, or means "no end", which is said otherwise.
_Positive = Annotated[float, Field(gt=0, le=31_536_000)]
_Duration = Annotated[float, Field(ge=0, le=31_536_000)]
_Fraction = Annotated[float, Field(ge=0, le=1)]
_Count = Annotated[int, Field(ge=1)]


class RenewalOptions(Options):
    """The options of `open_renewal`; all of them are checked before anything is opened.

    Raises:
        pydantic.ValidationError: A `ValueError` that names each option that is wrong or unknown.
    """

    lead: _Duration = 30.0
    """Seconds before its source ends that the next one is prepared; 0 prepares none."""

    jitter: _Fraction = 0.1
    """How much earlier than that it may be prepared, by chance, so that a fleet does not renew in
    one second: up to this fraction of `lead`, or of what the source lives before it if that is
    shorter."""

    handoff_grace: Annotated[float, Field(ge=0, le=5)] = 0.25
    """Seconds that the last pictures of a clip may take after it has ended, where their number does
    not tell."""

    open_timeout: _Positive = 30.0
    """Seconds a source may take to open; before the first, the journal has as long to be read, if
    there is one."""

    reconnect_timeout: _Positive = 10.0
    """Seconds a source may take to recover; never more than it has left to live."""

    reply_timeout: _Positive = 30.0
    """Seconds a command may take to be sent and answered.  One that was sent and is not answered by
    then has an unknown outcome, and costs its source its place."""

    check_timeout: _Positive = 5.0
    """Seconds that the check of a source before it goes on air may take; where there is one, `lead`
    has to leave time for it."""

    cleanup_timeout: _Positive = 10.0
    """Seconds a source may take to leave, and all of them together at close.  Before that, who has
    borrowed one at close has as long to end, and what is held of the input to be sent."""

    accounting_timeout: _Positive = 5.0
    """Seconds for the local accounting of what is already known of a source after it was closed."""

    first_pause: _Positive = 1.0
    """Seconds before another attempt after one has failed; doubled with each in a row."""

    max_pause: _Positive = 30.0
    """The longest such pause, in seconds."""

    pause_jitter: _Fraction = 0.5
    """How much shorter than that a pause may be, by chance; a fraction of it."""

    max_failures: Annotated[int, Field(ge=1, le=1_000_000)] = 8
    """Failed sources in a row that end the renewal."""

    stable_after: _Duration = 30.0
    """Seconds after which a source counts as a good one: lost before, it counts as failed; beyond,
    it begins the count anew.  A source that is not meant to live that long is a good one once its
    successor is due.  One that was lost within `first_pause` is followed after a pause, also where
    it counts as good."""

    max_frames: _Count = 96
    """Pictures that may be queued for the reader."""

    max_samples: _Count = 192_000
    """Interleaved samples that may be queued for the reader: two seconds of stereo at 48 kHz."""

    max_bytes: _Count = 640 * 1024 * 1024
    """Bytes of pictures and sound together that may be queued.  The default is what the 96 pictures
    need at 1920x1080 in `rgb24` (597 MB) with some to spare: it bounds memory where pictures are
    larger, and never acts before `max_frames` where they are not."""

    max_input_bytes: _Count = 1024 * 1024
    """Bytes of input that are held while they cannot be sent; what does not fit is refused."""

    max_queue: Annotated[int, Field(ge=1, le=65_536)] = 256
    """Commands that may be pending at a time: given and not answered yet."""

    max_sequences: Annotated[int, Field(ge=1, le=65_536)] = 256
    """Sequences that are known at a time; unresolved ones are never forgotten to make room."""

    max_members: Annotated[int, Field(ge=1, le=65_536)] = 256
    """Members that one sequence may have."""

    max_clips: Annotated[int, Field(ge=1, le=1_000_000)] = 4096
    """Clips that one source may have at a time, in any phase.  A request for one more is refused;
    a source that has more of its own is replaced."""

    max_context_bytes: Annotated[int, Field(ge=2, le=1024 * 1024 * 1024)] = 1024 * 1024
    """Bytes that the context which is told to a fresh successor may have, as JSON."""

    retention: Retention = "bounded"
    """Whether every source's clean-up is kept (`complete`), which bounds how many there can be; or
    the newest, and all that are not proven complete (`bounded`)."""

    max_sessions: Annotated[int, Field(ge=1, le=4096)] | None = None
    """Sessions that may be opened in all.  `None` is 64 for complete retention, else no cap."""

    retained_successful_cleanups: Annotated[int, Field(ge=0, le=4096)] = 64
    """Complete clean-ups that bounded retention keeps; older ones are counted by kind."""

    max_unresolved_cleanups: Annotated[int, Field(ge=2, le=4096)] = 16
    """Clean-ups not proven complete, with those still to come, that bounded retention allows."""

    @property
    def session_limit(self) -> int | None:
        """How many sessions may be opened in all; `None` for no cap."""
        if self.max_sessions is None and self.retention == "complete":
            return DEFAULT_MAX_SESSIONS
        return self.max_sessions

    @model_validator(mode="after")
    def _pauses_grow(self) -> RenewalOptions:
        if self.first_pause > self.max_pause:
            raise ValueError("first_pause must not be longer than max_pause")
        return self
