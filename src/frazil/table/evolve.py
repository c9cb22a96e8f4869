"""Update a table's schema, branches, tags and data files: `with t.update_schema() as update:
update.add_column(…)`.

Each update is a context manager that commits once, at the end of its block.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from frazil.commit.actions import MetadataChange
from frazil.commit.evolve.evolve_schema import SchemaChanges
from frazil.commit.evolve.manage_snapshots import ManageSnapshots
from frazil.errors import FrazilError, InvalidInput, Unsupported
from frazil.ops import stage
from frazil.ops.in_process import IN_PROCESS
from frazil.ops.operation import TableOperation, naming
from frazil.ops.reading import RowFilter
from frazil.ops.stage import FileChanges
from frazil.ops.table_definition import GivenSchema
from frazil.ops.target import WriteArguments
from frazil.spec.manifest import DataFile
from frazil.table.create import schema_of


class UpdateSchema(SchemaChanges):
    """Change the columns of a table: `update.add_column("x", "bigint").rename_column("y", "z")`.
    Every method returns self, so that calls can be chained."""

    def union_by_name(self, new_schema: GivenSchema) -> UpdateSchema:
        """Add the columns that the table lacks; widen the types of others and make them nullable
        where the new schema asks for it.

        `new_schema`: as for `Catalog.create_table`.
        """
        super().union_by_name(schema_of(new_schema))
        return self


T = TypeVar("T")


class Updating(Generic[T]):
    """Collect the calls of an update and commit them: at the end of the block as a context manager,
    or by `commit()`.

    Outside a `with` block the methods of the update are called on this object:
    `t.update_schema().add_column("x", LongType()).commit()`.
    """

    def __init__(self, operation: TableOperation, update: T, commit_at_end: bool = True):
        self._operation, self._update, self._commit_at_end = operation, update, commit_at_end

    def __enter__(self) -> T:
        return self._update

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.commit()
        elif isinstance(error, FrazilError):
            error.of_table(self._operation.name, self._operation.metadata.location)

    def commit(self) -> None:
        """Commit the update; inside a transaction it is staged, and committed with the rest of it."""
        update = self._update
        with self._naming():
            if isinstance(update, ManageSnapshots):
                self._operation.stage(*update.steps)
            else:
                self._operation.stage(MetadataChange(update.updates))  # type: ignore[attr-defined]
        if self._commit_at_end:
            self._operation.commit()

    def _naming(self) -> AbstractContextManager[None]:
        return naming(self._operation.name, self._operation.metadata.location)

    def __dir__(self) -> list[str]:
        """List the calls of the update beside `commit`, for completion."""
        return sorted(
            {*(n for n in dir(self._update) if not n.startswith("_")), *super().__dir__()}
        )

    def __repr__(self) -> str:
        calls = [
            n
            for n in dir(self._update)
            if not n.startswith("_") and callable(getattr(self._update, n))
        ]
        what = f"{type(self._update).__name__} of {self._operation.name}"
        return f"{what}, committed by commit() or at the end of a with block: {', '.join(calls)}"

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._update, name)

        def call(*arguments: object, **named: object) -> Any:
            with self._naming():
                answer = method(*arguments, **named)
            return self if answer is self._update else answer

        return call


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
