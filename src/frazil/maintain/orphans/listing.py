"""List the files below a directory in parallel and in batches, without those that clean-ups pass
over.

Names that begin with `_` or `.` are hidden, with all that lies below them, as in Java's clean-up:
success files, archives of partition commits, checksums, files that Spark is writing. Directories of
partition fields whose names begin so are not hidden, and neither are the temporary files of
Frazil's own, which a process that was killed leaves behind.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.expr.building import column, from_numpy
from frazil.scan.manifests import each
from frazil.spec.metadata import TableMetadata
from frazil.storage import FileInfo, Storage
from frazil.storage.base import translated_errors
from frazil.storage.locations import join

_AT_ONCE = 10_000
_TEMPORARY = re.compile(r"\..{1,100}\.[0-9a-f]{32}\.tmp")
Numbers = npt.NDArray[np.int64]
Hides = Callable[[str], bool]
Keep = Callable[["ListedFiles"], "ListedFiles"]


@dataclass(frozen=True, eq=False)
class ListedFiles:
    """Hold a batch of listed files as columns, since there may be millions: their paths, and, where
    the listing tells them, times of modification in ms since 1970 and sizes (else None). `linked`:
    the files that symbolic links in the directory lead to."""

    paths: pa.Array
    modified_ms: Numbers | None = None
    sizes: Numbers | None = None
    linked: Sequence[str] = ()

    def __len__(self) -> int:
        return len(self.paths)

    def take(self, places: Numbers) -> ListedFiles:
        """Return the files at these places."""
        times, sizes = (None if c is None else c[places] for c in (self.modified_ms, self.sizes))
        return ListedFiles(self.paths.take(from_numpy(places)), times, sizes)


def hidden_rule(metadata: TableMetadata) -> Hides:
    """Return the function that tells whether a name is hidden in this table."""
    shown = tuple(
        {
            f"{f.name}="
            for spec in metadata.partition_specs
            for f in spec.fields
            if f.name.startswith(("_", "."))
        }
    )

    def hides(name: str) -> bool:
        return (
            name.startswith(("_", "."))
            and not (shown and name.startswith(shown))
            and _TEMPORARY.fullmatch(name) is None
        )

    return hides


def list_files(
    storage: Storage,
    directory: str,
    hides: Hides,
    threads: int,
    by_prefix: bool = False,
    keep: Keep = lambda files: files,
) -> Iterator[ListedFiles]:
    """Yield the files below a directory that are not hidden, in no order. `by_prefix`: in one
    listing of everything below, not directory by directory; local disks have no such listing.
    `keep`: what is left of each batch, called in threads, so that a directory of a million files is
    never held as a whole. Symbolic links to directories are not followed. Raises StorageError."""
    local = storage.local_path(directory) is not None
    if by_prefix and not local:
        yield from map(keep, _by_prefix(storage, directory, hides))
        return

    def list_directory(place: str) -> tuple[list[str], list[ListedFiles]]:
        directories: list[str] = []
        batches = (
            _local(storage, place, hides, directories)
            if local
            else _of_store(storage, place, hides, directories)
        )
        return directories, [remaining for remaining in map(keep, batches) if len(remaining)]

    level = [directory.rstrip("/") or "/"]
    while level:
        below: list[str] = []
        for directories, files in each(list_directory, level, threads):
            below += directories
            yield from files
        level = below


def _local(
    storage: Storage, place: str, hides: Hides, directories: list[str]
) -> Iterator[ListedFiles]:
    """List a directory by its entries alone, and collect the directories in it; times and sizes
    would need a look at each file.
    """
    files, linked, start = list[str](), list[str](), "/" if place == "/" else f"{place}/"
    path = storage.local_path(place)
    with translated_errors(place, "list"):
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    name = entry.name
                    if name[0] in "_." and hides(name):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        directories.append(start + name)
                    elif not entry.is_symlink():
                        files.append(start + name)
                    elif not entry.is_dir():
                        files.append(start + name)
                        linked.append(os.path.realpath(entry.path))
                    if len(files) == _AT_ONCE:
                        yield ListedFiles(column(files, pa.string()), linked=linked)
                        files, linked = [], []
        except (
            FileNotFoundError,
            NotADirectoryError,
        ):
            # removed since the directory above was listed
            return
    yield ListedFiles(column(files, pa.string()), linked=linked)


def with_times(storage: Storage, files: ListedFiles) -> ListedFiles:
    """Add times of modification and sizes to local files; one that is gone counts as modified just
    now.
    """
    if files.modified_ms is not None:
        return files
    times, sizes = np.full(len(files), 2**63 - 1, np.int64), np.zeros(len(files), np.int64)
    for begin in range(0, len(files), _AT_ONCE):
        for row, path in enumerate(files.paths.slice(begin, _AT_ONCE).to_pylist(), begin):
            with contextlib.suppress(OSError):
                state = os.stat(storage.local_path(path) or path)
                times[row], sizes[row] = state.st_mtime_ns // 1_000_000, state.st_size
    return ListedFiles(files.paths, times, sizes)


def _of_store(
    storage: Storage, place: str, hides: Hides, directories: list[str]
) -> Iterator[ListedFiles]:
    names, files = storage.entries(place)
    directories += [join(place, name) for name in names if not hides(name)]
    yield _listed([f for f in files if not hides(f.location.rpartition("/")[2])])


def _by_prefix(storage: Storage, directory: str, hides: Hides) -> Iterator[ListedFiles]:
    infos: list[FileInfo] = []
    # whether something in the path of a directory is hidden
    hidden_by_directory: dict[str, bool] = {}
    begin = len(directory.rstrip("/")) + 1
    for info in storage.list(directory):
        above, _, name = info.location[begin:].rpartition("/")
        if above not in hidden_by_directory:
            hidden_by_directory[above] = any(map(hides, above.split("/"))) if above else False
        if not hidden_by_directory[above] and not hides(name):
            infos.append(info)
        if len(infos) == _AT_ONCE:
            yield _listed(infos)
            infos = []
    if infos:
        yield _listed(infos)


def _listed(files: list[FileInfo]) -> ListedFiles:
    times, sizes = (
        np.fromiter(values, np.int64, len(files))
        for values in ((f.modified_ms for f in files), (f.size for f in files))
    )
    return ListedFiles(column([f.location for f in files], pa.string()), times, sizes)
