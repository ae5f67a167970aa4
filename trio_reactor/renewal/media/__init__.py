"""The output media: one picture and one sound for the whole session, whatever the source.

`output` takes what sources push, within bounds; `queue` holds it, and `receiver` gives it to a
reader; `losses` adds up what was lost on the way.
"""

from .losses import LossesUnknown
from .output import MediaOutput, MediaStatistics, Pressure
from .receiver import MediaReceiver

__all__ = ["LossesUnknown", "MediaOutput", "MediaReceiver", "MediaStatistics", "Pressure"]
