"""Which files of a plan Spark's own scan may read, and in what company; all others take the Arrow path."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from frazil.arrow.footers.parquet_footer import ParquetNode
from frazil.scan.plan import Plan
from frazil.scan.tasks import PlannedFiles
from frazil.spark.deletes.native_deletes import EQUALITY, NONE, POSITIONS, kinds
from frazil.spark.scan.paths import is_hidden, jvm_can_open, spark_text
from frazil.spark.scan.presence import file_schemas, in_old_calendar, lacking
from frazil.spark.scan.shape import Shape, is_readable
from frazil.spark.types.spark_types import contains
from frazil.spec import types as i
from frazil.spec.name_mapping import MappedField, NameMapping, parse_name_mapping
from frazil.spec.partitioning import PartitionSpec
from frazil.spec.properties import NAME_MAPPING
from frazil.spec.transforms import IdentityTransform
from frazil.storage import Storage

_INT32, _INT64, _INT96 = 1, 2, 3
_CONVERTED = 6  # SchemaElement.converted_type
_UTC_MILLIS, _UTC_MICROS = 9, 10


@dataclass(frozen=True)
class ScanGroup:
    """Files that one Parquet scan reads alike. `rows`: their places in the planned table.

    `constants`: columns the files lack, whose value is their identity partition's. `file_names`: for files without ids, the name of each
    column in the files (id -> name); None: read by id. `deletes`: what applies to all of them (`native_deletes`).
    """

    planned: PlannedFiles
    constants: frozenset[int] = frozenset()
    file_names: tuple[tuple[int, str], ...] | None = None
    deletes: int = NONE
    rows: list[int] = field(default_factory=list, compare=False, hash=False)


def split(spark: Any, plan: Plan, shape: Shape, storage: Storage, keyed: Shape | None = None) -> tuple[list[ScanGroup], list[PlannedFiles]]:
    """Groups for Spark's scan, and what is left for Arrow. `keyed`: the shape for files with equality deletes; None: they go to Arrow."""
    mapping = mapping_of(plan)
    native: dict[Any, ScanGroup] = {}
    arrow: list[PlannedFiles] = []
    schemes: dict[str, bool] = {}
    shapes = {NONE: shape, POSITIONS: shape, EQUALITY: keyed}
    for planned in plan.groups:
        paths = planned.table.column("file_path").to_pylist()
        formats, applied = planned.table.column("file_format").to_pylist(), _kinds(planned, paths)
        taken: set[int] = set()
        for kind, wanted in shapes.items():
            if wanted is None or not all(is_readable(f.field_type) or isinstance(f.field_type, i.UnknownType) for f in wanted.fields):
                continue
            possible = [
                n for n, (path, file_format, here) in enumerate(zip(paths, formats, applied, strict=True))
                if here == kind and file_format == "parquet" and not is_hidden(path) and jvm_can_open(spark, path, schemes, storage)
            ]  # fmt: skip
            for n, (constants, names) in _placed(plan, planned.spec, wanted, storage, mapping, paths, possible):
                if kind == EQUALITY and names is not None and any(f.name.startswith("\0") for f in wanted.fields):
                    continue  # names of keys that were dropped since are not in the mapping
                group = native.setdefault((planned.spec_id, constants, names, kind), ScanGroup(planned, constants, names, kind))
                group.rows.append(n)
                taken.add(n)
        if len(taken) < len(paths):
            rest = [n for n in range(len(paths)) if n not in taken]
            arrow.append(planned.chosen(rest))
    return list(native.values()), arrow


def _kinds(planned: PlannedFiles, paths: Sequence[str]) -> list[int]:
    """What applies to each file; a file that is listed twice cannot be told by its path, and goes to Arrow when it has deletes."""
    found: list[int] = kinds(planned).tolist()
    if planned.deletes is None:
        return found
    with_deletes = [n for n, kind in enumerate(found) if kind != NONE]
    texts = Counter(spark_text(paths[n]) for n in with_deletes)
    for n in with_deletes:
        if texts[spark_text(paths[n])] > 1:
            found[n] = -1
    return found


_Key = tuple[frozenset[int], tuple[tuple[int, str], ...] | None]


def _placed(
    plan: Plan,
    spec: PartitionSpec,
    shape: Shape,
    storage: Storage,
    mapping: NameMapping | None,
    paths: Sequence[str],
    possible: Sequence[int],
) -> Iterable[tuple[int, _Key]]:
    """The rows that Spark may read, each with what decides its group."""
    identity = {f.source_id for f in spec.fields if isinstance(f.transform, IdentityTransform)}
    held = {x.field_id for f in shape.fields for x in _inside(f)}
    constants, asked = identity & held & plan.schema.by_id.keys(), identity & held | shape.sensitive
    with_ids = list(possible)
    if mapping is not None:
        # Files that were not written for this table, among them those whose times Spark would change.
        schemas = file_schemas([paths[n] for n in possible], storage)
        times = any(contains(f.field_type, i.DateType, i.TimestampType, i.TimestamptzType) for f in shape.fields)
        changed = in_old_calendar([paths[n] for n in possible], storage) if times else set()
        with_ids = []
        for n in possible:
            if paths[n] in changed:
                continue
            root = schemas[paths[n]]
            if any(x.field_id is not None for x in root.walk()):
                with_ids.append(n)
            elif (key := _by_name(root, shape, mapping, constants)) is not None:
                yield n, key
    if not asked:
        yield from ((n, (frozenset(), None)) for n in with_ids)
        return
    tops = {f.field_id for f in shape.fields}
    missing = lacking(plan, storage, [paths[n] for n in with_ids], asked)
    for n in with_ids:
        absent = missing.get(paths[n], frozenset())
        if absent <= constants & tops:
            yield n, (absent, None)


def _inside(f: i.NestedField) -> Iterable[i.NestedField]:
    yield f
    if isinstance(f.field_type, i.StructType):
        for inner in f.field_type.fields:
            yield from _inside(inner)


def mapping_of(plan: Plan) -> NameMapping | None:
    text = NAME_MAPPING.text(plan.metadata.properties)
    return parse_name_mapping(text) if text else None


def _by_name(root: ParquetNode, shape: Shape, mapping: NameMapping, constants: set[int]) -> _Key | None:
    """How a file without ids is read by name, or None when Spark could take a column for another or a value for another value."""
    mapped = {m.field_id: m for m in mapping.fields if m.field_id is not None}
    columns = {c.name: c for c in root.children}
    lowered = [c.name.lower() for c in root.children]
    names, absent = [], set()
    for f in shape.fields:
        name = next((x for x in _names(mapped.get(f.field_id)) if x in columns), None)
        if name is None:
            if f.field_id in constants:
                absent.add(f.field_id)
            elif f.field_id in shape.sensitive:
                return None
            continue
        if lowered.count(name.lower()) > 1 or not _same_by_name(columns[name], f.field_type):
            return None
        names.append((f.field_id, name))
    if len({n.lower() for _, n in names}) < len(names):
        return None
    return frozenset(absent), tuple(names)


def _names(m: MappedField | None) -> tuple[str, ...]:
    return m.names if m is not None else ()


def _same_by_name(column: ParquetNode, type_: i.IcebergType) -> bool:
    """Whether Spark reads a foreign file's column as the format means it; INT96, zoneless times, nested columns are left to Arrow."""
    if column.children or column.physical in (None, _INT96):
        return False
    match type_:
        case i.TimestamptzType():
            converted = next((value[0] >> 1 for number, _, value in column.others if number == _CONVERTED), None)
            return column.physical == _INT64 and converted in (_UTC_MILLIS, _UTC_MICROS)
        case i.IntegerType() | i.LongType():
            return column.physical in (_INT32, _INT64)
        case i.BooleanType() | i.FloatType() | i.DoubleType() | i.StringType() | i.DateType() | i.BinaryType() | i.DecimalType():
            return True
    return False
