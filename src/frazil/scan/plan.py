"""Plan the data files of a snapshot and the deletes that apply to them (spec, "Scan Planning").

From the manifest list to manifests to data files, each step skips what the filter excludes. Files
stay columns of Arrow tables, one table (a `PlannedFiles` group) per partition spec, since entries
of different specs have partition values of different types.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import Unsupported
from frazil.expr.bind import bind
from frazil.expr.bound import Bound, Constant, references
from frazil.expr.building import from_numpy
from frazil.expr.nodes import AlwaysTrue, Predicate
from frazil.scan.deletes import DeleteEntries, DeleteIndex, attach, read_deletes
from frazil.scan.explain.delete_report import Reason
from frazil.scan.explain.explain_file import Candidates, ExplainedFile, explain_file
from frazil.scan.explain.explanation import Explanation
from frazil.scan.listing.listed_twice import refuse_files_listed_twice
from frazil.scan.listing.numbering import FileNumbers, number_files
from frazil.scan.manifests import (
    ALL_COLUMNS,
    PLAN_COLUMNS,
    PRUNED_BY,
    STATISTICS,
    are_small,
    clear_caches,
    each,
    is_data,
    live,
    manifests_of,
    packs_for,
    read_manifest,
    threads_for,
)
from frazil.scan.options import ScanOptions
from frazil.scan.prune import file_pruner, manifest_outcomes, prune_by_bounds_first
from frazil.scan.report import PlannedByServer, PlanReport, with_deletes, with_files
from frazil.scan.tasks import DELETES, NUMBER, WHOLLY, PlannedFiles, TaskSequence
from frazil.spec.manifest import ManifestFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.partitioning import PartitionSpec
from frazil.spec.schema import Schema
from frazil.spec.snapshot import Snapshot, Snapshots
from frazil.storage import Storage

__all__ = ["Plan", "ScanOptions", "clear_caches", "plan"]

EntryChoice = Callable[[pa.Table], pa.Table]
_MANY_MANIFESTS = 8
_PACK, _PACK_BYTES = 4, 8 << 20
_RESULT = tuple(c for c in PLAN_COLUMNS if c not in ("status", "content"))


@dataclass(frozen=True)
class Plan:
    """Hold the planned data files of one scan. `row_filter` is the bound filter, `schema` the
    table's columns as this scan sees them.

    `has_deletes`: row-level deletes apply to some of the planned files; the tasks of these carry
    them as `delete_files`. `by_server`: the catalog's server that has planned the scan; None:
    Frazil has, out of the `candidates`.
    """

    metadata: TableMetadata = field(repr=False)
    snapshot: Snapshot | None
    schema: Schema = field(repr=False)
    row_filter: Bound
    groups: tuple[PlannedFiles, ...] = field(repr=False)
    report: PlanReport = field(repr=False)
    options: ScanOptions = field(default_factory=ScanOptions, repr=False)
    delete_manifests: tuple[ManifestFile, ...] = field(default=(), repr=False)
    all_delete_manifests: tuple[ManifestFile, ...] = field(default=(), repr=False)
    storage: Storage | None = field(default=None, repr=False, compare=False)
    by_server: PlannedByServer | None = None
    candidates: Candidates | None = field(default=None, repr=False, compare=False)

    def reads_by(self, storage: Storage) -> Storage:
        """Return the storage that reads the planned files, `storage` being the table's."""
        return storage if self.by_server is None else self.by_server.storage

    @cached_property
    def has_deletes(self) -> bool:
        return any(bool(g.has_deletes.any()) for g in self.groups)

    @cached_property
    def equality_ids(self) -> tuple[int, ...]:
        """Return the ids of the columns that equality deletes of this snapshot compare, if any may
        apply; ascending.
        """
        indexes = {
            id(g.deletes): g.deletes for g in self.groups if isinstance(g.deletes, DeleteIndex)
        }
        field_ids: set[int] = set()
        for index in indexes.values():
            field_ids.update(
                i
                for _, t in index.entries.groups
                for i in pc.unique(pc.list_flatten(t.column("equality_ids"))).to_pylist()
            )
        return tuple(sorted(field_ids))

    def __len__(self) -> int:
        return sum(len(g) for g in self.groups)

    def tasks(self) -> TaskSequence:
        """Return one task per file; each is made when it is asked for, while the length is known at
        once.
        """
        return TaskSequence(self.groups, self.row_filter)

    def paths(self) -> list[str]:
        paths: list[str] = []
        for group in self.groups:
            paths.extend(group.table.column("file_path").to_pylist())
        return paths

    @cached_property
    def total_size(self) -> int:
        """Return the bytes of the planned files."""
        return sum(pc.sum(g.table.column("file_size_in_bytes")).as_py() or 0 for g in self.groups)

    @cached_property
    def total_records(self) -> int:
        """Count the rows in the planned files, before the filter and deletes."""
        return sum(pc.sum(g.table.column("record_count")).as_py() or 0 for g in self.groups)

    @cached_property
    def matched_records(self) -> int:
        """Count the rows of the files in which every row matches, less the rows that deletion
        vectors delete.
        """
        return sum(int(_rows_left(g)[_known(g)].sum()) for g in self.groups)

    def undecided_tasks(self) -> TaskSequence:
        """Return the tasks of the files that `matched_records` cannot count: their rows must be
        tested by the filter, or against deletes that do not tell how many rows they delete."""
        rest = [g.chosen(pa.array(~_known(g))) for g in self.groups]
        return TaskSequence(tuple(g for g in rest if len(g)), self.row_filter)

    def filter_schema(self) -> Schema:
        """Return the columns that the filter reads."""
        return self.schema.project(references(self.row_filter))

    def explain(self) -> Explanation:
        """Explain what was skipped and by which statistics, which deletes apply, and why the others
        do not.
        """
        return Explanation(
            self.report,
            self.metadata,
            self.groups,
            self._idle_deletes,
            self._explained_file,
            self.by_server,
        )

    def _explained_file(self, file_path: str) -> ExplainedFile:
        if self.candidates is None:
            raise Unsupported(
                f"The server that planned the scan of {self.report.table} does not say why it chose a file.",
                hint="With scan-planning-mode=client Frazil plans the scan itself, and can say.",
                table=self.report.table,
            )
        return explain_file(file_path, self.candidates, self.metadata, self.row_filter, self.schema)

    def _idle_deletes(self) -> Iterator[tuple[Reason, DeleteEntries]]:
        """Yield the delete files that were compared with no data file, and why; their manifests are
        read now if planning skipped them.
        """
        if self.storage is None or self.by_server is not None:
            return
        read = {m.manifest_path for m in self.delete_manifests}
        unread = [m for m in self.all_delete_manifests if m.manifest_path not in read]
        matching = {
            m.manifest_path for m in may_match(unread, self.metadata, self.row_filter, self.schema)
        }
        matched = [m for m in unread if m.manifest_path in matching]
        excluded = [m for m in unread if m.manifest_path not in matching and m.has_live_files]
        unneeded = (
            () if self.groups else self.delete_manifests
        )  # read by planning, but no data file was left
        for reason, manifests in (
            (Reason.NO_DATA, (*unneeded, *matched)),
            (Reason.MANIFEST, excluded),
        ):
            entries = read_deletes(self.metadata, self.storage, manifests, self.options.workers)
            if entries is not None:
                yield reason, entries


def plan(
    metadata: TableMetadata,
    storage: Storage,
    *,
    snapshot: Snapshot | None,
    row_filter: Predicate | None = None,
    schema: Schema,
    case_sensitive: bool = True,
    zone: str = "UTC",
    options: ScanOptions | None = None,
    files: range | None = None,
    to_remove: bool = False,
    may_repeat: bool = False,
) -> Plan:
    """Plan the data files of a snapshot that may hold rows matching the filter, and the deletes
    that apply to them.

    `may_repeat`: files may be listed twice, as a read gives their rows as often. `to_remove`: files
    in which all rows match will be removed without being read, so they, too, may be. `files`: only
    the files with these numbers (`scan.listing.numbering`), which their tasks then carry;
    range(total) plans all files, numbered. Raises Unsupported for encrypted tables, CorruptData and
    NoSuchFileError for manifests that are damaged or missing.
    """
    begun = time.perf_counter_ns()
    row_filter = row_filter if row_filter is not None else AlwaysTrue()
    bound = bind(row_filter, schema, case_sensitive=case_sensitive, zone=zone)
    report = PlanReport(
        table=metadata.location,
        snapshot_id=snapshot.snapshot_id if snapshot else None,
        filter=str(row_filter),
        schema_id=schema.schema_id,
    )
    options = options or ScanOptions()
    manifests = manifests_of(metadata, snapshot, storage) if snapshot is not None else ()
    numbers = (
        number_files(metadata, snapshot, storage, files=files)
        if snapshot is not None and files is not None
        else None
    )
    data = [m for m in manifests if is_data(m)] if numbers is None else numbers.wanted()
    deletes = [m for m in manifests if not is_data(m)]
    wanted = bool(deletes) and bool(may_match(data, metadata, bound, schema))
    relevant = may_match(deletes, metadata, bound, schema) if wanted else []
    entries = read_deletes(metadata, storage, relevant, options.workers)
    needs = (
        replace(options, with_stats=True)
        if entries is not None and entries.has_equality
        else options
    )
    groups, report = plan_manifests(
        metadata, storage, data, bound, schema, needs, report, numbers=numbers
    )
    if snapshot is not None and not may_repeat:
        read = (
            [g.chosen(pc.not_equal(g.table.column("_match"), WHOLLY)) for g in groups]
            if to_remove
            else groups
        )
        refuse_files_listed_twice(read, metadata, snapshot)
    if entries is not None and groups:
        groups, report = _with_deletes(metadata, groups, entries, options, report)
    report = replace(
        report,
        total_planning_duration=time.perf_counter_ns() - begun,
        total_delete_manifests=len(deletes),
        scanned_delete_manifests=len(relevant),
        skipped_delete_manifests=len(deletes) - len(relevant),
    )
    return Plan(
        metadata,
        snapshot,
        schema,
        bound,
        groups,
        report,
        options,
        tuple(relevant),
        tuple(deletes),
        storage,
        candidates=Candidates(tuple(data), storage),
    )


def _with_deletes(
    metadata: TableMetadata,
    groups: tuple[PlannedFiles, ...],
    entries: DeleteEntries,
    options: ScanOptions,
    report: PlanReport,
) -> tuple[tuple[PlannedFiles, ...], PlanReport]:
    """Attach the deletes, and drop the statistics that were read only to match equality deletes."""
    attached, index = attach(metadata, groups, entries, one_snapshot=True)
    if not options.with_stats:
        attached = tuple(
            PlannedFiles(g.spec, result_of(g.table, DELETES), g.deletes) for g in attached
        )
    return attached, with_deletes(report, index)


def _known(group: PlannedFiles) -> Any:
    """Mark the files whose rows all match and for which the number of deleted rows is known."""
    wholly = pc.equal(group.table.column("_match"), WHOLLY).to_numpy()
    return wholly & (_removed(group) >= 0)


def _rows_left(group: PlannedFiles) -> Any:
    return group.table.column("record_count").to_numpy() - _removed(group)


def _removed(group: PlannedFiles) -> Any:
    """Return how many rows of each file are deleted, -1: unknown."""
    numbers = group.delete_numbers
    if not isinstance(group.deletes, DeleteIndex):
        return np.where(numbers < 0, 0, -1)
    return np.where(numbers < 0, 0, group.deletes.removed_rows[numbers])


def may_match(
    manifests: Sequence[ManifestFile], metadata: TableMetadata, bound: Bound, schema: Schema
) -> list[ManifestFile]:
    """Keep the manifests with live files whose partition summaries may match the filter, in their
    order.
    """
    alive = [m for m in manifests if m.has_live_files]
    keep = np.ones(len(alive), dtype=bool)
    specs = np.array([m.partition_spec_id for m in alive], dtype=np.int64)
    for spec_id in np.unique(specs):
        rows = np.flatnonzero(specs == spec_id)
        spec = metadata.spec_by_id(int(spec_id))
        keep[rows] = manifest_outcomes([alive[i] for i in rows], bound, schema, spec) & 1 != 0
    return [m for m, may in zip(alive, keep, strict=True) if may]


def plan_manifests(
    metadata: TableMetadata,
    storage: Storage,
    data: Sequence[ManifestFile],
    bound: Bound,
    schema: Schema,
    options: ScanOptions,
    report: PlanReport,
    choose: EntryChoice | None = None,
    numbers: FileNumbers | None = None,
) -> tuple[tuple[PlannedFiles, ...], PlanReport]:
    """Plan the files of data manifests: one group per partition spec, and the report with its
    counters.

    `choose` limits the entries beforehand (by default to live ones), `numbers` to those whose
    numbers are wanted.
    """
    chosen = may_match(data, metadata, bound, schema)
    first = BoundsFirst(
        len(chosen) >= _MANY_MANIFESTS and bool(references(bound)) and not options.with_stats
    )
    read = partial(
        _read,
        metadata=metadata,
        storage=storage,
        bound=bound,
        schema=schema,
        options=options,
        first=first,
        entries=partial(_numbered, numbers)
        if numbers is not None
        else partial(_chosen, choose or live),
    )
    by_spec: dict[int, list[pa.Table]] = {}
    by_partition = by_statistics = 0
    small, threads = are_small(chosen), threads_for(chosen, storage, options.workers)
    few_together = (
        packs_for(chosen, threads, _PACK, _PACK_BYTES) if first.worth_it else [[m] for m in chosen]
    )
    packs = packs_for(chosen, threads) if small else few_together
    parts = each(partial(read, together=small), packs, threads)
    for spec_id, table, partition, statistics in itertools.chain.from_iterable(parts):
        by_partition, by_statistics = by_partition + partition, by_statistics + statistics
        if table.num_rows:
            by_spec.setdefault(spec_id, []).append(table)
    groups = tuple(
        PlannedFiles(metadata.spec_by_id(i), _together(tables)) for i, tables in by_spec.items()
    )
    for group in groups:
        refuse_encrypted(metadata, group)
    return groups, replace(
        with_files(report, groups, by_partition, by_statistics),
        total_data_manifests=len(data),
        scanned_data_manifests=len(chosen),
        skipped_data_manifests=len(data) - len(chosen),
    )


def _together(tables: list[pa.Table]) -> pa.Table:
    """Concatenate tables; partition values written before a type promotion are widened to the type
    of those after it.
    """
    return pa.concat_tables(tables, promote_options="permissive") if len(tables) > 1 else tables[0]


class BoundsFirst:
    """Decide whether a manifest is first read without counts, which only the files that bounds keep
    need.

    That saves time while few manifests keep any file, so the past manifests decide. Threads update
    the counters without a lock: a lost update changes how much is read, not what is found.
    """

    def __init__(self, worth_it: bool) -> None:
        self._on, self._read, self._kept = worth_it, 0, 0

    @property
    def worth_it(self) -> bool:
        return self._on and self._kept * _MANY_MANIFESTS <= self._read

    def count(self, read: int, staying: int) -> None:
        self._read, self._kept = self._read + read, self._kept + staying


def _read(
    pack: Sequence[ManifestFile],
    *,
    metadata: TableMetadata,
    storage: Storage,
    bound: Bound,
    schema: Schema,
    options: ScanOptions,
    entries: Callable[[ManifestFile, pa.Table], pa.Table],
    first: BoundsFirst,
    together: bool,
) -> list[tuple[int, pa.Table, int, int]]:
    """Read and prune a pack of manifests: (spec id, files that are left, skipped by partition
    values, skipped by statistics) tuples.

    `together`: the entries of the pack are pruned as one table, which takes as long as pruning
    those of one small manifest.
    """
    spec = metadata.spec_by_id(pack[0].partition_spec_id)
    results = []
    if first.worth_it and not together:
        tables = [entries(m, read_manifest(storage, m, PRUNED_BY)) for m in pack]
        keeping, by_partition, by_statistics = _excluded(
            tables, bound, schema, spec, metadata.snapshots
        )
        first.count(len(pack), len(keeping))
        results.append((spec.spec_id, pa.table({}), by_partition, by_statistics))
        pack = [pack[n] for n in keeping]
    columns = (
        ALL_COLUMNS
        if options.with_stats
        else (*PLAN_COLUMNS, *STATISTICS)
        if references(bound)
        else PLAN_COLUMNS
    )
    prune = partial(
        prune_entries, bound=bound, schema=schema, spec=spec, snapshots=metadata.snapshots
    )
    if together:
        tables = [entries(m, read_manifest(storage, m, columns)) for m in pack]
        for _, alike in itertools.groupby(tables, lambda t: t.schema):
            left, by_partition, by_statistics = prune(pa.concat_tables(alike).combine_chunks())
            results.append(
                (
                    spec.spec_id,
                    left if options.with_stats else result_of(left),
                    by_partition,
                    by_statistics,
                )
            )
        return results
    for manifest in pack:
        in_two = not options.with_stats and not first.worth_it and bool(references(bound))
        pruned = (
            prune_by_bounds_first(storage, manifest, partial(entries, manifest), prune)
            if in_two
            else None
        )
        left, by_partition, by_statistics = pruned or prune(
            entries(manifest, read_manifest(storage, manifest, columns))
        )
        if not options.with_stats:
            left = result_of(left)
        results.append((spec.spec_id, left, by_partition, by_statistics))
    return results


def _chosen(choose: EntryChoice, manifest: ManifestFile, entries: pa.Table) -> pa.Table:
    return choose(entries)


def _numbered(numbers: FileNumbers, manifest: ManifestFile, entries: pa.Table) -> pa.Table:
    return numbers.numbered(manifest, numbers.choose(entries))


def result_of(table: pa.Table, *more: str) -> pa.Table:
    """Keep only the columns that tasks are made from."""
    numbers = [NUMBER] if NUMBER in table.column_names else []
    return table.select([*_RESULT, *numbers, "_match", *more])


def _excluded(
    tables: Sequence[pa.Table],
    bound: Bound,
    schema: Schema,
    spec: PartitionSpec,
    snapshots: Snapshots,
) -> tuple[list[int], int, int]:
    """Return the positions of the tables that keep files, and how many files of the others
    partition values and statistics skip.
    """
    if not all(t.schema.equals(tables[0].schema) for t in tables):
        return list(range(len(tables))), 0, 0
    numbers = from_numpy(
        np.repeat(np.arange(len(tables), dtype=np.int64), [t.num_rows for t in tables])
    )
    together = pa.concat_tables(tables).append_column("_from", numbers)
    left, by_partition, by_statistics = prune_entries(together, bound, schema, spec, snapshots)
    keeping: list[int] = sorted(pc.unique(left.column("_from")).to_pylist())
    for n in keeping:
        _, partition, statistics = prune_entries(tables[n], bound, schema, spec, snapshots)
        by_partition, by_statistics = by_partition - partition, by_statistics - statistics
    return keeping, by_partition, by_statistics


def prune_entries(
    entries: pa.Table, bound: Bound, schema: Schema, spec: PartitionSpec, snapshots: Snapshots
) -> tuple[pa.Table, int, int]:
    if isinstance(bound, Constant):
        match = {True: WHOLLY, False: 2, None: 4}[bound.value]
        left = entries if match == WHOLLY else entries.slice(0, 0)
        masks = from_numpy(np.full(left.num_rows, match, dtype=np.uint8))
        return left.append_column("_match", masks), 0, entries.num_rows - left.num_rows
    return file_pruner(bound, schema, spec, snapshots)(entries)


def refuse_encrypted(metadata: TableMetadata, group: PlannedFiles) -> None:
    """Raise Unsupported where a planned file is encrypted."""
    keys = group.table.column("key_metadata")
    if keys.null_count < len(keys):
        file = group.table.filter(keys.is_valid()).column("file_path")[0].as_py()
        text = f"Table {metadata.location} has encrypted data files ({file}); encrypted tables are not supported."
        raise Unsupported(text, table=metadata.location, file=file)
