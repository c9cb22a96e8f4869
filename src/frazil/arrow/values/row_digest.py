"""Compute 128-bit digests of rows: equal rows have equal digests; rows that differ have equal
digests with a chance of 2^-128.

Null equals null, NaN equals NaN, 0.0 is not -0.0 (as in Java's comparison of rows); maps are equal
whatever the order of their entries. Two chains of 64 bits, each with its own constants, take in the
columns, vectorised: texts eight bytes at a time, long ones by BLAKE2b, a list as the digests of its
elements one after another. Digests are the same in every process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.scan.deletes import float_bits

Words: TypeAlias = npt.NDArray[np.uint64]
Digests: TypeAlias = tuple[Words, Words]
LONG = 512  # bytes; longer texts are hashed one by one
_SEEDS = (np.uint64(0x243F6A8885A308D3), np.uint64(0xA4093822299F31D0))  # digits of pi
_STEPS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93))
_NULL = np.uint64(0x452821E638D01377)


def row_digests(columns: Sequence[pa.Array], count: int) -> Digests:
    """Compute the two halves of each row's digest."""
    halves = np.full(count, _SEEDS[0]), np.full(count, _SEEDS[1])
    for column in columns:
        _add(column, halves)
    return halves


def _add(column: pa.Array, halves: Digests) -> None:
    """Take a column into the chains, in place."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    type_ = column.type
    if pa.types.is_null(type_):
        return
    if pa.types.is_struct(type_):
        # members of a null struct are null, so a word of its own tells that the struct itself is
        # null
        if column.null_count:
            _chain(halves, column.is_valid().to_numpy(zero_copy_only=False).astype(np.uint64))
        else:
            _chain(halves, np.ones(len(column), np.uint64))
        for member in column.flatten():
            _add(member, halves)
        return
    if pa.types.is_map(type_) or pa.types.is_list(type_) or pa.types.is_large_list(type_):
        own = _of_lists(column)
    elif pa.types.is_fixed_size_binary(type_) or _is_text(type_):
        own = _of_texts(column)
    else:
        numbers = _numbers(column)
        for word in range(numbers.shape[1]):
            _chain(halves, numbers[:, word], nulls=_nulls(column))
        return
    _chain(halves, own[0], own[1], nulls=_nulls(column))


def _is_text(t: pa.DataType) -> bool:
    return any(
        test(t)
        for test in (
            pa.types.is_string,
            pa.types.is_binary,
            pa.types.is_large_string,
            pa.types.is_large_binary,
        )
    )


def _nulls(column: pa.Array) -> npt.NDArray[np.bool_] | None:
    return column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None


def _chain(
    halves: Digests,
    first: Words,
    second: Words | None = None,
    nulls: npt.NDArray[np.bool_] | None = None,
) -> None:
    """Take one word per row into both chains; `second`: the other chain's words, where they differ.

    A null has a word of its own, which equals that of a value only as rarely as digests of
    different rows are equal.
    """
    for half, step, words in zip(
        halves, _STEPS, (first, first if second is None else second), strict=True
    ):
        with np.errstate(over="ignore"):
            mixed = _mixed(words + step)
            if nulls is not None:
                mixed[nulls] = _mixed(np.array([_NULL ^ step]))[0]
            half ^= mixed
            half[:] = _mixed(half + step)


def _mixed(x: Words) -> Words:
    """Mix the bits of words by the finalizer of splitmix64, a bijection."""
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x ^= x >> np.uint64(27)
        x *= np.uint64(0x94D049BB133111EB)
        x ^= x >> np.uint64(31)
        return x


def _numbers(column: pa.Array) -> Words:
    """Convert a column of fixed width to words, one or more per row; those of nulls are arbitrary."""
    type_ = column.type
    if pa.types.is_floating(type_):
        column = float_bits(column)
    elif pa.types.is_decimal(type_):
        words = type_.bit_width // 64
        raw = np.frombuffer(column.buffers()[1] or b"", np.uint64)[
            words * column.offset : words * (column.offset + len(column))
        ]
        return raw.reshape(-1, words)
    elif pa.types.is_temporal(type_):
        column = column.view(pa.int32() if type_.bit_width == 32 else pa.int64())
    filled = pc.fill_null(column, pa.scalar(0).cast(column.type)) if column.null_count else column
    as_words: Words = (
        filled.to_numpy(zero_copy_only=False).astype(np.int64).view(np.uint64).reshape(-1, 1)
    )
    return as_words


def _of_texts(column: pa.Array) -> Digests:
    if pa.types.is_fixed_size_binary(column.type):
        column = column.cast(pa.binary())
    data = column.cast(pa.large_binary())
    if data.null_count:
        data = pc.fill_null(data, pa.scalar(b"", pa.large_binary()))
    if not len(data):
        return np.zeros(0, np.uint64), np.zeros(0, np.uint64)
    offsets = np.frombuffer(data.buffers()[1], np.int64)[data.offset : data.offset + len(data) + 1]
    return _of_bytes(data.buffers()[2] or pa.py_buffer(b""), offsets)


def _of_bytes(raw: pa.Buffer, offsets: npt.NDArray[np.int64]) -> Digests:
    """Compute digests of byte strings that lie one after another: of their lengths, then of a word
    per eight bytes.
    """
    begins, lengths = offsets[:-1], np.diff(offsets)
    halves = np.full(len(lengths), _SEEDS[0]), np.full(len(lengths), _SEEDS[1])
    _chain(halves, lengths.astype(np.uint64))
    low, high = int(offsets[0]), int(offsets[-1])
    padded = np.zeros(high - low + 8, np.uint8)
    padded[: high - low] = np.frombuffer(raw, np.uint8, high - low, low) if high > low else 0
    # a word begins at every byte
    words = np.ndarray((high - low + 1,), "<u8", padded, strides=(1,))
    rows = np.flatnonzero((lengths > 0) & (lengths <= LONG))
    offset = 0
    while len(rows):
        bytes_left = lengths[rows] - offset
        next_words = words[begins[rows] - low + offset].astype(np.uint64)
        short = bytes_left < 8
        next_words[short] &= (
            np.uint64(1) << (bytes_left[short].astype(np.uint64) * np.uint64(8))
        ) - np.uint64(1)
        chains = halves[0][rows], halves[1][rows]
        _chain(chains, next_words)
        halves[0][rows], halves[1][rows] = chains
        offset += 8
        rows = rows[bytes_left > 8]
    for row in np.flatnonzero(lengths > LONG):
        text = padded[begins[row] - low : begins[row] - low + lengths[row]]
        halves[0][row], halves[1][row] = np.frombuffer(
            hashlib.blake2b(text.tobytes(), digest_size=16).digest(), "<u8"
        )
    return halves


def _of_lists(column: pa.Array) -> Digests:
    """Compute digests of lists and maps from those of their elements; those of a map are sorted
    first.
    """
    is_map = pa.types.is_map(column.type)
    if is_map:
        entry = pa.struct(
            [pa.field("key", column.type.key_type, False), pa.field("value", column.type.item_type)]
        )
        column = column.cast(pa.list_(pa.field("entries", entry, False)))
    lengths = (
        pc.fill_null(pc.list_value_length(column), 0)
        .to_numpy(zero_copy_only=False)
        .astype(np.int64)
    )
    inner = column.flatten()
    elements = row_digests([inner], len(inner))
    if is_map and len(inner):
        order = np.lexsort((elements[1], elements[0], np.repeat(np.arange(len(lengths)), lengths)))
        elements = elements[0][order], elements[1][order]
    raw = pa.py_buffer(np.ascontiguousarray(np.stack(elements, axis=1)))
    return _of_bytes(raw, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64) * 16)
