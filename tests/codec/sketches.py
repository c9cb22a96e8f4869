"""Read theta sketches, and merge those of parts."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

import numpy as np

from frazil.codec.guard import reading
from frazil.codec.theta_sketch import (
    _ALL,
    _COMPACT_FAMILY,
    _EMPTY,
    _PREAMBLE,
    _SEED_HASH,
    _SERIAL_VERSION,
    SEED,
    ThetaSketch,
    distinct,
)
from frazil.errors import CorruptData


def merge_sketches(sketches: Iterable[ThetaSketch]) -> ThetaSketch:
    """Merge the sketches of parts."""
    return reduce(ThetaSketch.merged, sketches, ThetaSketch())


def decode_sketch(data: bytes, file: str = "") -> ThetaSketch:
    """Decode a compact sketch. Raises CorruptData for one that is damaged, or of another form or
    seed.
    """
    with reading("theta sketch", file):
        longs, version, family, _, _, flags, seed = _PREAMBLE.unpack_from(data)
        longs &= 0x3F
        if (version, family) != (_SERIAL_VERSION, _COMPACT_FAMILY) or longs not in (1, 2, 3):
            raise CorruptData(
                f"A theta sketch of serial version {version}, family {family} is not known."
            )
        if flags & _EMPTY:
            return ThetaSketch()
        if seed != _SEED_HASH:
            raise CorruptData(f"A theta sketch has another seed than {SEED}.")
        count = 1 if longs == 1 else int.from_bytes(data[8:12], "little")
        theta = int.from_bytes(data[16:24], "little") if longs == 3 else _ALL
        if len(data) < 8 * (longs + count):
            raise CorruptData(f"A theta sketch claims {count} hashes in {len(data)} bytes.")
        hashes = distinct(np.frombuffer(data, "<u8", count, 8 * longs).astype(np.uint64))
        if len(hashes) != count or not 0 < theta <= _ALL or (count and int(hashes[-1]) >= theta):
            raise CorruptData("The hashes of a theta sketch are not below its theta, each once.")
        return ThetaSketch(hashes, theta)
