"""Stage frames and files: write rows as data files, and make the actions that commit them. Each
call makes one snapshot.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from frazil.arrow.values.arrow_schema import to_arrow_type
from frazil.arrow.values.casts import cast_for
from frazil.arrow.values.frames import as_arrow
from frazil.arrow.write.add_files import OnFile, data_files_of, refuse_unreadable
from frazil.arrow.write.write_options import Verb
from frazil.commit.actions import (
    Action,
    Append,
    MetadataChange,
    NotYetThere,
    OverwriteFiles,
    ReplacePartitions,
    WrittenFor,
)
from frazil.commit.apply import apply_updates
from frazil.commit.evolve.evolve_schema import SchemaChanges, name_mapping_of
from frazil.errors import InvalidInput
from frazil.expr.nodes import AlwaysTrue, Predicate
from frazil.ops.arguments import is_spark_frame
from frazil.ops.engine import InputFrame
from frazil.ops.session import SessionSettings
from frazil.ops.target import WriteTarget, start_of
from frazil.spec.manifest import DataFile, DataFileContent
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import NAME_MAPPING, refuse_encryption
from frazil.spec.schema import Schema
from frazil.spec.types import IcebergType, ListType, MapType, NestedField, StructType, can_promote
from frazil.spec.updates import SetProperties
from frazil.storage.locations import absolute, normalise


@dataclass(frozen=True)
class StagedWrite:
    """Hold what one write has ready for the commit.

    `actions`: the changes to commit, in order. `files`: the data and delete files written for them.
    `seconds`: the time that writing took. `metrics`: counts of rows that the snapshot summary does
    not tell. `reads_table`: the change rests on rows of the table beside those that it changes.
    """

    actions: tuple[Action, ...]
    files: tuple[DataFile, ...] = ()
    seconds: float = 0.0
    metrics: Mapping[str, int] = field(default_factory=dict)
    reads_table: bool = False

    @property
    def written(self) -> list[str]:
        """Return the locations of the files that were written."""
        return [f.file_path for f in self.files]

    def then(self, action: Action) -> StagedWrite:
        """Return this write with one more action at the end."""
        return replace(self, actions=(*self.actions, action))


# Verbs
# --------------------------------------------------------------------------------------------------


def add_files(
    paths: Sequence[str],
    to: WriteTarget,
    workers: int | None = None,
    on_file: OnFile = lambda: None,
    again: bool = False,
) -> StagedWrite:
    """Add existing Parquet files to the table at their present location. `workers`: threads that
    read footers, None: one per core. `on_file`: called as each footer was read. `again`: also files
    that the table has already, whose rows will be read twice.

    Raises InvalidInput for a path given twice, as `data_files_of` for files that do not fit the
    table, and at the commit ValidationException for files that the table has already or, if
    `again`, with deletion vectors.
    """
    metadata = to.metadata
    refuse_encryption(metadata)
    if len({normalise(p) for p in paths}) != len(paths):
        raise InvalidInput("add_files: a path is given twice.", table=metadata.location)
    files = tuple(data_files_of(paths, metadata, to.storage, workers, on_file))
    before: tuple[Action, ...] = (
        NotYetThere(frozenset(normalise(f.file_path) for f in files), to.branch, again),
    )
    # Files of other writers seldom hold field ids; the name mapping ties their columns to the
    # table's, even after a rename.
    if NAME_MAPPING.name not in metadata.properties:
        before = (*before, _name_mapping_set())
    action = Append(files=files, **to.snapshot_fields)
    return StagedWrite(
        (*before, action), metrics={"rows_inserted": sum(f.record_count for f in files)}
    )


def _name_mapping_set() -> Action:
    return MetadataChange(
        lambda m: (SetProperties({NAME_MAPPING.name: name_mapping_of(m.schema())}),)
    )


@dataclass(frozen=True)
class FileChanges:
    """Hold data files to add and to remove. `merges`: whether the commit also merges small
    manifests.
    """

    added: tuple[DataFile, ...] = ()
    removed: tuple[DataFile, ...] = ()
    merges: bool = True


def add_and_remove_files(
    changes: FileChanges, to: WriteTarget, loaded: TableMetadata
) -> StagedWrite:
    """Add existing data files to the table, and remove others, by their entries.

    `loaded`: the metadata from which the caller took the entries to remove; deletes that others
    have added to these files since then are a conflict. No file is removed from the store, whatever
    becomes of the commit. Relative paths of added files are made absolute. Raises InvalidInput for
    entries that are not data files and for a file given twice, and for Parquet files that do not
    fit as `add_files` does.
    """
    refuse_encryption(to.metadata)
    for file in (*changes.added, *changes.removed):
        if not isinstance(file, DataFile) or file.content != DataFileContent.DATA:
            raise InvalidInput(f"{file!r} is not a data file.", table=to.metadata.location)
    changes = replace(
        changes,
        added=tuple(replace(file, file_path=absolute(file.file_path)) for file in changes.added),
    )
    paths = [normalise(file.file_path) for file in changes.added]
    if len(set(paths)) != len(paths):
        raise InvalidInput("A data file is given twice.", table=to.metadata.location)
    fits = WrittenFor(to.metadata, to.known_columns, changes.added, bool(changes.removed))
    before: tuple[Action, ...] = (NotYetThere(frozenset(paths), to.branch), fits)
    if (
        refuse_unreadable(changes.added, to.metadata, to.storage)
        and NAME_MAPPING.name not in to.metadata.properties
    ):
        before = (*before, _name_mapping_set())
    action: Action = Append(files=changes.added, fast=not changes.merges, **to.snapshot_fields)
    if changes.removed:
        action = OverwriteFiles(
            added=changes.added,
            removed=changes.removed,
            isolation="snapshot",
            starting_snapshot_id=start_of(loaded, to),
            **to.snapshot_fields,
        )
    return StagedWrite(
        (*before, action),
        metrics={"rows_inserted": sum(file.record_count for file in changes.added)},
    )


# Written files and their actions
# --------------------------------------------------------------------------------------------------


def written(rows: InputFrame, to: WriteTarget) -> StagedWrite:
    """Write the rows of a frame as data files of the table, with the schema change that
    `merge_schema` asks for staged before them.
    """
    metadata = to.metadata
    rows = _as_arrow(rows, to)
    changes: tuple[Action, ...] = ()
    if (update := _evolved(rows, to)) is not None:
        metadata, changes = (
            apply_updates(metadata, update.updates(metadata)),
            (MetadataChange(update.updates),),
        )
    start = time.perf_counter()
    files = rows.engine.write(rows.frame, metadata, to.storage, to.options, to.case_sensitive)
    return of_files(files, metadata, to, changes, time.perf_counter() - start)


def _as_arrow(rows: InputFrame, to: WriteTarget) -> InputFrame:
    """Convert a frame of this process to Arrow, Python values by the table's schema; a Spark frame
    stays as it is.
    """
    if is_spark_frame(rows.frame):
        return rows
    return replace(
        rows,
        frame=as_arrow(
            rows.frame, to.metadata.schema(), case_sensitive=to.case_sensitive is not False
        ),
    )


def of_files(
    files: Sequence[DataFile],
    metadata: TableMetadata,
    to: WriteTarget,
    changes: tuple[Action, ...] = (),
    seconds: float = 0.0,
) -> StagedWrite:
    """Stage data files that were written for this state of the table. The commit checks that schema
    and specs still fit them.
    """
    files = tuple(files)
    metrics = {"rows_inserted": sum(f.record_count for f in files)}
    return StagedWrite(
        (*changes, WrittenFor(metadata, to.known_columns, files)), files, seconds, metrics
    )


def staged_by(verb: Verb, staged: StagedWrite, to: WriteTarget, start: int | None) -> StagedWrite:
    """Stage the written files as a verb commits them. `start`: the snapshot from which conflicts are
    looked for.

    An append, and an overwrite of all rows, make a snapshot without files as well, as in Java and
    PyIceberg: it tells that the job ran. An overwrite of partitions replaces nothing then.
    """
    match verb:
        case "append":
            return staged.then(Append(files=staged.files, **to.snapshot_fields))
        case "overwrite":
            return overwritten(staged, to, AlwaysTrue(), start)
    if not staged.files:
        return replace(staged, actions=())
    isolation = to.options.isolation_level
    return staged.then(
        ReplacePartitions(
            files=staged.files,
            isolation=isolation,
            starting_snapshot_id=start,
            **to.snapshot_fields,
        )
    )


def overwritten(
    staged: StagedWrite,
    to: WriteTarget,
    where: Predicate,
    start: int | None,
    settings: SessionSettings = SessionSettings(),
) -> StagedWrite:
    """Stage the replacement of the files whose rows all match `where` by the written files. As an
    append does, it makes a snapshot also where there are none of either.

    `start`: the snapshot from which conflicts are looked for. `settings`: how names and literals of
    `where` are read.
    """
    action = OverwriteFiles(
        added=staged.files,
        row_filter=where,
        isolation=to.options.isolation_level,
        starting_snapshot_id=start,
        case_sensitive=settings.case_sensitive,
        zone=settings.zone,
        even_if_empty=True,
        **to.snapshot_fields,
    )
    return staged.then(action)


# Schema evolution by frames
# --------------------------------------------------------------------------------------------------


def _evolved(rows: InputFrame, to: WriteTarget) -> SchemaChanges | None:
    """Return the schema change that `merge_schema` asks for. Java also requires the table property
    write.spark.accept-any-schema; Frazil does not."""
    if not to.options.merge_schema:
        return None
    return evolve_to(
        rows.engine.schema_of(rows.frame),
        to.metadata,
        rows.engine.settings(to.case_sensitive).case_sensitive,
    )


def evolve_to(
    wanted: Schema, metadata: TableMetadata, case_sensitive: bool
) -> SchemaChanges | None:
    """Return the schema change that adds the columns a table lacks; None when it has them all."""
    update = SchemaChanges(metadata, case_sensitive=case_sensitive)
    update.union_by_name(_as_required(wanted, metadata.schema(), case_sensitive))
    return update if not update.schema().same_fields(metadata.schema()) else None


def _as_required(frame: Schema, table: Schema, case_sensitive: bool) -> Schema:
    """Return a frame's schema so that merging it relaxes no column of the table.

    Frames seldom declare that a column has no nulls, so a required column stays required; rows with
    nulls in it are refused later. A type that only needs a cast (text for uuids, whole numbers for
    doubles) changes no column either.
    """

    def required(name: str) -> bool:
        column = table.get_field(name, case_sensitive)
        return column is not None and column.required

    def adjusted_type(type_: IcebergType, name: str) -> IcebergType:
        column = table.get_field(name, case_sensitive)
        if type_.is_primitive and column is not None and column.field_type.is_primitive:
            only_cast = (
                not can_promote(column.field_type, type_, 2)
                and cast_for(to_arrow_type(type_), column.field_type) is not None
            )
            return column.field_type if only_cast else type_
        match type_:
            case StructType():
                return StructType(*(adjusted(f, f"{name}.{f.name}") for f in type_.fields))
            case ListType():
                element = adjusted_type(type_.element_type, f"{name}.element")
                return replace(
                    type_, element_type=element, element_required=required(f"{name}.element")
                )
            case MapType():
                value = adjusted_type(type_.value_type, f"{name}.value")
                return replace(type_, value_type=value, value_required=required(f"{name}.value"))
        return type_

    def adjusted(f: NestedField, name: str) -> NestedField:
        return replace(f, field_type=adjusted_type(f.field_type, name), required=required(name))

    return Schema(*(adjusted(f, f.name) for f in frame.fields))
