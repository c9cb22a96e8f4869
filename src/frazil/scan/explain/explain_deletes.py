"""Find out which delete files of a snapshot apply to the data files of a plan, and why the others
do not (for `explain`).

Each delete file is compared with the data files that the plan reads, as in planning (spec, "Scan
Planning"). The steps, in this order: its manifest, the data file it names or its partition,
sequence numbers, deletion vectors that replace it, bounds. The reason is the first step that no
data file passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.codec.manifest import entries_from_table
from frazil.codec.single_value import escape, human_string
from frazil.scan.bounds import partition_types
from frazil.scan.delete_ranges import PathBounds, normalised, path_bounds
from frazil.scan.deletes import DeleteEntries, DeleteIndex, Flags, Numbers, scopes_of_deletes
from frazil.scan.explain.delete_report import EXPLAINED, ExplainedDeletes, Reason
from frazil.scan.manifests import column_of
from frazil.scan.tasks import PlannedFiles
from frazil.spec.metadata import TableMetadata
from frazil.storage.locations import normalise

# pairs of data file and delete file tested for one explanation, which takes about seven seconds
MOST_PAIRS = 250_000_000
_NOBODY = np.iinfo(np.int64).max
_REASONS = tuple(Reason)
_KINDS, _SCOPES = ("position", "equality", "vector"), ("file", "partition", "table")


@dataclass(frozen=True, eq=False)
class DataFiles:
    """Hold the data files that deletes are compared with, in the numbering of the index: normalised
    paths, sequence numbers, scopes, and which have a deletion vector."""

    paths: pa.Array
    sequences: Numbers
    scopes: Numbers
    has_vector: Flags

    def only(self, row: int) -> DataFiles:
        here = slice(row, row + 1)
        return DataFiles(
            self.paths[here], self.sequences[here], self.scopes[here], self.has_vector[here]
        )


def compared_deletes_explained(
    metadata: TableMetadata, index: DeleteIndex, data: DataFiles | None, row: int | None = None
) -> ExplainedDeletes:
    """Explain every delete file of the index for all data files, or for the one numbered `row`.
    `data` None: a catalog's server has planned the scan, and names only those that apply.
    """
    entries, exact = index.entries, True
    if row is not None:
        counts = np.bincount(index.numbers_of(row), minlength=len(entries))
    elif data is None or (compared := index.exact_file_counts(MOST_PAIRS)) is None:
        exact, counts = data is None, index.file_counts
    else:
        counts = compared
    if data is None:
        applies = np.full(len(entries), -1, np.int64)
        table = _explained(metadata, entries, counts, applies).to_arrow()
        return ExplainedDeletes(table.filter(pa.array(counts > 0)))
    bounds = bounds_of(entries)
    reasons, oldest = _reasons(index, bounds, data if row is None else data.only(row), counts)
    return _explained(metadata, entries, counts, reasons, oldest, exact, bounds)


def unread_deletes_explained(
    metadata: TableMetadata, entries: DeleteEntries, reason: Reason
) -> ExplainedDeletes:
    """Explain delete files that planning did not read, all for one reason."""
    reasons = np.full(len(entries), _REASONS.index(reason), np.int64)
    return _explained(metadata, entries, np.zeros(len(entries), np.int64), reasons)


def bounds_of(entries: DeleteEntries) -> PathBounds:
    return path_bounds(
        [t for _, t in entries.groups],
        entries.strings("referenced_data_file"),
        ~entries.is_equality,
    )


def data_files(groups: Sequence[PlannedFiles], index: DeleteIndex) -> DataFiles | None:
    """Collect the planned files in the numbering of their index; None where a catalog's server has
    planned them."""
    if index.reach is None:
        return None
    paths = normalised(pa.concat_arrays([column_of(g.table, "file_path") for g in groups]))
    reach, entries = index.reach, index.entries
    named = bounds_of(entries).single.filter(pa.array(entries.is_vector))
    rows = pc.index_in(named, value_set=paths)
    positions = pc.fill_null(rows, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    fits = positions >= 0
    fits[fits] = (
        reach.data_sequences[positions[fits]] <= reach.delete_sequences[entries.is_vector][fits]
    )
    has_vector = np.zeros(len(paths), bool)
    has_vector[positions[fits]] = True
    return DataFiles(paths, reach.data_sequences, reach.data_scopes, has_vector)


def row_of(file_path: str, groups: Sequence[PlannedFiles]) -> int | None:
    """Find the number of a planned file by its path; None: the plan does not have it."""
    wanted, begin = normalise(file_path), 0
    for group in groups:
        position = pc.index(normalised(column_of(group.table, "file_path")), wanted).as_py()
        if position >= 0:
            return int(begin + position)
        begin += len(group)
    return None


def _reasons(
    index: DeleteIndex, bounds: PathBounds, data: DataFiles, counts: Numbers
) -> tuple[Numbers, Numbers]:
    """Return for each delete file why it applies to no data file (number of the reason, -1: it
    applies), and the least sequence number of the data files in reach by path or partition
    (`_NOBODY`: there are none)."""
    entries, reach = index.entries, index.reach
    assert reach is not None
    positions = (
        pc.fill_null(pc.index_in(bounds.single, value_set=data.paths), -1)
        .to_numpy(zero_copy_only=False)
        .astype(np.int64)
    )
    named = bounds.single.is_valid().to_numpy(zero_copy_only=False)

    def least(sequences: Numbers) -> Numbers:
        """Return the least sequence number per delete file, over the data files in its reach by
        path or partition.
        """
        by_path = np.where(positions >= 0, sequences[positions], _NOBODY)
        by_scope = np.where(
            reach.everywhere,
            sequences.min(initial=_NOBODY),
            _least(data.scopes, sequences, reach.delete_scopes),
        )
        return np.where(named, by_path, by_scope)

    oldest = least(data.sequences)
    # the highest sequence number of data files that the delete applies to
    limit = reach.delete_sequences - entries.is_equality
    without_vector = least(np.where(data.has_vector, _NOBODY, data.sequences))
    empty = entries.numbers("record_count") == 0
    steps = (
        (Reason.DATA_FILE, named & (oldest == _NOBODY)),
        (Reason.PARTITION, oldest == _NOBODY),
        (Reason.SEQUENCE, oldest > limit),
        (Reason.VECTOR, ~entries.is_equality & ~entries.is_vector & (without_vector > limit)),
        (Reason.EMPTY, empty),
        (Reason.KEYS, entries.is_equality),
    )
    numbers = [np.int64(_REASONS.index(reason)) for reason, _ in steps]
    reasons = np.select(
        [holds for _, holds in steps], numbers, np.int64(_REASONS.index(Reason.PATHS))
    )
    return np.where(counts > 0, np.int64(-1), reasons), oldest


def _least(scopes: Numbers, sequences: Numbers, asked: Numbers) -> Numbers:
    """Return the least sequence number in each wanted scope; `_NOBODY` in scopes without data
    files.
    """
    distinct, place = np.unique(scopes, return_inverse=True)
    least = np.full(len(distinct) + 1, _NOBODY)
    np.minimum.at(least, place, sequences)
    nearest = np.minimum(np.searchsorted(distinct, asked), len(distinct) - 1)
    return np.where(distinct[nearest] == asked, least[nearest], _NOBODY)


def _explained(
    metadata: TableMetadata,
    entries: DeleteEntries,
    counts: Numbers,
    reasons: Numbers,
    oldest: Numbers | None = None,
    exact: bool = True,
    bounds: PathBounds | None = None,
) -> ExplainedDeletes:
    """Make the report. `counts`, `reasons`, `oldest`: of each delete file the number of data files
    that it applies to, the number of the reason if there is none (-1: it applies), and the least
    sequence number of the data files in reach (None: not known). `bounds`: those of the entries."""
    bounds = bounds_of(entries) if bounds is None else bounds
    oldest = np.full(len(entries), _NOBODY) if oldest is None else oldest
    named = bounds.single.is_valid().to_numpy(zero_copy_only=False)
    unpartitioned = np.concatenate(
        [np.full(t.num_rows, s.unpartitioned) for s, t in entries.groups]
    )
    kinds = entries.is_equality + 2 * entries.is_vector
    places = np.where(named, 0, np.where(entries.is_equality & unpartitioned, 2, 1))
    table = pa.table(
        {
            "file_path": entries.strings("file_path"),
            "kind": pa.array(_KINDS).take(pa.array(kinds)),
            "scope": pa.array(_SCOPES).take(pa.array(places)),
            "spec_id": pa.array(
                np.concatenate([np.full(t.num_rows, s.spec_id) for s, t in entries.groups]),
                pa.int32(),
            ),
            "partition": _partitions(metadata, entries),
            "equality_columns": _columns(metadata, entries),
            "referenced_data_file": pc.coalesce(
                entries.strings("referenced_data_file"), bounds.single
            ),
            "sequence_number": pa.concat_arrays(
                [column_of(t, "sequence_number") for _, t in entries.groups]
            ),
            "record_count": entries.numbers("record_count"),
            "size_in_bytes": entries.sizes,
            "data_files": counts.astype(np.int64),
            "oldest_data_sequence_number": pa.array(oldest, pa.int64(), mask=oldest == _NOBODY),
            "reason": pa.array([str(r) for r in _REASONS]).take(
                pa.array(reasons, mask=reasons < 0)
            ),
        },
        schema=EXPLAINED,
    )
    return ExplainedDeletes(table, exact)


def _partitions(metadata: TableMetadata, entries: DeleteEntries) -> pa.Array:
    """Format partitions as paths, as their directories are named; each distinct partition once."""
    scopes, parts, begin = scopes_of_deletes(entries), [], 0
    for spec, table in entries.groups:
        _, first, place = np.unique(
            scopes[begin : begin + table.num_rows], return_index=True, return_inverse=True
        )
        begin += table.num_rows
        sources = [source for source, _ in partition_types(spec, metadata)]
        texts = []
        for entry in entries_from_table(table.select(["partition"]).take(pa.array(first)), spec):
            values = zip(spec.fields, sources, entry.data_file.partition, strict=True)
            texts.append(
                "/".join(
                    f"{escape(f.name)}={escape(human_string(f.transform, t, value))}"
                    for f, t, value in values
                )
            )
        parts.append(pa.array(texts, pa.string()).take(pa.array(place)))
    return pa.concat_arrays(parts)


def _columns(metadata: TableMetadata, entries: DeleteEntries) -> pa.Array:
    """Name the columns that each equality delete file compares, as in the newest schema that has
    them; null for other delete files.
    """
    schemas = [
        metadata.schema(),
        *sorted(metadata.schemas, key=lambda s: s.schema_id, reverse=True),
    ]

    def name(field_id: int) -> str:
        return next(
            (n for s in schemas if (n := s.find_column_name(field_id)) is not None), f"#{field_id}"
        )

    ids = pa.concat_arrays([column_of(t, "equality_ids") for _, t in entries.groups])
    flat = pc.list_flatten(ids)
    distinct_ids = pc.unique(flat)
    names = pa.array([name(i) for i in distinct_ids.to_pylist()], pa.string()).take(
        pc.index_in(flat, value_set=distinct_ids)
    )
    lengths = pc.fill_null(pc.list_value_length(ids), 0).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    return pa.ListArray.from_arrays(offsets, names, mask=pa.array(~entries.is_equality))
