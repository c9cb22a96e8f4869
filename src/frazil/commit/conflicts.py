"""Whether others changed what a commit relies on: a look at the snapshots since the one it started from (Java MergingSnapshotProducer)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.commit.filtering import in_partitions
from frazil.commit.keys import PartitionKey, partition_key, plain_values
from frazil.commit.manifests import ADDED, DELETED
from frazil.commit.matching import TRUE, file_outcomes, manifests_that_may_match
from frazil.errors import InvalidInput, ValidationException
from frazil.expr.nodes import AlwaysTrue, Predicate
from frazil.scan.manifests import manifests_of, read_manifest
from frazil.spec.data_file import DataFile, DataFileContent
from frazil.spec.manifest import ManifestContent, ManifestFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.snapshot import Snapshot
from frazil.storage.base import Storage

ADD_FILES = frozenset({"append", "overwrite"})
REMOVE_FILES = frozenset({"overwrite", "replace", "delete"})
REMOVE_FILES_BUT_DELETES = frozenset({"overwrite", "replace"})
ADD_DELETE_FILES = frozenset({"overwrite", "delete"})
ADD_VECTORS = frozenset({"overwrite", "delete", "replace"})
_SHOWN = 10
Found = tuple[ManifestFile, pa.Table]

ISOLATION_LEVELS = ("serializable", "snapshot")


def check_isolation(level: str) -> str:
    """The level in lower case; InvalidInput for any that Iceberg does not have."""
    if level.lower() not in ISOLATION_LEVELS:
        raise InvalidInput(f"Invalid isolation level: {level!r}; known: {', '.join(ISOLATION_LEVELS)}.")
    return level.lower()


@dataclass(frozen=True)
class History:
    """The snapshots after `start` (None: all) up to the branch head `parent`, as far as a check asks for them."""

    metadata: TableMetadata
    storage: Storage
    parent: Snapshot | None
    start: int | None
    case_sensitive: bool = True

    def snapshots(self) -> list[Snapshot]:
        """Newest first. Raises ValidationException when the start is no ancestor or some in between have expired."""
        found: list[Snapshot] = []
        for s in self.metadata.ancestors(self.parent):
            if s.snapshot_id == self.start:
                return found
            found.append(s)
        if found and found[-1].parent_snapshot_id != self.start:
            raise ValidationException(
                f"Cannot determine history between starting snapshot {self.start} and the last known ancestor {found[-1].snapshot_id}",
                hint="Read the table again and repeat the operation.", table=self.metadata.location, snapshot_id=found[-1].snapshot_id,
            )  # fmt: skip
        return found

    def manifests(self, operations: Collection[str], content: ManifestContent) -> tuple[list[ManifestFile], set[int]]:
        """The manifests that those snapshots wrote, and their ids."""
        found: list[ManifestFile] = []
        ids: set[int] = set()
        for s in self.snapshots():
            if s.operation in operations:
                ids.add(s.snapshot_id)
                mine = manifests_of(self.metadata, s, self.storage)
                found += [m for m in mine if m.content == content and m.added_snapshot_id == s.snapshot_id]
        return found, ids

    def starting_sequence_number(self) -> int:
        start = self.metadata.snapshots.by_id(self.start)
        return 0 if start is None else start.sequence_number

    def entries(
        self, operations: Collection[str], statuses: Collection[int], where: Predicate | None
    ) -> Iterator[Found]:
        """Data file entries with one of the statuses that those snapshots wrote and that can hold rows matching `where`."""
        manifests, ids = self.manifests(operations, ManifestContent.DATA)
        md, schema = self.metadata, self.metadata.schema()
        chosen = None if where is None else manifests_that_may_match(manifests, where, schema, md, self.case_sensitive)
        for m in manifests:
            if chosen is not None and m.manifest_path not in chosen:
                continue
            table = read_manifest(self.storage, m)
            mask = _is_in(table["status"], [int(s) for s in statuses]) & _is_in(table["snapshot_id"], sorted(ids))
            if where is not None and not isinstance(where, AlwaysTrue) and mask.any():
                mask &= (file_outcomes(table, where, schema, md, m.partition_spec_id, self.case_sensitive) & TRUE) != 0
            if mask.any():
                yield m, table.filter(pa.array(mask))


def _is_in(column: pa.ChunkedArray, values: list[int]) -> np.ndarray[Any, Any]:
    return np.asarray(pc.is_in(column, value_set=pa.array(values, type=column.type)).to_numpy(zero_copy_only=False))


def _paths(found: Iterable[Found]) -> list[str]:
    return [p for _, table in found for p in table["file_path"].to_pylist()]


def _refuse(message: str, files: list[str], history: History) -> None:
    if files:
        more = f" and {len(files) - _SHOWN} more" if len(files) > _SHOWN else ""
        text = f"{message}: [{', '.join(files[:_SHOWN])}{more}]"
        hint = "Another writer committed them meanwhile; read the table again and repeat the operation."
        raise ValidationException(text, hint=hint, table=history.metadata.location, files=files, starting_snapshot_id=history.start)


def no_added_data_files(history: History, where: Predicate) -> None:
    found = _paths(history.entries(ADD_FILES, [ADDED], where))
    _refuse(f"Found conflicting files that can contain records matching {where}", found, history)


def no_added_data_files_in(history: History, partitions: Collection[PartitionKey]) -> None:
    found = _paths(_within(history.entries(ADD_FILES, [ADDED], None), partitions))
    _refuse(f"Found conflicting files that can contain records matching partitions {_shown(history, partitions)}", found, history)


def no_deleted_data_files(history: History, where: Predicate) -> None:
    found = _paths(history.entries(REMOVE_FILES, [DELETED], where))
    _refuse(f"Found conflicting deleted files that can contain records matching {where}", found, history)


def no_deleted_data_files_in(history: History, partitions: Collection[PartitionKey]) -> None:
    found = _paths(_within(history.entries(REMOVE_FILES, [DELETED], None), partitions))
    _refuse(f"Found conflicting deleted files that can apply to records matching {_shown(history, partitions)}", found, history)


def _within(found: Iterable[Found], partitions: Collection[PartitionKey]) -> Iterator[Found]:
    for m, table in found:
        yield m, table.filter(pa.array(in_partitions(table, m.partition_spec_id, partitions)))


def _shown(history: History, partitions: Collection[PartitionKey]) -> str:
    texts = []
    for key in list(partitions)[:_SHOWN]:
        spec = history.metadata.spec_by_id(key[0])
        texts.append(", ".join(f"{f.name}={v}" for f, v in zip(spec.fields, plain_values(key), strict=True)))
    return "[" + "; ".join(texts) + (f" and {len(partitions) - _SHOWN} more" if len(partitions) > _SHOWN else "") + "]"


def data_files_exist(history: History, paths: Collection[str], where: Predicate | None, skip_deletes: bool) -> None:
    """None of `paths` was removed; `skip_deletes`: by an operation other than "delete"."""
    if history.parent is None or not paths:
        return
    operations = REMOVE_FILES_BUT_DELETES if skip_deletes else REMOVE_FILES
    required = set(paths)
    found = [p for p in _paths(history.entries(operations, [DELETED], where)) if p in required]
    _refuse("Cannot commit, missing data files", found, history)


def no_new_delete_files(history: History, where: Predicate) -> None:
    found = [f.file_path for f in added_delete_files(history, where)]
    _refuse(f"Found new conflicting delete files that can apply to records matching {where}", found, history)


def no_new_delete_files_in(history: History, partitions: Collection[PartitionKey]) -> None:
    keys = set(partitions)
    found = [f.file_path for f in added_delete_files(history, None) if partition_key(f.spec_id, f.partition) in keys]
    _refuse(f"Found new conflicting delete files that can apply to records matching {_shown(history, partitions)}", found, history)


@dataclass(frozen=True)
class AddedDelete:
    """What a check needs of a delete file that appeared since the start."""

    file_path: str
    content: int
    sequence_number: int
    spec_id: int
    partition: tuple[Any, ...]
    referenced_data_file: str | None
    is_dv: bool
    unpartitioned: bool

    def may_apply_to(self, f: DataFile) -> bool:
        """A file named by the delete, else one of its partition; an unpartitioned equality delete reaches all (bounds are not asked)."""
        if self.referenced_data_file is not None:
            return self.referenced_data_file == f.file_path
        if self.content == DataFileContent.EQUALITY_DELETES and self.unpartitioned:
            return True
        return partition_key(self.spec_id, self.partition) == partition_key(f.spec_id, f.partition)


def added_delete_files(history: History, where: Predicate | None, operations: Collection[str] = ADD_DELETE_FILES) -> list[AddedDelete]:
    """Delete files added since the start whose partition can hold rows matching `where`."""
    md = history.metadata
    if history.parent is None or md.format_version < 2:
        return []
    manifests, _ = history.manifests(operations, ManifestContent.DELETES)
    chosen = None if where is None else manifests_that_may_match(manifests, where, md.schema(), md, history.case_sensitive)
    after = history.starting_sequence_number()
    found = []
    for m in manifests:
        if chosen is not None and m.manifest_path not in chosen:
            continue
        table = read_manifest(history.storage, m)
        keep = pc.and_(pc.not_equal(table["status"], int(DELETED)), pc.greater(pc.fill_null(table["sequence_number"], 0), after))
        if where is not None:
            outcomes = file_outcomes(table, where, md.schema(), md, m.partition_spec_id, history.case_sensitive, partition_only=True)
            keep = pc.and_(keep, pa.array((outcomes & TRUE) != 0))
        spec = md.spec_by_id(m.partition_spec_id)
        for row in table.filter(keep).to_pylist():
            found.append(AddedDelete(
                row["file_path"], row["content"], row["sequence_number"], m.partition_spec_id, tuple((row["partition"] or {}).values()),
                row["referenced_data_file"], row["file_format"] == "puffin", spec.is_unpartitioned,
            ))  # fmt: skip
    return found


def no_new_deletes_for(
    history: History, files: Collection[DataFile], where: Predicate | None = None, ignore_equality: bool = False
) -> None:
    """No delete that applies to one of the files was added. `ignore_equality`: the rewritten files keep their sequence number."""
    if history.parent is None or not files:
        return
    new = added_delete_files(history, where)
    kind = "position delete" if ignore_equality else "delete"
    for f in files:
        hit = any(d.may_apply_to(f) and not (ignore_equality and d.content == DataFileContent.EQUALITY_DELETES) for d in new)
        if hit:
            raise ValidationException(
                f"Cannot commit, found new {kind} for replaced data file: {f.file_path}",
                hint="Read the table again and repeat the operation.", table=history.metadata.location, file=f.file_path,
            )  # fmt: skip


def no_added_vectors(history: History, referenced: Collection[str], where: Predicate | None = None) -> None:
    """No deletion vector for one of the data files was added."""
    wanted = set(referenced)
    if history.parent is None or not wanted:
        return
    for d in added_delete_files(history, where, ADD_VECTORS):
        if d.is_dv and d.referenced_data_file in wanted:
            raise ValidationException(
                f"Found concurrently added DV for {d.referenced_data_file}: {d.file_path}",
                hint="Read the table again and repeat the operation.", table=history.metadata.location, file=d.referenced_data_file,
            )  # fmt: skip
