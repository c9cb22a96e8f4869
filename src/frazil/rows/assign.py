"""Bind and apply assignments: SET of UPDATE and VALUES of INSERT, with casts to the column's type
(`arrow.write.store` has the rule).

A column keeps its old value, takes the value of an expression, or (a struct with some members
assigned) is rebuilt from both; an insert gives columns that are not named their write default, or
null. Overflow and nulls in required columns are errors that name the column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from frazil.arrow.values.arrays import repeated
from frazil.arrow.values.arrow_schema import to_arrow_field, to_arrow_type
from frazil.arrow.values.evaluate import compute_over, struct_member
from frazil.arrow.values.mismatch import Problem, mismatch
from frazil.arrow.values.uuids import uuid_to_text
from frazil.arrow.write.conform import column_maker
from frazil.arrow.write.store import (
    ByName,
    Origin,
    constant_of,
    of_column,
    origin_of,
    problem_of,
    stored,
)
from frazil.errors import (
    EvaluationError,
    FrazilError,
    InvalidInput,
    ParseError,
    SchemaMismatch,
    ValidationError,
    ValueMismatch,
)
from frazil.expr.bind import resolve
from frazil.expr.bound import Bound, BoundLiteral, BoundReference, references
from frazil.expr.nodes import Expression, Literal, Reference, Translated
from frazil.expr.parse import parse
from frazil.expr.values import MOMENTS
from frazil.spec.schema import Schema
from frazil.spec.types import (
    DateType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
    TimeType,
    UUIDType,
)

Bind = Callable[[Expression], Bound]
E = TypeVar("E", bound=FrazilError)
Path = tuple[str, ...]
INVALID_ASSIGNMENTS = "DATATYPE_MISMATCH.INVALID_ROW_LEVEL_OPERATION_ASSIGNMENTS"
"""Spark's condition of errors about a column that is set more than once."""


# What a column becomes
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class KeptValue:
    """Keep the old value; `path` leads to it from the top of a batch."""

    path: Path


@dataclass(frozen=True)
class Compute:
    """Compute the new value: an expression of the field's type, or another column, which is
    converted as a written frame's column is.
    """

    value: Bound
    name: str


@dataclass(frozen=True)
class Default:
    """Take the column's write default, or null."""


@dataclass(frozen=True)
class Members:
    """Rebuild a struct from new and old members.

    Assigned member by member, the struct itself is never null, as in Spark. Where its members are
    those of a struct of the source (`UPDATE *` with schema evolution), `both` are that struct and
    the old one, and null in both is null in the new rows.
    """

    nodes: tuple[Node, ...]
    both: tuple[Bound, Path] | None = None


Node = KeptValue | Compute | Default | Members


@dataclass(frozen=True)
class Assignments:
    """Hold how each column of `schema` gets its new value; made by `bind_update` and `bind_insert`."""

    schema: Schema
    nodes: tuple[Node, ...]
    zone: str = "UTC"
    case_sensitive: bool = True
    _arrow: pa.Schema = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "_arrow", pa.schema([to_arrow_field(f) for f in self.schema.fields])
        )

    @property
    def kept(self) -> frozenset[int]:
        """Return the ids of the (top-level or nested) columns that keep their old values, which
        must therefore be read.
        """
        return frozenset(_kept_ids(self.schema.fields, self.nodes))

    @property
    def read(self) -> dict[int, BoundReference]:
        """Return the columns that the expressions read, by id."""
        return {i: r for value in _computed(self.nodes) for i, r in references(value).items()}

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Make the new rows, typed as the table, from a batch that has the columns of `kept` and
        `read`.

        Raises EvaluationError and SchemaMismatch, which name the column.
        """
        rows = batch.num_rows
        columns = [
            _checked(f, self._made(f, n, batch), f.name)
            for f, n in zip(self.schema.fields, self.nodes, strict=True)
        ]
        if not columns:
            return pa.RecordBatch.from_struct_array(
                pa.Array.from_buffers(pa.struct([]), rows, [None])
            )
        return pa.RecordBatch.from_arrays(columns, schema=self._arrow)

    def _made(self, column: NestedField, node: Node, batch: pa.RecordBatch) -> pa.Array:
        match node:
            case KeptValue(path=path):
                return at_path(batch, path)
            case Default():
                return repeated(column.field_type, column.write_default, batch.num_rows)
            case Compute():
                return self._computed(column, node, batch)
        assert isinstance(column.field_type, StructType)
        null = None if node.both is None else _null_in_both(node.both, batch)
        members = zip(column.field_type.fields, node.nodes, strict=True)
        inside = [
            _checked(m, self._made(m, n, batch), f"{column.name}.{m.name}", null)
            for m, n in members
        ]
        return pa.StructArray.from_arrays(
            inside, fields=list(to_arrow_type(column.field_type)), mask=null
        )

    def _computed(self, f: NestedField, node: Compute, batch: pa.RecordBatch) -> pa.Array:
        if (
            isinstance(node.value, BoundReference)
            and node.value.type == f.field_type
            and f.field_type.is_primitive
        ):
            # unchanged: converting to internal values and back would cost time
            return at_path(batch, node.value.path)
        if isinstance(node.value, BoundReference) or not f.field_type.is_primitive:
            return self._reshaped(f, node, batch)
        try:
            return to_arrow_column(compute_over(node.value, batch), f.field_type)
        except EvaluationError as e:
            raise of_column(e, node.name) from e
        except pa.ArrowInvalid as e:
            raise EvaluationError(f"Column {node.name}: {e}", column=node.name) from e

    def _reshaped(self, f: NestedField, node: Compute, batch: pa.RecordBatch) -> pa.Array:
        if isinstance(node.value, BoundLiteral):
            return pa.nulls(batch.num_rows, to_arrow_type(f.field_type))
        assert isinstance(node.value, BoundReference)
        have = at_path(batch, node.value.path)
        make = column_maker(
            f, pa.field(f.name, have.type), case_sensitive=self.case_sensitive, name=node.name
        )
        try:
            return make(have, batch.num_rows)
        except ValueMismatch as e:
            text = e.message.replace(
                f"A value of column {node.name} does", f"Column {node.name}: a value does", 1
            )
            raise ValueMismatch(text, hint=e.hint, **e.facts) from e


def at_path(batch: pa.RecordBatch, path: Sequence[str]) -> pa.Array:
    """Return a nested column by its path of names; null where a struct around it is null."""
    column = batch.column(path[0])
    for name in path[1:]:
        column = struct_member(column, column.type.get_field_index(name))
    return column


def to_arrow_column(values: pa.Array, type_: IcebergType) -> pa.Array:
    """Convert internal values to the Arrow type in which batches carry a column of this type."""
    want = to_arrow_type(type_)
    if isinstance(type_, UUIDType):
        return uuid_to_text(values)
    if isinstance(type_, (DateType, TimeType, *MOMENTS)):
        return values.view(want)
    return values if values.type == want else values.cast(want)


def _null_in_both(both: tuple[Bound, Path], batch: pa.RecordBatch) -> pa.Array:
    value, path = both
    assert isinstance(value, BoundReference)
    return pc.and_(at_path(batch, value.path).is_null(), at_path(batch, path).is_null())


def _checked(
    f: NestedField, values: pa.Array, name: str, around: pa.Array | None = None
) -> pa.Array:
    """Refuse nulls in a required column; `around`: where the struct that holds it is null."""
    if f.required and values.null_count:
        null = values.is_null() if around is None else pc.and_not(values.is_null(), around)
        if count := pc.sum(null).as_py():
            raise SchemaMismatch(
                f"Column {name} is required, but its new value is null in {count} rows.",
                column=name,
                condition="NOT_NULL_ASSERT_VIOLATION",
            )
    return values


def _kept_ids(fields: Iterable[NestedField], nodes: Iterable[Node]) -> Iterable[int]:
    for f, node in zip(fields, nodes, strict=True):
        if isinstance(node, KeptValue):
            yield f.field_id
        elif isinstance(node, Members):
            assert isinstance(f.field_type, StructType)
            yield from _kept_ids(f.field_type.fields, node.nodes)


def _computed(nodes: Iterable[Node]) -> Iterable[Bound]:
    for node in nodes:
        if isinstance(node, Compute):
            yield node.value
        elif isinstance(node, Members):
            yield from _computed(node.nodes)
            if node.both is not None:
                yield node.both[0]


# Binding
# --------------------------------------------------------------------------------------------------


def bind_update(
    target: Schema,
    values: Iterable[tuple[str, Any]],
    bind: Bind,
    *,
    structs: Mapping[Path, Expression] = {},
    prefix: Path = (),
    zone: str = "UTC",
    case_sensitive: bool = True,
) -> Assignments:
    """Bind new values for some columns or struct members ("s.x"); the others keep theirs. `bind`
    binds an expression over the batch's schema, in which the target's columns lie under `prefix`.
    `structs`: those of the source whose members are assigned to the struct of this path (see
    `Members`). Raises ValidationError and InvalidInput, which name the column."""
    by_id = _resolved(target, values, bind, zone, case_sensitive)
    of_source = {path: bind(struct) for path, struct in structs.items()}
    return Assignments(
        target, _tree(target.fields, by_id, of_source, prefix, ()), zone, case_sensitive
    )


def bind_insert(
    target: Schema,
    values: Iterable[tuple[str, Any]],
    bind: Bind,
    *,
    zone: str = "UTC",
    case_sensitive: bool = True,
    whole: bool = True,
) -> Assignments:
    """Bind values for new rows; columns that are not named take their write default, or null;
    required columns without either are refused.

    `whole`: refuse the value of a struct that lacks members of the column; False: these members are
    filled in the same way.
    """
    by_id = _resolved(target, values, bind, zone, case_sensitive, whole)
    if nested := [i for i in by_id if target.parents[i]]:
        name = target.find_column_name(nested[0])
        raise InvalidInput(
            f"INSERT assignment keys cannot be nested fields: an insert takes whole columns, not {name}.",
            column=name,
        )
    for f in target.fields:
        if f.required and f.field_id not in by_id and f.write_default is None:
            raise InvalidInput(
                f"Column {f.name} is required and has no default, but the insert does not set it.",
                column=f.name,
                condition=INVALID_ASSIGNMENTS,
            )
    return Assignments(
        target, tuple(by_id.get(f.field_id, Default()) for f in target.fields), zone, case_sensitive
    )


def as_expression(value: object) -> Expression:
    """Convert a new value as users give it (Spark SQL text, an expression, or a Python value as a
    constant) to an expression.
    """
    if isinstance(value, ByName):
        return value.column
    if isinstance(value, Translated):
        return value.node
    if isinstance(value, str):
        return parse(value)
    return value if isinstance(value, Expression) else Literal(value)


def _bound(value: object, bind: Bind, name: str) -> Bound:
    """Bind a value. The error of a text that is not an expression says how to write a constant, in
    case that was meant.
    """
    try:
        return bind(as_expression(value))
    except (ParseError, ValidationError) as e:
        if not isinstance(value, str):
            raise
        raise meant_as_constant(e, name, value) from e


def meant_as_constant(error: E, name: str, text: str) -> E:
    """Add to the error of a text that is not an expression the column it was for, and how a
    constant is written.
    """
    constant = "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
    hint = f"A string is read as an expression; write a constant with quotes, as in {constant!r}, or as frazil.expressions.Literal."
    hint = f"{error.hint} {hint}" if error.hint else hint
    return type(error)(
        f"Column {name}: {error.message}", hint=hint, **{"column": name, **error.facts}
    )


def _stored(
    value: object, bound: Bound, f: NestedField, name: str, zone: str, case_sensitive: bool
) -> Bound:
    expression = as_expression(value)
    origin = origin_of(value, expression)
    if (
        origin is Origin.CONSTANT
        and isinstance(expression, Literal)
        and expression.value is not None
    ):
        return constant_of(expression.value, bound.type, f, name)
    return stored(bound, origin, f, name, zone, case_sensitive)


def name_parts(name: str) -> tuple[str, ...]:
    """Split a column's name as typed, `s.x` or with back-quotes, into its parts."""
    if "`" not in name:
        return tuple(name.split("."))
    reference = parse(name)
    if not isinstance(reference, Reference):
        raise InvalidInput(f"{name!r} is not the name of a column.", column=name)
    return reference.parts


def typed_name(parts: Iterable[str]) -> str:
    """Join parts to a name that `name_parts` splits into the same parts."""
    return str(Reference("", parts))


def refuse_element(target: Schema, parts: Iterable[str], case_sensitive: bool) -> None:
    """Raise InvalidInput for an assignment to an element of a list or map: `l[0]`, `m['key']`."""
    name = ".".join(parts)
    if "[" in name and target.get_field(name, case_sensitive) is None:
        hint = "Set the whole column; with Spark, for instance, by transform(…) or map_concat(…)."
        raise InvalidInput(
            f"{name}: elements of lists and maps cannot be assigned.", hint=hint, column=name
        )


def _resolved(
    target: Schema,
    new_values: Iterable[tuple[str, Any]],
    bind: Bind,
    zone: str,
    sensitive: bool,
    whole: bool = True,
) -> dict[int, Compute | Default]:
    assignments: dict[int, Compute | Default] = {}
    names: dict[int, str] = {}
    # of columns that are matched by name; they are reported together, as for an append
    problems: list[Problem] = []
    for name, value in new_values:
        parts = name_parts(name)
        refuse_element(target, parts, sensitive)
        reference = resolve(target, name, parts, sensitive)
        column, full = target.by_id[reference.field_id], reference.name
        if column.field_id in assignments:
            raise InvalidInput(
                f"Multiple assignments for '{full}': a column is set more than once.",
                column=full,
                condition=INVALID_ASSIGNMENTS,
            )
        names[column.field_id] = full
        if isinstance(value, str) and value.strip().upper() == "DEFAULT":
            if column.required and column.write_default is None:
                raise InvalidInput(f"Column {full} is required and has no default.", column=full)
            assignments[column.field_id] = Default()
            continue
        bound = _bound(value, bind, full)
        if whole:
            refuse_partial(bound.type, column.field_type, full, sensitive)
        if isinstance(value, ByName) and (problem := problem_of(bound, column, full)) is not None:
            problems.append(problem)
            continue
        assignments[column.field_id] = Compute(
            _stored(value, bound, column, full, zone, sensitive), full
        )
    if problems:
        raise mismatch(problems)
    for i, full in names.items():
        if around := [p for p in target.parents[i] if p in assignments]:
            text = f"Conflicting assignments for '{names[around[0]]}': {full}, a member of it, is set together with it."
            raise InvalidInput(text, column=full, condition=INVALID_ASSIGNMENTS)
    return assignments


def refuse_partial(have: IcebergType, want: IcebergType, name: str, case_sensitive: bool) -> None:
    """Raise SchemaMismatch where an assigned struct, at any depth, lacks a member of the column,
    which would become null silently.
    """
    if lacking := list(_lacking(have, want, name, case_sensitive)):
        raise SchemaMismatch(
            f"Column {name}: cannot find data for the output column {', '.join(lacking)}; its new value has no such member.",
            hint="Give the struct every member that the column has, null ones as well, or set single members by their full names.",
            column=name,
            columns=lacking,
        )


def _lacking(
    have: IcebergType, want: IcebergType, name: str, case_sensitive: bool
) -> Iterator[str]:
    match want, have:
        case StructType(), StructType():
            for f in want.fields:
                near = [h for h in have.fields if h.name == f.name]
                near = near or [
                    h
                    for h in have.fields
                    if not case_sensitive and h.name.lower() == f.name.lower()
                ]
                if near:
                    yield from _lacking(
                        near[0].field_type, f.field_type, f"{name}.{f.name}", case_sensitive
                    )
                else:
                    yield f"{name}.{f.name}"
        case ListType(), ListType():
            yield from _lacking(
                have.element_type, want.element_type, f"{name}.element", case_sensitive
            )
        case MapType(), MapType():
            yield from _lacking(have.key_type, want.key_type, f"{name}.key", case_sensitive)
            yield from _lacking(have.value_type, want.value_type, f"{name}.value", case_sensitive)


def _tree(
    fields: Sequence[NestedField],
    node_of: Mapping[int, Node],
    structs: Mapping[Path, Bound],
    prefix: Path,
    path: Path,
) -> tuple[Node, ...]:
    nodes: list[Node] = []
    for f in fields:
        inside, here = (*path, f.name), (*prefix, *path, f.name)
        if f.field_id in node_of:
            nodes.append(node_of[f.field_id])
        elif isinstance(f.field_type, StructType) and _touched(f.field_type, node_of):
            both = (structs[inside], here) if inside in structs else None
            nodes.append(
                Members(_tree(f.field_type.fields, node_of, structs, prefix, inside), both)
            )
        else:
            nodes.append(KeptValue(here))
    return tuple(nodes)


def _touched(type_: StructType, node_of: Mapping[int, Node]) -> bool:
    return any(
        f.field_id in node_of
        or (isinstance(f.field_type, StructType) and _touched(f.field_type, node_of))
        for f in type_.fields
    )
