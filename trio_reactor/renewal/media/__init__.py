"""The output media: one picture and one sound for the whole session, whatever the source.

`output` queues and delivers, within bounds; `losses` adds up what was lost on the way.
"""

from .losses import LossesUnknown
from .output import MediaOutput, MediaReceiver, MediaStatistics, Pressure

__all__ = ["LossesUnknown", "MediaOutput", "MediaReceiver", "MediaStatistics", "Pressure"]
