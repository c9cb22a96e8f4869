"""Index the delete files of a snapshot: match each data file with the delete files that apply to it
(spec, "Scan Planning").

- A deletion vector, or a position delete file of one data file, applies by path, to data no younger
  than itself.
- A position delete file of several data files applies by spec and partition, to data no younger
  than itself.
- An equality delete file applies by spec and partition, or everywhere when its spec is
  unpartitioned, to data strictly older.
- A data file with a deletion vector takes no position delete file. A vector that is older than its
  data file is an error, as in Java.

Data files are numbered through all groups (one group per partition spec), delete files through all
entries. The delete files of a data file are a few spans of an array of delete file numbers that is
sorted by sequence number, so memory does not grow with the number of pairs. While the pairs are few
(at most `PAIRS`) they are listed one by one, and those that statistics rule out are dropped at
once; beyond that they are dropped when the deletes of one data file are asked for.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.codec.manifest import entries_from_table
from frazil.errors import CorruptData, Unsupported
from frazil.expr.building import scalar
from frazil.scan.delete_ranges import PathBounds, Pruner, normalised, path_bounds, pruner_of
from frazil.scan.manifests import (
    DELETE,
    PLAN_COLUMNS,
    STATISTICS,
    column_of,
    each,
    live,
    read_manifest,
    threads_for,
)
from frazil.scan.tasks import DELETES, PlannedFiles
from frazil.spec.manifest import DataFile, DataFileContent, ManifestFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.partitioning import PartitionSpec
from frazil.storage import Storage

PAIRS = 2_000_000  # (data file, delete file) pairs that are listed one by one, at 16 bytes each
_KEPT = tuple(c for c in (*PLAN_COLUMNS, *DELETE) if c != "status")
_BLOCK = 256
_CHUNK = 1_000_000
Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class DeleteEntries:
    """Hold the live delete files of a snapshot, one table of manifest entries per partition spec,
    numbered through all tables.
    """

    groups: tuple[tuple[PartitionSpec, pa.Table], ...]

    def __len__(self) -> int:
        return sum(t.num_rows for _, t in self.groups)

    @property
    def has_equality(self) -> bool:
        return bool(self.is_equality.any())

    @cached_property
    def is_equality(self) -> Flags:
        return np.asarray(self.numbers("content") == int(DataFileContent.EQUALITY_DELETES))

    @cached_property
    def is_vector(self) -> Flags:
        return (
            np.concatenate(
                [pc.equal(t.column("file_format"), "puffin").to_numpy() for _, t in self.groups]
            )
            & ~self.is_equality
        )

    @cached_property
    def sizes(self) -> Numbers:
        """Return the bytes to read per delete file; for a deletion vector those of its blob."""
        blobs = np.concatenate(
            [pc.fill_null(t.column("content_size_in_bytes"), -1).to_numpy() for _, t in self.groups]
        )
        return np.where(self.is_vector & (blobs >= 0), blobs, self.numbers("file_size_in_bytes"))

    def numbers(self, name: str) -> Numbers:
        """Return a numeric column that every entry must have. Raises CorruptData where one is
        missing.
        """
        arrays = []
        for _, table in self.groups:
            column = table.column(name)
            if column.null_count:
                path = table.filter(column.is_null()).column("file_path")[0].as_py()
                raise CorruptData(f"Delete file {path} has no {name} in its manifest.", file=path)
            arrays.append(column.to_numpy().astype(np.int64))
        return np.concatenate(arrays)

    def strings(self, name: str) -> pa.Array:
        return pa.concat_arrays([column_of(t, name) for _, t in self.groups])


@dataclass(frozen=True, eq=False)
class Reach:
    """Hold what decides how far equality deletes reach: each file's scope (equal numbers mean equal
    spec and partition) and sequence number, and which delete files apply in every partition
    (`everywhere`)."""

    data_scopes: Numbers
    data_sequences: Numbers
    delete_scopes: Numbers
    delete_sequences: Numbers
    everywhere: Flags


class DeleteIndex:
    """Look up the delete files of data file i: `counts[i]` is their number, `of(i)` are the files.

    The count is exact when the pairs are listed one by one, otherwise it is an upper limit. The
    first half of the spans of a data file are position delete files and deletion vectors, the
    second half equality delete files. `reach` None: a server has told the pairs, but no sequence
    numbers.
    """

    def __init__(
        self,
        entries: DeleteEntries,
        order: Numbers,
        spans: Numbers,
        pruner: Pruner | None,
        reach: Reach | None,
        ruled_out: int = 0,
    ):
        self._entries, self._order, self._spans, self._pruner, self.reach = (
            entries,
            order,
            spans,
            pruner,
            reach,
        )
        self.ruled_out = ruled_out  # pairs that statistics excluded
        self._made: dict[int, DataFile] = {}

    @cached_property
    def counts(self) -> Numbers:
        return np.asarray((self._spans[:, :, 1] - self._spans[:, :, 0]).sum(axis=1))

    @cached_property
    def equality_counts(self) -> Numbers:
        """Return the number of equality delete files per data file, which `counts` includes."""
        spans = self._spans[:, self._spans.shape[1] // 2 :]
        return np.asarray((spans[:, :, 1] - spans[:, :, 0]).sum(axis=1))

    @cached_property
    def position_records(self) -> Numbers:
        """Return how many positions the delete files of each data file hold, those of other data
        files in the same delete file included.
        """
        return self._position_sums(self._entries.numbers("record_count"))

    @cached_property
    def own_records(self) -> Numbers:
        """Return how many positions the delete files hold that apply to one data file alone;
        deletion vectors are such files.
        """
        single = self.single.is_valid().to_numpy(zero_copy_only=False)
        return self._position_sums(np.where(single, self._entries.numbers("record_count"), 0))

    @cached_property
    def single(self) -> pa.Array:
        """Return the one data file (normalised path) that each delete file applies to; null:
        several, or an equality delete.
        """
        entries = self._entries
        return path_bounds(
            [t for _, t in entries.groups],
            entries.strings("referenced_data_file"),
            ~entries.is_equality,
        ).single

    def _position_sums(self, values: Numbers) -> Numbers:
        """Sum a number of each position delete file over those of each data file."""
        upto = np.concatenate([[0], np.cumsum(values[self._order])])
        spans = self._spans[:, : self._spans.shape[1] // 2]
        return np.asarray((upto[spans[:, :, 1]] - upto[spans[:, :, 0]]).sum(axis=1))

    @cached_property
    def removed_rows(self) -> Numbers:
        """Return how many rows are deleted from each data file where manifests tell: where one
        deletion vector is all that applies. -1: unknown."""
        alone = np.flatnonzero((self.counts == 1) & (self.equality_counts == 0))
        first = self._spans[alone]
        vector_places = first[:, :, 0][first[:, :, 1] > first[:, :, 0]]
        removed = np.full(len(self.counts), -1, np.int64)
        vectors = self._entries.is_vector[self._order[vector_places]]
        removed[alone[vectors]] = self._entries.numbers("record_count")[self._order[vector_places]][
            vectors
        ]
        return removed

    @cached_property
    def sizes(self) -> Numbers:
        """Return the bytes of the delete files of each data file."""
        upto = np.concatenate([[0], np.cumsum(self._entries.sizes[self._order])])
        return np.asarray((upto[self._spans[:, :, 1]] - upto[self._spans[:, :, 0]]).sum(axis=1))

    @cached_property
    def file_counts(self) -> Numbers:
        """Count the data files that each delete file applies to: exact when the pairs are listed
        one by one, otherwise an upper limit.
        """
        edges = np.zeros(len(self._order) + 1, np.int64)
        spans = self._spans.reshape(-1, 2)
        spans = spans[spans[:, 1] > spans[:, 0]]
        np.add.at(edges, spans[:, 0], 1)
        np.add.at(edges, spans[:, 1], -1)
        counts = np.zeros(len(self._entries), np.int64)
        np.add.at(counts, self._order, np.cumsum(edges)[:-1])
        return counts

    def exact_file_counts(self, most: int, chosen: Flags | None = None) -> Numbers | None:
        """Count the data files that each delete file applies to, exactly; None: more than `most`
        pairs would have to be tested. `chosen`: the data files that count, None: all."""
        if self._pruner is None and chosen is None:
            return self.file_counts
        ends = np.cumsum(self.counts)
        if not len(ends) or ends[-1] > most:
            return None
        counts = np.zeros(len(self._entries), np.int64)
        cuts = np.searchsorted(ends, np.arange(_CHUNK, int(ends[-1]), _CHUNK))
        for begin, end in itertools.pairwise(np.unique([0, *cuts, len(ends)]).tolist()):
            rows, deletes = self.pairs(begin, end)
            applies = (
                np.ones(len(rows), np.bool_)
                if self._pruner is None
                else self._pruner(rows, deletes)
            )
            if chosen is not None:
                applies = applies & chosen[rows]
            counts += np.bincount(deletes[applies], minlength=len(counts))
        return counts

    def pairs(self, begin: int, end: int) -> tuple[Numbers, Numbers]:
        """List the pairs (data file, delete file) of the data files numbered `begin` to `end`
        (exclusive), as the spans hold them.
        """
        spans = self._spans[begin:end].reshape(-1, 2)
        lengths = spans[:, 1] - spans[:, 0]
        rows = np.repeat(np.arange(begin, end), self.counts[begin:end])
        within = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return rows, self._order[np.repeat(spans[:, 0], lengths) + within]

    @cached_property
    def used(self) -> Flags:
        """Tell which delete files apply to some data file."""
        return np.asarray(self.file_counts > 0)

    @property
    def entries(self) -> DeleteEntries:
        return self._entries

    def numbers_of(self, row: int, *, positions: bool = True, equality: bool = True) -> Numbers:
        """Return the numbers of the delete files of a data file; of one kind, or of both."""
        half = self._spans.shape[1] // 2
        spans = self._spans[row][0 if positions else half : None if equality else half]
        numbers = np.concatenate([self._order[a:b] for a, b in spans])
        if self._pruner is not None and len(numbers):
            numbers = numbers[self._pruner(np.full(len(numbers), row), numbers)]
        return numbers

    def of(self, row: int) -> tuple[DataFile, ...]:
        """Return the delete files of a data file; the same objects each time."""
        return tuple(self.file(int(n)) for n in self.numbers_of(row))

    def file(self, number: int) -> DataFile:
        """Return a delete file by its number, with its data sequence number."""
        if number not in self._made:
            begin = 0
            for spec, table in self._entries.groups:
                if number < begin + table.num_rows:
                    first = (number - begin) // _BLOCK * _BLOCK
                    for i, entry in enumerate(
                        entries_from_table(table.slice(first, _BLOCK).select(_KEPT), spec)
                    ):
                        file = replace(entry.data_file, data_sequence_number=entry.sequence_number)
                        self._made.setdefault(begin + first + i, file)
                    break
                begin += table.num_rows
        return self._made[number]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made": {}}


def read_deletes(
    metadata: TableMetadata,
    storage: Storage,
    manifests: Sequence[ManifestFile],
    workers: int,
    choose: Callable[[pa.Table], pa.Table] = live,
) -> DeleteEntries | None:
    """Read the delete files of these manifests (`choose`: by default the live ones); None: there
    are none. Raises Unsupported for encrypted ones."""
    by_spec: dict[int, list[pa.Table]] = {}
    for spec_id, table in each(
        partial(_entries, storage=storage, choose=choose),
        manifests,
        threads_for(manifests, storage, workers),
    ):
        if table.num_rows:
            by_spec.setdefault(spec_id, []).append(table)
    groups = tuple(
        (metadata.spec_by_id(i), pa.concat_tables(tables, promote_options="permissive"))
        for i, tables in by_spec.items()
    )
    for _, table in groups:
        check_deletes(metadata, table)
    return DeleteEntries(groups) if groups else None


def _entries(
    manifest: ManifestFile, *, storage: Storage, choose: Callable[[pa.Table], pa.Table]
) -> tuple[int, pa.Table]:
    return manifest.partition_spec_id, choose(
        read_manifest(storage, manifest, (*PLAN_COLUMNS, *DELETE, *STATISTICS))
    )


def check_deletes(metadata: TableMetadata, table: pa.Table) -> None:
    """Check entries of delete files. Raises Unsupported for encrypted ones, CorruptData for
    impossible ones.
    """

    def first(mask: pa.ChunkedArray) -> str | None:
        return table.filter(mask).column("file_path")[0].as_py() if pc.any(mask).as_py() else None

    if (file := first(table.column("key_metadata").is_valid())) is not None:
        text = f"Table {metadata.location} has encrypted delete files ({file}); encrypted tables are not supported."
        raise Unsupported(text, table=metadata.location, file=file)
    kinds = pa.array(
        [int(DataFileContent.POSITION_DELETES), int(DataFileContent.EQUALITY_DELETES)], pa.int32()
    )
    if (file := first(pc.invert(pc.is_in(table.column("content"), kinds)))) is not None:
        raise CorruptData(f"A delete manifest lists {file}, which is not a delete file.", file=file)
    equality = pc.equal(table.column("content"), kinds[1])
    without = pc.not_equal(pc.fill_null(pc.list_value_length(table.column("equality_ids")), 0), 0)
    if (file := first(pc.and_not(equality, without))) is not None:
        text = f"Equality delete file {file} does not say which columns it compares: its manifest has no equality_ids."
        raise CorruptData(text, file=file)
    vector = pc.equal(table.column("file_format"), "puffin")
    if (file := first(pc.and_(vector, equality))) is not None:
        raise CorruptData(
            f"Equality delete file {file} is a puffin file, which can hold deletion vectors only.",
            file=file,
        )
    if (file := first(pc.and_(vector, table.column("referenced_data_file").is_null()))) is not None:
        raise CorruptData(
            f"The deletion vector in {file} has no referenced_data_file in its manifest.", file=file
        )


def attach(
    metadata: TableMetadata,
    groups: tuple[PlannedFiles, ...],
    entries: DeleteEntries,
    *,
    one_snapshot: bool = False,
) -> tuple[tuple[PlannedFiles, ...], DeleteIndex]:
    """Attach deletes to planned files: the groups with each file's number in the index (column
    `_deletes`, -1: no delete applies), and the index. `one_snapshot`: data and delete files are of
    one snapshot, in which no deletion vector can be older than its data file; raises CorruptData
    where one is."""
    index = _index(metadata, groups, entries, one_snapshot)
    numbers = np.where(index.counts > 0, np.arange(len(index.counts)), -1)
    begin, attached = 0, []
    for group in groups:
        own = pa.array(numbers[begin : begin + len(group)], pa.int64())
        attached.append(PlannedFiles(group.spec, group.table.append_column(DELETES, own), index))
        begin += len(group)
    return tuple(attached), index


def _index(
    metadata: TableMetadata,
    groups: tuple[PlannedFiles, ...],
    entries: DeleteEntries,
    one_snapshot: bool,
) -> DeleteIndex:
    """Match delete files with data files, by path, by partition and spec, and by sequence number."""
    data_numbers = np.concatenate(
        [pc.fill_null(g.table.column("sequence_number"), 0).to_numpy() for g in groups]
    )
    numbers = entries.numbers("sequence_number")
    data_paths = normalised(pa.concat_arrays([column_of(g.table, "file_path") for g in groups]))
    bounds = path_bounds(
        [t for _, t in entries.groups],
        entries.strings("referenced_data_file"),
        ~entries.is_equality,
    )
    by_path = _by_path(entries, bounds, data_paths, data_numbers, numbers, one_snapshot)
    orders, spans = _Orders(len(data_numbers)), []
    spans.append(orders.pairs(*by_path[:2]))
    scattered = ~entries.is_equality & ~entries.is_vector & bounds.scattered
    positional = np.where(
        by_path[2], np.int64(-1), data_numbers
    )  # -1: a deletion vector replaces all position delete files
    everywhere = (
        np.concatenate([np.full(t.num_rows, s.unpartitioned) for s, t in entries.groups])
        & entries.is_equality
    )
    codes, delete_codes = _partitions(groups, entries)
    for chosen, ages, least in (
        (scattered, positional, 0),
        (entries.is_equality & ~everywhere, data_numbers, 1),
    ):
        spans.append(
            orders.by_code(codes, delete_codes, ages, numbers, np.flatnonzero(chosen), least)
        )
    all_one = np.zeros(len(codes), np.int64)
    spans.append(
        orders.by_code(
            all_one,
            np.zeros(len(numbers), np.int64),
            data_numbers,
            numbers,
            np.flatnonzero(everywhere),
            1,
        )
    )
    order, stacked = orders.together(spans)
    pruner = pruner_of(
        metadata,
        groups,
        [t for _, t in entries.groups],
        bounds,
        data_paths,
        scattered,
        entries.is_equality,
    )
    reach = Reach(codes, data_numbers, delete_codes, numbers, everywhere)
    index = DeleteIndex(entries, order, stacked, pruner, reach)
    return _spelled_out(index) if pruner is not None else index


def _spelled_out(index: DeleteIndex) -> DeleteIndex:
    """List the pairs one by one when they are few, and drop those that statistics exclude."""
    total = int(index.counts.sum())
    if total > PAIRS:
        return index
    rows, deletes = index.pairs(0, len(index.counts))
    assert index._pruner is not None
    keep = index._pruner(rows, deletes)
    kinds = (
        2 * rows[keep] + index.entries.is_equality[deletes[keep]]
    )  # per data file, position deletes come first
    ends = np.cumsum(np.bincount(kinds, minlength=2 * len(index.counts)))
    spans = (
        np.stack([np.concatenate([[0], ends[:-1]]), ends], axis=1)
        .reshape(-1, 2, 2)
        .astype(np.int64)
    )
    return DeleteIndex(
        index.entries, deletes[keep], spans, None, index.reach, total - int(keep.sum())
    )


class _Orders:
    """Build one array out of several lists of delete file numbers, and the spans of each data file
    in it.
    """

    def __init__(self, rows: int):
        self._rows, self._parts, self._at = rows, [np.zeros(0, np.int64)], 0

    def _add(self, part: Numbers, low: Numbers, high: Numbers) -> Numbers:
        spans = np.stack([low, np.maximum(low, high)], axis=1) + self._at
        self._parts.append(part)
        self._at += len(part)
        return np.asarray(spans)

    def pairs(self, rows: Numbers, deletes: Numbers) -> Numbers:
        by_row = np.argsort(rows, kind="stable")
        ends = np.cumsum(np.bincount(rows, minlength=self._rows)).astype(np.int64)
        return self._add(deletes[by_row], np.concatenate([[0], ends[:-1]]).astype(np.int64), ends)

    def by_code(
        self,
        codes: Numbers,
        delete_codes: Numbers,
        ages: Numbers,
        numbers: Numbers,
        chosen: Numbers,
        least: int,
    ) -> Numbers:
        """Add the chosen deletes, matched by equal code (scope) and by sequence number: at least
        the data file's `ages` plus `least`. Age -1: no delete matches."""
        distinct_numbers = np.unique(numbers[chosen])
        steps = len(distinct_numbers) + 1
        keys = delete_codes[chosen] * steps + np.searchsorted(distinct_numbers, numbers[chosen])
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        low = np.searchsorted(keys, codes * steps + np.searchsorted(distinct_numbers, ages + least))
        high = np.where(ages < 0, low, np.searchsorted(keys, (codes + 1) * steps))
        return self._add(
            chosen[order].astype(np.int64), low.astype(np.int64), high.astype(np.int64)
        )

    def together(self, spans: Sequence[Numbers]) -> tuple[Numbers, Numbers]:
        return np.concatenate(self._parts), np.stack(spans, axis=1)


def _by_path(
    entries: DeleteEntries,
    bounds: PathBounds,
    data_paths: pa.Array,
    data_numbers: Numbers,
    numbers: Numbers,
    one_snapshot: bool,
) -> tuple[Numbers, Numbers, Flags]:
    """Match delete files of a single data file by path: pairs (data file, delete file), and which
    data files have a deletion vector.
    """
    named = np.flatnonzero(
        bounds.single.is_valid().to_numpy(zero_copy_only=False) & ~entries.is_equality
    )
    matched_rows = pc.index_in(bounds.single.take(pa.array(named)), value_set=data_paths)
    rows = pc.fill_null(matched_rows, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    rows, named = _every_entry(rows[rows >= 0], named[rows >= 0], data_paths)
    fits = data_numbers[rows] <= numbers[named]
    if one_snapshot and (old := np.flatnonzero(~fits & entries.is_vector[named])).size:
        raise _vector_too_old(
            entries, data_paths, int(rows[old[0]]), int(named[old[0]]), data_numbers, numbers
        )
    rows, named = rows[fits], named[fits]
    vectors = entries.is_vector[named]
    has_vector = np.bincount(rows[vectors], minlength=len(data_numbers))
    if len(has_vector) and int(has_vector.max()) > 1:
        path = data_paths[int(has_vector.argmax())].as_py()
        raise CorruptData(
            f"Data file {path} has {int(has_vector.max())} deletion vectors; at most one is allowed.",
            file=path,
        )
    keep = vectors | (has_vector[rows] == 0)
    return rows[keep], named[keep], has_vector > 0


def _vector_too_old(
    entries: DeleteEntries,
    data_paths: pa.Array,
    row: int,
    vector: int,
    data_numbers: Numbers,
    numbers: Numbers,
) -> CorruptData:
    """Make the error that Java's DeleteFileIndex raises too: such a vector was written for another
    file of that name, or its manifest is damaged."""
    path, file = data_paths[row].as_py(), entries.strings("file_path")[vector].as_py()
    text = (
        f"DV data sequence number ({numbers[vector]}) must be greater than or equal to data file sequence number ({data_numbers[row]}): "
        f"the deletion vector in {file} is older than its data file {path}."
    )
    hint = "Read a snapshot from before the vector or the data file was added, or roll the table back to it."
    return CorruptData(text, hint=hint, file=file, data_file=path)


def _every_entry(rows: Numbers, named: Numbers, data_paths: pa.Array) -> tuple[Numbers, Numbers]:
    """Repeat pairs with the first entry of a path for all its entries: a file may be listed twice,
    under one spelling or under two.
    """
    first = (
        pc.index_in(data_paths, value_set=data_paths)
        .to_numpy(zero_copy_only=False)
        .astype(np.int64)
    )
    if (first == np.arange(len(first))).all():
        return rows, named
    order = np.argsort(first, kind="stable")
    low, high = (np.searchsorted(first[order], rows, side=side) for side in ("left", "right"))
    counts = high - low
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return order[np.repeat(low, counts) + within], np.repeat(named, counts)


def scopes_of_deletes(entries: DeleteEntries) -> Numbers:
    """Return the scope of each delete file, a number: equal numbers mean equal spec and partition."""
    return _partitions((), entries)[1]


def scopes_of_files(group: PlannedFiles) -> Numbers:
    """Number the partitions of planned files: equal numbers mean equal partitions."""
    return _codes(_children(group.spec, group.table))


def _partitions(
    groups: tuple[PlannedFiles, ...], entries: DeleteEntries
) -> tuple[Numbers, Numbers]:
    """Number each distinct (spec, partition): the numbers of the data files, and those of the
    delete files.
    """
    sizes = [len(g) for g in groups]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    codes, delete_codes = np.zeros(sum(sizes), np.int64), np.zeros(len(entries), np.int64)
    base, begin = 0, 0
    for group, start in zip(
        groups, starts[:-1], strict=True
    ):  # specs without deletes too: no two specs share a number
        codes[start : start + len(group)] = base
        base += 1
    for spec, table in entries.groups:
        of_spec = [
            (g, int(start))
            for g, start in zip(groups, starts[:-1], strict=True)
            if g.spec_id == spec.spec_id
        ]
        tables = [_children(spec, t) for t in (*(g.table for g, _ in of_spec), table)]
        joined = pa.concat_tables(tables, promote_options="permissive")
        numbers = _codes(joined) if spec.fields else np.zeros(joined.num_rows, np.int64)
        done = 0
        for group, start in of_spec:
            codes[start : start + len(group)] = numbers[done : done + len(group)] + base
            done += len(group)
        delete_codes[begin : begin + table.num_rows] = numbers[done:] + base
        begin += table.num_rows
        base += int(numbers.max(initial=0)) + 1
    return codes, delete_codes


def _children(spec: PartitionSpec, table: pa.Table) -> pa.Table:
    array = column_of(table, "partition")
    have = {array.type.field(i).name: i for i in range(array.type.num_fields)}
    columns = [
        array.field(have[n]) if n in have else pa.nulls(len(array))
        for n in (str(f.field_id) for f in spec.fields)
    ]
    return pa.table(
        columns or [pa.nulls(len(array))], names=[str(i) for i in range(max(1, len(columns)))]
    )


def _codes(partition: pa.Table) -> Numbers:
    """Number rows so that equal rows have equal numbers. Null equals null; floats are compared by
    their bits, and all NaNs are equal.
    """
    codes: Numbers = np.zeros(partition.num_rows, np.int64)
    for column in partition.columns:
        array = pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)
        if pa.types.is_floating(array.type):
            array = float_bits(array)
        if pa.types.is_null(array.type):
            continue
        here = (
            pc.fill_null(array.dictionary_encode().indices, scalar(-1, pa.int32()))
            .to_numpy(zero_copy_only=False)
            .astype(np.int64)
            + 1
        )
        _, codes = np.unique(codes * (int(here.max(initial=0)) + 1) + here, return_inverse=True)
    return codes.astype(np.int64)


def float_bits(array: pa.Array) -> pa.Array:
    """Convert floats to integers that are equal where the format takes the floats for equal: by
    their bits, with all NaNs alike.
    """
    values = array.cast(pa.float64())
    numbers = pc.fill_null(values, 0.0).to_numpy(zero_copy_only=False).copy()
    numbers[np.isnan(numbers)] = np.nan
    return pa.array(numbers.view(np.int64), mask=array.is_null().to_numpy(zero_copy_only=False))
