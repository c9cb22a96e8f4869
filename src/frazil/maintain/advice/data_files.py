"""Find data and delete files that need maintenance: small files, many deletes, equality deletes,
files that overlap in the sort column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.maintain.advice.finding import (
    OPEN_SECONDS,
    READ_BYTES_PER_SECOND,
    REWRITE_BYTES_PER_SECOND,
    Finding,
    ProcedureCall,
    saving_text,
)
from frazil.maintain.advice.table_state import Flags, LiveFiles, sorted_by
from frazil.maintain.compact.options import CompactionOptions
from frazil.spec.manifest import DataFile, DataFileContent
from frazil.spec.properties import DELETE_GRANULARITY, DELETE_TARGET_FILE_SIZE, TARGET_FILE_SIZE
from frazil.spec.shown import count_text, size_text

SMALL = 0.75
"""Share of the target size below which rewrite_data_files takes a file, as in Java."""
FEWEST_FILES = 5
"""Number of small files of a partition from which rewrite_data_files takes them, as in Java."""
DELETED_SHARE = 0.1
DEEPEST = 4.0
"""Number of files that a value of the sort column is found in, from which a table counts as
unsorted.
"""
SMALL_FILES, LARGE_FILES, DANGLING = "small_files", "large_files", "dangling_deletes"
FAR, FAR_BYTES = 2, 1 << 16
"""A file counts as large from so many times the target size, and so many bytes more: small targets
are missed by what a footer takes.
"""
_LIMIT = "max-files-to-rewrite"
Numbers = np.ndarray[Any, Any]


def rewrite_minutes(state: LiveFiles, size: float, files: int) -> float:
    """Estimate how long it takes to open files, and to read and write their bytes; of small files,
    the opening takes longer.
    """
    return (size / REWRITE_BYTES_PER_SECOND + files * OPEN_SECONDS) / state.workers / 60


@dataclass(frozen=True, eq=False)
class FileFinding:
    """Hold a finding about data files. `touched`: the files that it is about. `rewritten`: those
    that its cure writes anew, with all deletes applied."""

    finding: Finding
    touched: Flags
    rewritten: Flags


def of_files(state: LiveFiles, sortings: Sequence[Finding]) -> list[FileFinding]:
    """Return the findings about data and delete files in the order of their cures: compaction comes
    first, since it applies the deletes of the files that it rewrites, and what is left of the
    deletes costs less then. `sortings`: the findings about the order of rows.

    Each finding tells what is left of it after each compaction before it (`left_after`). A
    compaction that leaves nothing of the deletes also drops the delete files that apply to no data
    file then.
    """
    every = np.ones(state.files.num_rows, bool)
    about_files = [FileFinding(f, every, every) for f in sortings]
    for find in (small_files, large_files, deleted_rows, equality_deletes, position_delete_files):
        if (now := find(state, every)) is None:
            continue
        left = {
            c.finding.kind: find(state, ~c.rewritten)
            for c in about_files
            if (c.rewritten & now.touched).any()
        }
        left_after = {kind: None if f is None else f.finding for kind, f in left.items()}
        about_files.append(replace(now, finding=replace(now.finding, left_after=left_after)))
    findings = [f.finding for f in about_files]
    return [replace(f, finding=_dropping_deletes(f.finding, state, findings)) for f in about_files]


def _dropping_deletes(finding: Finding, state: LiveFiles, findings: Sequence[Finding]) -> Finding:
    """Let a compaction that leaves nothing of a finding about deletes drop the delete files that
    are not those of single data files.
    """
    settled = any(
        f.kind != SMALL_FILES and f.left_after.get(finding.kind, f) is None for f in findings
    )
    if not settled or not state.deletes.column("referenced_data_file").null_count:
        return finding
    options = {**finding.cure.arguments.get("options", {}), "remove-dangling-deletes": "true"}
    return replace(
        finding,
        cure=replace(finding.cure, arguments={**finding.cure.arguments, "options": options}),
    )


def small_files(state: LiveFiles, left: Flags) -> FileFinding | None:
    """Find partitions with at least five files below 75 % of the target size. `left`: the data
    files that count, as below.
    """
    target = TARGET_FILE_SIZE.of(state.metadata.properties)
    sizes, groups = state.numbers("file_size_in_bytes"), state.numbers("group")
    small = left & (sizes < SMALL * target)
    count = np.bincount(groups[small], minlength=groups.max(initial=-1) + 1)
    total = np.bincount(groups[small], weights=sizes[small], minlength=len(count))
    after = np.maximum(1, np.ceil(total / target))
    worth = (count >= FEWEST_FILES) & (count > after)
    if not worth.any():
        return None
    files, size, files_after = (
        int(count[worth].sum()),
        int(total[worth].sum()),
        int(after[worth].sum()),
    )
    saved = (files - files_after) * state.open_seconds / state.workers
    text = f"{files:,} small files{_in_partitions(state, int(worth.sum()))} hold {size_text(size)}: {size_text(size / files)} each"
    brings = f"a full read opens {count_text(len(sizes) - files + files_after, 'file')} instead of {len(sizes):,}{saving_text(saved)}"
    finding = Finding(
        SMALL_FILES,
        f"{text}, where {size_text(target)} is wanted.",
        {"files": files, "bytes": size, "files_after": files_after, "partitions": int(worth.sum())},
        2 * size,
        rewrite_minutes(state, size, files),
        brings,
        saved,
        ProcedureCall("rewrite_data_files", {}, _LIMIT),
    )
    return FileFinding(finding, small & worth[groups], small & worth[groups])


def large_files(state: LiveFiles, left: Flags) -> FileFinding | None:
    """Find files far above the target size, which few tasks share, and of which a search reads
    much.
    """
    target = TARGET_FILE_SIZE.of(state.metadata.properties)
    sizes = state.numbers("file_size_in_bytes")
    far = left & (sizes > FAR * target + FAR_BYTES)
    files, size = int(far.sum()), int(sizes[far].sum())
    if not files:
        return None
    after = -(-size // target)
    finding = Finding(
        LARGE_FILES,
        f"{count_text(files, 'file')} of {size_text(size / files)} on average, where {size_text(target)} is wanted.",
        {"files": files, "bytes": size, "files_after": after},
        2 * size,
        rewrite_minutes(state, size, files),
        f"reads divide these rows among about {count_text(after, 'file')}, and skip some of them",
        0.0,
        ProcedureCall("rewrite_data_files", {}, _LIMIT),
    )
    return FileFinding(finding, far, far)


def dangling_deletes(idle: Sequence[DataFile], earlier: Sequence[Finding]) -> Finding | None:
    """Find position deletes that apply to no data file any more. `idle`: all such delete files.
    `earlier`: the findings whose cures come before, of which some drop them as well."""
    dangling = [d for d in idle if d.content == DataFileContent.POSITION_DELETES]
    if not dangling:
        return None
    vectors = sum(d.is_dv for d in dangling)
    counts = ((vectors, "deletion vector"), (len(dangling) - vectors, "position delete file"))
    nouns = " and ".join(count_text(count, noun) for count, noun in counts if count)
    drops = "remove-dangling-deletes"
    left_after = {
        f.kind: None
        for f in earlier
        if drops in f.cure.arguments.get("options", {})
        or (f.cure.verb == "rewrite_position_delete_files" and not vectors)
    }
    return Finding(
        DANGLING,
        f"{nouns} {'applies' if len(dangling) == 1 else 'apply'} to no data file any more.",
        {"delete_files": len(dangling), "bytes": sum(d.size for d in dangling)},
        0,
        len(dangling) * 0.001 / 60,
        "planning no longer looks at them, and expiry frees their space",
        0.0,
        ProcedureCall("rewrite_data_files", {"options": {drops: "true"}, "where": "false"}),
        left_after=left_after,
    )


def deleted_rows(state: LiveFiles, left: Flags) -> FileFinding | None:
    """Find data files of which many rows are deleted by vectors and position deletes: every read
    still reads these rows.
    """
    deletes = _position_deletes(state, left)
    deleted = int(pc.sum(deletes.column("record_count")).as_py() or 0)
    if not state.rows or deleted < DELETED_SHARE * state.rows:
        return None
    named = deletes.filter(deletes.column("referenced_data_file").is_valid())
    of_one_file = int(pc.sum(named.column("record_count")).as_py() or 0)
    touched = left & _touched(state, deletes)
    many = touched & (
        _deleted_of_each(state, named) >= DELETED_SHARE * state.numbers("record_count")
    )
    option, chosen = {"delete-ratio-threshold": str(DELETED_SHARE)}, many
    if 2 * of_one_file < deleted or not many.any():
        option, chosen = {"delete-file-threshold": "1"}, touched
    size, share = (
        int(state.numbers("file_size_in_bytes")[chosen].sum()),
        min(1.0, deleted / state.rows),
    )
    saved = (
        size * share / (READ_BYTES_PER_SECOND * state.workers)
        + deletes.num_rows * state.open_seconds / state.workers
    )
    vectors = int(pc.sum(pc.equal(deletes.column("file_format"), "puffin")).as_py() or 0)
    counts = ((vectors, "deletion vector"), (deletes.num_rows - vectors, "position delete file"))
    by = " and ".join(count_text(count, noun) for count, noun in counts if count)
    finding = Finding(
        "deleted_rows",
        f"{deleted:,} of {state.rows:,} rows ({share:.0%}) are deleted by {by}.",
        {"rows_deleted": deleted, "rows": state.rows, "share": share, "files": int(chosen.sum())},
        2 * size,
        rewrite_minutes(state, size, int(chosen.sum())),
        f"a full read no longer reads {share:.0%} of the rows in vain{saving_text(saved)}",
        saved,
        ProcedureCall("rewrite_data_files", {"options": option}, _LIMIT),
    )
    return FileFinding(finding, touched, chosen)


def _position_deletes(state: LiveFiles, left: Flags) -> pa.Table:
    """Return the vectors and position delete files that may apply to some of the data files; all of
    them where these are all.
    """
    deletes = state.deletes_of(DataFileContent.POSITION_DELETES)
    if left.all():
        return deletes
    named = pc.is_in(
        deletes.column("referenced_data_file"),
        state.files.column("file_path").combine_chunks().filter(pa.array(left)),
    )
    beside = pa.array(np.isin(deletes.column("group").to_numpy(), state.numbers("group")[left]))
    return deletes.filter(
        pc.or_(named, pc.and_(deletes.column("referenced_data_file").is_null(), beside))
    )


def _touched(state: LiveFiles, deletes: pa.Table) -> Flags:
    """Mark the data files that position deletes apply to: the named ones, and all of a partition
    whose deletes name none.
    """
    paths = pc.is_in(
        state.files.column("file_path"), deletes.column("referenced_data_file").combine_chunks()
    )
    others = deletes.filter(deletes.column("referenced_data_file").is_null()).column("group")
    return np.asarray(paths.to_numpy(), bool) | np.isin(state.numbers("group"), others.to_numpy())


def _deleted_of_each(state: LiveFiles, named: pa.Table) -> Numbers:
    """Return how many rows of each data file are deleted by vectors and delete files of its own."""
    sums = named.group_by("referenced_data_file").aggregate([("record_count", "sum")])
    places = pc.index_in(
        state.files.column("file_path"), sums.column("referenced_data_file").combine_chunks()
    )
    of_each = sums.column("record_count_sum").combine_chunks().take(places)
    return np.asarray(pc.fill_null(of_each, 0).to_numpy())


def equality_deletes(state: LiveFiles, left: Flags) -> FileFinding | None:
    """Find equality deletes: every row of every older file of their partition is compared with
    them.
    """
    deletes = state.deletes_of(DataFileContent.EQUALITY_DELETES)
    applies, touched = _compared(state, deletes, left)
    deletes = deletes if left.all() else deletes.filter(pa.array(applies))
    if not deletes.num_rows:
        return None
    records, files = int(pc.sum(deletes.column("record_count")).as_py() or 0), int(touched.sum())
    size = int(state.numbers("file_size_in_bytes")[touched].sum())
    saved = (
        size / (READ_BYTES_PER_SECOND * state.workers)
        + deletes.num_rows * state.open_seconds / state.workers
    )
    text = f"{count_text(records, 'equality delete')} in {count_text(deletes.num_rows, 'file')}"
    to = f"{'applies' if records == 1 else 'apply'} to {count_text(files, 'data file') if files else 'no data file any more'}"
    brings = (
        f"reads no longer compare each row of these files with deleted keys{saving_text(saved)}"
        if files
        else "they are gone"
    )
    finding = Finding(
        "equality_deletes",
        f"{text} {to}.",
        {"delete_files": deletes.num_rows, "records": records, "files": files},
        size,
        (size / READ_BYTES_PER_SECOND + (files + deletes.num_rows) * OPEN_SECONDS)
        / state.workers
        / 60,
        f"{brings}; engines that know no equality deletes can read the table",
        saved,
        ProcedureCall("convert_equality_deletes"),
    )
    return FileFinding(finding, touched, np.zeros(len(left), bool))


def _compared(state: LiveFiles, deletes: pa.Table, left: Flags) -> tuple[Flags, Flags]:
    """Mark the equality deletes that apply to some of the data files, and these: older ones of the
    same partition, or of all partitions where the deletes are of an unpartitioned spec."""
    numbers, groups = state.numbers("sequence_number"), state.numbers("group")
    of_deletes, own = (
        np.asarray(deletes.column(n).to_numpy()) for n in ("sequence_number", "group")
    )
    unpartitioned = [s.spec_id for s in state.metadata.partition_specs if not s.fields]
    everywhere = np.isin(deletes.column("spec_id").to_numpy(), unpartitioned)
    count = 1 + max(groups.max(initial=-1), own.max(initial=-1))
    oldest, newest = np.full(count, np.iinfo(np.int64).max), np.full(count, -1)
    np.minimum.at(oldest, groups[left], numbers[left])
    np.maximum.at(newest, own[~everywhere], of_deletes[~everywhere])
    applies = of_deletes > np.where(
        everywhere, oldest.min(initial=np.iinfo(np.int64).max), oldest[own]
    )
    return applies, left & (
        numbers < np.maximum(newest[groups], of_deletes[everywhere].max(initial=-1))
    )


def position_delete_files(state: LiveFiles, left: Flags) -> FileFinding | None:
    """Find partitions with at least five small position delete files; in format version 3 any,
    since vectors replace them.
    """
    deletes = _position_deletes(state, left)
    deletes = deletes.filter(pc.not_equal(deletes.column("file_format"), "puffin"))
    if not deletes.num_rows:
        return None
    sizes, groups = (
        np.asarray(deletes.column(n).to_numpy()) for n in ("file_size_in_bytes", "group")
    )
    target, newest = (
        DELETE_TARGET_FILE_SIZE.of(state.metadata.properties),
        state.metadata.format_version >= 3,
    )
    small = sizes < SMALL * target
    is_worth = np.bincount(groups[small], minlength=groups.max() + 1) >= (
        1 if newest else FEWEST_FILES
    )
    chosen = small & is_worth[groups]
    if not newest and DELETE_GRANULARITY.of(state.metadata.properties) == "file":
        chosen &= ~np.isin(groups, _groups_of_own(deletes, groups))
        is_worth &= np.bincount(groups[chosen], minlength=len(is_worth)) > 0
    if not chosen.any():
        return None
    files, size, files_after = (
        int(chosen.sum()),
        int(sizes[chosen].sum()),
        0 if newest else int(is_worth.sum()),
    )
    outcome = (
        "format version 3 has deletion vectors instead" if newest else f"{files_after:,} would do"
    )
    saved = (files - files_after) * state.open_seconds / state.workers
    finding = Finding(
        "position_delete_files",
        f"{count_text(files, 'position delete file')}{_in_partitions(state, int(is_worth.sum()))}: {outcome}.",
        {"files": files, "bytes": size, "files_after": files_after},
        2 * size,
        rewrite_minutes(state, size, files),
        f"reads open up to {count_text(files - files_after, 'delete file')} less{saving_text(saved)}",
        saved,
        ProcedureCall("rewrite_position_delete_files"),
    )
    return FileFinding(
        finding, left & _touched(state, deletes.filter(pa.array(chosen))), np.zeros(len(left), bool)
    )


def _groups_of_own(deletes: pa.Table, groups: Numbers) -> Numbers:
    """Return the partitions in which each data file has one position delete file of its own
    already, so that none could become less.
    """
    referenced = deletes.column("referenced_data_file").combine_chunks()
    _, first = np.unique(
        np.asarray(pc.fill_null(referenced, "").to_numpy(zero_copy_only=False)), return_index=True
    )
    is_first = np.zeros(len(groups), bool)
    is_first[first] = True
    others = ~is_first | referenced.is_null().to_numpy(zero_copy_only=False)
    return np.setdiff1d(groups, groups[others])


def unsorted(state: LiveFiles) -> Finding | None:
    """Find tables with a sort order whose files overlap in its first column, so that bounds skip
    little. Files that would become few, since they are small, do not count: no order of their rows
    lets a search skip most of them."""
    field = sorted_by(state.metadata)
    if field is None or "low" not in state.files.column_names or state.files.num_rows < DEEPEST:
        return None
    has_bounds = pc.and_(
        state.files.column("low").is_valid(), state.files.column("high").is_valid()
    )
    bounded = state.files.filter(has_bounds)
    if bounded.num_rows < DEEPEST:
        return None
    both = pa.concat_arrays([bounded.column(n).combine_chunks() for n in ("low", "high")])
    ranks = np.asarray(pc.rank(both, sort_keys="ascending", tiebreaker="dense").to_numpy()).astype(
        np.int64
    )
    low, high = ranks[: bounded.num_rows], ranks[bounded.num_rows :]
    sizes, groups = (
        np.asarray(bounded.column("file_size_in_bytes").to_numpy()),
        np.asarray(bounded.column("group").to_numpy()),
    )
    options, order = (
        CompactionOptions.of_target(TARGET_FILE_SIZE.of(state.metadata.properties)),
        np.argsort(groups, kind="stable"),
    )
    partitions = np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)
    mixed = [
        m
        for files in partitions
        if _is_mixed(m := _SortedFiles.of(low[files], high[files], sizes[files], options))
    ]
    if not mixed:
        return None
    count, size, now = (
        sum(m.files for m in mixed),
        sum(m.bytes for m in mixed),
        sum(m.read for m in mixed),
    )
    depth, left = sum(m.depth * m.files for m in mixed) / count, sum(m.read_after for m in mixed)
    name = state.metadata.schema().find_column_name(field.source_id) or str(field.source_id)
    of = f"{count:,} files"
    if len(mixed) > 1:
        of = f"{count / len(mixed):.3g} files of a partition, on average over {len(mixed):,} partitions"
    every, saved = state.file_bytes, (now - left) / (READ_BYTES_PER_SECOND * state.workers)
    return Finding(
        "unsorted",
        f"A value of {name}, by which the table is sorted, may lie in {depth:.1f} of the {of}.",
        {"depth": depth, "files": count, "bytes": size, "partitions": len(mixed)},
        2 * every,
        2 * rewrite_minutes(state, every, state.files.num_rows),
        f"a search by {name} reads about {left / now:.0%} of what it reads now{saving_text(saved)}",
        saved,
        ProcedureCall(
            "rewrite_data_files", {"strategy": "sort", "options": {"rewrite-all": "true"}}
        ),
    )


@dataclass(frozen=True)
class _SortedFiles:
    """Hold the files of a partition. `depth`: in how many of them a value lies. `read`,
    `read_after`: the bytes that a search for one value reads, now and once the files are sorted."""

    files: int
    bytes: int
    depth: float
    read: float
    read_after: float

    @classmethod
    def of(
        cls, low: Numbers, high: Numbers, sizes: Numbers, options: CompactionOptions
    ) -> _SortedFiles:
        """Describe the files of a partition by the ranks of their bounds."""
        files, size, depth = len(sizes), int(sizes.sum()), _depth(low, high)
        return cls(files, size, depth, size * depth / files, size / options.files_for(size))


def _is_mixed(files: _SortedFiles) -> bool:
    return files.depth >= DEEPEST and 0 < 2 * files.read_after <= files.read


def _depth(low: Numbers, high: Numbers) -> float:
    """Count in how many files a value lies, on average over the lower bounds; files that only touch
    at their ends do not overlap.
    """
    begun, ended = np.sort(low), np.sort(high)
    depths = np.searchsorted(begun, low, "right") - np.searchsorted(ended, low, "right")
    # a file of one value has an end at its own lower bound, and must be counted there all the same
    alone = low == high
    return float(np.mean(np.maximum(depths + alone, 1)))


def _in_partitions(state: LiveFiles, count: int) -> str:
    if not any(spec.fields for spec in state.metadata.partition_specs):
        return ""
    return " in one partition" if count == 1 else f" in {count:,} partitions"
