"""The account of one simulated session: what was asked for, told and shown must agree.

It hears three sides: the provider (`dispatched`, `shown`), the events of the renewal, and the
viewer.  What can be judged at once is judged at once; the rest when all is over.
"""

from __future__ import annotations

from collections import Counter

from trio_reactor.events import Event
from trio_reactor.renewal import Pressure, RenewalOptions
from trio_reactor.renewal.events import (
    AdoptionDiscarded,
    ClipChanged,
    ClipLost,
    HandedOver,
    InputLost,
    OnAir,
    OpenFailure,
    Recovered,
    Recovering,
    RenewalClosed,
    RenewalFailed,
    RenewalStopped,
    Replaced,
    ResumptionDiscarded,
    SequenceRetired,
    SourceClosed,
    SourceOpened,
    SourceOpening,
    SourceRef,
    Tail,
)
from trio_reactor.renewal.policy.handoff import HandoffEvidence
from trio_reactor.renewal.simulation import read_stamp
from trio_reactor.renewal.source import AudioFrame, ClipEnded, ClipFailed, VideoFrame
from trio_reactor.renewal.summary import RenewalReport

from .renewal_requests import Requests, source_of
from .renewal_uses import Input

__all__ = ["Account"]


class Account:
    """Counts on three sides, and compares."""

    def __init__(self, options: RenewalOptions) -> None:
        self._options = options
        # what was asked for
        self.requests = Requests()
        self.input = Input()
        self.canvas: list[tuple[int, int] | None] = [None]
        """What was wanted, in order; the newest that is kept is `kept`."""
        self.kept = 0
        self.numbers: dict[int, str] = {}
        """The identities of the sources, by their numbers at the provider."""
        # what was shown
        self.shown: Counter[str] = Counter()
        """Pictures that were due, by clip, in the order in which clips were played."""
        self.pictures: Counter[str] = Counter()
        self.samples: Counter[str] = Counter()
        self._frame: dict[str, int] = {}
        self._clips: list[str] = []
        self._heard: list[str] = []
        # what was told
        self.over: dict[str, int | None] = {}
        """How many pictures a clip that ended had; `None` if it failed."""
        self.lost: dict[str, ClipLost] = {}
        self.handed_over: set[str] = set()
        self.tails: dict[str, Tail] = {}
        """By source, what it left when it went off the air."""
        self.left: dict[int, SourceClosed] = {}
        self.report: RenewalReport | None = None
        self._told: set[str] = set()
        """Clips that an event named."""
        self._attempts: dict[int, int] = {}
        """By number, which of the wishes for the canvas was kept when it began to open."""
        self._opened: dict[int, SourceRef] = {}
        self._failed: set[int] = set()
        self._replaced: set[int] = set()
        self._on_air: SourceRef | None = None
        self._last: SourceRef | None = None
        self._unreached: dict[str, list[str]] = {}
        """By source that recovers, the clips that ended meanwhile: what was shown of them is lost,
        and they are named unless it gives media once more."""
        self._stopped = False
        self._over = False

    # ----------------------------------------------------------------------------- what is shown

    def see(self, frame: VideoFrame) -> None:
        """The viewer got a picture."""
        clip, stamp = frame.clip, read_stamp(frame)
        assert clip is not None
        assert source_of(clip) == self.numbers[stamp.source], "a picture of another source"
        self._follow(clip, self._clips)
        assert stamp.frame > self._frame.get(clip, -1), f"picture {stamp} came out of order"
        self._frame[clip] = stamp.frame
        self.pictures[clip] += 1

    def hear(self, frame: AudioFrame) -> None:
        """The listener got sound."""
        assert frame.clip is not None
        self._follow(frame.clip, self._heard)
        self.samples[frame.clip] += frame.samples

    def _follow(self, clip: str, before: list[str]) -> None:
        """A clip goes on, or the next begins; sources follow each other and never come back."""
        if before and before[-1] == clip:
            return
        assert clip not in before, f"{clip} came back"
        if before and source_of(before[-1]) != source_of(clip):
            assert all(source_of(each) != source_of(clip) for each in before), "a source came back"
        before.append(clip)

    # ----------------------------------------------------------------------------- what is told

    def take(self, event: Event) -> None:
        """The renewal said something."""
        assert not self._over, f"it said {event} after the end"
        match event:
            case SourceOpening(source=source, after=after):
                assert not self._stopped, "a successor was opened after renewal was stopped"
                assert source.incarnation == len(self._attempts) + 1
                assert after is None or after == self._last
                self._attempts[source.incarnation] = self.kept
            case SourceOpened(source=source):
                assert source.id not in {each.id for each in self._opened.values()}
                self._opened[source.incarnation] = source
            case OpenFailure(source=source) | ResumptionDiscarded(source=source):
                assert source.incarnation not in self._failed | set(self._opened)
                self._failed.add(source.incarnation)
            case AdoptionDiscarded(source=source):
                assert source.incarnation not in self._failed | set(self._opened)
                self._failed.add(source.incarnation)
            case InputLost():
                self.input.take(event)
            case SequenceRetired(source=source):
                assert source.id not in self.handed_over, "a sequence was left behind open"
            case OnAir(source=source, after=after, gap=gap):
                assert self._on_air is None, f"{self._on_air} is on air"
                assert after == self._last
                assert gap >= 0
                self._on_air = self._last = source
            case HandedOver(old=old, evidence=evidence, tail=tail):
                self._goes(old, tail)
                self.handed_over.add(str(old.id))
                self._judge(evidence, tail)
            case Replaced(old=old, tail=tail):
                self._goes(old, tail)
                self._replaced.add(old.incarnation)
            case ClipChanged(source=source, change=change):
                clip = change.clip if isinstance(change.clip, str) else change.clip.id
                assert source_of(clip) == source.id
                assert source.incarnation not in self.left, "a clip of a source that has left"
                self._told.add(clip)
                if isinstance(change, ClipEnded | ClipFailed):
                    assert clip not in self.over, f"{clip} was over twice"
                    assert clip not in self.lost, f"{clip} was over after it was lost"
                    self.over[clip] = change.frames if isinstance(change, ClipEnded) else None
                    self._unreached.get(source_of(clip), []).append(clip)
            case Recovering(source=source):
                self._unreached.setdefault(str(source.id), [])
            case Recovered(source=source):
                del self._unreached[str(source.id)]
            case ClipLost(source=source, clip=clip):
                assert clip not in self.lost, f"{clip} was lost twice"
                unseen = self._unreached.get(str(source.id), [])
                assert clip not in self.over or clip in unseen, f"{clip} was lost after its end"
                # What an answer tells of when its source is gone could not be named before.
                late = source.incarnation in self._replaced
                assert not late or clip not in self._told, f"{clip} was named after `Replaced`"
                self.lost[clip] = event
            case SourceClosed(source=source):
                assert source.incarnation not in self.left, f"{source} left twice"
                self.left[source.incarnation] = event
                if source == self._on_air:  # with its owner, or before an exclusive one's successor
                    self._on_air = None
            case RenewalStopped():
                assert not self._stopped
                self._stopped = True
            case RenewalClosed(report=report):
                self._over, self.report = True, report
            case RenewalFailed():
                self._over = True
            case _:
                pass

    def _goes(self, old: SourceRef, tail: Tail) -> None:
        assert self._last == old
        assert old.id is not None
        assert old.id not in self.tails, f"{old} went off the air twice"
        self.tails[old.id] = tail
        self._on_air = None

    def _judge(self, evidence: HandoffEvidence, tail: Tail) -> None:
        if evidence.kind == "count-complete":
            assert tail.frames_expected is not None
            assert tail.frames_received >= tail.frames_expected

    def canvases(self, incarnation: int) -> list[tuple[int, int] | None]:
        """What a source that goes on air may have been told of the canvas."""
        return self.canvas[self._attempts[incarnation] :]

    # ----------------------------------------------------------------------------- at the end

    def settle(self, pressure: Pressure | None, per_picture: int | None) -> None:
        """Compare the three sides, when all is over.

        Args:
            pressure: What the outputs say of their losses, if that can be told.
            per_picture: Interleaved samples that belong to a picture, if the sound was read too.
        """
        self._order()
        if self.report is not None:
            self.ends(self.report)
        for clip, said in self.lost.items():
            if said.why == "source-lost":
                assert said.frames_received == self.pictures[clip], said
        for source in (
            ref.id for ref in self._opened.values() if ref.incarnation in self._replaced
        ):
            for clip in self._unreached.get(str(source), []):
                missing = (self.over[clip] or 0) > self.pictures[clip]
                assert (clip in self.lost) == missing, f"nobody named {clip}, or in vain"
        for clip in self.pictures:
            assert self.pictures[clip] <= self.shown[clip], clip
        for source, tail in self.tails.items():
            clips = [clip for clip in self.shown if source_of(clip) == source]
            if tail.frames_dropped is not None:
                self._compare(clips, tail.frames_dropped, self.pictures, 1)
            if per_picture is not None and tail.samples_dropped is not None:
                self._compare(clips, tail.samples_dropped, self.samples, per_picture)
        if pressure is not None:
            self._compare(list(self.shown), pressure.frames_lost, self.pictures, 1)
            told = [tail.frames_dropped for tail in self.tails.values()]
            assert sum(each for each in told if each is not None) <= pressure.frames_lost
            if per_picture is not None:
                self._compare(list(self.shown), pressure.samples_lost, self.samples, per_picture)

    def _compare(self, clips: list[str], lost: int, came: Counter[str], each: int) -> None:
        """What was sent came or was lost; of a clip that was cut short, some may be neither."""
        untold = {clip for ended in self._unreached.values() for clip in ended}
        least = most = 0
        for clip in clips:
            missing = self.shown[clip] * each - came[clip]
            assert missing >= 0, f"more came of {clip} than was shown"
            most += missing
            if self.over.get(clip) is not None and clip not in untold:
                least += missing
        assert least <= lost <= most, f"{lost} lost, of {clips} {least} to {most} are missing"

    def _order(self) -> None:
        for received in (self._clips, self._heard):
            for source in {source_of(clip) for clip in received}:
                mine = [clip for clip in received if source_of(clip) == source]
                played = [clip for clip in self.shown if clip in mine]
                assert mine == played, f"clips came as {mine} and were played as {played}"

    def ends(self, report: RenewalReport) -> None:
        """Every source that was opened, and every clip that was taken, came to one end."""
        assert set(self._opened) <= set(self.left), "a source was opened and did not leave"
        assert set(self._attempts) == self._failed | set(self.left)
        assert report.total == len(self._attempts)
        kept = {each.incarnation: each.cleanup for each in report.retained}
        for number, closed in self.left.items():
            if number in kept:
                assert kept[number] == closed.cleanup
            else:
                assert closed.cleanup.complete, "what is not proven was forgotten"
        if self._options.retention == "bounded":
            proven = sum(each.complete for each in kept.values())
            assert proven <= self._options.retained_successful_cleanups
            limit = self._options.max_unresolved_cleanups
            assert len(kept) - proven <= limit
        told = {source.id: self.left[number].why for number, source in self._opened.items()}
        for clip in self.requests.accepted:
            if clip not in self.over and clip not in self.lost:
                why = told.get(source_of(clip))
                assert why == "retired", f"nothing was told of the end of {clip}: {why}"
