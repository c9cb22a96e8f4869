"""Prune a large manifest by bounds before its other columns are read, which only the files that
bounds keep need.

That saves time only where a filter keeps few files of a manifest, and costs a second look into it
where it keeps many. A few of the manifest's blocks are therefore pruned first, as a sample. What
else is known of the files that are kept is then read from their blocks alone.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.codec.avro import Container
from frazil.codec.manifest import decode_manifest
from frazil.expr.building import from_numpy, to_numpy
from frazil.scan.manifests import (
    PLAN_COLUMNS,
    PRUNED_BY,
    STATISTICS,
    column_of,
    is_cached,
    manifest_bytes,
    read_manifest,
)
from frazil.spec.manifest import ManifestFile
from frazil.storage import Storage

Pruned = tuple[pa.Table, int, int]
LEAST_BYTES = 256 << 10  # of a manifest that is worth a sample
SAMPLED_BLOCKS = 4
FEW = 8  # a filter that keeps at most one file of so many keeps few
_SAMPLED = tuple(c for c in (*PLAN_COLUMNS, *STATISTICS) if c != "first_row_id")
_OTHERS = tuple(c for c in (*PLAN_COLUMNS, *STATISTICS) if c not in PRUNED_BY)
_ROW = "_row"


def prune_by_bounds_first(
    storage: Storage,
    manifest: ManifestFile,
    entries: Callable[[pa.Table], pa.Table],
    prune: Callable[[pa.Table], Pruned],
) -> Pruned | None:
    """Read and prune a manifest: (files that are left, skipped by partition values, skipped by
    statistics). None for one that is small, was read before, or has many files that are left.

    `entries`: the entries that are planned at all. `prune`: as `prune.file_pruner` makes it.
    """
    if manifest.manifest_length < LEAST_BYTES or is_cached(manifest):
        return None
    data = manifest_bytes(storage, manifest)
    sample = decode_manifest(data, manifest, columns=_SAMPLED, choose=_sample)
    if not _few(prune(sample)[0], sample):
        return None
    table = read_manifest(storage, manifest, PRUNED_BY, data=data)
    numbered = table.append_column(_ROW, from_numpy(np.arange(table.num_rows, dtype=np.int64)))
    left, by_partition, by_statistics = prune(entries(numbered))
    if not _few(left, table):
        return None
    rows = to_numpy(column_of(left, _ROW))
    others = decode_manifest(
        data, manifest, columns=_OTHERS, choose=lambda container: _of_rows(container, rows)
    )
    left = left.drop_columns(["_match"])
    for name in others.column_names:
        left = left.append_column(name, others.column(name))
    left, _, more = prune(left)
    return left.drop_columns([_ROW]), by_partition, by_statistics + more


def _few(left: pa.Table, table: pa.Table) -> bool:
    return bool(left.num_rows * FEW <= table.num_rows)


def _sample(container: Container) -> tuple[Container, None]:
    """Choose blocks that are spread over a file; all of them where it has few."""
    count = len(container.spans)
    spread = ((2 * n + 1) * count // (2 * SAMPLED_BLOCKS) for n in range(SAMPLED_BLOCKS))
    return container.part(range(count) if count <= SAMPLED_BLOCKS else spread), None


def _of_rows(
    container: Container, rows: npt.NDArray[np.int64]
) -> tuple[Container, npt.NDArray[np.int64]]:
    """Choose the blocks that hold some entries (ascending), and return the numbers of these entries
    in them.
    """
    counts = np.array([count for count, _, _ in container.spans], dtype=np.int64)
    firsts = np.cumsum(counts) - counts
    blocks = np.searchsorted(firsts, rows, side="right") - 1
    wanted, place = np.unique(blocks, return_inverse=True)
    begins = np.cumsum(counts[wanted]) - counts[wanted]
    return container.part(wanted.tolist()), begins[place] + rows - firsts[blocks]
