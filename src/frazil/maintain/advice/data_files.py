"""Find data and delete files that need maintenance: small files, many deletes, equality deletes, files that overlap in the sort column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
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
SMALL_FILES = "small_files"
_LIMIT = "max-files-to-rewrite"
Numbers = np.ndarray[Any, Any]
Flags = npt.NDArray[np.bool_]


def rewrite_minutes(state: AilingTable, size: float, files: int) -> float:
    """Estimate how long it takes to open files, and to read and write their bytes; of small files, the opening takes longer."""
    return (size / REWRITE_BYTES_PER_SECOND + files * OPEN_SECONDS) / state.workers / 60


@dataclass(frozen=True, eq=False)
class FileFinding:
    """Hold a finding about data files. `touched`: the files that it is about. `rewritten`: those that its cure writes anew, with all
    deletes applied."""

    finding: Finding
    touched: Flags
    rewritten: Flags


def of_files(state: AilingTable, sortings: Sequence[Finding]) -> list[Finding]:
    """Return the findings about data and delete files in the order of their cures: compaction comes first, since it applies the deletes of
    the files that it rewrites, and what is left of the deletes costs less then. `sortings`: the findings about the order of rows.

    Each finding tells what is left of it after each compaction before it (`left_after`). A compaction that leaves nothing of the deletes
    also drops the delete files that apply to no data file then.
    """
    every = np.ones(state.files.num_rows, bool)
    findings, compactions = list(sortings), [FileFinding(f, every, every) for f in sortings if f.by_auto]
    for find in (small_files, deleted_rows, equality_deletes, position_delete_files):
        if (now := find(state, every)) is None:
            continue
        left = {c.finding.kind: find(state, ~c.rewritten) for c in compactions if (c.rewritten & now.touched).any()}
        findings.append(replace(now.finding, left_after={kind: None if f is None else f.finding for kind, f in left.items()}))
        compactions += [now] if now.rewritten.any() else []
    return [_dropping_deletes(f, state, findings) for f in findings]


def _dropping_deletes(finding: Finding, state: AilingTable, findings: Sequence[Finding]) -> Finding:
    """Let a compaction that leaves nothing of a finding about deletes drop the delete files that are not those of single data files."""
    settled = any(f.kind != SMALL_FILES and f.left_after.get(finding.kind, f) is None for f in findings)
    if not settled or not state.deletes.column("referenced_data_file").null_count:
        return finding
    options = {**finding.cure.arguments.get("options", {}), "remove-dangling-deletes": "true"}
    return replace(finding, cure=replace(finding.cure, arguments={**finding.cure.arguments, "options": options}))


def small_files(state: AilingTable, left: Flags) -> FileFinding | None:
    """Find partitions with at least five files below 75 % of the target size. `left`: the data files that count, as below."""
    target = TARGET_FILE_SIZE.of(state.metadata.properties)
    sizes, groups = state.numbers("file_size_in_bytes"), state.numbers("group")
    small = left & (sizes < SMALL * target)
    count = np.bincount(groups[small], minlength=groups.max(initial=-1) + 1)
    total = np.bincount(groups[small], weights=sizes[small], minlength=len(count))
    after = np.maximum(1, np.ceil(total / target))
    worth = (count >= FEWEST_FILES) & (count > after)
    if not worth.any():
        return None
    files, size, files_after = int(count[worth].sum()), int(total[worth].sum()), int(after[worth].sum())
    saved = (files - files_after) * OPEN_SECONDS / state.workers
    text = f"{files:,} small files in {_partitions(int(worth.sum()))} hold {size_text(size)}: {size_text(size / files)} each"
    brings = f"a full read opens {count_text(len(sizes) - files + files_after, 'file')} instead of {len(sizes):,}"
    finding = Finding(
        SMALL_FILES, f"{text}, where {size_text(target)} is wanted.",
        {"files": files, "bytes": size, "files_after": files_after, "partitions": int(worth.sum())}, 2 * size,
        rewrite_minutes(state, size, files), brings, saved, Cure("rewrite_data_files", {}, _LIMIT),
    )  # fmt: skip
    return FileFinding(finding, small & worth[groups], small & worth[groups])


def deleted_rows(state: AilingTable, left: Flags) -> FileFinding | None:
    """Find data files of which many rows are deleted by vectors and position deletes: every read still reads these rows."""
    deletes = _position_deletes(state, left)
    deleted = int(pc.sum(deletes.column("record_count")).as_py() or 0)
    if not state.rows or deleted < DELETED_SHARE * state.rows:
        return None
    named = deletes.filter(deletes.column("referenced_data_file").is_valid())
    of_one_file = int(pc.sum(named.column("record_count")).as_py() or 0)
    touched = left & _touched(state, deletes)
    many = touched & (_deleted_of_each(state, named) >= DELETED_SHARE * state.numbers("record_count"))
    option, chosen = {"delete-ratio-threshold": str(DELETED_SHARE)}, many
    if 2 * of_one_file < deleted or not many.any():
        option, chosen = {"delete-file-threshold": "1"}, touched
    size, share = int(state.numbers("file_size_in_bytes")[chosen].sum()), min(1.0, deleted / state.rows)
    finding = Finding(
        "deleted_rows", f"{deleted:,} of {state.rows:,} rows ({share:.0%}) are deleted by {deletes.num_rows:,} vectors or delete files.",
        {"rows_deleted": deleted, "rows": state.rows, "share": share, "files": int(chosen.sum())}, 2 * size,
        rewrite_minutes(state, size, int(chosen.sum())), f"reads no longer read and drop {share:.0%} of the rows",
        size * share / (READ_BYTES_PER_SECOND * state.workers) + deletes.num_rows * OPEN_SECONDS / state.workers,
        Cure("rewrite_data_files", {"options": option}, _LIMIT),
    )  # fmt: skip
    return FileFinding(finding, touched, chosen)


def _position_deletes(state: AilingTable, left: Flags) -> pa.Table:
    """Return the vectors and position delete files that may apply to some of the data files; all of them where these are all."""
    deletes = state.deletes_of(DataFileContent.POSITION_DELETES)
    if left.all():
        return deletes
    named = pc.is_in(deletes.column("referenced_data_file"), state.files.column("file_path").combine_chunks().filter(pa.array(left)))
    beside = pa.array(np.isin(deletes.column("group").to_numpy(), state.numbers("group")[left]))
    return deletes.filter(pc.or_(named, pc.and_(deletes.column("referenced_data_file").is_null(), beside)))


def _touched(state: AilingTable, deletes: pa.Table) -> Flags:
    """Mark the data files that position deletes apply to: the named ones, and all of a partition whose deletes name none."""
    paths = pc.is_in(state.files.column("file_path"), deletes.column("referenced_data_file").combine_chunks())
    others = deletes.filter(deletes.column("referenced_data_file").is_null()).column("group")
    return np.asarray(paths.to_numpy(), bool) | np.isin(state.numbers("group"), others.to_numpy())


def _deleted_of_each(state: AilingTable, named: pa.Table) -> Numbers:
    """Return how many rows of each data file are deleted by vectors and delete files of its own."""
    sums = named.group_by("referenced_data_file").aggregate([("record_count", "sum")])
    places = pc.index_in(state.files.column("file_path"), sums.column("referenced_data_file").combine_chunks())
    of_each = sums.column("record_count_sum").combine_chunks().take(places)
    return np.asarray(pc.fill_null(of_each, 0).to_numpy())


def equality_deletes(state: AilingTable, left: Flags) -> FileFinding | None:
    """Find equality deletes: every row of every older file of their partition is compared with them."""
    deletes = state.deletes_of(DataFileContent.EQUALITY_DELETES)
    applies, touched = _compared(state, deletes, left)
    deletes = deletes if left.all() else deletes.filter(pa.array(applies))
    if not deletes.num_rows:
        return None
    records, files = int(pc.sum(deletes.column("record_count")).as_py() or 0), int(touched.sum())
    size = int(state.numbers("file_size_in_bytes")[touched].sum())
    finding = Finding(
        "equality_deletes", f"{records:,} equality deletes in {deletes.num_rows:,} files apply to {files:,} data files.",
        {"delete_files": deletes.num_rows, "records": records, "files": files}, size,
        (size / READ_BYTES_PER_SECOND + (files + deletes.num_rows) * OPEN_SECONDS) / state.workers / 60,
        "reads no longer join every row with the deleted keys; engines without equality deletes read the table",
        size / (READ_BYTES_PER_SECOND * state.workers) + deletes.num_rows * OPEN_SECONDS / state.workers, Cure("convert_equality_deletes"),
    )  # fmt: skip
    return FileFinding(finding, touched, np.zeros(len(left), bool))


def _compared(state: AilingTable, deletes: pa.Table, left: Flags) -> tuple[Flags, Flags]:
    """Mark the equality deletes that apply to some of the data files, and these: older ones of the same partition, or of all partitions
    where the deletes are of an unpartitioned spec."""
    numbers, groups = state.numbers("sequence_number"), state.numbers("group")
    of_deletes, own = (np.asarray(deletes.column(n).to_numpy()) for n in ("sequence_number", "group"))
    unpartitioned = [s.spec_id for s in state.metadata.partition_specs if not s.fields]
    everywhere = np.isin(deletes.column("spec_id").to_numpy(), unpartitioned)
    count = 1 + max(groups.max(initial=-1), own.max(initial=-1))
    oldest, newest = np.full(count, np.iinfo(np.int64).max), np.full(count, -1)
    np.minimum.at(oldest, groups[left], numbers[left])
    np.maximum.at(newest, own[~everywhere], of_deletes[~everywhere])
    applies = of_deletes > np.where(everywhere, oldest.min(initial=np.iinfo(np.int64).max), oldest[own])
    return applies, left & (numbers < np.maximum(newest[groups], of_deletes[everywhere].max(initial=-1)))


def position_delete_files(state: AilingTable, left: Flags) -> FileFinding | None:
    """Find partitions with at least five small position delete files; in format version 3 any, since vectors replace them."""
    deletes = _position_deletes(state, left)
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
    finding = Finding(
        "position_delete_files", f"{files:,} position delete files in {_partitions(int(is_worth.sum()))}: {outcome}.",
        {"files": files, "bytes": size, "files_after": files_after}, 2 * size, rewrite_minutes(state, size, files),
        f"reads open up to {files - files_after:,} fewer delete files", (files - files_after) * OPEN_SECONDS / state.workers,
        Cure("rewrite_position_delete_files"),
    )  # fmt: skip
    return FileFinding(finding, left & _touched(state, deletes.filter(pa.array(chosen))), np.zeros(len(left), bool))


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
    size, every, name = int(sizes[deep].sum()), state.file_bytes, state.metadata.schema().find_column_name(field.source_id)
    depth = float(np.mean([depths[int(g)] for g in groups[deep]]))
    return Finding(
        "unsorted", f"A value of {name}, by which the table is sorted, may lie in {depth:.1f} of the {int(deep.sum()):,} files.",
        {"depth": depth, "files": int(deep.sum()), "bytes": size}, 2 * every, 2 * rewrite_minutes(state, every, state.files.num_rows),
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
