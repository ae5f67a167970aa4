"""The clips of sources that are gone: a retired clip is told from one that never was."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, final

__all__ = ["MAX_RETIRED_CLIPS", "RetiredClips"]

MAX_RETIRED_CLIPS: Final = 4096
"""How many clips of sources that are gone are remembered."""


@final
class RetiredClips:
    """The clips of sources that are gone, the newest `bound` of them.

    A clip that is not remembered any more cannot be told from one that never was.
    """

    def __init__(self, bound: int = MAX_RETIRED_CLIPS) -> None:
        self._bound = bound
        self._clips: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._clips)

    def __contains__(self, clip: object) -> bool:
        return clip in self._clips

    def remember(self, clips: Iterable[str]) -> None:
        """Remember these, the newest last."""
        for clip in clips:
            self._clips.pop(clip, None)
            self._clips[clip] = None
        while len(self._clips) > self._bound:
            del self._clips[next(iter(self._clips))]
