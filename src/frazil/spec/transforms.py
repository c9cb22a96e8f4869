"""Describe partition transforms: names, source checks, result types (spec, "Partition Transforms").

What a transform does to one value is in `spec.transform_values`; vectorised over Arrow it is in
`expr.transforms`.

To add a transform, beside its class here and those two:
- `codec.single_value` writes its values into paths;
- `expr.pruning.partitions` derives ranges of the source column from its values, for files and for
  manifests; without that it prunes nothing;
- `expr.functions.partitioning` makes it a function of expressions;
- `spark.write.catalyst_transforms` computes it in Spark's plans, `spark.catalog.table` shows it to
  Spark, `spark.catalog.functions` serves it as a function of SQL;
- `sql.grammar` reads it in `ALTER TABLE … ADD PARTITION FIELD`; `frazil.transforms` exports the
  class.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar

from frazil.errors import ParseError, ValidationError
from frazil.spec.types import (
    BinaryType,
    DateType,
    DecimalType,
    FixedType,
    GeographyType,
    GeometryType,
    IcebergType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
    VariantType,
)

_TIMESTAMPS = (TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType)
_DATES = (DateType, *_TIMESTAMPS)
_BUCKETED = (
    IntegerType,
    LongType,
    DecimalType,
    DateType,
    TimeType,
    *_TIMESTAMPS,
    StringType,
    UUIDType,
    FixedType,
    BinaryType,
)
_TRUNCATED = (IntegerType, LongType, DecimalType, StringType, BinaryType)


@dataclass(frozen=True)
class Transform:
    """Describe a partition transform. `str()` is the spec's text. Equal transforms are equal
    values.

    What is the same for all transforms of a class stands in the class statement: `name`, as the
    spec writes it; `sources`, the types of columns that it takes; `result`, the type of its values,
    None for that of the column; `suffix`, with which names of partition fields end; `keeps_order`,
    whether greater values of the column never have lesser results.
    """

    name: ClassVar[str] = ""
    sources: ClassVar[tuple[type, ...]] = (IcebergType,)
    result: ClassVar[IcebergType | None] = None
    suffix: ClassVar[str] = ""
    keeps_order: ClassVar[bool] = False
    is_known: ClassVar[bool] = True
    """Whether Frazil can compute the transform."""

    def __init_subclass__(cls, **facts: Any):
        for fact, value in facts.items():
            setattr(cls, fact, value)

    def __str__(self) -> str:
        return self.name

    def can_transform(self, source: IcebergType) -> bool:
        """Tell whether the transform takes columns of a type."""
        return isinstance(source, self.sources)

    def result_type(self, source: IcebergType) -> IcebergType:
        """Return the type of the partition values of a column of a type."""
        return self.result or source


class IdentityTransform(Transform, name="identity", keeps_order=True):
    """Keep the value of a column of a primitive type, but of no geometry and no variant."""

    def can_transform(self, source: IcebergType) -> bool:
        return isinstance(source, PrimitiveType) and not isinstance(
            source, GeometryType | GeographyType | VariantType
        )


@dataclass(frozen=True)
class BucketTransform(
    Transform, name="bucket", sources=_BUCKETED, result=IntegerType(), suffix="bucket"
):
    num_buckets: int

    def __post_init__(self) -> None:
        if not 0 < self.num_buckets < 2**31:
            raise ValidationError(f"Invalid number of buckets: {self.num_buckets} (must be > 0)")

    def __str__(self) -> str:
        return f"bucket[{self.num_buckets}]"


@dataclass(frozen=True)
class TruncateTransform(
    Transform, name="truncate", sources=_TRUNCATED, suffix="trunc", keeps_order=True
):
    width: int

    def __post_init__(self) -> None:
        if not 0 < self.width < 2**31:
            raise ValidationError(f"Invalid truncate width: {self.width} (must be > 0)")

    def __str__(self) -> str:
        return f"truncate[{self.width}]"


_ORDINAL: dict[str, Any] = {"result": IntegerType(), "keeps_order": True}


class YearTransform(Transform, name="year", sources=_DATES, suffix="year", **_ORDINAL):
    """Count the years from 1970 to a date or timestamp."""


class MonthTransform(Transform, name="month", sources=_DATES, suffix="month", **_ORDINAL):
    """Count the months from January 1970 to a date or timestamp."""


class DayTransform(
    Transform, name="day", sources=_DATES, result=DateType(), suffix="day", keeps_order=True
):
    """Take the date of a date or timestamp."""


class HourTransform(Transform, name="hour", sources=_TIMESTAMPS, suffix="hour", **_ORDINAL):
    """Count the hours from 1970 to a timestamp."""


TIMES = (YearTransform, MonthTransform, DayTransform, HourTransform)
"""The units of time, of which a column has one in a spec."""


class VoidTransform(Transform, name="void", suffix="null"):
    """Turn every value to null: what is left of a partition field that was removed."""


@dataclass(frozen=True)
class UnknownTransform(
    Transform, name="unknown", result=StringType(), suffix="unknown", is_known=False
):
    """Represent a transform of a newer format, by its `text`: its values are compared and kept,
    never used to filter, never written."""

    text: str

    def __str__(self) -> str:
        return self.text


_SIMPLE: dict[str, Transform] = {
    "identity": IdentityTransform(),
    "void": VoidTransform(),
    **dict.fromkeys(("year", "years"), YearTransform()),
    **dict.fromkeys(("month", "months"), MonthTransform()),
    **dict.fromkeys(("day", "days", "date"), DayTransform()),
    **dict.fromkeys(("hour", "hours", "date_hour"), HourTransform()),
}


def parse_transform(text: str) -> Transform:
    """Parse the transform that the spec writes as `text` (`bucket[16]`, any case); an unknown one
    becomes UnknownTransform.
    """
    lowered = text.strip().lower()
    if simple := _SIMPLE.get(lowered):
        return simple
    if match := re.fullmatch(r"(bucket|truncate)\[(\d+)\]", lowered):
        return (BucketTransform if match[1] == "bucket" else TruncateTransform)(int(match[2]))
    return UnknownTransform(text)


@dataclass(frozen=True)
class TransformTerm:
    """Hold a transform of a column as users type it, with the optional name of `AS name`."""

    transform: Transform
    column: str
    name: str | None = None


_ARGUMENT = re.compile(r"(?:`(?:[^`]|``)*`|[^,`])+")  # a comma in back-quotes is part of a name
_CALL = re.compile(r"\s*(\w+)\s*\(\s*(.*?)\s*\)\s*", re.DOTALL)


def parse_term(text: str) -> TransformTerm:
    """Parse `days(ts)`, `bucket(16, id)`, `truncate(4, s)`, `truncate(s, 4)`, `region`, a
    back-quoted name; each with an optional `AS name`."""
    body, name = text, None
    if match := re.fullmatch(
        r"(.*\S)\s+as\s+(`(?:[^`]|``)+`|\w+)\s*", text, re.IGNORECASE | re.DOTALL
    ):
        body, name = match[1], unquote(match[2])
    call = _CALL.fullmatch(body)
    if not call:
        return TransformTerm(IdentityTransform(), unquote(body), name)
    function, arguments = call[1].lower(), [a.strip() for a in _ARGUMENT.findall(call[2])]
    if function in ("bucket", "truncate", "trunc") and len(arguments) == 2:
        width, column = arguments if arguments[0].isdigit() else reversed(arguments)
        if not width.isdigit():
            raise ParseError(
                f"{text!r}: {function} takes a number and a column, as in {function}(16, id)."
            )
        kind = BucketTransform if function == "bucket" else TruncateTransform
        return TransformTerm(kind(int(width)), unquote(column), name)
    if function in _SIMPLE and len(arguments) == 1:
        return TransformTerm(_SIMPLE[function], unquote(arguments[0]), name)
    hint = "Known: identity, bucket(n, c), truncate(w, c), years, months, days, hours, void."
    raise ParseError(f"{text!r} is not a partition transform.", hint=hint)


def unquote(column: str) -> str:
    """Strip the back-quotes of a column name; dots outside quotes separate nested names."""
    return re.sub(r"`((?:[^`]|``)*)`", lambda m: m[1].replace("``", "`"), column.strip())
