"""A number that a picture carries in its own brightness, so that order is checked by content.

A strip of black and white blocks in the top left corner: 24 bits of number and 8 bits of check, in
two rows of sixteen.  A block is at least eight luma samples wide and grows with the picture, so a
number survives lossy compression and a change of size.  Only luma is touched: the chroma planes
stay as they are.

Pure functions on arrays; nothing here waits or reads a clock.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["MAX_NUMBER", "MIN_HEIGHT", "MIN_WIDTH", "NoStamp", "read_stamp", "stamp"]

Luma: TypeAlias = npt.NDArray[np.uint8]
"""A plane of brightness, rows by columns."""

ROWS: Final = 2
COLUMNS: Final = 16
SMALLEST_BLOCK: Final = 8
"""Luma samples a side: the unit in which video codecs transform, so that blocks stay crisp."""
BLOCKS_ACROSS: Final = 80
"""How many blocks the width of a large picture holds."""

NUMBER_BITS: Final = 24
CHECK_BITS: Final = 8
MAX_NUMBER: Final = (1 << NUMBER_BITS) - 1
"""The largest number; at 25 pictures a second it is reached after a week."""
MIN_WIDTH: Final = COLUMNS * SMALLEST_BLOCK
MIN_HEIGHT: Final = ROWS * SMALLEST_BLOCK

BLACK: Final = 16
WHITE: Final = 235
DARKEST_WHITE: Final = 160
BRIGHTEST_BLACK: Final = 91
"""Between the two a block is neither: there is no stamp."""


class NoStamp(ValueError):
    """The picture carries no number that can be read."""


def stamp(luma: Luma, number: int) -> None:
    """Write a number into a picture, in place.

    Args:
        luma: The plane of brightness, writable.
        number: From 0 to `MAX_NUMBER`.

    Raises:
        ValueError: If the number is out of range or the picture too small to carry one.
    """
    if not 0 <= number <= MAX_NUMBER:
        raise ValueError(f"a stamp holds a number from 0 to {MAX_NUMBER}, not {number}")
    side = _block_side(luma)
    code = number << CHECK_BITS | _check(number)
    bits = np.frombuffer(code.to_bytes(4, "big"), np.uint8)
    blocks = np.where(np.unpackbits(bits), np.uint8(WHITE), np.uint8(BLACK))
    strip = blocks.reshape(ROWS, COLUMNS).repeat(side, axis=0).repeat(side, axis=1)
    luma[: strip.shape[0], : strip.shape[1]] = strip


def read_stamp(luma: Luma) -> int:
    """Read the number of a picture.

    Args:
        luma: The plane of brightness.

    Raises:
        NoStamp: If a block is neither black nor white, or the check does not match.
        ValueError: If the picture is too small to carry a number.
    """
    side = _block_side(luma)
    strip = luma[: ROWS * side, : COLUMNS * side].reshape(ROWS, side, COLUMNS, side)
    inner = slice(side // 4, side - side // 4)  # the edges are where compression smears
    levels = strip[:, inner, :, inner].mean(axis=(1, 3)).reshape(-1)
    if bool(np.any((levels > BRIGHTEST_BLACK) & (levels < DARKEST_WHITE))):
        raise NoStamp("the corner of the picture is not black and white blocks")
    code: int = int.from_bytes(np.packbits(levels >= DARKEST_WHITE).tobytes(), "big")
    number: int = code >> CHECK_BITS
    if code & 0xFF != _check(number):
        raise NoStamp("the check of the number does not match")
    return number


def _block_side(luma: Luma) -> int:
    if luma.ndim != 2 or luma.shape[0] < MIN_HEIGHT or luma.shape[1] < MIN_WIDTH:
        shape = "x".join(str(extent) for extent in reversed(luma.shape))
        raise ValueError(f"a stamp needs at least {MIN_WIDTH}x{MIN_HEIGHT} samples, not {shape}")
    height, width = (int(extent) for extent in luma.shape)
    return min(max(SMALLEST_BLOCK, width // BLOCKS_ACROSS), height // ROWS)


def _check(number: int) -> int:
    """CRC-8 with polynomial 0x07, begun at 0xA5 so that neither all black nor all white passes."""
    crc = 0xA5
    for byte in number.to_bytes(3, "big"):
        crc ^= byte
        for _ in range(8):
            crc = (crc << 1 ^ 0x07) & 0xFF if crc & 0x80 else crc << 1
    return crc
