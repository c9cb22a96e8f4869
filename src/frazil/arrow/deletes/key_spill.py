"""Spill sets of keys that are too large for memory to disk: split by hash into parts, each a sorted
set that is memory-mapped.

A lookup loads the pages that it touches into the system's page cache, which drops them under memory
pressure. The files are unlinked once they are mapped, so they disappear with the process, however
it ends.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.arrow.deletes.key_set import Flags, KeySet, hash_columns
from frazil.storage.base import temporary_files

PART = 64 * 1024 * 1024  # bytes per part, which is sorted in memory
_PARTS = 256  # files open at once, at most


@dataclass(frozen=True, eq=False)
class SpilledKeys:
    """Hold a set of keys in parts on disk, with the methods of a `KeySet`. Part i holds the keys
    whose hash ends in i; None: empty.
    """

    parts: tuple[KeySet | None, ...]

    @classmethod
    def of(cls, batches: Iterable[Sequence[pa.Array]], size: int) -> SpilledKeys:
        """Make a set of batches of canonical columns. `size`: about how many bytes all of them
        take.
        """
        count = 1 << min(_PARTS, max(2, -(-size // PART)) - 1).bit_length()
        prefix = "frazil-keys-"
        with (
            temporary_files(),
            tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as place,
            temporary_files(place),
        ):
            written = _split(batches, count, Path(place))
            return cls(tuple(_mapped(p) if p is not None else None for p in written))

    def __len__(self) -> int:
        return sum(len(p) for p in self.parts if p is not None)

    @property
    def nbytes(self) -> int:
        """Estimate the bytes of memory that the system cannot take back: next to none."""
        return 1000 * len(self.parts)

    def has(self, columns: Sequence[pa.Array]) -> Flags:
        """Flag the rows of these canonical columns that are keys of the set."""
        flags = np.zeros(len(columns[0]), bool)
        where = _places(columns, len(self.parts))
        for n in np.unique(where):
            if (part := self.parts[n]) is not None:
                rows = np.flatnonzero(where == n)
                flags[rows] = part.has([c.take(pa.array(rows)) for c in columns])
        return flags


def _places(columns: Sequence[pa.Array], count: int) -> npt.NDArray[np.int64]:
    return (hash_columns(columns) & np.uint64(count - 1)).astype(np.int64)


def _split(batches: Iterable[Sequence[pa.Array]], count: int, place: Path) -> list[Path | None]:
    """Write the keys of each part to a file of its own."""
    paths: list[Path | None] = [None] * count
    writers: list[pa.RecordBatchWriter | None] = [None] * count
    with ExitStack() as stack:
        for columns in batches:
            where = _places(columns, count)
            order = np.argsort(where, kind="stable")
            batch = pa.RecordBatch.from_arrays(
                list(columns), names=[str(i) for i in range(len(columns))]
            ).take(pa.array(order))
            ends = np.searchsorted(where[order], np.arange(count + 1))
            for n in np.unique(where):
                if (writer := writers[n]) is None:
                    paths[n] = path = place / f"{n}.arrows"
                    sink = stack.enter_context(pa.OSFile(str(path), "wb"))
                    writers[n] = writer = stack.enter_context(pa.ipc.new_stream(sink, batch.schema))
                writer.write_batch(batch.slice(int(ends[n]), int(ends[n + 1] - ends[n])))
    return paths


def _mapped(path: Path) -> KeySet:
    """Sort the keys of a file into a set, write the set beside the file, and map it."""
    with pa.OSFile(str(path)) as source:
        table = pa.ipc.open_stream(source).read_all().combine_chunks()
    path.unlink()
    key_set = KeySet.of([c.chunk(0) for c in table.columns])
    place = path.with_suffix(".arrow")
    with pa.OSFile(str(place), "wb") as sink:
        arrays = [*key_set.columns, pa.array(key_set.hashes)]
        columns = pa.RecordBatch.from_arrays(arrays, names=[str(i) for i in range(len(arrays))])
        with pa.ipc.new_file(sink, columns.schema) as writer:
            writer.write_batch(columns)
    np.save(path.with_suffix(".npy"), key_set.starts)
    mapped = pa.ipc.open_file(pa.memory_map(str(place))).get_batch(0)
    *keys, hashes = mapped.columns
    starts: npt.NDArray[np.int32] = np.load(path.with_suffix(".npy"), mmap_mode="r")
    return KeySet(tuple(keys), hashes.to_numpy(), starts, key_set.shift)
