"""Convert uuid columns between 16 bytes, as in files, and text, as in frames, without a loop over
rows.
"""

from __future__ import annotations

import uuid

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import InvalidInput

_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)
_PLACES = np.array([i for i in range(36) if i not in (8, 13, 18, 23)])
_VALUES = np.full(256, 255, np.uint8)
for _i, _c in enumerate("0123456789abcdef"):
    _VALUES[ord(_c)] = _VALUES[ord(_c.upper())] = _i


def uuid_to_text(array: pa.Array) -> pa.Array:
    """Convert 16 bytes to lower-case text with dashes; null stays null."""
    fixed = array if array.type == pa.binary(16) else array.cast(pa.binary(16))
    count = len(fixed)
    if count == 0:
        return pa.array([], pa.string())
    data = fixed.buffers()[1]
    if data is None:
        return pa.nulls(count, pa.string())
    raw = np.frombuffer(data, np.uint8)[fixed.offset * 16 : (fixed.offset + count) * 16].reshape(
        count, 16
    )
    text = np.full((count, 36), ord("-"), np.uint8)
    text[:, _PLACES[0::2]] = _DIGITS[raw >> 4]
    text[:, _PLACES[1::2]] = _DIGITS[raw & 15]
    offsets = np.arange(0, 36 * (count + 1), 36, dtype=np.int32)
    texts = pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(text))
    return pc.if_else(fixed.is_valid(), texts, None) if fixed.null_count else texts


def uuid_from_text(array: pa.Array) -> pa.Array:
    """Convert text in any of the forms that Python's uuid takes to 16 bytes. Raises InvalidInput,
    with the text, when it is not a uuid.
    """
    plain = array.cast(pa.string()) if array.type != pa.string() else array
    if len(plain) == 0:
        return pa.array([], pa.binary(16))
    if pc.all(pc.equal(pc.binary_length(plain), 36)).as_py() is not False:
        filled = pc.fill_null(plain, "0" * 36) if plain.null_count else plain
        offset, data = filled.offset, filled.buffers()[2]
        first = np.frombuffer(filled.buffers()[1], np.int32)[offset] if data is not None else 0
        text = np.frombuffer(data, np.uint8)[first : first + 36 * len(filled)].reshape(
            len(filled), 36
        )
        digits = _VALUES[text[:, _PLACES]]
        if digits.max() < 16:
            raw = np.ascontiguousarray((digits[:, 0::2] << 4) | digits[:, 1::2])
            uuids = pa.Array.from_buffers(pa.binary(16), len(filled), [None, pa.py_buffer(raw)])
            return (
                pc.if_else(plain.is_valid(), uuids, pa.scalar(None, pa.binary(16)))
                if plain.null_count
                else uuids
            )
    return pa.array([_parse(text) for text in plain.to_pylist()], pa.binary(16))


def _parse(text: str | None) -> bytes | None:
    if text is None:
        return None
    try:
        return uuid.UUID(text).bytes
    except ValueError as e:
        raise InvalidInput(f"{text[:60]!r} is not a uuid.") from e
