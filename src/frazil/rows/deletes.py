"""Places of deleted rows as delete files of v2 or deletion vectors of v3, together with those that were there before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from frazil.arrow.deletes.delete_files import Positions, positions_of
from frazil.arrow.deletes.write_deletes import FileDeletes, write_position_deletes
from frazil.arrow.deletes.write_vectors import write_vectors
from frazil.arrow.read.read_context import ReadContext
from frazil.arrow.write.write_context import WriteContext
from frazil.rows.found import union
from frazil.scan.tasks import FileScanTask
from frazil.spec.data_file import DataFile, DataFileContent


@dataclass(frozen=True, eq=False)
class Gone:
    """Rows that leave a data file by their places: ascending, each once, none of them deleted by position before."""

    task: FileScanTask
    positions: Positions


@dataclass(frozen=True)
class WrittenDeletes:
    """`removed`: data files all of whose rows are gone; they need no delete. `referenced`: data files that the new deletes are about."""

    removed: tuple[DataFile, ...]
    added_deletes: tuple[DataFile, ...]
    removed_deletes: tuple[DataFile, ...]
    referenced: frozenset[str]


def delete_files(gone: Sequence[Gone], write: WriteContext, read: ReadContext, version: int, granularity: str) -> WrittenDeletes:
    """v3: one vector a data file, with all positions deleted before. v2, one file a data file: with those of its former own file."""
    removed: list[DataFile] = []
    replaced: list[DataFile] = []
    found: list[FileDeletes] = []
    for g in gone:
        file = g.task.file
        own, shared = _before(g.task)
        may_be_all = len(g.positions) + _most(own, shared) >= file.record_count
        known = _positions(file, (*own, *shared), read) if version >= 3 or may_be_all else g.positions[:0]
        everything = union(known, g.positions)
        if len(everything) == file.record_count:
            removed.append(file)
            continue
        if version < 3:
            everything = union(_positions(file, own, read), g.positions) if own and granularity == "file" else g.positions
        if version >= 3 or granularity == "file":
            replaced += own
        found.append(FileDeletes(file, everything))
    if not found:
        return WrittenDeletes(tuple(removed), (), (), frozenset())
    added = write_vectors(found, write) if version >= 3 else write_position_deletes(found, write, granularity=granularity)
    return WrittenDeletes(tuple(removed), tuple(added), tuple(replaced), frozenset(f.file.file_path for f in found))


def _before(task: FileScanTask) -> tuple[list[DataFile], list[DataFile]]:
    """Position deletes of the data file that are about it alone, and those that other data files share."""
    positional = [d for d in task.delete_files if d.content == DataFileContent.POSITION_DELETES]
    own = [d for d in positional if d.referenced_data_file is not None]
    return own, [d for d in positional if d.referenced_data_file is None]


def _most(own: Sequence[DataFile], shared: Sequence[DataFile]) -> int:
    """At most so many rows are deleted already."""
    return sum(d.record_count for d in (*own, *shared))


def _positions(file: DataFile, deletes: Sequence[DataFile], read: ReadContext) -> Positions:
    return positions_of(file, deletes, read.storage, read.delete_cache)
