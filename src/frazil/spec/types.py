"""Define the types of the format (spec, "Schemas and Data Types") with PyIceberg's names.

Internal values, used wherever a value of a type is held (defaults, literals, bounds, partition
tuples): boolean bool · int, long int · float, double float · decimal Decimal · date int (days) ·
time int (µs) · timestamp, timestamptz int (µs) · timestamp_ns, timestamptz_ns int (ns) · string str
· uuid bytes(16) · fixed, binary, geometry, geography (WKB) bytes · struct dict {field id: value} ·
list list · map list of (key, value) · variant its JSON text · unknown None.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from frazil.errors import ValidationError

MAX_DEPTH = 100  # of types inside types, and of JSON values that are walked


class IcebergType:
    """Represent a type of the format; equal types are equal values. `str()` is the spec's text."""

    __slots__ = ()

    @property
    def is_primitive(self) -> bool:
        """Tell whether the type is primitive: no struct, list or map."""
        return isinstance(self, PrimitiveType)

    @property
    def is_struct(self) -> bool:
        """Tell whether the type is a struct."""
        return isinstance(self, StructType)


class PrimitiveType(IcebergType):
    """Describe a type that has no fields within: all but structs, lists and maps."""

    __slots__ = ()
    text: ClassVar[str] = ""

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


@dataclass(frozen=True, repr=False)
class BooleanType(PrimitiveType):
    text: ClassVar[str] = "boolean"


@dataclass(frozen=True, repr=False)
class IntegerType(PrimitiveType):
    text: ClassVar[str] = "int"


@dataclass(frozen=True, repr=False)
class LongType(PrimitiveType):
    text: ClassVar[str] = "long"


@dataclass(frozen=True, repr=False)
class FloatType(PrimitiveType):
    text: ClassVar[str] = "float"


@dataclass(frozen=True, repr=False)
class DoubleType(PrimitiveType):
    text: ClassVar[str] = "double"


@dataclass(frozen=True, repr=False)
class DateType(PrimitiveType):
    text: ClassVar[str] = "date"


@dataclass(frozen=True, repr=False)
class TimeType(PrimitiveType):
    text: ClassVar[str] = "time"


@dataclass(frozen=True, repr=False)
class TimestampType(PrimitiveType):
    text: ClassVar[str] = "timestamp"


@dataclass(frozen=True, repr=False)
class TimestamptzType(PrimitiveType):
    text: ClassVar[str] = "timestamptz"


@dataclass(frozen=True, repr=False)
class TimestampNanoType(PrimitiveType):
    text: ClassVar[str] = "timestamp_ns"


@dataclass(frozen=True, repr=False)
class TimestamptzNanoType(PrimitiveType):
    text: ClassVar[str] = "timestamptz_ns"


@dataclass(frozen=True, repr=False)
class StringType(PrimitiveType):
    text: ClassVar[str] = "string"


@dataclass(frozen=True, repr=False)
class UUIDType(PrimitiveType):
    text: ClassVar[str] = "uuid"


@dataclass(frozen=True, repr=False)
class BinaryType(PrimitiveType):
    text: ClassVar[str] = "binary"


@dataclass(frozen=True, repr=False)
class UnknownType(PrimitiveType):
    text: ClassVar[str] = "unknown"


@dataclass(frozen=True, repr=False)
class VariantType(PrimitiveType):
    """Represent semi-structured values (v3). A variant is not a primitive in the spec; it is a leaf
    here, since it has no children with ids."""

    text: ClassVar[str] = "variant"


@dataclass(frozen=True)
class FixedType(PrimitiveType):
    length: int

    def __str__(self) -> str:
        return f"fixed[{self.length}]"


@dataclass(frozen=True)
class DecimalType(PrimitiveType):
    precision: int
    scale: int

    def __post_init__(self) -> None:
        if not 0 < self.precision <= 38:
            raise ValidationError(f"decimal precision must be 1 to 38, not {self.precision}")

    def __str__(self) -> str:
        return f"decimal({self.precision}, {self.scale})"


@dataclass(frozen=True)
class GeometryType(PrimitiveType):
    crs: str = "OGC:CRS84"

    def __str__(self) -> str:
        return "geometry" if self.crs == "OGC:CRS84" else f"geometry({self.crs})"


@dataclass(frozen=True)
class GeographyType(PrimitiveType):
    crs: str = "OGC:CRS84"
    algorithm: str = "spherical"

    def __str__(self) -> str:
        if self.algorithm != "spherical":
            return f"geography({self.crs}, {self.algorithm})"
        return "geography" if self.crs == "OGC:CRS84" else f"geography({self.crs})"


@dataclass(frozen=True)
class NestedField:
    """Describe a column, or a field of a struct, by its `name` and by `field_id`, which never
    changes. A primitive `field_type` may be given as the spec's text ("string", "decimal(9, 2)").
    `required`: no null is allowed. `doc`: the comment, None: none. `initial_default` is read from
    files that lack the field, `write_default` written where a row does not give it (v3): internal
    values, None: none. `extra` keeps unknown JSON keys."""

    field_id: int
    name: str
    field_type: IcebergType
    required: bool = False
    doc: str | None = None
    initial_default: Any = None
    write_default: Any = None
    extra: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        _as_type(self, "field_type")

    @property
    def optional(self) -> bool:
        """Tell whether the field may be null: the opposite of `required`."""
        return not self.required

    def __hash__(self) -> int:
        return hash((self.field_id, self.name, self.field_type, self.required))

    def __str__(self) -> str:
        return (
            f"{self.field_id}: {self.name}: {'required' if self.required else 'optional'} {self.field_type}"
            + (f" ({self.doc})" if self.doc else "")
        )


class FieldsByName:
    """Look up fields by their own names, in the same time however many there are."""

    fields: tuple[NestedField, ...]

    @cached_property
    def _own_names(self) -> dict[str, list[NestedField]]:
        return _grouped((f.name, f) for f in self.fields)

    @cached_property
    def _own_lower_names(self) -> dict[str, list[NestedField]]:
        return _grouped((f.name.lower(), f) for f in self.fields)

    def fields_named(self, name: str, case_sensitive: bool = True) -> Sequence[NestedField]:
        """Return the fields of that name; where there is none and case does not matter, those whose
        names differ in case only.
        """
        exact = self._own_names.get(name, ())
        return exact if exact or case_sensitive else self._own_lower_names.get(name.lower(), ())


def _grouped(pairs: Iterable[tuple[str, NestedField]]) -> dict[str, list[NestedField]]:
    groups: dict[str, list[NestedField]] = {}
    for name, field_ in pairs:
        groups.setdefault(name, []).append(field_)
    return groups


@dataclass(frozen=True, init=False)
class StructType(FieldsByName, IcebergType):
    """Hold fields in their order; `extra` keeps unknown JSON keys, as in lists and maps."""

    fields: tuple[NestedField, ...]
    extra: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def __init__(self, *fields: NestedField, extra: dict[str, Any] | None = None):
        object.__setattr__(self, "fields", tuple(fields))
        object.__setattr__(self, "extra", extra or {})

    def __iter__(self) -> Iterator[NestedField]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def field(self, field_id: int) -> NestedField | None:
        """Return the member with that id."""
        return next((f for f in self.fields if f.field_id == field_id), None)

    def field_by_name(self, name: str, case_sensitive: bool = True) -> NestedField | None:
        """Return the member of that name."""
        wanted = name if case_sensitive else name.lower()
        return next(
            (f for f in self.fields if (f.name if case_sensitive else f.name.lower()) == wanted),
            None,
        )

    def __str__(self) -> str:
        return f"struct<{', '.join(map(str, self.fields))}>"


@dataclass(frozen=True)
class ListType(IcebergType):
    element_id: int
    element_type: IcebergType
    element_required: bool = True
    extra: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        _as_type(self, "element_type")

    @property
    def element_field(self) -> NestedField:
        """Return the elements as a field, called `element`."""
        return NestedField(self.element_id, "element", self.element_type, self.element_required)

    def __str__(self) -> str:
        return f"list<{self.element_type}>"


@dataclass(frozen=True)
class MapType(IcebergType):
    key_id: int
    key_type: IcebergType
    value_id: int
    value_type: IcebergType
    value_required: bool = True
    extra: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        _as_type(self, "key_type")
        _as_type(self, "value_type")

    @property
    def key_field(self) -> NestedField:
        """Return the keys as a field, called `key`, which is required."""
        return NestedField(self.key_id, "key", self.key_type, True)

    @property
    def value_field(self) -> NestedField:
        """Return the values as a field, called `value`."""
        return NestedField(self.value_id, "value", self.value_type, self.value_required)

    def __str__(self) -> str:
        return f"map<{self.key_type}, {self.value_type}>"


_PLAIN: dict[str, PrimitiveType] = {
    t.text: t()
    for t in (
        BooleanType,
        IntegerType,
        LongType,
        FloatType,
        DoubleType,
        DateType,
        TimeType,
        TimestampType,
        TimestamptzType,
        TimestampNanoType,
        TimestamptzNanoType,
        StringType,
        UUIDType,
        BinaryType,
        UnknownType,
        VariantType,
    )
}
V3_TYPES = (
    UnknownType,
    VariantType,
    GeometryType,
    GeographyType,
    TimestampNanoType,
    TimestamptzNanoType,
)
_WITH_ARGUMENTS: tuple[tuple[str, Callable[..., PrimitiveType]], ...] = (
    (r"decimal\s*\(\s*(\d+)\s*,\s*(-?\d+)\s*\)", lambda p, s: DecimalType(int(p), int(s))),
    (r"fixed\s*\[\s*(\d+)\s*\]", lambda n: FixedType(int(n))),
    (
        r"geometry(?:\s*\(\s*'?([^,)']+?)'?\s*\))?",
        lambda c: GeometryType(c or "OGC:CRS84"),
    ),  # PyIceberg quotes its arguments
    (
        r"geography(?:\s*\(\s*'?([^,)']+?)'?\s*(?:,\s*'?(\w+)'?\s*)?\))?",
        lambda c, a: GeographyType(c or "OGC:CRS84", a or "spherical"),
    ),
)


def parse_primitive(text: str) -> PrimitiveType:
    """Parse the primitive that the spec writes as `text`; blanks around arguments are allowed.
    Raises ValidationError for other texts.
    """
    if plain := _PLAIN.get(text):
        return plain
    for pattern, make in _WITH_ARGUMENTS:
        if match := re.fullmatch(pattern, text):
            return make(*match.groups())
    raise ValidationError(
        f"Unknown type {text!r} in the table's schema.",
        hint="A newer Frazil may know it.",
        type=text,
    )


def _as_type(holder: object, name: str) -> None:
    """Replace a member of a frozen dataclass that was given as text by the type that the text
    names. Raises ValidationError.
    """
    member = getattr(holder, name)
    if isinstance(member, str):
        object.__setattr__(holder, name, parse_primitive(member))


def children(type_: IcebergType) -> tuple[NestedField, ...]:
    """Return the fields directly inside a type: of a struct its fields, of a list its element, of a
    map key and value.
    """
    match type_:
        case StructType():
            return type_.fields
        case ListType():
            return (type_.element_field,)
        case MapType():
            return (type_.key_field, type_.value_field)
    return ()


def with_children(type_: IcebergType, new: tuple[NestedField, ...]) -> IcebergType:
    """Return the same type with other fields inside; `new` has the order of `children`."""
    match type_:
        case StructType():
            return StructType(*new, extra=type_.extra)
        case ListType():
            return ListType(new[0].field_id, new[0].field_type, new[0].required, type_.extra)
        case MapType():
            return MapType(
                new[0].field_id,
                new[0].field_type,
                new[1].field_id,
                new[1].field_type,
                new[1].required,
                type_.extra,
            )
    return type_


def can_promote(old: IcebergType, new: IcebergType, format_version: int = 2) -> bool:
    """Tell whether stored values of `old` may be read as `new` (spec, "Schema Evolution")."""
    match old, new:
        case (IntegerType(), LongType()) | (FloatType(), DoubleType()):
            return True
        case DecimalType(), DecimalType():
            return new.scale == old.scale and new.precision >= old.precision
        case (DateType(), TimestampType() | TimestampNanoType()):
            return format_version >= 3
        case UnknownType(), _:
            return format_version >= 3
    return old == new
