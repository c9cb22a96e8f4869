"""Build the key index of a MERGE source that is too large for memory: the arrays of `KeyIndex`, in
memory-mapped files.

Pairs of hash and row number are scattered to files by the first bits of the hash; each file is
sorted in memory and appended to the index. Only for rows with equal hashes are the keys themselves
read from the source.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.arrow.deletes.key_set import hash_columns
from frazil.rows.key_index import KeyIndex, Rows, buckets_of, is_exact, runs_of, usable_rows
from frazil.storage.base import temporary_files

PARTS = 64
_PAIR = np.dtype([("hash", np.uint64), ("row", np.int64)])


def index_on_disk(
    batches: Iterable[Sequence[pa.Array]],
    null_safe: Sequence[bool],
    keys_at: Callable[[Rows], Sequence[pa.Array]],
    candidates: npt.NDArray[np.bool_] | None = None,
) -> KeyIndex:
    """Build the index. `batches`: comparable keys of the source, in the order of its rows.
    `candidates`: a flag per row to take (None: all)."""
    with temporary_files():
        folder = tempfile.mkdtemp(prefix="frazil-index-")
    with temporary_files(folder):
        return _index_in(folder, batches, null_safe, keys_at, candidates)


def _index_in(
    folder: str,
    batches: Iterable[Sequence[pa.Array]],
    null_safe: Sequence[bool],
    keys_at: Callable[[Rows], Sequence[pa.Array]],
    candidates: npt.NDArray[np.bool_] | None,
) -> KeyIndex:
    """Build the index in a folder, which is removed together with the index, or at once if the
    index cannot be built.
    """
    try:
        types = _scatter(batches, null_safe, candidates, folder)
        hashes, begins, rows = _gathered(folder)
        starts, shift = buckets_of(hashes)
        index = KeyIndex(
            keys_at,
            tuple(null_safe),
            hashes,
            begins,
            rows,
            starts,
            shift,
            is_exact(types, null_safe),
        )
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(index, shutil.rmtree, folder, True)
    return index


def _scatter(
    batches: Iterable[Sequence[pa.Array]],
    null_safe: Sequence[bool],
    candidates: npt.NDArray[np.bool_] | None,
    folder: str,
) -> list[pa.DataType]:
    """Write pairs of hash and row number to the file of their part; return the types of the keys."""
    types: list[pa.DataType] = []
    files = [open(_part(folder, i), "wb") for i in range(PARTS)]  # noqa: SIM115 (closed below)
    try:
        first = 0
        for keys in batches:
            types = [k.type for k in keys]
            usable, count = usable_rows(keys, null_safe), len(keys[0])
            if candidates is not None:
                usable = usable[candidates[first + usable]]
            pairs = np.empty(len(usable), _PAIR)
            pairs["hash"], pairs["row"] = (
                hash_columns([k.take(pa.array(usable)) for k in keys]),
                first + usable,
            )
            first += count
            parts = (pairs["hash"] >> np.uint64(58)).astype(np.uint8)
            order = np.argsort(parts, kind="stable")
            edges = np.searchsorted(parts[order], np.arange(PARTS + 1))
            for file, begin, end in zip(files, edges, edges[1:], strict=False):
                file.write(pairs[order[begin:end]].tobytes())
    finally:
        for file in files:
            file.close()
    return types


def _gathered(folder: str) -> tuple[npt.NDArray[np.uint64], Rows, Rows]:
    """Sort the parts one after another into three memory-mapped files."""
    names = [os.path.join(folder, n) for n in ("hashes", "begins", "rows")]
    total = 0
    with (
        open(names[0], "wb") as to_hashes,
        open(names[1], "wb") as to_begins,
        open(names[2], "wb") as to_rows,
    ):
        for number in range(PARTS):
            pairs = np.fromfile(_part(folder, number), _PAIR)
            os.unlink(_part(folder, number))
            hashes, begins, rows = runs_of(pairs["hash"], pairs["row"])
            to_hashes.write(hashes.tobytes())
            to_begins.write((begins[:-1].astype(np.int64) + total).tobytes())
            to_rows.write(rows.astype(np.int64).tobytes())
            total += len(rows)
        to_begins.write(np.array([total], np.int64).tobytes())
    return _mapped(names[0], np.uint64), _mapped(names[1], np.int64), _mapped(names[2], np.int64)


def _part(folder: str, number: int) -> str:
    return os.path.join(folder, f"part-{number:02d}")


def _mapped(name: str, type_: Any) -> npt.NDArray[Any]:
    return np.memmap(name, type_, "r") if os.path.getsize(name) else np.zeros(0, type_)
