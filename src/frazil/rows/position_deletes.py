"""Write positions of deleted rows to position delete files (v2) or deletion vectors (v3), merged
with the deletes that exist already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from frazil.arrow.deletes.delete_files import Positions, positions_of
from frazil.arrow.deletes.write_deletes import FileDeletes, write_position_deletes, write_vectors
from frazil.arrow.read.read_context import ReadContext
from frazil.arrow.write.write_context import WriteContext
from frazil.codec.sorted_numbers import union
from frazil.scan.tasks import FileScanTask
from frazil.spec.manifest import DataFile, DataFileContent


@dataclass(frozen=True, eq=False)
class Gone:
    """Hold the positions to delete from a data file: ascending, each once, none of them deleted by
    position before.
    """

    task: FileScanTask
    positions: Positions


@dataclass(frozen=True)
class WrittenDeletes:
    """Hold the delete files written. `removed`: data files of which all rows are deleted, so that
    the files are removed instead. `referenced`: paths of the data files to which the new deletes
    apply."""

    removed: tuple[DataFile, ...]
    added_deletes: tuple[DataFile, ...]
    removed_deletes: tuple[DataFile, ...]
    referenced: frozenset[str]


def delete_files(
    gone: Sequence[Gone], write: WriteContext, read: ReadContext, version: int, granularity: str
) -> WrittenDeletes:
    """Write the deletes of some data files. v3: one deletion vector per data file, which includes
    all positions deleted before. v2 with granularity "file": one delete file per data file, which
    includes the positions of the delete file that it replaces."""
    removed: list[DataFile] = []
    replaced: list[DataFile] = []
    to_write: list[FileDeletes] = []
    for deleted in gone:
        file = deleted.task.file
        own, shared = _before(deleted.task)
        most_before = sum(d.record_count for d in (*own, *shared))
        may_be_all = len(deleted.positions) + most_before >= file.record_count
        deleted_before = (
            _positions(file, (*own, *shared), read)
            if version >= 3 or may_be_all
            else deleted.positions[:0]
        )
        everything = union(deleted_before, deleted.positions)
        if len(everything) == file.record_count:
            removed.append(file)
            continue
        if version < 3:
            everything = (
                union(_positions(file, own, read), deleted.positions)
                if own and granularity == "file"
                else deleted.positions
            )
        if version >= 3 or granularity == "file":
            replaced += own
        to_write.append(FileDeletes(file, everything))
    if not to_write:
        return WrittenDeletes(tuple(removed), (), (), frozenset())
    added = (
        write_vectors(to_write, write)
        if version >= 3
        else write_position_deletes(to_write, write, granularity=granularity)
    )
    return WrittenDeletes(
        tuple(removed), tuple(added), tuple(replaced), frozenset(f.file.file_path for f in to_write)
    )


def _before(task: FileScanTask) -> tuple[list[DataFile], list[DataFile]]:
    """Split the position deletes of a data file into those that apply to it alone, and those that
    it shares with other data files.
    """
    positional = [d for d in task.delete_files if d.content == DataFileContent.POSITION_DELETES]
    own = [d for d in positional if d.referenced_data_file is not None]
    return own, [d for d in positional if d.referenced_data_file is None]


def _positions(file: DataFile, deletes: Sequence[DataFile], read: ReadContext) -> Positions:
    return positions_of(file, deletes, read.storage, read.delete_cache)
