"""Decide which files of a plan Spark's own Parquet scan reads, and group those that one scan can
read; Arrow reads the others.

Why groups: a scan has one read schema and one plan above it. Files that lack a partition column,
have no field ids, or have deletes of another kind need another schema or other joins, and files
without deletes should not pay for those of the others.

Why some files are left to Arrow: Spark's scan returns wrong rows for them without an error (a name
that it would skip, a default that it would fill wrongly, columns without ids that could be taken
for others), or the JVM cannot open or decompress them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow.compute as pc

from frazil.arrow.footers.parquet_footer import (
    BYTE_ARRAY,
    INT32,
    INT64,
    INT96,
    UNKNOWN,
    ParquetNode,
)
from frazil.errors import FrazilError
from frazil.ops.session import Session
from frazil.scan.plan import Plan
from frazil.scan.tasks import PlannedFiles
from frazil.spark.deletes.native_deletes import EQUALITY, NONE, POSITIONS, Numbers, kinds
from frazil.spark.scan.file_columns import (
    file_schemas,
    has_ids,
    in_brotli,
    in_old_calendar,
    missing_columns,
    writes_brotli,
)
from frazil.spark.scan.paths import readable, spark_text
from frazil.spark.scan.pushed_filters import takes_constants
from frazil.spark.scan.read_schema import Shape, is_readable
from frazil.spark.types.spark_types import contains
from frazil.spec import types as i
from frazil.spec.name_mapping import NameMapping, parse_name_mapping
from frazil.spec.partitioning import PartitionSpec
from frazil.spec.properties import NAME_MAPPING
from frazil.spec.schema import Schema
from frazil.spec.transforms import IdentityTransform
from frazil.storage import Storage


@dataclass(frozen=True)
class ScanGroup:
    """Hold files of one partition spec that a single Parquet scan can read. `rows`: their places in
    the table of `planned`.

    `constants`: ids of columns that the files lack, whose values are those of their identity
    partitions. `file_names`: the columns' names in files without field ids, as pairs (id, name);
    None: read by field id. `deletes`: the kind of deletes that apply to all of the files (NONE,
    POSITIONS or EQUALITY of `native_deletes`).
    """

    planned: PlannedFiles
    constants: frozenset[int] = frozenset()
    file_names: tuple[tuple[int, str], ...] | None = None
    deletes: int = NONE
    rows: list[int] = field(default_factory=list, compare=False, hash=False)


def scan_groups(
    spark: Session,
    plan: Plan,
    shape: Shape,
    storage: Storage,
    keyed: Shape | None = None,
    of_others: Mapping[str, ParquetNode] = MappingProxyType({}),
) -> tuple[list[ScanGroup], list[PlannedFiles]]:
    """Return the groups of files for Spark's scan, and the files that are left for Arrow. `keyed`:
    the shape in which files with equality deletes are read, with their keys; None: they are left
    for Arrow. `of_others`: schemas of files that other engines wrote, by path."""
    mapping, in_another_codec = mapping_of(plan), _brotli(plan, storage, of_others)
    native: dict[Any, ScanGroup] = {}
    arrow: list[PlannedFiles] = []
    shapes = {NONE: shape, POSITIONS: shape, EQUALITY: keyed}
    for planned in plan.groups:
        locations = planned.table.column("file_path").combine_chunks()
        paths = locations.to_pylist()
        is_parquet = pc.equal(planned.table.column("file_format"), "parquet").combine_chunks()
        readables = is_parquet.to_numpy(zero_copy_only=False).copy()
        readables[readables] = readable(spark, locations.filter(is_parquet), storage)
        kinds_of_files = np.where(readables, _kinds(planned, paths), -1)
        for_arrow = np.ones(len(paths), np.bool_)
        for kind, shape_of_kind in shapes.items():
            if shape_of_kind is None:
                continue
            if not all(
                is_readable(f.field_type) or isinstance(f.field_type, i.UnknownType)
                for f in shape_of_kind.fields
            ):
                continue
            possible: list[int] = np.flatnonzero(kinds_of_files == kind).tolist()
            unreadable = _unreadable(of_others, shape_of_kind, mapping) | in_another_codec
            if unreadable:
                possible = [n for n in possible if paths[n] not in unreadable]
            for places, (constants, names) in _readable(
                plan, planned.spec, shape_of_kind, storage, mapping, paths, possible
            ):
                if (
                    kind == EQUALITY
                    and names is not None
                    and any(f.name.startswith("\0") for f in shape_of_kind.fields)
                ):
                    # a key column that was dropped from the table is not in the name mapping
                    continue
                group = native.setdefault(
                    (planned.spec_id, constants, names, kind),
                    ScanGroup(planned, constants, names, kind),
                )
                group.rows.extend(places)
                for_arrow[places] = False
        if for_arrow.any():
            arrow.append(planned.chosen(np.flatnonzero(for_arrow).tolist()))
    return list(native.values()), arrow


def _brotli(plan: Plan, storage: Storage, of_others: Mapping[str, ParquetNode]) -> set[str]:
    """Return the paths of planned files that Spark cannot decompress, among those of other engines,
    and among all where the table's property asks for that codec.
    """
    paths = list(of_others)
    if writes_brotli(plan.metadata):
        paths = [
            path
            for g in plan.groups
            for path, file_format in zip(
                *(g.table.column(c).to_pylist() for c in ("file_path", "file_format")), strict=True
            )
            if file_format == "parquet"
        ]
    try:
        return in_brotli(paths, storage)
    except FrazilError:  # the scan reports it, if it comes to read that file
        return set()


def _unreadable(
    of_others: Mapping[str, ParquetNode], shape: Shape, mapping: NameMapping | None
) -> set[str]:
    """Return the paths of files on which Spark's scan fails: without field ids and a name mapping,
    or with wanted columns of Arrow's null type or in nanoseconds.
    """
    wanted = Schema(*shape.fields).by_id.keys()
    readable: dict[int, bool] = {}
    for root in of_others.values():
        if id(root) not in readable:
            readable[id(root)] = (has_ids(root) or mapping is not None) and all(
                node.logical_type != UNKNOWN and not node.is_in_nanoseconds
                for node in root.walk()
                if node.field_id in wanted
            )
    return {path for path, root in of_others.items() if not readable[id(root)]}


def _kinds(planned: PlannedFiles, paths: Sequence[str]) -> Numbers:
    """Return the kind of deletes per file, -1 for files that are left to Arrow. To those of `kinds`
    this adds files with deletes that are listed twice: Spark's rows have the file's path only,
    which does not tell the entry whose deletes apply to them."""
    kind_of_each = kinds(planned)
    if planned.deletes is None:
        return kind_of_each
    with_deletes = np.flatnonzero(kind_of_each != NONE).tolist()
    occurrences = Counter(spark_text(paths[n]) for n in with_deletes)
    for n in with_deletes:
        if occurrences[spark_text(paths[n])] > 1:
            kind_of_each[n] = -1
    return kind_of_each


_Key = tuple[frozenset[int], tuple[tuple[int, str], ...] | None]
"""The constants and file names of a ScanGroup."""


def _readable(
    plan: Plan,
    spec: PartitionSpec,
    shape: Shape,
    storage: Storage,
    mapping: NameMapping | None,
    paths: Sequence[str],
    possible: Sequence[int],
) -> Iterable[tuple[list[int], _Key]]:
    """Yield the places of those `possible` files that Spark's scan can read, with the key of their
    group.
    """
    identity = {f.source_id for f in spec.fields if isinstance(f.transform, IdentityTransform)}
    wanted_ids = {member.field_id for f in shape.fields for member in _with_members(f)}
    constants, checked = (
        identity & wanted_ids & plan.schema.by_id.keys(),
        identity & wanted_ids | shape.sensitive,
    )
    with_ids = list(possible)
    if mapping is not None:
        # A table with a name mapping may have files that were not written for it: files without
        # field ids, and files in Spark's old calendar, whose dates and times Spark's scan would
        # convert.
        schemas = file_schemas([paths[place] for place in possible], storage)
        times = any(
            contains(f.field_type, i.DateType, i.TimestampType, i.TimestamptzType)
            for f in shape.fields
        )
        changed = in_old_calendar([paths[place] for place in possible], storage) if times else set()
        with_ids = []
        for place in possible:
            if paths[place] in changed:
                continue
            root = schemas[paths[place]]
            if any(node.field_id is not None for node in root.walk()):
                with_ids.append(place)
            elif (key := _by_name(root, shape, mapping, constants)) is not None:
                yield [place], key
    missing: Mapping[str, frozenset[int]] = {}
    if checked:
        missing = missing_columns(plan, storage, [paths[place] for place in with_ids], checked)
    by_absent: dict[frozenset[int], list[int]] = {}
    if missing:
        for place in with_ids:
            by_absent.setdefault(missing.get(paths[place], frozenset()), []).append(place)
    elif with_ids:
        by_absent[frozenset()] = with_ids
    top_level = {f.field_id for f in shape.fields}
    for absent, places in by_absent.items():
        if absent <= constants & top_level:
            yield places, (absent, None)


def _with_members(f: i.NestedField) -> Iterable[i.NestedField]:
    """Yield a column and, if it is a struct, its fields at every depth."""
    yield f
    if isinstance(f.field_type, i.StructType):
        for member in f.field_type.fields:
            yield from _with_members(member)


def mapping_of(plan: Plan) -> NameMapping | None:
    """Return the table's name mapping (`schema.name-mapping.default`), or None."""
    text = NAME_MAPPING.text(plan.metadata.properties)
    return parse_name_mapping(text) if text else None


def _by_name(
    root: ParquetNode, shape: Shape, mapping: NameMapping, constants: set[int]
) -> _Key | None:
    """Return the group's key for a file without field ids that is read by name; None if Spark could
    take one column for another (it ignores case) or misread its values."""
    mapped = {m.field_id: m for m in mapping.fields if m.field_id is not None}
    columns = {c.name: c for c in root.children}
    lowered = [c.name.lower() for c in root.children]
    names, absent = [], set()
    for column in shape.fields:
        mapped_names = mapped[column.field_id].names if column.field_id in mapped else ()
        name = next((mapped_name for mapped_name in mapped_names if mapped_name in columns), None)
        if name is None:
            if column.field_id in constants:
                absent.add(column.field_id)
            elif column.field_id in shape.sensitive:
                return None
            continue
        if (
            lowered.count(name.lower()) > 1
            or column.field_id in shape.misread
            or not _same_by_name(columns[name], column.field_type)
        ):
            return None
        names.append((column.field_id, name))
    if len({n.lower() for _, n in names}) < len(names):
        return None
    return frozenset(absent), tuple(names)


def _same_by_name(column: ParquetNode, type_: i.IcebergType) -> bool:
    """Tell whether Spark reads a column of a file without field ids as Iceberg defines it. Nested
    columns, INT96 and timestamps that are not in UTC are left to Arrow; so are columns for which
    Spark would cut the constants of pushed filters, and decimals in bytes of any length (Avro's
    writer), whose nulls fail in Spark."""
    if column.children or column.physical in (None, INT96) or not takes_constants(column, type_):
        return False
    match type_:
        case i.DecimalType():
            return column.physical != BYTE_ARRAY
        case i.IntegerType() | i.LongType():
            return column.physical in (INT32, INT64)
        case (
            i.BooleanType()
            | i.FloatType()
            | i.DoubleType()
            | i.StringType()
            | i.DateType()
            | i.TimestamptzType()
            | i.BinaryType()
        ):
            return True
    return False
