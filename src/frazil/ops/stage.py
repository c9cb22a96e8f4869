"""Stage a frame: its rows become data files, and actions are made that will put them into the table. One call is one snapshot."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from frazil.arrow.values.arrow_schema import to_arrow_type
from frazil.arrow.values.casts import cast_for
from frazil.arrow.values.frames import as_arrow
from frazil.arrow.write.add_files import data_files_of
from frazil.commit.actions import Action, Append, MetadataChange, OverwriteFiles, ReplacePartitions
from frazil.commit.apply import apply_updates
from frazil.commit.evolve.evolve_schema import SchemaChanges, name_mapping_of
from frazil.commit.written import NotYetThere, WrittenFor
from frazil.errors import InvalidInput
from frazil.expr.nodes import Predicate
from frazil.ops.engine import Engine, Frame
from frazil.ops.frames import is_spark_frame
from frazil.ops.session import SessionSettings
from frazil.ops.target import WriteTarget, start_of
from frazil.spec.data_file import DataFile, DataFileContent
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import NAME_MAPPING, refuse_encryption
from frazil.spec.schema import Schema
from frazil.spec.types import IcebergType, ListType, MapType, NestedField, StructType, can_promote
from frazil.spec.updates import SetProperties
from frazil.storage.locations import normalise


@dataclass(frozen=True)
class InputFrame:
    """A frame that a caller handed in, and the engine that can evaluate it."""

    frame: Frame
    engine: Engine


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

    def then(self, action: Action) -> StagedWrite:
        return replace(self, actions=(*self.actions, action))


# Verbs ----------------------------------------------------------------------------------------------------------------------------------


def append(rows: InputFrame, to: WriteTarget) -> StagedWrite:
    """New rows. An empty frame commits too, as in Java and PyIceberg: the snapshot says that the job ran."""
    return appended(written(rows, to), to)


def replace_partitions(rows: InputFrame, to: WriteTarget) -> StagedWrite:
    """Dynamic overwrite: the partitions that the frame has rows for. An empty frame changes nothing."""
    return partitions_replaced(written(rows, to), to, start_of(to.metadata, to))


def add_files(paths: Sequence[str], to: WriteTarget, check_duplicates: bool) -> StagedWrite:
    """Existing Parquet files become part of the table where they lie. `check_duplicates`: those that the table holds are refused."""
    metadata = to.metadata
    refuse_encryption(metadata)
    if len({normalise(p) for p in paths}) != len(paths):
        raise InvalidInput("add_files: a path is given twice.", table=metadata.location)
    files = tuple(data_files_of(paths, metadata, to.storage))
    before: tuple[Action, ...] = ()
    if check_duplicates:
        before = (NotYetThere(frozenset(normalise(f.file_path) for f in files), to.branch),)
    if NAME_MAPPING.name not in metadata.properties:  # files of others seldom hold field ids: today's names tell which column is which
        before = (*before, MetadataChange(lambda m: (SetProperties({NAME_MAPPING.name: name_mapping_of(m.schema())}),)))
    action = Append(files=files, **to.snapshot_fields)
    return StagedWrite((*before, action), metrics={"rows_inserted": sum(f.record_count for f in files)})


@dataclass(frozen=True)
class FileChanges:
    """Data files to add and to remove. `merges`: whether small manifests are merged on the way."""

    added: tuple[DataFile, ...] = ()
    removed: tuple[DataFile, ...] = ()
    merges: bool = True


def change_files(changes: FileChanges, to: WriteTarget, loaded: TableMetadata) -> StagedWrite:
    """Files that are there already, entered and taken out by name. `loaded`: the table as it was read, since when others may have put
    deletes on the files that go. Files are entered once only; nothing is removed from the store, whatever becomes of the commit."""
    refuse_encryption(to.metadata)
    for f in (*changes.added, *changes.removed):
        if not isinstance(f, DataFile) or f.content != DataFileContent.DATA:
            raise InvalidInput(f"{f!r} is no data file.", table=to.metadata.location)
    paths = [normalise(f.file_path) for f in changes.added]
    if len(set(paths)) != len(paths):
        raise InvalidInput("A data file is given twice.", table=to.metadata.location)
    before = (NotYetThere(frozenset(paths), to.branch), WrittenFor(to.metadata, to.known_columns, changes.added, bool(changes.removed)))
    action: Action = Append(files=changes.added, fast=not changes.merges, **to.snapshot_fields)
    if changes.removed:
        action = OverwriteFiles(
            added=changes.added, removed=changes.removed, isolation="snapshot", starting_snapshot_id=start_of(loaded, to),
            **to.snapshot_fields,
        )  # fmt: skip
    return StagedWrite((*before, action), metrics={"rows_inserted": sum(f.record_count for f in changes.added)})


# Files, and the actions for files that are written -------------------------------------------------------------------------------------


def written(rows: InputFrame, to: WriteTarget) -> StagedWrite:
    """The rows of a frame as data files of the table, after the schema change that `merge_schema` asks for."""
    metadata = to.metadata
    rows = _read_as(rows, to)
    changes: tuple[Action, ...] = ()
    if (update := _evolved(rows, to)) is not None:
        metadata, changes = apply_updates(metadata, update.updates(metadata)), (MetadataChange(update.updates),)
    start = time.perf_counter()
    files = rows.engine.write(rows.frame, metadata, to.storage, to.options, to.case_sensitive)
    return of_files(files, metadata, to, changes, time.perf_counter() - start)


def _read_as(rows: InputFrame, to: WriteTarget) -> InputFrame:
    """A frame of this process as Arrow, its Python values read by the table's schema; a Spark frame as it is."""
    if is_spark_frame(rows.frame):
        return rows
    return replace(rows, frame=as_arrow(rows.frame, to.metadata.schema(), case_sensitive=to.case_sensitive is not False))


def of_files(
    files: Sequence[DataFile], metadata: TableMetadata, to: WriteTarget, changes: tuple[Action, ...] = (), seconds: float = 0.0
) -> StagedWrite:
    """Data files that were written for this state of the table: at the commit they must still mean the same."""
    files = tuple(files)
    metrics = {"rows_inserted": sum(f.record_count for f in files)}
    return StagedWrite((*changes, WrittenFor(metadata, to.known_columns, files)), files, seconds, metrics)


def appended(staged: StagedWrite, to: WriteTarget) -> StagedWrite:
    return staged.then(Append(files=staged.files, **to.snapshot_fields))


def overwritten(
    staged: StagedWrite, to: WriteTarget, where: Predicate, start: int | None, settings: SessionSettings = SessionSettings()
) -> StagedWrite:
    """The files in place of those whose rows all match. `settings`: how names and literals of `where` are read."""
    action = OverwriteFiles(
        added=staged.files, row_filter=where, isolation=to.options.isolation_level, starting_snapshot_id=start,
        case_sensitive=settings.case_sensitive, zone=settings.zone, **to.snapshot_fields,
    )  # fmt: skip
    return staged.then(action)


def partitions_replaced(staged: StagedWrite, to: WriteTarget, start: int | None) -> StagedWrite:
    """The files in place of the partitions that they are in; without files nothing is done, as in Java."""
    if not staged.files:
        return replace(staged, actions=())
    isolation = to.options.isolation_level
    return staged.then(ReplacePartitions(files=staged.files, isolation=isolation, starting_snapshot_id=start, **to.snapshot_fields))


# Schema evolution by frames -------------------------------------------------------------------------------------------------------------


def _evolved(rows: InputFrame, to: WriteTarget) -> SchemaChanges | None:
    """Java wants the table to accept any schema; Frazil only wants to be asked."""
    if not to.options.merge_schema:
        return None
    return evolve_to(rows.engine.schema_of(rows.frame), to.metadata, rows.engine.settings(to.case_sensitive).case_sensitive)


def evolve_to(wanted: Schema, metadata: TableMetadata, case_sensitive: bool) -> SchemaChanges | None:
    """The change that gives a table the columns of a schema that it lacks, or None when it has them all."""
    update = SchemaChanges(metadata, case_sensitive=case_sensitive)
    update.union_by_name(_as_required(wanted, metadata.schema(), case_sensitive))
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
