"""Add and remove existing data files one by one, as one snapshot: PyIceberg's
`transaction.update_snapshot()`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self

from frazil.errors import InvalidInput, Unsupported
from frazil.ops import stage
from frazil.ops.in_process import IN_PROCESS
from frazil.ops.operation import TableOperation
from frazil.ops.reading import RowFilter
from frazil.ops.stage import FileChanges
from frazil.ops.target import WriteArguments
from frazil.spec.manifest import DataFile


class SnapshotFiles:
    """Collect data files to add and to remove. At the end of the block, or by `commit()`, they
    become one snapshot of the transaction.
    """

    def __init__(
        self, commit: Callable[[FileChanges], None], adds: bool, removes: bool, merges: bool
    ):
        self._commit, self._adds, self._removes, self._merges = commit, adds, removes, merges
        self._added: list[DataFile] = []
        self._removed: list[DataFile] = []

    def append_data_file(self, data_file: DataFile) -> Self:
        """Add an existing data file, by its entry with metrics, as
        `frazil.io.pyarrow.parquet_files_to_data_files` makes it.
        """
        if not self._adds:
            raise InvalidInput(
                "delete() only removes files.",
                hint="update_snapshot().overwrite() adds files as well.",
            )
        self._added.append(data_file)
        return self

    def delete_data_file(self, data_file: DataFile) -> Self:
        """Remove a data file from the table, by its entry, as `scan.plan_files()` returns it in
        `task.file`.
        """
        if not self._removes:
            raise InvalidInput(
                "An append only adds files.",
                hint="update_snapshot().overwrite() removes files as well.",
            )
        self._removed.append(data_file)
        return self

    def delete_by_predicate(self, predicate: RowFilter, case_sensitive: bool = True) -> Self:
        """Raise Unsupported: files are named one by one here."""
        raise Unsupported(
            "update_snapshot() takes files, not predicates.",
            hint="Use transaction.delete(predicate) to delete rows.",
        )

    def commit(self) -> None:
        """Stage the snapshot; it is committed with the rest of the transaction."""
        self._commit(FileChanges(tuple(self._added), tuple(self._removed), self._merges))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.commit()


class UpdateSnapshot:
    """Choose the kind of snapshot: `with tx.update_snapshot().fast_append() as files:
    files.append_data_file(f)`.
    """

    def __init__(self, operation: TableOperation, arguments: WriteArguments):
        self._operation, self._arguments = operation, arguments

    def _files(self, adds: bool, removes: bool, merges: bool = True) -> SnapshotFiles:
        def commit(changes: FileChanges) -> None:
            operation = self._operation
            operation.add(
                stage.add_and_remove_files(
                    changes, operation.target(self._arguments, IN_PROCESS), operation.base.metadata
                )
            )

        return SnapshotFiles(commit, adds, removes, merges)

    def fast_append(self) -> SnapshotFiles:
        """Add files in a manifest of their own."""
        return self._files(adds=True, removes=False, merges=False)

    def merge_append(self) -> SnapshotFiles:
        """Add files, and merge small manifests as the properties commit.manifest.… say."""
        return self._files(adds=True, removes=False)

    def overwrite(self) -> SnapshotFiles:
        """Add files and remove others."""
        return self._files(adds=True, removes=True)

    def delete(self) -> SnapshotFiles:
        """Remove files."""
        return self._files(adds=False, removes=True)
