"""Snapshots of data files that are there already, one by one: PyIceberg's `transaction.update_snapshot()`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from frazil.errors import InvalidInput, Unsupported
from frazil.ops import stage
from frazil.ops.in_process import IN_PROCESS
from frazil.ops.operation import TableOperation
from frazil.ops.stage import FileChanges
from frazil.ops.target import WriteArguments
from frazil.spec.data_file import DataFile


class SnapshotFiles:
    """Files to add and to remove; as a context manager, or with `commit()` at its end, they become one snapshot of the transaction."""

    def __init__(self, commit: Callable[[FileChanges], None], adds: bool, removes: bool, merges: bool):
        self._commit, self._adds, self._removes, self._merges = commit, adds, removes, merges
        self._added: list[DataFile] = []
        self._removed: list[DataFile] = []

    def append_data_file(self, data_file: DataFile) -> Self:
        """A data file that lies in the table's store, with its metrics; `frazil.io.pyarrow.parquet_files_to_data_files` makes them."""
        if not self._adds:
            raise InvalidInput("delete() only removes files.", hint="update_snapshot().overwrite() adds files as well.")
        self._added.append(data_file)
        return self

    def delete_data_file(self, data_file: DataFile) -> Self:
        """A data file of the table, as `scan.plan_files()` gives it in `task.file`."""
        if not self._removes:
            raise InvalidInput("An append only adds files.", hint="update_snapshot().overwrite() removes files as well.")
        self._removed.append(data_file)
        return self

    def delete_by_predicate(self, predicate: Any, case_sensitive: bool = True) -> Self:
        raise Unsupported("Snapshots of chosen files take no predicates.", hint="transaction.delete(predicate) deletes rows by one.")

    def commit(self) -> None:
        """Ends the snapshot; it is committed with the rest of the transaction."""
        self._commit(FileChanges(tuple(self._added), tuple(self._removed), self._merges))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        if error is None:
            self.commit()


class UpdateSnapshot:
    """Which kind of snapshot the files make: `with tx.update_snapshot().fast_append() as files: files.append_data_file(f)`."""

    def __init__(self, operation: TableOperation, arguments: WriteArguments):
        self._operation, self._arguments = operation, arguments

    def _files(self, adds: bool, removes: bool, merges: bool = True) -> SnapshotFiles:
        def commit(changes: FileChanges) -> None:
            operation = self._operation
            operation.add(stage.change_files(changes, operation.target(self._arguments, IN_PROCESS), operation.base.metadata))

        return SnapshotFiles(commit, adds, removes, merges)

    def fast_append(self) -> SnapshotFiles:
        """Adds files in a manifest of their own."""
        return self._files(adds=True, removes=False, merges=False)

    def merge_append(self) -> SnapshotFiles:
        """Adds files, and merges small manifests as the table's properties ask."""
        return self._files(adds=True, removes=False)

    def overwrite(self) -> SnapshotFiles:
        """Adds files and removes others."""
        return self._files(adds=True, removes=True)

    def delete(self) -> SnapshotFiles:
        """Removes files."""
        return self._files(adds=False, removes=True)
