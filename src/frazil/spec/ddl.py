"""Parse schemas from DDL text as Spark writes it: `"id bigint not null, ts timestamp, props
map<string,string> comment 'x'"`.

Spark's `timestamp` has a zone (Iceberg timestamptz), `timestamp_ntz` has none; Iceberg's own names
(long, timestamptz, uuid, fixed(16), timestamp_ns, …) are understood as well.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from frazil.errors import ParseError, ValidationError
from frazil.spec.schema import Schema, assign_fresh_ids
from frazil.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
    VariantType,
    parse_primitive,
)

_NAMES: dict[str, IcebergType] = {
    "boolean": BooleanType(), "bool": BooleanType(),
    **dict.fromkeys(("tinyint", "byte", "smallint", "short", "int", "integer"), IntegerType()),
    "bigint": LongType(), "long": LongType(), "float": FloatType(), "real": FloatType(), "double": DoubleType(),
    "date": DateType(), "time": TimeType(), **dict.fromkeys(("timestamp", "timestamp_ltz", "timestamptz"), TimestamptzType()),
    "timestamp_ntz": TimestampType(), "timestamp_ns": TimestampNanoType(), "timestamptz_ns": TimestamptzNanoType(),
    "string": StringType(), "varchar": StringType(), "char": StringType(), "uuid": UUIDType(), "binary": BinaryType(),
    "void": UnknownType(), "unknown": UnknownType(), "variant": VariantType(),
}  # fmt: skip
_OF_OTHERS = {  # how numpy, pandas, Python and other SQL dialects call types
    **dict.fromkeys(("int8", "int16", "int32", "uint8", "uint16"), "int"),
    **dict.fromkeys(("int64", "uint32", "int8", "bigserial"), "bigint"),
    **dict.fromkeys(("float32", "float4"), "float"), **dict.fromkeys(("float64", "float8"), "double"),
    **dict.fromkeys(("str", "text", "object", "utf8", "large_string", "nvarchar", "clob"), "string"),
    **dict.fromkeys(("datetime", "datetime64"), "timestamp_ntz (without a zone) or timestamp (with one)"),
    **dict.fromkeys(("bytes", "blob", "bytea", "varbinary"), "binary"), "numeric": "decimal(precision, scale)",
    "number": "decimal(precision, scale)", "list": "array<…>", "dict": "map<…, …> or struct<…>", "json": "variant or string",
}  # fmt: skip
_TOKEN = re.compile(
    r"\s*(?:(?P<quoted>`(?:[^`]|``)*`)|(?P<text>'(?:[^'\\]|\\.)*')|(?P<word>\w+)|(?P<mark>[<>(),:\[\]]))"
)


@dataclass
class _DdlTokens:
    """Take tokens one by one from the text of a DDL schema. `at`: the place of the next token."""

    text: str
    position: int = 0

    def peek(self) -> str:
        match = _TOKEN.match(self.text, self.position)
        return match[0].strip() if match else ""

    def next(self) -> str:
        match = _TOKEN.match(self.text, self.position)
        if not match:
            raise ParseError(
                f"Cannot read the schema at {self.text[self.position : self.position + 20]!r}: {self.text!r}"
            )
        self.position = match.end()
        return match[0].strip()

    def take(self, *words: str) -> bool:
        if self.peek().lower() in words:
            self.next()
            return True
        return False

    def expect(self, mark: str) -> None:
        if (token := self.next()) != mark:
            raise ParseError(f"Expected {mark!r}, got {token!r} in schema {self.text!r}")

    def name(self) -> str:
        token = self.next()
        return token[1:-1].replace("``", "`") if token.startswith("`") else token


def parse_schema(text: str) -> Schema:
    """Parse DDL text into a Schema with fresh ids. Raises ParseError with the position in the text."""
    tokens, ids = _DdlTokens(text.strip()), itertools.count(1)
    fields = _fields(tokens, ids, end="")
    return assign_fresh_ids(Schema(*fields))


def parse_type(text: str) -> IcebergType:
    """Parse one type, e.g. `bigint`, `array<int>`; nested ids are provisional."""
    tokens = _DdlTokens(text.strip())
    parsed = _type(tokens, itertools.count(1))
    if tokens.position < len(tokens.text.rstrip()):
        raise ParseError(f"Cannot read the type at {tokens.text[tokens.position :]!r}: {text!r}")
    return parsed


def _fields(tokens: _DdlTokens, ids: Iterator[int], end: str) -> list[NestedField]:
    fields: list[NestedField] = []
    while tokens.peek() != end:
        name = tokens.name()
        tokens.take(":")
        type_, required, doc = _type(tokens, ids), False, None
        while True:
            if tokens.take("not"):
                if not tokens.take("null"):
                    raise ParseError(
                        f"Expected NULL after NOT, got {tokens.peek()!r} in schema {tokens.text!r}"
                    )
                required = True
            elif tokens.take("comment"):
                doc = re.sub(r"\\(.)", r"\1", tokens.next()[1:-1])
            else:
                break
        fields.append(NestedField(next(ids), name, type_, required, doc))
        if not tokens.take(","):
            break
    if end:
        tokens.expect(end)
    elif tokens.position < len(tokens.text):
        raise ParseError(
            f"Cannot read the schema at {tokens.text[tokens.position : tokens.position + 30]!r}: {tokens.text!r}"
        )
    return fields


def _type(tokens: _DdlTokens, ids: Iterator[int]) -> IcebergType:
    word = tokens.next().lower()
    match word:
        case "struct":
            tokens.expect("<")
            return StructType(*_fields(tokens, ids, end=">"))
        case "array" | "list":
            tokens.expect("<")
            element = _type(tokens, ids)
            tokens.expect(">")
            return ListType(next(ids), element, False)
        case "map":
            tokens.expect("<")
            key = _type(tokens, ids)
            tokens.expect(",")
            value = _type(tokens, ids)
            tokens.expect(">")
            return MapType(next(ids), key, next(ids), value, False)
    arguments = _arguments(tokens)
    if word in ("decimal", "dec", "numeric"):
        precision, scale = (
            int(a)
            for a in [*arguments, *(["10", "0"][len(arguments) :] if arguments else ["10", "0"])][
                :2
            ]
        )
        return DecimalType(precision, scale)
    if word == "fixed" and arguments:
        return FixedType(int(arguments[0]))
    if plain := _NAMES.get(word):
        return plain
    try:
        return parse_primitive(f"{word}({', '.join(arguments)})" if arguments else word)
    except ValidationError as e:
        meant = _OF_OTHERS.get(word.lower())
        raise ParseError(
            f"Unknown type {word!r} in schema {tokens.text!r}.",
            hint=None if meant is None else f"It is called {meant} in Spark and Iceberg.",
        ) from e


def _arguments(tokens: _DdlTokens) -> list[str]:
    close = {"(": ")", "[": "]"}.get(tokens.peek())
    if close is None:
        return []
    tokens.next()
    arguments: list[str] = []
    while (token := tokens.next()) != close:
        if token == ":":  # the CRS of geometry holds one: OGC:CRS84
            arguments[-1] += ":" + tokens.next()
        elif token != ",":
            arguments.append(token)
    return arguments
