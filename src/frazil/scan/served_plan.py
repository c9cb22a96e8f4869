"""Make a plan of the file scan tasks that a catalog's server has planned.

The server tells which delete files apply to which data file, but no sequence numbers. The files
that it names are pruned once more, by their partition values and by what counts and bounds it
tells, so that a file of which every row matches is known as such: residual filters of a server are
no proof of that, since null means something else in Iceberg's expressions than in SQL.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.codec.content_file_json import ContentFile, ScanTasksJson, content_of, entries_of
from frazil.errors import CorruptData
from frazil.expr.bound import Bound, references
from frazil.expr.building import from_numpy
from frazil.scan.bounds import partition_types
from frazil.scan.deletes import DeleteEntries, DeleteIndex, check_deletes
from frazil.scan.listing.listed_twice import rows_of_a_repeated_path
from frazil.scan.options import ScanOptions
from frazil.scan.plan import Plan, prune_entries, refuse_encrypted, result_of
from frazil.scan.report import PlannedByServer, PlanReport, with_deletes, with_files
from frazil.scan.tasks import DELETES, PlannedFiles
from frazil.spec.manifest import DataFileContent
from frazil.spec.metadata import TableMetadata
from frazil.spec.partitioning import PartitionSpec
from frazil.spec.schema import Schema
from frazil.spec.snapshot import Snapshot
from frazil.storage import Storage
from frazil.storage.locations import normalise

_TASK = "_task"  # column of planned files until deletes are attached: the number of the task
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class AskedScan:
    """Hold the scan that a server is asked to plan: one snapshot, its filter, bound to `schema`,
    and the text of the filter.
    """

    metadata: TableMetadata = field(repr=False)
    storage: Storage = field(repr=False)
    snapshot: Snapshot
    schema: Schema = field(repr=False)
    row_filter: Bound
    filter_text: str
    options: ScanOptions = field(repr=False)


def plan_of_tasks(
    scan: AskedScan, answers: Sequence[ScanTasksJson], by_server: PlannedByServer, begun: int
) -> Plan:
    """Make a plan out of the tasks in a server's answers. `begun`: when planning began, in
    nanoseconds of `time.perf_counter_ns`.

    Raises CorruptData for tasks that contradict themselves or the table's metadata, Unsupported for
    encrypted files.
    """
    tasks = _Tasks(answers)
    groups, by_partition, by_statistics = _data_files(scan, tasks)
    _refuse_repeated(scan, groups)
    report = PlanReport(
        table=scan.metadata.location,
        snapshot_id=scan.snapshot.snapshot_id,
        filter=scan.filter_text,
        schema_id=scan.schema.schema_id,
    )
    report = with_files(report, groups, by_partition, by_statistics)
    planned, index = _with_deletes(scan, tasks, groups)
    if index is not None:
        report = with_deletes(report, index)
    report = replace(report, total_planning_duration=time.perf_counter_ns() - begun)
    return Plan(
        scan.metadata,
        scan.snapshot,
        scan.schema,
        scan.row_filter,
        planned,
        report,
        scan.options,
        storage=scan.storage,
        by_server=by_server,
    )


class _Tasks:
    """Number the tasks of all answers, and their delete files: one that several answers name has
    one number.
    """

    def __init__(self, answers: Sequence[ScanTasksJson]):
        self.files: list[ContentFile] = []
        self.deletes: list[ContentFile] = []
        self.applying: list[list[int]] = []
        numbers: dict[tuple[str, int | None], int] = {}
        for answer in answers:
            own = []
            for file in answer.delete_files or ():
                number = numbers.setdefault(
                    (file.file_path, file.content_offset), len(self.deletes)
                )
                if number == len(self.deletes):
                    self.deletes.append(file)
                own.append(number)
            for task in answer.file_scan_tasks or ():
                self.files.append(task.data_file)
                self.applying.append(
                    [self._meant(own, n, task.data_file) for n in task.delete_file_references or ()]
                )

    def _meant(self, own: Sequence[int], place: int, data: ContentFile) -> int:
        """Return the number of the delete file that a task refers to by its place in an answer.

        Java's server 1.11.0 tells deletion vectors apart by their Puffin file alone, so that a task
        may refer to another vector in the file of its own one. Vectors name their data files, by
        which the right one is found.
        """
        if not 0 <= place < len(own):
            text = f"The task of {data.file_path} refers to delete file {place}, but the answer has {len(own)} of them."
            raise CorruptData(text, file=data.file_path)
        delete_file = self.deletes[own[place]]
        if not _is_vector(delete_file):
            return own[place]
        named = delete_file.referenced_data_file
        if named is None or _same(named, data.file_path):
            delete_file.referenced_data_file = data.file_path
            return own[place]
        for number in own:
            other = self.deletes[number]
            if (
                _is_vector(other)
                and other.file_path == delete_file.file_path
                and _same(other.referenced_data_file or "", data.file_path)
            ):
                return number
        text = f"The deletion vector in {delete_file.file_path} is one of {named}, but was planned for {data.file_path}."
        raise CorruptData(text, file=delete_file.file_path, data_file=data.file_path)


def _is_vector(file: ContentFile) -> bool:
    return file.file_format.lower() == "puffin"


def _same(first: str, second: str) -> bool:
    """Tell whether two locations name one file."""
    return first == second or normalise(first) == normalise(second)


def _data_files(scan: AskedScan, tasks: _Tasks) -> tuple[list[PlannedFiles], int, int]:
    """Return the planned files by partition spec, and how many were skipped by partition values and
    by statistics.
    """
    if (
        wrong := next((f for f in tasks.files if content_of(f) != DataFileContent.DATA), None)
    ) is not None:
        raise CorruptData(
            f"A task reads {wrong.file_path}, which is not a data file but holds {wrong.content}.",
            file=wrong.file_path,
        )
    groups, by_partition, by_statistics = [], 0, 0
    for spec, numbers in _by_spec(scan.metadata, tasks.files):
        entries = _entries(scan, spec, [tasks.files[n] for n in numbers])
        entries = entries.append_column(_TASK, pa.array(numbers, pa.int64()))
        remaining, partition, statistics = prune_entries(
            entries, scan.row_filter, scan.schema, spec, scan.metadata.snapshots
        )
        by_partition, by_statistics = by_partition + partition, by_statistics + statistics
        if remaining.num_rows:
            groups.append(PlannedFiles(spec, remaining))
            refuse_encrypted(scan.metadata, groups[-1])
    return groups, by_partition, by_statistics


def _by_spec(
    metadata: TableMetadata, files: Sequence[ContentFile]
) -> list[tuple[PartitionSpec, list[int]]]:
    """List the numbers of the files of each partition spec. Raises CorruptData for a spec that the
    table does not have.
    """
    numbers_by_spec: dict[int, list[int]] = {}
    for number, file in enumerate(files):
        numbers_by_spec.setdefault(file.spec_id, []).append(number)
    spec_by_id = {s.spec_id: s for s in metadata.partition_specs}
    for spec_id, numbers in numbers_by_spec.items():
        if spec_id not in spec_by_id:
            file = files[numbers[0]]
            raise CorruptData(
                f"File {file.file_path} is of partition spec {spec_id}, which its table lacks.",
                file=file.file_path,
            )
    return [(spec_by_id[spec_id], numbers) for spec_id, numbers in numbers_by_spec.items()]


def _entries(scan: AskedScan, spec: PartitionSpec, files: Sequence[ContentFile]) -> pa.Table:
    types = [type_ for _, type_ in partition_types(spec, scan.metadata)]
    return entries_of(files, spec, types, scan.schema, tuple(references(scan.row_filter)))


def _refuse_repeated(scan: AskedScan, groups: Sequence[PlannedFiles]) -> None:
    """Raise CorruptData where two tasks read one data file: its rows would be read twice."""
    if not groups:
        return
    paths = pa.concat_arrays([c for g in groups for c in g.table.column("file_path").chunks])
    if len(rows := rows_of_a_repeated_path(paths)):
        path = paths[int(rows[0])].as_py()
        text = (
            f"The plan lists data file {path} {len(rows)} times; its rows would be read as often."
        )
        raise CorruptData(text, file=path, snapshot_id=scan.snapshot.snapshot_id)


def _with_deletes(
    scan: AskedScan, tasks: _Tasks, groups: Sequence[PlannedFiles]
) -> tuple[tuple[PlannedFiles, ...], DeleteIndex | None]:
    """Attach the delete files that the tasks of the planned files refer to."""
    wanted = [int(n) for g in groups for n in g.table.column(_TASK).to_pylist()]
    applying = [sorted(set(tasks.applying[n])) for n in wanted]
    used = sorted({n for numbers in applying for n in numbers})
    if not used:
        return tuple(PlannedFiles(g.spec, _result(scan, g.table)) for g in groups), None
    _check_vectors(tasks, wanted, applying)
    entry_of: dict[int, int] = {}
    tables = []
    for spec, places in _by_spec(scan.metadata, [tasks.deletes[n] for n in used]):
        table = _entries(scan, spec, [tasks.deletes[used[p]] for p in places])
        check_deletes(scan.metadata, table)
        entry_of.update({used[p]: len(entry_of) + n for n, p in enumerate(places)})
        tables.append((spec, table))
    rows = np.repeat(
        np.arange(len(applying), dtype=np.int64), [len(numbers) for numbers in applying]
    )
    entry_numbers = np.array([entry_of[n] for numbers in applying for n in numbers], np.int64)
    index = _index(DeleteEntries(tuple(tables)), len(applying), rows, entry_numbers)
    numbers = np.where(index.counts > 0, np.arange(len(index.counts)), -1)
    begin, attached = 0, []
    for group in groups:
        own = from_numpy(numbers[begin : begin + len(group)].astype(np.int64))
        attached.append(
            PlannedFiles(
                group.spec, _result(scan, group.table.append_column(DELETES, own), DELETES), index
            )
        )
        begin += len(group)
    return tuple(attached), index


def _result(scan: AskedScan, table: pa.Table, *more: str) -> pa.Table:
    return table.drop_columns([_TASK]) if scan.options.with_stats else result_of(table, *more)


def _check_vectors(tasks: _Tasks, files: Sequence[int], applying: Sequence[Sequence[int]]) -> None:
    """Raise CorruptData for two deletion vectors of one data file, and for one without a place in
    its file.
    """
    for number, deletes in zip(files, applying, strict=True):
        data = tasks.files[number].file_path
        vectors = [n for n in deletes if _is_vector(tasks.deletes[n])]
        if len(vectors) > 1:
            raise CorruptData(
                f"Data file {data} has {len(vectors)} deletion vectors; at most one is allowed.",
                file=data,
            )
        for vector in (tasks.deletes[n] for n in vectors):
            if vector.content_offset is None or vector.content_size_in_bytes is None:
                raise CorruptData(
                    f"The deletion vector in {vector.file_path} has no place in its file.",
                    file=vector.file_path,
                )


def _index(entries: DeleteEntries, files: int, rows: Numbers, deletes: Numbers) -> DeleteIndex:
    """Make an index of pairs (data file, delete file)."""
    # of each data file, position deletes come first
    kinds = 2 * rows + entries.is_equality[deletes]
    order = np.argsort(kinds, kind="stable")
    ends = np.cumsum(np.bincount(kinds, minlength=2 * files))
    spans = (
        np.stack([np.concatenate([[0], ends[:-1]]), ends], axis=1)
        .reshape(-1, 2, 2)
        .astype(np.int64)
    )
    return DeleteIndex(entries, deletes[order], spans, None, None)


def total_rows(answers: Sequence[ScanTasksJson]) -> int:
    """Count the rows of the data files in a server's answers, deleted ones included."""
    return sum(
        task.data_file.record_count for answer in answers for task in answer.file_scan_tasks or ()
    )


def is_plain(snapshot: Snapshot) -> bool:
    """Tell whether the snapshot's summary says that it has no delete files, so that every row of
    its data files counts.
    """
    return snapshot.summary.get("total-delete-files", "") == "0"


__all__ = ["AskedScan", "is_plain", "plan_of_tasks", "total_rows"]
