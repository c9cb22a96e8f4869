"""Conform a caller's frame to a table's schema: match columns by name, cast them safely, and refuse
all that does not fit in one error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.arrow.values.arrays import repeated
from frazil.arrow.values.arrow_schema import (
    check_names,
    from_arrow_schema,
    to_arrow_schema,
    to_arrow_type,
)
from frazil.arrow.values.casts import CastFunction, cast_for
from frazil.arrow.values.frames import as_arrow
from frazil.arrow.values.mismatch import CAST, Problem, advice, mismatch, no_such_column
from frazil.errors import InvalidInput, SchemaMismatch, Unsupported, ValueMismatch
from frazil.spec.schema import Schema
from frazil.spec.types import IcebergType, ListType, MapType, NestedField, StringType, StructType

Make = Callable[[Any, int], pa.Array]
_PlacesByName = dict[tuple[str, str], list[int]]
BATCH_ROWS = 1 << 17


@dataclass(frozen=True)
class Conformed:
    """Hold a frame whose rows are typed as the table's when they are iterated. A stream can be
    iterated once, a frame in memory split.

    `num_rows` and `nbytes` are None and 0 for a stream, whose size is not known.
    """

    schema: pa.Schema
    source: pa.Table | pa.RecordBatchReader
    columns: tuple[tuple[int | None, Make], ...]
    required: tuple[tuple[int, str], ...] = ()

    @property
    def num_rows(self) -> int | None:
        return self.source.num_rows if isinstance(self.source, pa.Table) else None

    @property
    def nbytes(self) -> int:
        return int(self.source.nbytes) if isinstance(self.source, pa.Table) else 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        batches = (
            self.source.to_batches(BATCH_ROWS) if isinstance(self.source, pa.Table) else self.source
        )
        return map(self._batch, batches)

    def parts(self, count: int) -> list[Conformed]:
        """Split the rows into `count` runs of about the same length."""
        if not isinstance(self.source, pa.Table):
            raise Unsupported("A stream cannot be split into parts.")
        rows = self.source.num_rows
        ends = [rows * (i + 1) // count for i in range(count)]
        return [
            Conformed(self.schema, self.source.slice(a, b - a), self.columns, self.required)
            for a, b in zip([0, *ends], ends, strict=False)
        ]

    def reader(self) -> pa.RecordBatchReader:
        """Stream the rows as Arrow batches."""
        return pa.RecordBatchReader.from_batches(self.schema, iter(self))

    def _batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        count = batch.num_rows
        arrays = [
            make(None if index is None else _clean(batch.column(index)), count)
            for index, make in self.columns
        ]
        for index, name in self.required:
            if arrays[index].null_count:
                raise SchemaMismatch(
                    f"Column {name} is required, but the frame holds nulls in it.", column=name
                )
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def conform(
    frame: object,
    schema: Schema,
    *,
    case_sensitive: bool = True,
) -> Conformed:
    """Match the columns of a frame with the table's by name; missing optional ones are null or have
    their write default.

    Raises SchemaMismatch with one line per problem: unknown columns, missing required ones, types
    that cannot be cast safely. Values that do not fit (overflow, lost digits, nulls in required
    columns) raise it while the rows are iterated.
    """
    source = as_arrow(frame, schema, case_sensitive=case_sensitive)
    check_names(source.schema)
    matcher = _Matcher(case_sensitive)
    columns = matcher.struct(schema.fields, list(source.schema), "")
    if matcher.problems:
        raise mismatch(matcher.problems)
    required = tuple((i, f.name) for i, f in enumerate(schema.fields) if f.required)
    return Conformed(to_arrow_schema(schema), source, tuple(columns), required)


def column_maker(
    field: NestedField, have: pa.Field, *, case_sensitive: bool = True, name: str | None = None
) -> Make:
    """Find the function that makes a column of the table from one of an Arrow type; fields of
    structs by name. Raises SchemaMismatch.
    """
    matcher = _Matcher(case_sensitive)
    make = matcher.column(field, have, (name or field.name).removesuffix(field.name))
    if matcher.problems:
        raise mismatch(matcher.problems)
    return lambda array, count: make(_clean(array), count)


def _clean(column: pa.Array) -> Any:
    """Drop the hidden values under the nulls of a nested column, on which a cast might fail."""
    nested = (
        pa.types.is_struct(column.type)
        or pa.types.is_list(column.type)
        or pa.types.is_map(column.type)
    )
    return without_hidden(column) if nested else column


def frame_schema(frame: object) -> Schema:
    """Convert the schema of a frame (or a pyarrow.Schema) to an Iceberg schema, with its own field
    ids or else fresh ones.
    """
    schema = frame if isinstance(frame, pa.Schema) else as_arrow(frame, rows=False).schema
    check_names(schema)
    return from_arrow_schema(schema)


@dataclass
class _Matcher:
    """Match the fields of a frame with those of a table, and collect all problems for one error."""

    case_sensitive: bool

    def __post_init__(self) -> None:
        self.problems: list[Problem] = []

    def struct(
        self, fields: Sequence[NestedField], have: Sequence[pa.Field], path: str
    ) -> list[tuple[int | None, Make]]:
        """Find, per wanted field, its index among those of the frame (None: absent) and the
        function that makes it.
        """
        used: set[int] = set()
        makers: list[tuple[int | None, Make]] = []
        places = self._places(have)
        for field in fields:
            index = self._find(field, places, path)
            makers.append(
                (
                    index,
                    self._absent(field, path)
                    if index is None
                    else self.column(field, have[index], path),
                )
            )
            used |= {index} if index is not None else set()
        names = [field.name for field in fields]
        self.problems += [
            no_such_column(path + h.name, str(h.type), names)
            for i, h in enumerate(have)
            if i not in used
        ]
        return makers

    def _places(self, have: Sequence[pa.Field]) -> _PlacesByName:
        """Return the places of the frame's fields by name and, where case does not matter, by the
        name in lower case.
        """
        places: _PlacesByName = {}
        for i, h in enumerate(have):
            places.setdefault(("exact", h.name), []).append(i)
            if not self.case_sensitive:
                places.setdefault(("lower", h.name.lower()), []).append(i)
        return places

    def _find(self, field: NestedField, places: _PlacesByName, path: str) -> int | None:
        near = places.get(("exact", field.name)) or places.get(("lower", field.name.lower()), [])
        if len(near) > 1:
            text = "is in the frame more than once"
            self.problems.append(
                Problem(
                    path + field.name,
                    "",
                    str(field.field_type),
                    text,
                    "Rename one of them.",
                    "ambiguous",
                )
            )
        return near[0] if near else None

    def _absent(self, field: NestedField, path: str) -> Make:
        if field.required and field.write_default is None:
            hint = "Required columns without a default need values."
            self.problems.append(
                Problem(
                    path + field.name,
                    "",
                    str(field.field_type),
                    "is required, but not in the frame",
                    hint,
                    "missing",
                )
            )
        return lambda _, count: repeated(field.field_type, field.write_default, count)

    def column(self, field: NestedField, have: pa.Field, path: str) -> Make:
        name = path + field.name
        types, type_ = pa.types, have.type
        if isinstance(type_, pa.BaseExtensionType) and not field.field_type.is_primitive:
            type_ = type_.storage_type
        match field.field_type:
            case StructType() if types.is_struct(type_):
                members = self.struct(
                    field.field_type.fields,
                    [type_.field(i) for i in range(type_.num_fields)],
                    name + ".",
                )
                return _struct_maker(field.field_type, members, field.field_type.fields, name)
            case ListType() if any(
                t(type_)
                for t in (
                    types.is_list,
                    types.is_large_list,
                    types.is_fixed_size_list,
                    types.is_list_view,
                )
            ):
                element = self.column(field.field_type.element_field, type_.value_field, name + ".")
                return _list_maker(field.field_type, element, name)
            case MapType() if types.is_map(type_):
                key = self.column(field.field_type.key_field, type_.key_field, name + ".")
                value = self.column(field.field_type.value_field, type_.item_field, name + ".")
                return _map_maker(field.field_type, key, value, name)
            case StructType() | ListType() | MapType() if types.is_null(type_):
                return lambda _, count: pa.nulls(count, to_arrow_type(field.field_type))
        if types.is_run_end_encoded(type_) and (path or types.is_dictionary(type_.value_type)):
            text = "is run-end encoded twice or inside another column"
            self.problems.append(
                Problem(
                    name,
                    str(have.type),
                    str(field.field_type),
                    text,
                    "Decode it: pyarrow.compute.run_end_decode.",
                )
            )
            return lambda a, _: a
        cast = cast_for(have.type, field.field_type) if field.field_type.is_primitive else None
        if cast is None:
            hint = advice(have.type, field.field_type) or CAST
            self.problems.append(
                Problem(name, str(have.type), str(field.field_type), "cannot be cast safely", hint)
            )
            return lambda a, _: a
        return _leaf_maker(cast, name, field.field_type)


def _leaf_maker(cast: CastFunction, name: str, want: IcebergType) -> Make:
    is_text = isinstance(want, StringType)

    def made(array: pa.Array, count: int) -> pa.Array:
        try:
            converted = cast(array)
            if is_text:
                converted.validate(full=True)  # text that is not UTF-8 would break every reader
            return converted
        except (pa.ArrowInvalid, InvalidInput) as error:
            text = f"A value of column {name} does not fit its type {want}: {str(error).splitlines()[0]}"
            raise ValueMismatch(text, hint=advice(array.type, want), column=name) from error

    return made


def _no_nulls(array: pa.Array, around: pa.Array | None, field: NestedField, name: str) -> None:
    """Check a required field of a struct, list or map for nulls, unless what holds it is null
    itself. Raises SchemaMismatch.
    """
    if field.required and array.null_count:
        inside = array.is_null() if around is None else pc.and_(array.is_null(), around.is_valid())
        if inside.true_count:
            raise SchemaMismatch(
                f"Column {name}.{field.name} is required, but the frame holds nulls in it.",
                column=f"{name}.{field.name}",
            )


def _struct_maker(
    type_: StructType,
    members: list[tuple[int | None, Make]],
    fields: tuple[NestedField, ...],
    name: str,
) -> Make:
    want = list(to_arrow_type(type_))

    def made(array: pa.Array, count: int) -> pa.Array:
        array = array.storage if isinstance(array, pa.ExtensionArray) else array
        inside = [
            make(None if index is None else array.field(index), count) for index, make in members
        ]
        for f, a in zip(fields, inside, strict=True):
            _no_nulls(a, array, f, name)
        if not inside:  # without children, from_arrays would not know the number of rows
            return array
        return pa.StructArray.from_arrays(
            inside, fields=want, mask=array.is_null() if array.null_count else None
        )

    return made


def _list_maker(type_: ListType, element: Make, name: str) -> Make:
    want = to_arrow_type(type_)

    def made(array: pa.Array, count: int) -> pa.Array:
        array = array.storage if isinstance(array, pa.ExtensionArray) else array
        if not pa.types.is_list(array.type):
            array = array.cast(pa.list_(array.type.value_field))
        values = _own_values(array)
        inside = element(values, len(values))
        _no_nulls(inside, None, type_.element_field, name)
        offsets = _own_offsets(array)
        return pa.ListArray.from_arrays(
            offsets, inside, type=want, mask=array.is_null() if array.null_count else None
        )

    return made


def _map_maker(type_: MapType, key: Make, value: Make, name: str) -> Make:
    want = to_arrow_type(type_)

    def made(array: pa.Array, count: int) -> pa.Array:
        offsets = array.offsets.to_numpy()
        start, size = int(offsets[0]), int(offsets[-1] - offsets[0])
        keys, items = (
            key(array.keys.slice(start, size), size),
            value(array.items.slice(start, size), size),
        )
        _no_nulls(items, None, type_.value_field, name)
        entries = pa.StructArray.from_arrays(
            [keys, items], fields=[want.key_field, want.item_field]
        )
        return _rebuilt(array, want, entries)

    return made


def _own_values(array: pa.Array) -> pa.Array:
    """Take the members between a list array's first and last offset, which for a slice are a part
    of its parent's.
    """
    offsets = array.offsets
    return array.values.slice(offsets[0].as_py(), offsets[-1].as_py() - offsets[0].as_py())


def _own_offsets(array: pa.Array) -> pa.Array:
    offsets = array.offsets
    return pc.subtract(offsets, offsets[0]).cast(pa.int32())


def _rebuilt(array: pa.Array, want: pa.DataType, entries: pa.Array) -> pa.Array:
    """Make a map array of these entries with the offsets and nulls of another."""
    validity = None
    if array.null_count:
        validity = pc.and_(array.is_valid(), True).buffers()[1]
    return pa.Array.from_buffers(
        want,
        len(array),
        [validity, _own_offsets(array).buffers()[1]],
        array.null_count,
        0,
        [entries],
    )


def without_hidden(array: pa.Array) -> Any:
    """Rebuild an array without hidden values and offsets, at any depth; copies only where there is
    something to leave out.
    """
    if pa.types.is_struct(array.type):
        inside = [without_hidden(a) for a in array.flatten()]
        return pa.StructArray.from_arrays(
            inside, fields=list(array.type), mask=array.is_null() if array.null_count else None
        )
    if not (pa.types.is_list(array.type) or pa.types.is_map(array.type)):
        return array.take(pa.array(np.arange(len(array)))) if array.offset else array
    offsets, valid = array.offsets.to_numpy(), array.is_valid().to_numpy(zero_copy_only=False)
    lengths = np.where(valid, np.diff(offsets), 0)
    members = _entries(array) if pa.types.is_map(array.type) else array.values
    if lengths.sum() != len(members):
        keep = np.repeat(np.arange(len(lengths)), lengths)
        starts = np.concatenate([[0], np.cumsum(lengths)])
        members = members.take(
            pa.array(np.arange(len(keep)) - starts[keep] + offsets[keep], pa.int64())
        )
    fresh = pa.py_buffer(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    validity = pc.and_(array.is_valid(), True).buffers()[1] if array.null_count else None
    return pa.Array.from_buffers(
        array.type, len(array), [validity, fresh], array.null_count, 0, [without_hidden(members)]
    )


def _entries(array: pa.Array) -> Any:
    return pa.StructArray.from_arrays(
        [array.keys, array.items], fields=[array.type.key_field, array.type.item_field]
    )
