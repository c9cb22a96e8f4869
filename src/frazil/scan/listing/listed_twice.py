"""Refuse to change rows of a data file that a snapshot lists twice: what is removed or deleted by
the file's path is removed for both entries, of which a change may mean one.

Such a snapshot is what `add_files` with `check_duplicate_files=False` leaves, and a job that added
its files a second time. Reads give the rows of such a file twice.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import CorruptData
from frazil.expr.building import from_numpy
from frazil.scan.delete_ranges import normalised
from frazil.scan.manifests import column_of
from frazil.scan.tasks import PlannedFiles
from frazil.spec.metadata import TableMetadata
from frazil.spec.snapshot import Snapshot

_FEW = 2000  # paths; so few are compared without hashing
# bytes at the end of a path, enough to tell nearly all files apart: names that Java gives have at
# least 58
_SUFFIX = 64
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
Numbers = npt.NDArray[np.int64]


def refuse_files_listed_twice(
    groups: Sequence[PlannedFiles], metadata: TableMetadata, snapshot: Snapshot
) -> None:
    """Raise CorruptData, which names the file, the snapshot, and the snapshots that added the file.
    Checking 100,000 files takes 7 ms.
    """
    groups = [g for g in groups if len(g)]
    if not groups:
        return
    paths = pa.concat_arrays([column_of(g.table, "file_path") for g in groups])
    rows = rows_of_a_repeated_path(paths)
    if not len(rows):
        return
    path = paths[int(rows[0])].as_py()
    added_by = (
        pa.concat_arrays([column_of(g.table, "snapshot_id") for g in groups])
        .take(from_numpy(rows))
        .to_pylist()
    )
    snapshots = [s for s in map(metadata.snapshots.by_id, dict.fromkeys(added_by)) if s is not None]
    again = (
        max(snapshots, key=lambda s: (s.sequence_number or 0, s.timestamp_ms))
        if len(set(added_by)) > 1 and snapshots
        else None
    )
    before = again.parent_snapshot_id if again is not None else None
    hint = "Overwrite the table with its own rows (INSERT OVERWRITE), which gives each entry a file of its own, "
    hint += "or go back to an older snapshot with manage_snapshots().set_current_snapshot(…)."
    if before is not None:
        hint = f"Snapshot {before} is the last one before the file was added again: go back to it with "
        hint += f"manage_snapshots().set_current_snapshot({before}).commit(), or overwrite the table with its own rows "
        hint += "(INSERT OVERWRITE), which gives each entry a file of its own."
    adders = ", ".join(str(s) for s in dict.fromkeys(added_by))
    raise CorruptData(
        f"Snapshot {snapshot.snapshot_id} of table {metadata.location} lists data file {path} {len(rows)} times (added by {adders}); its "
        "rows cannot be changed one entry at a time.",
        hint=hint,
        table=metadata.location,
        snapshot_id=snapshot.snapshot_id,
        file=path,
    )


def rows_of_a_repeated_path(paths: pa.Array) -> Numbers:
    """Find the rows of one path that occurs more than once, in any spelling (`file:/x` and `/x` are
    one file); usually there is none.
    """
    rows: Numbers = np.arange(len(paths))
    if len(paths) <= _FEW:
        if len({p.rpartition("/")[2] for p in paths.to_pylist()}) == len(paths):
            return rows[:0]
    else:
        start = _common_start(paths)
        rows = (
            _alike(paths, len(start.encode()))
            if _one_spelling(paths, start)
            else _alike(normalised(paths), 0)
        )
    if not len(rows):
        return rows
    some = normalised(paths.take(from_numpy(rows))).dictionary_encode().indices.to_numpy()
    counts = np.bincount(some)
    return rows[some == int(counts.argmax())] if counts.max() > 1 else rows[:0]


def _common_start(paths: pa.Array) -> str:
    """Return the text with which all paths begin: that with which the first and the last of them in
    order do.
    """
    ends = pc.min_max(paths).as_py()
    common = itertools.takewhile(
        lambda pair: pair[0] == pair[1], zip(ends["min"], ends["max"], strict=False)
    )
    return "".join(first for first, _ in common)


def _one_spelling(paths: pa.Array, start: str) -> bool:
    """Tell whether no file can be listed under two spellings: all paths share a scheme and a
    prefix, no other slash is doubled, and none has a `/./`. `start`: the text with which all of
    them begin."""
    scheme, slash, rest = start.partition("/")
    if not slash or (scheme and not rest.strip("/")):
        return False
    data = np.frombuffer(paths.buffers()[2], np.uint8)[_edges(paths)[0] : _edges(paths)[-1]]
    own = sum(start.startswith("//", offset) for offset in range(len(start)))
    return _count(b"//", data) == own * len(paths) and not (
        _count(b"/.", data) and b"/./" in data.tobytes()
    )


def _count(pair: bytes, data: npt.NDArray[np.uint8]) -> int:
    """Count the places where two bytes follow each other; those at even and those at odd places are
    compared as numbers of two bytes.
    """
    number = int.from_bytes(pair, "little")
    return sum(
        int(
            np.count_nonzero(
                data[first : len(data) - (len(data) - first) % 2].view("<u2") == number
            )
        )
        for first in (0, 1)
    )


def _alike(paths: pa.Array, start: int) -> Numbers:
    """Find the rows whose paths may be equal, by a hash of the last bytes of each path; all begin
    with the same `start` bytes.
    """
    edges = _edges(paths).astype(np.int64)
    begins, ends = edges[:-1], edges[1:]
    lengths = ends - begins
    shortest = int(lengths.min())
    if shortest < 8:
        return np.arange(len(paths))
    data = paths.buffers()[2]
    words = np.ndarray((data.size - 7,), "<u8", data, strides=(1,))
    hashes = np.zeros(len(paths), np.uint64)
    different = max(1, min(_SUFFIX, int(lengths.max()) - start))
    for distance in range(8, different + 8, 8):
        places = ends - distance
        hashes ^= words[places if distance <= shortest else np.maximum(places, begins)]
        hashes *= _FACTOR
    in_order = np.sort(hashes)
    repeated = in_order[1:][in_order[1:] == in_order[:-1]]
    return np.flatnonzero(np.isin(hashes, repeated)) if len(repeated) else np.zeros(0, np.int64)


def _edges(paths: pa.Array) -> npt.NDArray[np.int32]:
    """Return the offset of each path in the bytes of all paths, and the end of the last one."""
    return np.frombuffer(paths.buffers()[1], np.int32)[paths.offset : paths.offset + len(paths) + 1]
