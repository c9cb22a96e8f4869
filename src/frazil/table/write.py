"""From a frame to data files, and the actions that put them into the table. One call is one snapshot."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from frazil.arrow.values.arrow_schema import to_arrow_type
from frazil.arrow.values.casts import cast_for
from frazil.arrow.values.frames import as_arrow
from frazil.arrow.write import conform
from frazil.arrow.write import write_rows as arrow_write
from frazil.arrow.write.add_files import data_files_of
from frazil.arrow.write.write_context import check_formats
from frazil.arrow.write.write_options import Verb, WriteOptions, meaningless
from frazil.commit.actions import Action, Append, MetadataChange, OverwriteFiles, ReplacePartitions
from frazil.commit.apply import apply_updates
from frazil.commit.evolve.evolve_schema import SchemaChanges, name_mapping_of
from frazil.commit.written import NotYetThere, WrittenFor
from frazil.errors import InvalidInput
from frazil.expr.nodes import Predicate
from frazil.spec.data_file import DataFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import NAME_MAPPING, WAP_ENABLED, property_text, refuse_encryption
from frazil.spec.schema import Schema
from frazil.spec.snapshot import MAIN_BRANCH
from frazil.spec.types import IcebergType, ListType, MapType, NestedField, StructType, can_promote
from frazil.spec.updates import SetProperties
from frazil.storage import Storage
from frazil.storage.locations import normalise
from frazil.table.arguments import mapping
from frazil.table.frames import active_session, is_spark_frame, spark_room


@dataclass(frozen=True)
class StagedWrite:
    """What one write has ready for a commit: actions, files on disk, seconds it took, counts of rows where the summary does not tell."""

    actions: tuple[Action, ...]
    files: tuple[DataFile, ...] = ()
    seconds: float = 0.0
    metrics: Mapping[str, int] = field(default_factory=dict)

    @property
    def written(self) -> list[str]:
        return [f.file_path for f in self.files]


@dataclass(frozen=True)
class WriteTarget:
    """Where a write goes: branch, summary properties, options; made once from what the caller typed."""

    branch: str
    properties: dict[str, str]
    options: WriteOptions
    stage_only: bool = False
    wap_id: str | None = None
    known_columns: int = 0
    """The highest field id of the table as it was loaded (see WrittenFor)."""
    case_sensitive: bool | None = None
    """How names of frames are matched; None: True, for Spark frames what the session says."""


def target(
    metadata: TableMetadata,
    branch: str | None,
    snapshot_properties: Mapping[str, str],
    options: WriteOptions,
    verb: Verb = "append",
    spark: Any = None,
) -> WriteTarget:
    """Java's precedence for the branch: the option, the session's WAP branch, main. Raises InvalidInput for contradictions, and for
    options that cannot mean anything to this table or without Spark."""
    check_formats(metadata, options, verb)
    if spark is None and options.advisory_partition_size is not None:
        raise meaningless("advisory_partition_size", "without Spark, whose partitions it sizes")
    if "" in (branch, options.branch):
        raise InvalidInput("branch is empty.", hint="Leave it out for main.", table=metadata.location)
    if branch is not None and not isinstance(branch, str):
        raise InvalidInput(f"branch is a name, not {branch!r}.", table=metadata.location)
    if options.branch and branch not in (None, MAIN_BRANCH, options.branch):
        raise InvalidInput(f"branch={branch!r} and the write option branch={options.branch!r} contradict each other.")
    chosen = options.branch or branch
    wap_id, wap_branch = _wap(metadata, options, spark or active_session())
    if wap_branch:
        if chosen not in (None, MAIN_BRANCH):
            raise InvalidInput(f"Cannot write to both branch and WAP branch, but got branch [{chosen}] and WAP branch [{wap_branch}]")
        chosen = wap_branch
    given = mapping("snapshot_properties", snapshot_properties)
    properties = {**options.snapshot_properties, **{k: property_text(k, v) for k, v in given.items()}}
    # PyIceberg's branch=None: the snapshot is staged, no branch moves.
    return WriteTarget(
        chosen or MAIN_BRANCH, properties, options, stage_only=branch is None and not chosen and wap_id is None, wap_id=wap_id
    )


def _wap(metadata: TableMetadata, options: WriteOptions, spark: Any) -> tuple[str | None, str | None]:
    """The WAP id and branch of the session, when the table has write-audit-publish switched on."""
    if not WAP_ENABLED.of(metadata.properties):
        if options.wap_id:
            raise InvalidInput("wap-id is given, but the table property write.wap.enabled is not true.", table=metadata.location)
        return None, None
    wap_id = options.wap_id or (spark.conf.get("spark.wap.id", None) if spark is not None else None)
    wap_branch = spark.conf.get("spark.wap.branch", None) if spark is not None else None
    if wap_id and wap_branch:
        raise InvalidInput(f"Cannot set both WAP ID and branch, but got ID [{wap_id}] and branch [{wap_branch}]")
    return wap_id, wap_branch


def evolve_to_frame(metadata: TableMetadata, frame: Any, options: WriteOptions, case_sensitive: bool = True) -> SchemaChanges | None:
    """The schema change that `merge_schema` asks for, or None. Java wants the table to accept any schema; we only want to be asked."""
    if not options.merge_schema:
        return None
    update = SchemaChanges(metadata, case_sensitive=case_sensitive)
    update.union_by_name(_as_required(frame_schema(frame), metadata.schema(), case_sensitive))
    return update if not update.schema().same_fields(metadata.schema()) else None


def _as_required(frame: Schema, table: Schema, case_sensitive: bool) -> Schema:
    """Frames hardly ever say that a column has no nulls: merging one loosens no required column. Rows with nulls in it are refused.
    What a column takes although it is of another type (uuids as text, whole numbers as doubles) changes no column either."""

    def required(name: str) -> bool:
        mine = table.get_field(name, case_sensitive)
        return mine is not None and mine.required

    def inside(given: IcebergType, name: str) -> IcebergType:
        mine = table.get_field(name, case_sensitive)
        if given.is_primitive and mine is not None and mine.field_type.is_primitive:
            kept = not can_promote(mine.field_type, given, 2) and cast_for(to_arrow_type(given), mine.field_type) is not None
            return mine.field_type if kept else given
        match given:
            case StructType():
                return StructType(*(one(f, f"{name}.{f.name}") for f in given.fields))
            case ListType():
                element = inside(given.element_type, f"{name}.element")
                return replace(given, element_type=element, element_required=required(f"{name}.element"))
            case MapType():
                value = inside(given.value_type, f"{name}.value")
                return replace(given, value_type=value, value_required=required(f"{name}.value"))
        return given

    def one(f: NestedField, name: str) -> NestedField:
        return replace(f, field_type=inside(f.field_type, name), required=required(name))

    return Schema(*(one(f, f.name) for f in frame.fields))


def frame_schema(frame: Any) -> Schema:
    if is_spark_frame(frame):
        return spark_room("types.spark_types").from_spark(frame.schema)  # type: ignore[no-any-return]
    return conform.frame_schema(frame)


def read_as(frame: Any, metadata: TableMetadata, to: WriteTarget) -> Any:
    """A frame of this process as Arrow, its Python values read by the table's schema; a Spark frame as it is."""
    if is_spark_frame(frame):
        return frame
    return as_arrow(frame, metadata.schema(), case_sensitive=to.case_sensitive is not False)


def write_files(frame: Any, metadata: TableMetadata, storage: Storage, to: WriteTarget) -> StagedWrite:
    """The rows of a frame as data files of the table, through Spark for a Spark frame, through Arrow for any other."""
    start = time.perf_counter()
    if is_spark_frame(frame):
        files = spark_room("write.native_write").write(frame, metadata, storage, to.options, case_sensitive=to.case_sensitive)
    else:
        context = arrow_write.WriteContext.of(metadata, storage, to.options)
        sensitive = to.case_sensitive is not False
        files = arrow_write.write(conform.conform(frame, metadata.schema(), to.options, metadata, case_sensitive=sensitive), context)
    return StagedWrite((), tuple(files), time.perf_counter() - start, {"rows_inserted": sum(f.record_count for f in files)})


def _with_schema(metadata: TableMetadata, frame: Any, to: WriteTarget) -> tuple[TableMetadata, tuple[Action, ...]]:
    sensitive = to.case_sensitive
    if sensitive is None:
        sensitive = not is_spark_frame(frame) or spark_room("host.session_conf").is_case_sensitive(frame.sparkSession)
    update = evolve_to_frame(metadata, frame, to.options, sensitive)
    if update is None:
        return metadata, ()
    return apply_updates(metadata, update.updates(metadata)), (MetadataChange(update.updates),)


def start_of(metadata: TableMetadata, to: WriteTarget) -> int | None:
    """The snapshot from which conflicts count: the one named, else the branch's head as this write found it."""
    if to.options.validate_from_snapshot_id is not None:
        return metadata.snapshot_by_id(to.options.validate_from_snapshot_id).snapshot_id
    head = metadata.ref_snapshot(to.branch) if to.branch in metadata.refs else metadata.current_snapshot()
    return head.snapshot_id if head else None


def stage_append(frame: Any, metadata: TableMetadata, storage: Storage, to: WriteTarget) -> StagedWrite:
    frame = read_as(frame, metadata, to)
    evolved, changes = _with_schema(metadata, frame, to)
    staged = write_files(frame, evolved, storage, to)
    # An empty frame commits too, as in Java and PyIceberg: the snapshot says that the job ran.
    action = Append(files=staged.files, branch=to.branch, snapshot_properties=to.properties, stage_only=to.stage_only, wap_id=to.wap_id)
    return replace(staged, actions=(*changes, WrittenFor(evolved, to.known_columns, staged.files), action))


def stage_overwrite(
    frame: Any, metadata: TableMetadata, storage: Storage, to: WriteTarget, row_filter: Predicate, checks: Mapping[str, Any] = {}
) -> StagedWrite:
    """`checks`: fields of the action that a caller knows better."""
    frame = read_as(frame, metadata, to)
    evolved, changes = _with_schema(metadata, frame, to)
    staged = write_files(frame, evolved, storage, to)
    action = OverwriteFiles(
        added=staged.files,
        row_filter=row_filter,
        branch=to.branch,
        snapshot_properties=to.properties,
        stage_only=to.stage_only,
        wap_id=to.wap_id,
        isolation=to.options.isolation_level,
        **{"starting_snapshot_id": start_of(metadata, to), "case_sensitive": to.case_sensitive is not False, **checks},
    )
    return replace(staged, actions=(*changes, WrittenFor(evolved, to.known_columns, staged.files), action))


def stage_replace_partitions(frame: Any, metadata: TableMetadata, storage: Storage, to: WriteTarget) -> StagedWrite:
    frame = read_as(frame, metadata, to)
    evolved, changes = _with_schema(metadata, frame, to)
    staged = write_files(frame, evolved, storage, to)
    if not staged.files:
        return staged
    action = ReplacePartitions(
        files=staged.files,
        branch=to.branch,
        snapshot_properties=to.properties,
        stage_only=to.stage_only,
        wap_id=to.wap_id,
        isolation=to.options.isolation_level,
        starting_snapshot_id=start_of(metadata, to),
    )
    return replace(staged, actions=(*changes, WrittenFor(evolved, to.known_columns, staged.files), action))


def stage_add_files(
    paths: Sequence[str], metadata: TableMetadata, storage: Storage, to: WriteTarget, check_duplicates: bool
) -> StagedWrite:
    """Existing Parquet files become part of the table where they lie. `check_duplicates`: those that the table holds are refused."""
    refuse_encryption(metadata)
    if len({normalise(p) for p in paths}) != len(paths):
        raise InvalidInput("add_files: a path is given twice.", table=metadata.location)
    files = tuple(data_files_of(paths, metadata, storage))
    before: tuple[Action, ...] = ()
    if check_duplicates:
        before = (NotYetThere(frozenset(normalise(f.file_path) for f in files), to.branch),)
    if NAME_MAPPING.name not in metadata.properties:  # files of others seldom hold field ids: today's names tell which column is which
        before = (*before, MetadataChange(lambda m: (SetProperties({NAME_MAPPING.name: name_mapping_of(m.schema())}),)))
    action = Append(files=files, branch=to.branch, snapshot_properties=to.properties, stage_only=to.stage_only, wap_id=to.wap_id)
    return StagedWrite((*before, action), metrics={"rows_inserted": sum(f.record_count for f in files)})
