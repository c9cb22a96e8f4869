"""A snapshot that lists a data file twice: its rows would be there twice, deletes of one entry would not be those of the other.

Frazil refuses to read it. Other engines give the rows twice without a word, which is what a job that added its files again looks like.
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

_FEW = 2000  # paths that are simply compared
_SUFFIX = 64  # bytes at the end of a path that tell nearly all files apart: a Java name has 58 and more
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
Numbers = npt.NDArray[np.int64]


def refuse_files_listed_twice(groups: Sequence[PlannedFiles], metadata: TableMetadata, snapshot: Snapshot) -> None:
    """Raises CorruptData that names the file, the snapshot, and the snapshots that added the file. 100,000 files take 15 ms."""
    groups = [g for g in groups if len(g)]
    if not groups:
        return
    paths = pa.concat_arrays([column_of(g.table, "file_path") for g in groups])
    rows = rows_of_a_repeated_path(paths)
    if not len(rows):
        return
    path = paths[int(rows[0])].as_py()
    added_by = pa.concat_arrays([column_of(g.table, "snapshot_id") for g in groups]).take(from_numpy(rows)).to_pylist()
    known = [s for s in map(metadata.snapshots.by_id, dict.fromkeys(added_by)) if s is not None]
    again = max(known, key=lambda s: (s.sequence_number or 0, s.timestamp_ms)) if len(set(added_by)) > 1 and known else None
    before = again.parent_snapshot_id if again is not None else None
    hint = "Read an older snapshot (snapshot_id=…), or go back to one with manage_snapshots().set_current_snapshot(…)."
    if before is not None:
        hint = f"Snapshot {before} is the one before it was added again: read it (snapshot_id={before}) and overwrite the table with its "
        hint += f"rows, or go back to it with manage_snapshots().set_current_snapshot({before}).commit()."
    told = ", ".join(str(s) for s in dict.fromkeys(added_by))
    raise CorruptData(
        f"Snapshot {snapshot.snapshot_id} of table {metadata.location} lists data file {path} {len(rows)} times (added by {told}), which "
        "would give its rows as often.",
        hint=hint, table=metadata.location, snapshot_id=snapshot.snapshot_id, file=path,
    )  # fmt: skip


def rows_of_a_repeated_path(paths: pa.Array) -> Numbers:
    """The places of one path that occurs more than once, in whatever spelling (`file:/x` and `/x` are one file); none as a rule."""
    rows: Numbers = np.arange(len(paths))
    if len(paths) > _FEW:
        rows = _alike(paths if _one_spelling(paths) else normalised(paths))
    if not len(rows):
        return rows
    some = normalised(paths.take(from_numpy(rows))).dictionary_encode().indices.to_numpy()
    counts = np.bincount(some)
    return rows[some == int(counts.argmax())] if counts.max() > 1 else rows[:0]


def _one_spelling(paths: pa.Array) -> bool:
    """Whether no file can stand here under two names: all begin alike, scheme and all, and no further slash is doubled."""
    ends = pc.min_max(paths).as_py()
    both = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(ends["min"], ends["max"], strict=False))
    start = "".join(first for first, _ in both)
    scheme, slash, rest = start.partition("/")
    if not slash or (scheme and not rest.strip("/")):
        return False
    data = np.frombuffer(paths.buffers()[2], np.uint8)[_edges(paths)[0] : _edges(paths)[-1]]
    doubled = sum(int(np.count_nonzero(data[at : len(data) - (len(data) - at) % 2].view("<u2") == 0x2F2F)) for at in (0, 1))
    own = sum(start.startswith("//", at) for at in range(len(start)))
    return doubled == own * len(paths)


def _alike(paths: pa.Array) -> Numbers:
    """Places whose paths may be equal, told by a hash of their ends."""
    edges = _edges(paths).astype(np.int64)
    begins, ends = edges[:-1], edges[1:]
    if int((ends - begins).min()) < 8:
        return np.arange(len(paths))
    data = paths.buffers()[2]
    words = np.ndarray((data.size - 7,), "<u8", data, strides=(1,))
    hashes = np.zeros(len(paths), np.uint64)
    for at in range(8, _SUFFIX + 1, 8):
        hashes = (hashes ^ words[np.maximum(ends - at, begins)]) * _FACTOR
    in_order = np.sort(hashes)
    repeated = in_order[1:][in_order[1:] == in_order[:-1]]
    return np.flatnonzero(np.isin(hashes, repeated)) if len(repeated) else np.zeros(0, np.int64)


def _edges(paths: pa.Array) -> npt.NDArray[np.int32]:
    """Where each text begins among the bytes of all, and where the last one ends."""
    return np.frombuffer(paths.buffers()[1], np.int32)[paths.offset : paths.offset + len(paths) + 1]
