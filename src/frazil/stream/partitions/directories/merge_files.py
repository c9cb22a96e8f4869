"""Merge the small Parquet files of a partition's folder (policy `merge` of plain folders).

A new folder is made beside, with the merged files and links to all others, and is exchanged with
the partition's folder in one step: at every moment a listing shows each row once. A reader that has
listed the old files and opens them after the exchange finds them gone: it fails, and reads the
right rows when it lists again.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from frazil.errors import CorruptData, NoSuchFileError, SchemaMismatch, Unsupported
from frazil.storage.local import exchange, make_directories, sync, sync_directory
from frazil.stream.partitions.directories.folder import STORAGE, Folder
from frazil.stream.partitions.policies.context import PartitionContext, Policy

log = logging.getLogger(__name__)
SMALL, TARGET = 0.75, 128 << 20  # bytes; Flink's size of rolled files
_HINT = "Write these files again with one type for each column, or leave merge out of sink.partition-commit.policy.kind."
_ROWS_OF_SPARK = b"org.apache.spark.sql.parquet.row.metadata"


def merge_folder(folder: Folder, target_bytes: int | None = None) -> Policy:
    """Make the policy. The files of a folder are merged in the order of their names; columns that
    only some files have are null in the rows of the others."""

    def run(context: PartitionContext) -> None:
        directory = folder.partition_path(context.partition)
        with folder.locked():
            finish_merges(folder)
            _merge(folder, directory, target_bytes or TARGET)

    return run


def check_exchange(folder: Folder) -> None:
    """Check that the file system can exchange folders, before the first batch. Raises StorageError."""
    first, second = (folder.place("merges", f".probe-{uuid.uuid4()}") for _ in range(2))
    try:
        for place in (first, second):
            make_directories(place)
        exchange(first, second)
    finally:
        for place in (first, second):
            shutil.rmtree(place, ignore_errors=True)


def _merge(folder: Folder, directory: str, target: int) -> None:
    groups = _groups(directory, target)
    if not groups:
        return
    inputs = [name for group in groups for name in group]
    beside = folder.place("merges", str(uuid.uuid4()))
    new = os.path.join(beside, "folder")
    make_directories(new)
    for group in groups:
        _write_merged(directory, group, os.path.join(new, f"merged-{uuid.uuid4()}.parquet"))
    linked = [name for name in os.listdir(directory) if name not in inputs]
    for name in linked:
        os.link(os.path.join(directory, name), os.path.join(new, name))
    sync_directory(new)
    plan = {"directory": directory, "known": [*inputs, *os.listdir(new)]}
    STORAGE.write(os.path.join(beside, "merge.json"), json.dumps(plan).encode(), overwrite=True)
    exchange(directory, new)
    sync_directory(os.path.dirname(directory))
    _finish(beside)
    log.info("Merged %d files of %s into %d.", len(inputs), directory, len(groups))


def _groups(directory: str, target: int) -> list[list[str]]:
    """Group the small files, each group about the target size; a file alone stays. Raises
    Unsupported for folders that are no partition of Parquet files."""
    groups: list[list[str]] = [[]]
    size = 0
    for name in sorted(os.listdir(directory)):
        path = os.path.join(directory, name)
        if os.path.isdir(path):
            raise Unsupported(
                f"{directory} holds the folder {name}: the policy merge takes partitions of files only.",
                file=path,
            )
        if name.startswith(("_", ".")) or (bytes_ := os.path.getsize(path)) >= SMALL * target:
            continue
        if groups[-1] and size + bytes_ > target:
            groups.append([])
            size = 0
        groups[-1].append(name)
        size += bytes_
    return [group for group in groups if len(group) > 1]


def _write_merged(directory: str, names: Sequence[str], output: str) -> None:
    paths = [os.path.join(directory, n) for n in names]
    files = [pq.ParquetFile(p, coerce_int96_timestamp_unit="us") for p in paths]
    try:
        schemas = [_schema(file, p) for file, p in zip(files, paths, strict=True)]
        merged = _unified([s.remove_metadata() for s in schemas], directory, names)
        if all(s.remove_metadata().equals(merged) for s in schemas):
            merged = merged.with_metadata(schemas[0].metadata)
        codec = (
            files[0].metadata.row_group(0).column(0).compression
            if files[0].metadata.num_row_groups
            else "SNAPPY"
        )
        written = 0
        with pq.ParquetWriter(
            output, merged, compression=codec.lower() if codec != "UNCOMPRESSED" else "none"
        ) as writer:
            for file, path in zip(files, paths, strict=True):
                for batch in _batches(file, merged, path):
                    writer.write_batch(batch)
                    written += batch.num_rows
        if written != (rows := sum(file.metadata.num_rows for file in files)):
            raise CorruptData(
                f"Merging files of {directory} read {rows} rows and wrote {written}; nothing was changed.",
                file=directory,
            )
    finally:
        for file in files:
            file.close()
    sync(output)


def _unified(schemas: Sequence[pa.Schema], directory: str, names: Sequence[str]) -> pa.Schema:
    """Return the schema of a merged file. Raises SchemaMismatch for columns without a common type,
    with the file in which each type is found first.
    """
    try:
        return pa.unify_schemas(schemas, promote_options="permissive")
    except pa.ArrowException as error:
        conflicts = {
            column: types
            for column in dict.fromkeys(n for s in schemas for n in s.names)
            if not _have_one_type(types := _types_of(column, schemas, names))
        }
        differences = "; ".join(
            f"{column} is {' and '.join(f'{t} in {name}' for t, name in types.items())}"
            for column, types in conflicts.items()
        )
        raise SchemaMismatch(
            f"The files of {directory} cannot be merged: {differences or error}.",
            hint=_HINT,
            file=directory,
            columns=tuple(conflicts),
        ) from error


def _types_of(
    column: str, schemas: Sequence[pa.Schema], names: Sequence[str]
) -> dict[pa.DataType, str]:
    types: dict[pa.DataType, str] = {}
    for schema, name in zip(schemas, names, strict=True):
        for place in schema.get_all_field_indices(column):
            types.setdefault(schema.field(place).type, name)
    return types


def _have_one_type(types: Iterable[pa.DataType]) -> bool:
    try:
        pa.unify_schemas([pa.schema([("c", t)]) for t in types], promote_options="permissive")
    except pa.ArrowException:
        return False
    return True


def _schema(file: pq.ParquetFile, path: str) -> pa.Schema:
    """Return a file's schema with the part of its metadata that Spark reads. Raises Unsupported for
    INT96, whose meaning would be lost.
    """
    columns = (file.schema.column(i) for i in range(len(file.schema)))
    if int96 := [c.path for c in columns if c.physical_type == "INT96"]:
        hint = "Write timestamps as TIMESTAMP_MICROS (spark.sql.parquet.outputTimestampType)."
        raise Unsupported(
            f"{path} has timestamps of type INT96 ({', '.join(int96)}), which merge does not take.",
            hint=hint,
            file=path,
        )
    schema, rows = file.schema_arrow, (file.metadata.metadata or {}).get(_ROWS_OF_SPARK)
    return schema.with_metadata({_ROWS_OF_SPARK: rows} if rows is not None else None)


def _batches(file: pq.ParquetFile, schema: pa.Schema, path: str) -> Iterator[pa.RecordBatch]:
    for batch in file.iter_batches():
        if batch.schema.remove_metadata().equals(schema.remove_metadata()):
            yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)
            continue
        columns = []
        for field in schema:
            index = batch.schema.get_field_index(field.name)
            columns.append(
                pa.nulls(batch.num_rows, field.type)
                if index < 0
                else _cast(batch.column(index), field, path)
            )
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(column: pa.Array, field: pa.Field, path: str) -> pa.Array:
    try:
        return column.cast(field.type)
    except pa.ArrowException as error:
        text = (
            f"Column {field.name} of {path} is {column.type}, and becomes {field.type} "
            f"in the merged file, which cannot hold each of its values: {error}."
        )
        raise SchemaMismatch(text, hint=_HINT, file=path, columns=(field.name,)) from error


def finish_merges(folder: Folder) -> None:
    """Finish or undo the merges that a crash has left. The caller holds the lock."""
    for name in STORAGE.directories(folder.place("merges")):
        if not name.startswith("."):
            _finish(folder.place("merges", name))


def _finish(beside: str) -> None:
    """Remove the folder that a merge worked in. After the exchange this folder holds the old files.
    A file among them that the merge did not know was added by another writer meanwhile, and is
    moved into the new folder."""
    old = os.path.join(beside, "folder")
    try:
        plan = json.loads(STORAGE.read(os.path.join(beside, "merge.json")))
    except NoSuchFileError:
        plan = None  # the merge was cut off before the exchange
    if plan is not None and os.path.isdir(old):
        for name in set(os.listdir(old)) - set(plan["known"]):
            os.rename(os.path.join(old, name), os.path.join(plan["directory"], name))
        sync_directory(plan["directory"])
    shutil.rmtree(beside, ignore_errors=True)
