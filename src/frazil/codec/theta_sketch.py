"""Estimate numbers of distinct values by theta sketches, and encode them as Apache DataSketches
does (Puffin blob `apache-datasketches-theta-v1`).

A sketch keeps the smallest hashes of all values that it was given. How close together they lie
tells how many different values there are. Sketches of parts are merged to the sketch of the whole,
here and by every other reader of the format.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from frazil.codec.sorted_numbers import distinct

Words = np.ndarray[Any, np.dtype[np.uint64]]

NOMINAL = 16_384
"""Most hashes that a sketch keeps: the error of an estimate is 0.8 % (one standard deviation), the
blob has 128 KB at most.
"""
SEED = 9001
_SEED_HASH = 0x93CC  # how the format names seed 9001
_ALL = 2**63 - 1  # theta of a sketch that keeps every hash
_PREAMBLE = struct.Struct("<BBBBBBH")
_SERIAL_VERSION, _COMPACT_FAMILY = 3, 3
_READ_ONLY, _EMPTY, _COMPACT, _ORDERED, _SINGLE = 2, 4, 8, 16, 32
_C1, _C2 = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)


def _no_hashes() -> Words:
    return np.zeros(0, np.uint64)


@dataclass(frozen=True, eq=False)
class ThetaSketch:
    """Hold the hashes below `theta`, ascending and each once."""

    hashes: Words = field(default_factory=_no_hashes)
    theta: int = _ALL

    def with_hashes(self, hashes: Words) -> ThetaSketch:
        """Return the sketch after these hashes of further values; a hash of 0 stands for nothing."""
        return self.merged(
            ThetaSketch(
                distinct(hashes[(hashes < np.uint64(self.theta)) & (hashes > 0)]), self.theta
            )
        )

    def merged(self, other: ThetaSketch) -> ThetaSketch:
        """Return the sketch of the values of both."""
        theta = min(self.theta, other.theta)
        below = [s.hashes[: np.searchsorted(s.hashes, np.uint64(theta))] for s in (self, other)]
        hashes = distinct(np.concatenate(below)) if all(map(len, below)) else max(below, key=len)
        if len(hashes) > NOMINAL:
            hashes, theta = hashes[:NOMINAL], int(hashes[NOMINAL])
        return ThetaSketch(hashes, theta)

    @property
    def estimate(self) -> float:
        """Estimate the number of distinct values; exact as long as no hash was left out."""
        return len(self.hashes) if self.theta == _ALL else len(self.hashes) / (self.theta / 2**63)

    def to_bytes(self) -> bytes:
        """Encode as an ordered compact sketch."""
        flags, count = _READ_ONLY | _COMPACT | _ORDERED, len(self.hashes)
        words = self.hashes.astype("<u8").tobytes()
        if self.theta < _ALL:
            sizes = struct.pack("<IfQ", count, 1.0, self.theta)
            return _preamble(3, flags) + sizes + words
        if count == 0:
            return _preamble(1, flags | _EMPTY)
        if count == 1:
            return _preamble(1, flags | _SINGLE) + words
        return _preamble(2, flags) + struct.pack("<If", count, 1.0) + words


def _preamble(longs: int, flags: int) -> bytes:
    seed = 0 if flags & _EMPTY else _SEED_HASH
    return _PREAMBLE.pack(longs, _SERIAL_VERSION, _COMPACT_FAMILY, 0, 0, flags, seed)


# --- hashes (MurmurHash3, x64, 128 bits, of which the sketch takes the first 63)


def hash_fixed(values: np.ndarray[Any, Any]) -> Words:
    """Hash values of one length: an array of bytes, one row per value."""
    rows, length = values.shape
    padded = np.zeros((rows, -(-length // 16) * 16), np.uint8)
    padded[:, :length] = values
    words = padded.view("<u8").astype(np.uint64, copy=False)
    with np.errstate(over="ignore"):
        return _murmur(words, length)


def hash_lengths(
    data: np.ndarray[Any, Any], starts: np.ndarray[Any, Any], lengths: np.ndarray[Any, Any]
) -> Words:
    """Hash values of any length, each `lengths[i]` bytes of `data` from `starts[i]`. Empty values
    have no hash (0), as in Java.
    """
    hashes = np.zeros(len(starts), np.uint64)
    for length in np.unique(lengths[lengths > 0]).tolist():
        rows = np.flatnonzero(lengths == length)
        parts = max(1, len(rows) * length // (1 << 23))  # of some megabytes each
        for part in np.array_split(rows, parts):
            hashes[part] = hash_fixed(data[starts[part][:, None] + np.arange(length)])
    return hashes


def _murmur(words: Words, length: int) -> Words:
    first, second = np.full(len(words), SEED, np.uint64), np.full(len(words), SEED, np.uint64)
    whole = length // 16
    for block in range(whole):
        first ^= _rotated(words[:, 2 * block] * _C1, 31) * _C2
        first = (_rotated(first, 27) + second) * np.uint64(5) + np.uint64(0x52DCE729)
        second ^= _rotated(words[:, 2 * block + 1] * _C2, 33) * _C1
        second = (_rotated(second, 31) + first) * np.uint64(5) + np.uint64(0x38495AB5)
    if length % 16:
        second ^= _rotated(words[:, 2 * whole + 1] * _C2, 33) * _C1
        first ^= _rotated(words[:, 2 * whole] * _C1, 31) * _C2
    first ^= np.uint64(length)
    second ^= np.uint64(length)
    first = first + second
    second = second + first
    return (_mixed(first) + _mixed(second)) >> np.uint64(1)


def _rotated(words: Words, bits: int) -> Words:
    return (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))


def _mixed(words: Words) -> Words:
    words = (words ^ (words >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    words = (words ^ (words >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return words ^ (words >> np.uint64(33))
