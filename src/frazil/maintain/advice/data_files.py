"""Find data and delete files that need maintenance: small files, many deletes, equality deletes, files that overlap in the sort column."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.maintain.advice.finding import (
    OPEN_SECONDS,
    READ_BYTES_PER_SECOND,
    REWRITE_BYTES_PER_SECOND,
    Cure,
    Finding,
    count_text,
    size_text,
)
from frazil.maintain.advice.table_state import AilingTable, sorted_by
from frazil.spec.data_file import DataFileContent
from frazil.spec.properties import DELETE_TARGET_FILE_SIZE, TARGET_FILE_SIZE

SMALL = 0.75
"""Share of the target size below which rewrite_data_files takes a file, as in Java."""
FEWEST_FILES = 5
"""Number of small files of a partition from which rewrite_data_files takes them, as in Java."""
DELETED_SHARE = 0.1
DEEPEST = 4.0
"""Number of files that a value of the sort column is found in, from which a table counts as unsorted."""
_LIMIT = "max-files-to-rewrite"
Numbers = np.ndarray[Any, Any]


def rewrite_minutes(state: AilingTable, size: float, files: int) -> float:
    """Estimate how long it takes to open files, and to read and write their bytes; of small files, the opening takes longer."""
    return (size / REWRITE_BYTES_PER_SECOND + files * OPEN_SECONDS) / state.workers / 60


def small_files(state: AilingTable) -> Finding | None:
    """Find partitions with at least five files below 75 % of the target size."""
    target = TARGET_FILE_SIZE.of(state.metadata.properties)
    sizes, groups = state.numbers("file_size_in_bytes"), state.numbers("group")
    small = sizes < SMALL * target
    count = np.bincount(groups[small], minlength=groups.max(initial=-1) + 1)
    total = np.bincount(groups[small], weights=sizes[small], minlength=len(count))
    after = np.maximum(1, np.ceil(total / target))
    worth = (count >= FEWEST_FILES) & (count > after)
    if not worth.any():
        return None
    files, size, left = int(count[worth].sum()), int(total[worth].sum()), int(after[worth].sum())
    saved = (files - left) * OPEN_SECONDS / state.workers
    text = f"{files:,} small files in {_partitions(int(worth.sum()))} hold {size_text(size)}: {size_text(size / files)} each"
    return Finding(
        "small_files", f"{text}, where {size_text(target)} is wanted.",
        {"files": files, "bytes": size, "files_after": left, "partitions": int(worth.sum())}, 2 * size, rewrite_minutes(state, size, files),
        f"a full read opens {count_text(len(sizes) - files + left, 'file')} instead of {len(sizes):,}", saved,
        Cure("rewrite_data_files", {}, _LIMIT),
    )  # fmt: skip


def deleted_rows(state: AilingTable) -> Finding | None:
    """Find data files of which many rows are deleted by vectors and position deletes: every read still reads these rows."""
    deletes = state.deletes_of(DataFileContent.POSITION_DELETES)
    deleted = int(pc.sum(deletes.column("record_count")).as_py() or 0)
    if not state.rows or deleted < DELETED_SHARE * state.rows:
        return None
    named = deletes.filter(deletes.column("referenced_data_file").is_valid())
    of_one_file = int(pc.sum(named.column("record_count")).as_py() or 0)
    option = {"delete-ratio-threshold": str(DELETED_SHARE)} if 2 * of_one_file >= deleted else {"delete-file-threshold": "1"}
    touched = _touched(state, named, deletes)
    size = int(state.numbers("file_size_in_bytes")[touched].sum())
    share = min(1.0, deleted / state.rows)
    return Finding(
        "deleted_rows", f"{deleted:,} of {state.rows:,} rows ({share:.0%}) are deleted by {deletes.num_rows:,} vectors or delete files.",
        {"rows_deleted": deleted, "rows": state.rows, "share": share, "files": int(touched.sum())}, 2 * size,
        rewrite_minutes(state, size, int(touched.sum())), f"reads no longer read and drop {share:.0%} of the rows",
        size * share / (READ_BYTES_PER_SECOND * state.workers) + deletes.num_rows * OPEN_SECONDS / state.workers,
        Cure("rewrite_data_files", {"options": option}, _LIMIT),
    )  # fmt: skip


def _touched(state: AilingTable, named: pa.Table, deletes: pa.Table) -> Numbers:
    """Mark the data files that deletes apply to: the named ones, and all of a partition whose deletes name none."""
    paths = pc.is_in(state.files.column("file_path"), named.column("referenced_data_file").combine_chunks())
    others = deletes.filter(deletes.column("referenced_data_file").is_null()).column("group")
    return np.asarray(paths.to_numpy(), bool) | np.isin(state.numbers("group"), others.to_numpy())


def position_delete_files(state: AilingTable) -> Finding | None:
    """Find partitions with at least five small position delete files; in format version 3 any, since vectors replace them."""
    deletes = state.deletes_of(DataFileContent.POSITION_DELETES)
    deletes = deletes.filter(pc.not_equal(deletes.column("file_format"), "puffin"))
    if not deletes.num_rows:
        return None
    sizes, groups = (np.asarray(deletes.column(n).to_numpy()) for n in ("file_size_in_bytes", "group"))
    target, newest = DELETE_TARGET_FILE_SIZE.of(state.metadata.properties), state.metadata.format_version >= 3
    small = sizes < SMALL * target
    is_worth = np.bincount(groups[small], minlength=groups.max() + 1) >= (1 if newest else FEWEST_FILES)
    chosen = small & is_worth[groups]
    if not chosen.any():
        return None
    files, size, files_after = int(chosen.sum()), int(sizes[chosen].sum()), 0 if newest else int(is_worth.sum())
    outcome = "deletion vectors take their place in format version 3" if newest else f"{files_after:,} would do"
    return Finding(
        "position_delete_files", f"{files:,} position delete files in {_partitions(int(is_worth.sum()))}: {outcome}.",
        {"files": files, "bytes": size, "files_after": files_after}, 2 * size, rewrite_minutes(state, size, files),
        f"reads open up to {files - files_after:,} fewer delete files", (files - files_after) * OPEN_SECONDS / state.workers,
        Cure("rewrite_position_delete_files"),
    )  # fmt: skip


def equality_deletes(state: AilingTable) -> Finding | None:
    """Find equality deletes: every row of every older file of their partition is compared with them."""
    deletes = state.deletes_of(DataFileContent.EQUALITY_DELETES)
    if not deletes.num_rows:
        return None
    records = int(pc.sum(deletes.column("record_count")).as_py() or 0)
    unpartitioned = not any(s.fields for s in state.metadata.partition_specs)
    groups = state.numbers("group")
    touched = np.isin(groups, deletes.column("group").to_numpy()) | unpartitioned
    size = int(state.numbers("file_size_in_bytes")[touched].sum())
    return Finding(
        "equality_deletes", f"{records:,} equality deletes in {deletes.num_rows:,} files apply to {int(touched.sum()):,} data files.",
        {"delete_files": deletes.num_rows, "records": records, "files": int(touched.sum())}, size,
        (size / READ_BYTES_PER_SECOND + (int(touched.sum()) + deletes.num_rows) * OPEN_SECONDS) / state.workers / 60,
        "reads no longer join every row with the deleted keys; engines without equality deletes read the table",
        size / (READ_BYTES_PER_SECOND * state.workers) + deletes.num_rows * OPEN_SECONDS / state.workers, Cure("convert_equality_deletes"),
    )  # fmt: skip


def unsorted(state: AilingTable) -> Finding | None:
    """Find tables with a sort order whose files overlap in its first column, so that bounds skip little."""
    field = sorted_by(state.metadata)
    if field is None or "low" not in state.files.column_names or state.files.num_rows < DEEPEST:
        return None
    has_bounds = pc.and_(state.files.column("low").is_valid(), state.files.column("high").is_valid())
    files = state.files.filter(has_bounds)
    if files.num_rows < DEEPEST:
        return None
    both = pa.concat_arrays([files.column(n).combine_chunks() for n in ("low", "high")])
    ranks = np.asarray(pc.rank(both, sort_keys="ascending", tiebreaker="dense").to_numpy()).astype(np.int64)
    low, high = ranks[: files.num_rows], ranks[files.num_rows :]
    sizes, groups = np.asarray(files.column("file_size_in_bytes").to_numpy()), np.asarray(files.column("group").to_numpy())
    depths = {int(g): _depth(low[groups == g], high[groups == g]) for g in np.unique(groups)}
    deep = np.array([depths[int(g)] >= DEEPEST for g in groups])
    if not deep.any():
        return None
    size, name = int(sizes[deep].sum()), state.metadata.schema().find_column_name(field.source_id)
    depth = float(np.mean([depths[int(g)] for g in groups[deep]]))
    return Finding(
        "unsorted", f"A value of {name}, by which the table is sorted, may lie in {depth:.1f} of the {int(deep.sum()):,} files.",
        {"depth": depth, "files": int(deep.sum()), "bytes": size}, 2 * size, 2 * rewrite_minutes(state, size, int(deep.sum())),
        f"a search by {name} reads about {1 / depth:.0%} of what it reads now",
        size * (1 - 1 / depth) / (READ_BYTES_PER_SECOND * state.workers) / max(1, int(deep.sum())) * depth,
        Cure("rewrite_data_files", {"strategy": "sort", "options": {"rewrite-all": "true"}}),
    )  # fmt: skip


def _depth(low: Numbers, high: Numbers) -> float:
    """Count in how many files a value lies, on average over the lower bounds; files that only touch at their ends do not overlap."""
    begun, ended = np.sort(low), np.sort(high)
    depths = np.searchsorted(begun, low, "right") - np.searchsorted(ended, low, "right")
    alone = low == high  # a file of one value has an end at its own lower bound, and must be counted there all the same
    return float(np.mean(np.maximum(depths + alone, 1)))


def _partitions(count: int) -> str:
    return "one partition" if count == 1 else f"{count:,} partitions"
