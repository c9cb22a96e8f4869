"""Convert Python and numpy values to Arrow arrays and scalars, and back, without pyarrow's own
conversion.

`pa.array`, `pa.scalar`, `Array.to_numpy` and kernels that get a Python number import pandas, if it
is installed, at their first use. That takes up to a second and 55 MB, and planning a scan does not
need it. So buffers are filled and read directly here; only types that are rare in plans are left to
pyarrow.
"""

from __future__ import annotations

import array
import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from frazil.spec.transform_values import scaled, unscaled

Values = Sequence[Any]
_CODES = {pa.int32(): "i", pa.int64(): "q", pa.uint8(): "B", pa.float32(): "f", pa.float64(): "d"}


def from_numpy(
    values: np.ndarray[Any, Any],
    type_: pa.DataType | None = None,
    *,
    missing: np.ndarray[Any, Any] | None = None,
) -> pa.Array:
    """Convert numbers or booleans to Arrow; `type_` may be another type of the same width,
    `missing` marks nulls.
    """
    if values.dtype == np.bool_:
        data, default_type = np.packbits(values, bitorder="little"), pa.bool_()
    else:
        data, default_type = np.ascontiguousarray(values), None
    buffers = [_validity(missing), pa.py_buffer(data)]
    return pa.Array.from_buffers(
        type_ or default_type or pa.from_numpy_dtype(values.dtype), len(values), buffers
    )


def to_numpy(values: pa.Array) -> np.ndarray[Any, Any]:
    """Convert numbers or booleans to numpy; the value in place of a null is undefined."""
    _, data = values.buffers()
    begin, end = values.offset, values.offset + len(values)
    if data is None:
        return np.zeros(
            len(values),
            dtype=np.bool_ if pa.types.is_boolean(values.type) else values.type.to_pandas_dtype(),
        )
    if pa.types.is_boolean(values.type):
        bits = np.frombuffer(data, dtype=np.uint8)[begin // 8 : (end + 7) // 8]
        return np.unpackbits(bits, bitorder="little")[begin % 8 : begin % 8 + len(values)].view(
            np.bool_
        )
    return np.frombuffer(data, dtype=values.type.to_pandas_dtype())[begin:end]


def column(values: Values, type_: pa.DataType) -> pa.Array:
    """Build an array as `pa.array(values, type_)` does; a struct is given as a tuple of its
    children. Raises OverflowError and TypeError for values that do not fit."""
    return _builder(type_)(values)


def scalar(value: object, type_: pa.DataType) -> pa.Scalar:
    """Build a scalar as `pa.scalar(value, type_)` does."""
    return column((value,), type_)[0]


def _validity(missing: np.ndarray[Any, Any] | None) -> pa.Buffer | None:
    return (
        None
        if missing is None or not missing.any()
        else pa.py_buffer(np.packbits(~missing, bitorder="little"))
    )


def _split(values: Values, instead: object) -> tuple[Values, pa.Buffer | None]:
    """Replace None by `instead`, and return the validity bitmap."""
    if None not in values:
        return values, None
    missing = np.fromiter((v is None for v in values), dtype=np.bool_, count=len(values))
    return [instead if v is None else v for v in values], _validity(missing)


@functools.lru_cache(maxsize=512)
def _builder(type_: pa.DataType) -> Callable[[Values], pa.Array]:
    if type_ in _CODES:
        return functools.partial(_numbers, type_, _CODES[type_])
    if pa.types.is_boolean(type_):
        return _booleans
    if pa.types.is_decimal128(type_):
        return functools.partial(_decimals, type_)
    if type_ in (pa.string(), pa.binary()):
        return functools.partial(_bytes, type_)
    if pa.types.is_list(type_):
        return functools.partial(_lists, type_, _builder(type_.value_type))
    if pa.types.is_struct(type_) and type_.num_fields:
        return functools.partial(
            _structs, type_, tuple(_builder(type_.field(i).type) for i in range(type_.num_fields))
        )
    return functools.partial(pa.array, type=type_)


def _numbers(type_: pa.DataType, code: str, values: Values) -> pa.Array:
    filled, validity = _split(values, 0)
    return pa.Array.from_buffers(
        type_, len(values), [validity, pa.py_buffer(array.array(code, filled))]
    )


def _booleans(values: Values) -> pa.Array:
    filled, validity = _split(values, False)
    bits = np.packbits(np.fromiter(filled, dtype=np.bool_, count=len(values)), bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), len(values), [validity, pa.py_buffer(bits)])


def _decimals(type_: pa.DataType, values: Values) -> pa.Array:
    filled, validity = _split(values, Decimal(0))
    if not all(isinstance(v, Decimal) and v.is_finite() for v in filled):
        return pa.array(values, type_)
    numbers = [unscaled(v, type_.scale) for v in filled]
    if any(
        abs(n) >= 10**type_.precision or scaled(n, type_.scale) != v
        for n, v in zip(numbers, filled, strict=True)
    ):
        return pa.array(values, type_)  # raises the error that says which value does not fit
    words = b"".join(n.to_bytes(16, "little", signed=True) for n in numbers)
    return pa.Array.from_buffers(type_, len(values), [validity, pa.py_buffer(words)])


def _bytes(type_: pa.DataType, values: Values) -> pa.Array:
    filled, validity = _split(values, b"")
    parts = [v.encode() if isinstance(v, str) else v for v in filled]
    offsets = _offsets(map(len, parts))
    return pa.Array.from_buffers(
        type_, len(values), [validity, offsets, pa.py_buffer(b"".join(parts))]
    )


def _lists(type_: pa.DataType, items: Callable[[Values], pa.Array], values: Values) -> pa.Array:
    filled, validity = _split(values, ())
    offsets = _offsets(map(len, filled))
    return pa.Array.from_buffers(
        type_,
        len(values),
        [validity, offsets],
        children=[items(list(itertools.chain.from_iterable(filled)))],
    )


def _structs(
    type_: pa.DataType, children: tuple[Callable[[Values], pa.Array], ...], values: Values
) -> pa.Array:
    filled, validity = _split(values, (None,) * len(children))
    columns = list(zip(*filled, strict=True)) or [()] * len(children)
    parts = [build(c) for build, c in zip(children, columns, strict=True)]
    return pa.Array.from_buffers(type_, len(values), [validity], children=parts)


def _offsets(lengths: Iterable[int]) -> pa.Buffer:
    return pa.py_buffer(array.array("i", itertools.accumulate(lengths, initial=0)))
