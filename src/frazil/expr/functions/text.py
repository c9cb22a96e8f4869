"""Implement text functions, which count in code points as Spark's UTF8String does."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import InvalidInput
from frazil.expr.casts import castable, each
from frazil.expr.functions.function import Bind, Function, Kernel, Signature, plain
from frazil.spec.types import (
    BinaryType,
    BooleanType,
    FixedType,
    IcebergType,
    IntegerType,
    StringType,
    UnknownType,
)

TEXT, INT, BOOL = StringType(), IntegerType(), BooleanType()
Types = Sequence[IcebergType]
_BYTES = (BinaryType, FixedType)


def _takes(*parameters: IcebergType, result: IcebergType, optional: int = 0) -> Bind:
    def bind(types: tuple[IcebergType, ...]) -> Signature | str:
        if not len(parameters) - optional <= len(types) <= len(parameters):
            return f"takes {', '.join(map(str, parameters))}."
        if not all(_implicit(t, w) for t, w in zip(types, parameters, strict=False)):
            return f"takes {', '.join(map(str, parameters))}."
        return Signature(tuple(parameters[: len(types)]), result)

    return bind


def _implicit(type_: IcebergType, parameter: IcebergType) -> bool:
    if isinstance(parameter, StringType):
        return castable(type_, parameter) and not isinstance(type_, _BYTES)
    return isinstance(type_, type(parameter) | UnknownType | StringType)


def _text_or_bytes(result: IcebergType) -> Bind:
    def bind(types: tuple[IcebergType, ...]) -> Signature | str:
        if len(types) == 1 and isinstance(types[0], _BYTES):
            return Signature(types, result)
        return _takes(TEXT, result=result)(types)

    return bind


def _concat_bind(types: tuple[IcebergType, ...]) -> Signature | str:
    if types and all(isinstance(t, _BYTES) for t in types):
        return Signature(types, BinaryType())
    if not types or not all(_implicit(t, TEXT) for t in types):
        return "takes texts."
    return Signature((TEXT,) * len(types), TEXT)


def _cased(ascii_: Callable[[pa.Array], pa.Array], full: Callable[[str], str]) -> Kernel:
    """Change case. Arrow maps letter by letter; ß, final sigma and the like need Python's full
    mapping.
    """

    def kernel(
        values: Sequence[pa.Array], types: Types, result: IcebergType, zone: str
    ) -> pa.Array:
        (v,) = values
        if pc.all(pc.string_is_ascii(v)).as_py() in (True, None):
            return ascii_(v)
        return each(v, full, pa.string())

    return kernel


def _length(values: Sequence[pa.Array], types: Types, result: IcebergType, zone: str) -> pa.Array:
    return (
        pc.binary_length(values[0]) if isinstance(types[0], _BYTES) else pc.utf8_length(values[0])
    )


def _trimmed(function: Callable[..., pa.Array]) -> Kernel:
    return plain(lambda v: function(v, characters=" "))


def substring(text: Any, start: int, length: int) -> Any:
    """Return Spark's substring: positions count from 1, negative ones from the end; a start before
    the text shortens the result.
    """
    size = len(text)
    begin = start - 1 if start > 0 else size + start if start < 0 else 0
    return text[max(begin, 0) : max(begin + length, 0)] if length > 0 else text[:0]


def _substring(
    values: Sequence[pa.Array], types: Types, result: IcebergType, zone: str
) -> pa.Array:
    lengths = (
        values[2]
        if len(values) > 2
        else pa.repeat(pa.scalar(2**31 - 1, pa.int32()), len(values[0]))
    )
    return _by_row(substring, pa.string(), values[0], values[1], lengths)


def _by_row(function: Callable[..., Any], to: pa.DataType, *values: pa.Array) -> pa.Array:
    rows = zip(*(v.to_pylist() for v in values), strict=True)
    return pa.array([None if None in row else function(*row) for row in rows], to)


def _tested(fast: Callable[..., pa.Array], test_row: Callable[[Any, Any], bool]) -> Kernel:
    """Make a test of two texts, with a fast path for a second text that is the same in all rows."""

    def kernel(
        values: Sequence[pa.Array], types: Types, result: IcebergType, zone: str
    ) -> pa.Array:
        text, part = values
        same = part.null_count == 0 and len(part) and pc.all(pc.equal(part, part[0])).as_py()
        return fast(text, part[0].as_py()) if same else _by_row(test_row, pa.bool_(), text, part)

    return kernel


def _test_bind(types: tuple[IcebergType, ...]) -> Signature | str:
    if len(types) == 2 and all(isinstance(t, _BYTES) for t in types):
        return Signature(types, BOOL)
    return _takes(TEXT, TEXT, result=BOOL)(types)


def _concat(values: Sequence[pa.Array], types: Types, result: IcebergType, zone: str) -> pa.Array:
    return (
        values[0]
        if len(values) == 1
        else pc.binary_join_element_wise(*values, b"" if isinstance(result, BinaryType) else "")
    )


def _rowwise(function: Callable[..., str]) -> Kernel:
    return plain(partial(_by_row, function, pa.string()))


def _replace(values: Sequence[pa.Array], types: Types, result: IcebergType, zone: str) -> pa.Array:
    new = values[2] if len(values) > 2 else pa.repeat("", len(values[0]))
    return _by_row(
        lambda s, old, to: s.replace(old, to) if old else s, pa.string(), values[0], values[1], new
    )


_ONE = _takes(TEXT, result=TEXT)
TEXT_FUNCTIONS = (
    Function("lower", _ONE, _cased(pc.utf8_lower, str.lower), ("lcase",)),
    Function("upper", _ONE, _cased(pc.utf8_upper, str.upper), ("ucase",)),
    Function("length", _text_or_bytes(INT), _length, ("len", "char_length", "character_length")),
    Function(
        "octet_length",
        _text_or_bytes(INT),
        plain(lambda v: pc.binary_length(v.cast(pa.binary()))),
    ),
    Function("trim", _ONE, _trimmed(pc.utf8_trim)),
    Function("ltrim", _ONE, _trimmed(pc.utf8_ltrim)),
    Function("rtrim", _ONE, _trimmed(pc.utf8_rtrim)),
    Function("substring", _takes(TEXT, INT, INT, result=TEXT, optional=1), _substring, ("substr",)),
    Function("left", _takes(TEXT, INT, result=TEXT), _rowwise(lambda s, n: s[: max(n, 0)])),
    Function(
        "right", _takes(TEXT, INT, result=TEXT), _rowwise(lambda s, n: s[-n:] if n > 0 else "")
    ),
    Function("concat", _concat_bind, _concat, ("||",), goes_on=None),
    Function("startswith", _test_bind, _tested(pc.starts_with, lambda s, p: s.startswith(p))),
    Function("endswith", _test_bind, _tested(pc.ends_with, lambda s, p: s.endswith(p))),
    Function("contains", _test_bind, _tested(pc.match_substring, lambda s, p: p in s)),
    Function("replace", _takes(TEXT, TEXT, TEXT, result=TEXT, optional=1), _replace),
    Function("reverse", _ONE, plain(pc.utf8_reverse)),
)


Pieces = tuple[str | int | None, ...]


def pattern_pieces(pattern: str, escape: str = "\\") -> Pieces:
    """Split a pattern into text, None for `%` (any text) and 1 for `_` (one character). The escape
    may precede `%`, `_` or itself.
    """
    pieces: list[str | int | None] = []
    text, position = "", 0
    while position < len(pattern):
        character = pattern[position]
        if character == escape:
            position += 1
            if position == len(pattern) or pattern[position] not in ("%", "_", escape):
                after = repr(pattern[position]) if position < len(pattern) else "the end"
                message = f"The LIKE pattern {pattern!r} has its escape character {escape!r} before {after}."
                raise InvalidInput(
                    message, hint="The escape character may only precede %, _ or itself."
                )
            text += pattern[position]
        elif character in "%_":
            if text:
                pieces.append(text)
                text = ""
            if character == "_" or not pieces or pieces[-1] is not None:
                pieces.append(1 if character == "_" else None)
        else:
            text += character
        position += 1
    return (*pieces, text) if text else tuple(pieces)


def as_regex(pieces: Sequence[str | int | None]) -> str:
    """Convert pieces to a regular expression (RE2) that matches the whole text."""
    body = "".join(".*" if p is None else "." if p == 1 else re.escape(str(p)) for p in pieces)
    return rf"\A(?s:{body})\z"
