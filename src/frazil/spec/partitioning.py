"""Describe partition specs, and the keys by which partitions are compared (spec, "Partitioning")."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from frazil.errors import ValidationError
from frazil.spec.schema import Schema
from frazil.spec.transforms import (
    TIMES,
    BucketTransform,
    IdentityTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    parse_term,
    parse_transform,
)
from frazil.spec.types import ListType, MapType, NestedField, StringType, StructType

FIRST_PARTITION_FIELD_ID = 1000


class CallableTruth(int):
    """Hold a boolean that may be called as well: `spec.is_unpartitioned`, and
    `spec.is_unpartitioned()` as in PyIceberg.
    """

    def __call__(self) -> bool:
        return bool(self)

    def __repr__(self) -> str:
        return repr(bool(self))


@dataclass(frozen=True)
class PartitionField:
    """Describe one field of a partition spec: its `name`, its `field_id` (from 1000), and the
    column `source_id` that it is derived from. `source_ids` holds all sources of a multi-argument
    transform (v3), else it is empty. The transform may be given as the spec's text ("day",
    "bucket[16]"). `extra` holds unknown JSON keys."""

    source_id: int
    field_id: int
    transform: Transform
    name: str
    source_ids: tuple[int, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.transform, str):
            object.__setattr__(self, "transform", parse_transform(self.transform))

    def __str__(self) -> str:
        return f"{self.field_id}: {self.name}: {self.transform}({self.source_id})"


@dataclass(frozen=True, init=False)
class PartitionSpec:
    """Describe how a table is partitioned: `PartitionSpec(*fields, spec_id=0)`. `extra` holds
    unknown JSON keys."""

    fields: tuple[PartitionField, ...]
    spec_id: int = 0
    extra: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def __init__(
        self, *fields: PartitionField, spec_id: int = 0, extra: dict[str, Any] | None = None
    ):
        object.__setattr__(self, "fields", tuple(fields))
        object.__setattr__(self, "spec_id", spec_id)
        object.__setattr__(self, "extra", extra or {})

    @property
    def unpartitioned(self) -> bool:
        """Tell whether the spec has no fields, or void ones only."""
        return all(isinstance(f.transform, VoidTransform) for f in self.fields)

    @property
    def is_unpartitioned(self) -> CallableTruth:
        """Tell whether the spec is unpartitioned, as an attribute or, as in PyIceberg, as a call."""
        return CallableTruth(self.unpartitioned)

    def fields_by_source_id(self, field_id: int) -> list[PartitionField]:
        """Return the partition fields that are derived from the column with that id."""
        return [f for f in self.fields if f.source_id == field_id]

    @property
    def last_assigned_field_id(self) -> int:
        """Return the highest field id of the spec; 999 when it has no fields."""
        return max((f.field_id for f in self.fields), default=FIRST_PARTITION_FIELD_ID - 1)

    def compatible_with(self, other: PartitionSpec) -> bool:
        """Tell whether sources, transforms and names are the same, in order; ids do not matter
        (such a spec is used again, not added).
        """
        return [(f.source_id, f.transform, f.name) for f in self.fields] == [
            (f.source_id, f.transform, f.name) for f in other.fields
        ]

    def partition_type(self, schema: Schema) -> StructType:
        """Return the struct type of this spec's partition values; a source dropped from `schema`
        gives string (the value is only compared)."""
        fields = []
        for f in self.fields:
            source = schema.by_id.get(f.source_id)
            result = (
                f.transform.result_type(source.field_type)
                if source
                else _result_without_source(f.transform)
            )
            fields.append(NestedField(f.field_id, f.name, result, required=False))
        return StructType(*fields)

    def __str__(self) -> str:
        return "[" + ", ".join(map(str, self.fields)) + "]"


def _result_without_source(transform: Transform) -> Any:
    if isinstance(transform, IdentityTransform | TruncateTransform | VoidTransform):
        return StringType()
    return transform.result_type(StringType())


UNPARTITIONED_PARTITION_SPEC = PartitionSpec()


def field_of_other_column(
    spec: PartitionSpec, column_ids: Collection[int]
) -> PartitionField | None:
    """Find a partition field that is made of none of these columns; None where they determine the
    partition.
    """
    return next(
        (
            f
            for f in spec.fields
            if f.source_id not in column_ids and not isinstance(f.transform, VoidTransform)
        ),
        None,
    )


def default_name(column: str, transform: Transform, with_width: bool = False) -> str:
    """Name a partition field as Java does: `id_bucket`, `s_trunc`, `ts_day`; with_width
    (UpdatePartitionSpec) `id_bucket_16`, `s_trunc_4`."""
    match transform:
        case BucketTransform(size) | TruncateTransform(size) if with_width:
            return f"{column}_{transform.suffix}_{size}"
    return f"{column}_{transform.suffix}" if transform.suffix else column


def check_source(schema: Schema, source_id: int, transform: Transform) -> NestedField:
    """Return the source field when the transform can take it. Raises ValidationError otherwise."""
    source = schema.by_id.get(source_id)
    if source is None:
        raise ValidationError(
            f"Cannot find source column for partition field: {transform}({source_id})"
        )
    if not transform.is_known:
        raise ValidationError(
            f"Cannot partition by unknown transform {transform}; such tables can be read, not written."
        )
    if not source.field_type.is_primitive or not transform.can_transform(source.field_type):
        raise ValidationError(f"Invalid source type {source.field_type} for transform: {transform}")
    if any(
        isinstance(schema.by_id[p].field_type, ListType | MapType)
        for p in schema.parents[source_id]
    ):
        raise ValidationError(
            f"Cannot partition by {schema.find_column_name(source_id)}: it is inside a list or map"
        )
    return source


def build_spec(
    schema: Schema, terms: Iterable[str], spec_id: int = 0, case_sensitive: bool = True
) -> PartitionSpec:
    """Build a spec from strings such as `days(ts)`, `bucket(16, id)`, `region`. Raises ParseError,
    and ValidationError, also for two units of time of one column, of which the finer one says all.
    """
    fields: list[PartitionField] = []
    seen: dict[tuple[int, object], str] = {}
    for number, text in enumerate(terms):
        term = parse_term(text)
        source = schema.find_field(term.column, case_sensitive)
        check_source(schema, source.field_id, term.transform)
        kind = TIMES if isinstance(term.transform, TIMES) else term.transform
        if (other := seen.setdefault((source.field_id, kind), text)) is not text:
            raise ValidationError(
                f"Cannot add redundant partition: {other} conflicts with {text}",
                hint="Leave one of them out, of two times the coarser one.",
            )
        name = term.name or default_name(
            schema.find_column_name(source.field_id) or term.column, term.transform
        )
        fields.append(
            PartitionField(source.field_id, FIRST_PARTITION_FIELD_ID + number, term.transform, name)
        )
    spec = PartitionSpec(*fields, spec_id=spec_id)
    check_names(schema, spec)
    return spec


def check_names(schema: Schema, spec: PartitionSpec) -> None:
    """Check that names are used once, and that a name that is a column's belongs to an identity (or
    void) of that column.
    """
    seen: set[str] = set()
    for partition_field in spec.fields:
        if not partition_field.name:
            raise ValidationError("Cannot use empty partition name")
        if partition_field.name in seen:
            raise ValidationError(
                f"Cannot use partition name more than once: {partition_field.name}"
            )
        seen.add(partition_field.name)
        column = schema.get_field(partition_field.name)
        is_own = isinstance(partition_field.transform, IdentityTransform | VoidTransform)
        if column is not None and not (is_own and column.field_id == partition_field.source_id):
            raise ValidationError(
                f"Cannot create partition from name that exists in schema: {partition_field.name}"
            )


PartitionKey = tuple[int, tuple[Any, ...]]


@dataclass(frozen=True)
class FloatKey:
    """Identify a float by its bits: NaN equals itself, -0.0 is not 0.0."""

    text: str
    value: float = field(compare=False)


def partition_key(spec_id: int, values: tuple[Any, ...]) -> PartitionKey:
    """Return the hashable key (spec id, partition values), with floats as FloatKey."""
    for v in values:
        if isinstance(v, float):
            return spec_id, tuple(
                FloatKey(v.hex(), v) if isinstance(v, float) else v for v in values
            )
    return spec_id, values


def plain_values(key: PartitionKey) -> tuple[Any, ...]:
    return tuple(v.value if isinstance(v, FloatKey) else v for v in key[1])
