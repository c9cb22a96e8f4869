"""Check for conflicts with concurrent commits, by partitions, column bounds and paths (Java
MergingSnapshotProducer).

Every check reads the snapshots since the commit's start (`History`). Where metadata cannot exclude
a conflict, it is a conflict.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.commit.filtering import in_partitions, partitions_of
from frazil.commit.history import (
    ADD_DELETE_FILES,
    ADD_FILES,
    ADD_VECTORS,
    ANY,
    REMOVE_FILES,
    REMOVE_FILES_BUT_DELETES,
    Flags,
    History,
    ManifestWithEntries,
)
from frazil.errors import InvalidInput
from frazil.expr.nodes import AlwaysTrue, Predicate
from frazil.scan.delete_ranges import normalised, path_bounds
from frazil.scan.deletes import DeleteEntries, attach
from frazil.scan.manifests import STATISTICS, column_of
from frazil.scan.tasks import PlannedFiles
from frazil.spec.manifest import DataFile, DataFileContent, ManifestFile
from frazil.spec.partitioning import PartitionKey, partition_key, plain_values

ISOLATION_LEVELS = ("serializable", "snapshot")
_SHOWN = 10


def check_isolation(level: str) -> str:
    """Return the isolation level in lower case. Raises InvalidInput for one that Iceberg does not
    have.
    """
    if level.lower() not in ISOLATION_LEVELS:
        raise InvalidInput(
            f"Invalid isolation level: {level!r}; known levels: {', '.join(ISOLATION_LEVELS)}."
        )
    return level.lower()


def _named(manifests: Iterable[tuple[ManifestFile | None, pa.Table]]) -> Iterator[tuple[str, int]]:
    for _, table in manifests:
        yield from zip(
            table["file_path"].to_pylist(), table["snapshot_id"].to_pylist(), strict=True
        )


# Data files
# --------------------------------------------------------------------------------------------------


def no_added_data_files(history: History, where: Predicate) -> None:
    """Refuse if data files that may hold rows matching `where` were added."""
    added = history.data_files(ADD_FILES, added=True, where=where)
    history.refuse(
        f"Found conflicting files that can contain records matching {where}", _named(added)
    )


def no_added_data_files_in(history: History, partitions: Collection[PartitionKey]) -> None:
    added = _within(history.data_files(ADD_FILES, added=True), partitions)
    history.refuse(
        f"Found conflicting files that can contain records matching partitions {_shown(history, partitions)}",
        _named(added),
    )


def no_deleted_data_files(history: History, where: Predicate) -> None:
    """Refuse if data files that may hold rows matching `where` were removed."""
    removed = history.data_files(REMOVE_FILES, added=False, where=where)
    history.refuse(
        f"Found conflicting deleted files that can contain records matching {where}",
        _named(removed),
    )


def no_deleted_rows(history: History, where: Predicate) -> None:
    """Refuse if rows that may match `where` were deleted in any way; compaction deletes none.

    Inserting the rows that had no match relies on the rows that were matched, though it changes
    none of them (stricter than Java).
    """
    no_new_delete_files(history, where)
    removed = history.data_files(("overwrite", "delete"), added=False, where=where)
    history.refuse(
        f"Found conflicting deleted files that can contain records matching {where}",
        _named(removed),
    )


def no_deleted_data_files_in(history: History, partitions: Collection[PartitionKey]) -> None:
    removed = _within(history.data_files(REMOVE_FILES, added=False), partitions)
    history.refuse(
        f"Found conflicting deleted files that can apply to records matching {_shown(history, partitions)}",
        _named(removed),
    )


def _within(
    manifests: Iterable[ManifestWithEntries], partitions: Collection[PartitionKey]
) -> Iterator[ManifestWithEntries]:
    for m, table in manifests:
        yield m, table.filter(pa.array(in_partitions(table, m.partition_spec_id, partitions)))


def _shown(history: History, partitions: Collection[PartitionKey]) -> str:
    texts = []
    for key in list(partitions)[:_SHOWN]:
        spec = history.metadata.spec_by_id(key[0])
        texts.append(
            ", ".join(f"{f.name}={v}" for f, v in zip(spec.fields, plain_values(key), strict=True))
        )
    return (
        "["
        + "; ".join(texts)
        + (f" and {len(partitions) - _SHOWN} more" if len(partitions) > _SHOWN else "")
        + "]"
    )


def data_files_exist(history: History, paths: Collection[str], *, skip_deletes: bool) -> None:
    """Refuse if one of `paths` was removed. `skip_deletes`: removal by a "delete" operation is
    allowed.
    """
    if history.parent is None or not paths:
        return
    operations = REMOVE_FILES_BUT_DELETES if skip_deletes else REMOVE_FILES
    required = set(paths)
    history.refuse(
        "Cannot commit, missing data files",
        (f for f in _removed(history, operations) if f[0] in required),
    )


def gone(history: History, paths: Collection[str]) -> set[str]:
    """Return those of `paths` that a "delete" operation removed with all their rows."""
    wanted = set(paths)
    return (
        {p for p, _ in _removed(history, ("delete",)) if p in wanted}
        if history.parent is not None and wanted
        else set()
    )


def _removed(history: History, operations: Collection[str]) -> Iterator[tuple[str, int]]:
    return _named(history.data_files(operations, added=False))


def no_older_data_files(history: History, sequence_number: int) -> None:
    """Refuse if data files were added that are older than this sequence number, as compaction adds
    them: the equality deletes of that number still apply to them."""
    older_files = (
        (m, t.filter(pc.less(t["sequence_number"], sequence_number)))
        for m, t in history.data_files(ANY, added=True)
    )
    history.refuse(
        "Cannot commit, found older data files to which removed equality deletes may apply",
        _named(older_files),
    )


# Delete files
# --------------------------------------------------------------------------------------------------


def no_new_delete_files(history: History, where: Predicate) -> None:
    """Refuse if delete files were added that may apply to rows matching `where`, by partition,
    equality keys, or the bounds of the single data file that they apply to."""
    deletes = _meeting(history, where, history.delete_files(ADD_DELETE_FILES, where))
    history.refuse(
        f"Found new conflicting delete files that can apply to records matching {where}",
        _named(deletes),
    )


def no_moved_rows(history: History, where: Predicate) -> None:
    """Refuse if rows that match `where` were updated and their new versions may match it too.

    Such a row was to be deleted, but its new version is in another file, which the deletes of this
    commit do not reach. Java does not check this under snapshot isolation, and the row survives.
    """
    updaters = {
        i for _, i in _named(_meeting(history, where, history.delete_files(("overwrite",), where)))
    }
    updated = (
        (
            f
            for f in _named(history.data_files(("overwrite",), added=True, where=where))
            if f[1] in updaters
        )
        if updaters
        else ()
    )
    history.refuse(
        f"Found conflicting files that can contain updated records matching {where}", updated
    )


def no_new_delete_files_in(history: History, partitions: Collection[PartitionKey]) -> None:
    """Refuse if delete files were added that may apply to rows of these partitions; unpartitioned
    equality deletes apply to all of them.
    """
    deletes = (
        _reaching(history, m, table, partitions)
        for m, table in history.delete_files(ADD_DELETE_FILES)
    )
    history.refuse(
        f"Found new conflicting delete files that can apply to records matching {_shown(history, partitions)}",
        _named(deletes),
    )


def _reaching(
    history: History, m: ManifestFile, table: pa.Table, partitions: Collection[PartitionKey]
) -> ManifestWithEntries:
    mask = in_partitions(table, m.partition_spec_id, partitions)
    if history.metadata.spec_by_id(m.partition_spec_id).unpartitioned:
        mask |= _is_equality(table)
    return m, table.filter(pa.array(mask))


def _is_equality(table: pa.Table) -> Flags:
    return np.asarray(
        column_of(table, "content").to_numpy() == int(DataFileContent.EQUALITY_DELETES)
    )


def _meeting(
    history: History, where: Predicate, manifests: Iterable[ManifestWithEntries]
) -> Iterator[ManifestWithEntries]:
    """Drop the delete files whose equality keys, or whose single data file, cannot match `where`."""
    if isinstance(where, AlwaysTrue):
        yield from manifests
        return
    candidates = [(manifest, table, _is_equality(table)) for manifest, table in manifests]
    singles = [_single(table, ~equality) for _, table, equality in candidates]
    cleared = _files_apart(history, where, candidates, singles)
    for (manifest, table, equality), single in zip(candidates, singles, strict=True):
        mask = ~pc.fill_null(pc.is_in(single, value_set=cleared), False).to_numpy(
            zero_copy_only=False
        ) | single.is_null().to_numpy(False)
        if equality.any():
            mask &= ~equality | history.may_match(manifest, _keys_only(table), where)
        if mask.any():
            yield manifest, table.filter(pa.array(mask))


def _single(table: pa.Table, positional: Flags) -> pa.Array:
    """Return the single data file (normalised path) that each deletion vector or position delete
    file applies to; null: several, or an equality delete."""
    return path_bounds([table], column_of(table, "referenced_data_file"), positional).single


def _files_apart(
    history: History,
    where: Predicate,
    candidates: list[tuple[ManifestFile, pa.Table, Flags]],
    singles: list[pa.Array],
) -> pa.Array:
    """Return the paths of live data files that cannot hold rows matching `where`."""
    keys = {
        partition_key(m.partition_spec_id, p)
        for m, table, _ in candidates
        for p in partitions_of(table)
    }
    wanted = pa.concat_arrays(singles).drop_null() if singles else pa.array([], pa.string())
    path_arrays = [pa.array([], pa.string())]
    for m, table in history.live_data(keys) if len(wanted) else ():
        paths = normalised(column_of(table, "file_path"))
        is_wanted = pc.is_in(paths, value_set=wanted)
        if pc.any(is_wanted).as_py():
            apart = ~history.may_match(m, table.filter(is_wanted), where)
            path_arrays.append(paths.filter(is_wanted).filter(pa.array(apart)))
    return pa.concat_arrays(path_arrays)


def _keys_only(table: pa.Table) -> pa.Table:
    """Keep only the statistics of the columns that equality deletes compare: other columns say
    nothing about the deleted rows.
    """
    keys = [set(ids or ()) for ids in table["equality_ids"].to_pylist()]
    for name in STATISTICS:
        rows = table[name].to_pylist()
        only = [
            None if row is None else [e for e in row if e["key"] in ids]
            for row, ids in zip(rows, keys, strict=True)
        ]
        table = table.set_column(
            table.column_names.index(name), name, pa.array(only, table.schema.field(name).type)
        )
    return table


def no_new_deletes_for(
    history: History, files: Collection[DataFile], *, ignore_equality: bool = False
) -> None:
    """Refuse if deletes were added that apply to one of the files. `ignore_equality`: the files
    that replace them keep their sequence number, so that new equality deletes still apply."""
    if history.parent is None or not files:
        return
    added = _entries(history, ignore_equality)
    if not added.groups:
        return
    wanted = pa.array(sorted({f.file_path for f in files}), pa.string())
    groups = []
    for m, table in history.live_data({partition_key(f.spec_id, f.partition) for f in files}):
        if len(table := table.filter(pc.is_in(table["file_path"], value_set=wanted))):
            groups.append(PlannedFiles(history.metadata.spec_by_id(m.partition_spec_id), table))
    if not groups:
        return
    _, index = attach(history.metadata, tuple(groups), added)
    paths = [p for g in groups for p in g.table["file_path"].to_pylist()]
    refused = [
        (paths[row], d.file_path)
        for row in np.flatnonzero(index.counts).tolist()
        for d in index.of(row)
    ]
    if refused:
        snapshot_ids = dict(_named((None, table) for _, table in added.groups))
        kind, data_files = (
            "position delete" if ignore_equality else "delete",
            list(dict.fromkeys(p for p, _ in refused)),
        )
        message = f"Cannot commit, found new {kind} for replaced data file: {data_files[0]}"
        history.refuse(message, ((d, snapshot_ids[d]) for _, d in refused), data_files=data_files)


def _entries(history: History, ignore_equality: bool) -> DeleteEntries:
    by_spec: dict[int, list[pa.Table]] = {}
    for m, table in history.delete_files(ADD_DELETE_FILES):
        table = table.filter(pa.array(~_is_equality(table))) if ignore_equality else table
        if len(table):
            by_spec.setdefault(m.partition_spec_id, []).append(table)
    joined = {
        i: _newest_vectors(pa.concat_tables(t, promote_options="permissive"))
        for i, t in by_spec.items()
    }
    return DeleteEntries(tuple((history.metadata.spec_by_id(i), t) for i, t in joined.items()))


def _newest_vectors(table: pa.Table) -> pa.Table:
    """Keep one deletion vector per data file, the newest: each commit that deletes more of its rows
    replaces the vector of the one before. Entries come newest first."""
    vector = pc.equal(column_of(table, "file_format"), "puffin")
    about = pc.if_else(vector, column_of(table, "referenced_data_file"), None)
    first = pc.index_in(about, value_set=about, skip_nulls=True).to_numpy(zero_copy_only=False)
    return table.filter(pc.or_(about.is_null(), pa.array(first == np.arange(len(table)))))


def no_added_vectors(history: History, referenced: Collection[str]) -> None:
    """Refuse if a deletion vector for one of the data files was added."""
    wanted = set(referenced)
    if history.parent is None or not wanted:
        return
    for _, table in history.delete_files(ADD_VECTORS):
        rows = table.select(
            ["file_format", "referenced_data_file", "file_path", "snapshot_id"]
        ).to_pylist()
        for row in rows:
            if row["file_format"] == "puffin" and row["referenced_data_file"] in wanted:
                file = row["referenced_data_file"]
                history.refuse(
                    f"Found concurrently added DV for {file}",
                    [(row["file_path"], row["snapshot_id"])],
                    file=file,
                )
