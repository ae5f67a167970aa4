"""How much was lost of the logical output, counted over all the sources that fed it.

Every media generation counts its own losses from its own beginning.  The output's are the sum of
what each lost *while it fed the output*: a baseline is read when it goes on air, and subtracted
from what is read when it leaves, once.  A total that could not be read is unknown, and unknown is
never reported as zero.
"""

from __future__ import annotations

from typing import Final, cast, final

from trio_reactor.errors import EXPECTED, ReactorError
from trio_reactor.events import FailureRecord
from trio_reactor.renewal.source import Media, MediaLosses

__all__ = ["MAX_LOST", "LossLedger", "LossesUnknown"]

MAX_LOST: Final = 2**53
"""More than any generation can have lost: what tells as much tells no number.  The sums over the
sources of a renewal are then told in events, whose integers are those of 64 bits."""


class LossesUnknown(ReactorError):
    """The losses of a source that feeds, or fed, the output could not be told."""


@final
class LossLedger:
    """The losses of one logical output.

    What a media generation raises beside what is expected is a defect of its adapter, and goes to
    the caller after the ledger has taken its loss for unknown.
    """

    __slots__ = ("_baseline", "_feed", "_media", "_retired", "_unknown")

    def __init__(self) -> None:
        self._media: Media | None = None
        self._baseline: MediaLosses | None = None
        self._retired = MediaLosses()
        # What the source on air lost with the generations it has had before; `None` if unknown.
        self._feed: MediaLosses | None = MediaLosses()
        # As data: an exception would keep the source's frames alive.
        self._unknown: FailureRecord | None = None

    def activate(self, media: Media, *, from_start: bool = False) -> None:
        """Count a generation from now on; one that counted until now is retired first.

        Args:
            media: The generation.
            from_start: Whether it has fed the output since it was opened, as the first source's
                does and one that was opened by a recovery on air: then all its losses count.
        """
        if media is self._media:
            return
        self.retire(self._media)
        self._media = media
        self._baseline = MediaLosses() if from_start else self._read(media)

    def retire(self, media: Media | None) -> None:
        """Count a generation no more; does nothing if it is not the one that counts."""
        if media is None or media is not self._media:
            return
        baseline = self._baseline
        self._media = self._baseline = None
        final = self._read(media)
        if final is None or baseline is None:
            return
        try:
            lost = _since(baseline, final)
        except LossesUnknown as failure:
            self._forget(failure)
            return
        self._retired = _sum(self._retired, lost)
        if self._feed is not None:
            self._feed = _sum(self._feed, lost)

    def end_feed(self) -> MediaLosses | None:
        """Retire what counts, because its source leaves the air.

        Returns:
            What that source lost while it fed the output, over all its generations; `None` if that
            could not be told.
        """
        self.retire(self._media)
        feed, self._feed = self._feed, MediaLosses()
        return feed

    def total(self) -> MediaLosses:
        """The output's losses until now.

        Raises:
            LossesUnknown: If a source that fed the output never told its own, which stays so; or
                the one that feeds it cannot tell them now.
        """
        if self._unknown is not None:
            raise LossesUnknown(f"the losses of a source are not known: {self._unknown.type}")
        if self._media is None:
            return self._retired
        assert self._baseline is not None  # noqa: S101 - else it is unknown
        try:
            now = _told(self._media)
        except EXPECTED as failure:
            raise LossesUnknown("the source on air cannot tell its losses") from failure
        return _sum(self._retired, _since(self._baseline, now))

    def _read(self, media: Media) -> MediaLosses | None:
        try:
            return _told(media)
        except BaseException as failure:
            # Whatever it was, what this generation lost is not known from here on.
            self._forget(failure)
            if not isinstance(failure, EXPECTED):
                raise
            return None

    def _forget(self, failure: BaseException) -> None:
        self._unknown = FailureRecord.of(failure)
        self._feed = None


def _told(media: Media) -> MediaLosses:
    lost = cast("object", media.losses())  # an adapter may answer anything
    if isinstance(lost, MediaLosses) and _is_count(lost.frames) and _is_count(lost.samples):
        return lost
    raise LossesUnknown("a source tells losses that are no numbers")


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < MAX_LOST


def _sum(one: MediaLosses, other: MediaLosses) -> MediaLosses:
    return MediaLosses(one.frames + other.frames, one.samples + other.samples)


def _since(baseline: MediaLosses, now: MediaLosses) -> MediaLosses:
    frames, samples = now.frames - baseline.frames, now.samples - baseline.samples
    if frames < 0 or samples < 0:
        raise LossesUnknown("the losses of a source have become less")
    return MediaLosses(frames, samples)
