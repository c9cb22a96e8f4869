"""Row changes in tasks of Spark. First job: rows with an operation each come in; new rows go to data files, places of rows that leave
theirs are gathered to bitmaps, one a data file. Second job: the places of a data file, from whatever task, are taken away from it."""

from __future__ import annotations

import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64
from pyspark import TaskContext, cloudpickle

from frazil.arrow.values.arrow_schema import to_arrow_schema
from frazil.arrow.write.write_context import WriteContext
from frazil.arrow.write.write_rows import write
from frazil.codec.deletion_vector import positions_array
from frazil.errors import InvalidInput
from frazil.rows.change import ChangeContext, Changed, placed
from frazil.rows.remove import remove_positions
from frazil.scan.tasks import FileScanTask
from frazil.spark.types.fitted import fitted
from frazil.spec.data_file import DataFile
from frazil.spec.schema import Schema
from frazil.storage import Storage
from frazil.storage.base import told
from frazil.tasks.runner import Place, place

DELETED, UPDATED, INSERTED, BY_SOURCE_DELETED, BY_SOURCE_UPDATED, MATCHED = 1, 2, 3, 4, 5, 6
"""What happens to a row; MATCHED: nothing, but its source row has found it."""
LEAVES = (DELETED, UPDATED, BY_SOURCE_DELETED, BY_SOURCE_UPDATED)
WRITES = (UPDATED, INSERTED, BY_SOURCE_UPDATED)
OPERATIONS = BY_SOURCE_UPDATED + 1
_LEAVES = pa.array([n > 0 and n in LEAVES for n in range(MATCHED + 1)])
_WRITES = pa.array([n in WRITES for n in range(MATCHED + 1)])
SHOWN = 3
"""Rows that an error names."""


@dataclass(frozen=True)
class Sink:
    """What tasks of the first job share. Columns that come in: operation, file, place, `_row_id` (with lineage), number of the source row
    (with `numbered`), then those of `schema`, if there are new rows at all."""

    write: WriteContext
    folder: str
    schema: Schema | None = None
    numbered: bool = False

    @property
    def first_column(self) -> int:
        return 3 + self.write.lineage + self.numbered


@dataclass(frozen=True)
class Places:
    """A file of bitmaps: row n of it has the places of data file `paths[n]`, `counts[n]` of them."""

    location: str
    paths: tuple[str, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Report:
    """Of a task of the first job. `rows`: by operation. `twice`: some rows that left their place more than once, (path, place).
    `matched`: numbers of source rows, a serialised bitmap."""

    places: Places | None
    files: tuple[DataFile, ...]
    rows: tuple[int, ...]
    twice: tuple[tuple[str, int], ...]
    matched: bytes
    again: bool


# First job -----------------------------------------------------------------------------------------------------------------------------


@dataclass
class _Gathered:
    rows: list[int] = field(default_factory=lambda: [0] * (MATCHED + 1))
    bitmaps: dict[str, BitMap64] = field(default_factory=dict)
    twice: list[tuple[str, int]] = field(default_factory=list)
    matched: BitMap64 = field(default_factory=BitMap64)

    def count(self, operations: pa.Array) -> None:
        for pair in pc.value_counts(operations).to_pylist():
            self.rows[pair["values"]] += pair["counts"]

    def leave(self, files: pa.Array, positions: pa.Array) -> None:
        """Rows that leave their place: sorted by file, then a bitmap for each."""
        codes = files.dictionary_encode()
        order = np.argsort(codes.indices.to_numpy(), kind="stable")
        numbers, places = codes.indices.to_numpy()[order], positions.to_numpy()[order]
        starts = np.flatnonzero(np.diff(numbers, prepend=-1))
        for start, end in zip(starts, [*starts[1:], len(numbers)], strict=True):
            self._add(codes.dictionary[int(numbers[start])].as_py(), places[start:end])

    def _add(self, path: str, places: np.ndarray) -> None:
        new, held = bitmap(places), self.bitmaps.setdefault(path, BitMap64())
        if len(new) < len(places) or (held and held.intersect(new)):
            self._repeated(path, places, held & new)
        held |= new
        self.bitmaps[path] = held

    def _repeated(self, path: str, places: np.ndarray, again: BitMap64) -> None:
        values, counts = np.unique(places, return_counts=True)
        found = [*values[counts > 1][:SHOWN].tolist(), *list(again[:SHOWN])]
        self.twice += [(path, p) for p in found][: SHOWN - len(self.twice)]


def bitmap(places: np.ndarray) -> BitMap64:
    return BitMap64(array.array("Q", np.ascontiguousarray(places, np.uint64).tobytes()))


def write_changes(sink: Sink, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The worker's side of the first job: one report a task."""
    task = TaskContext.get()
    here = Place(task.partitionId(), task.taskAttemptId(), 1) if task is not None else Place(workers=1)
    gathered, files = _Gathered(), list[DataFile]()
    with place(here):
        rows = _new_rows(sink, gathered, batches)
        target = placed(sink.write)
        if sink.schema is None:
            for _ in rows:
                pass
        else:
            try:
                files = write(rows, target)
            except InvalidInput as e:
                raise RuntimeError(f"FRAZIL_INPUT: {e}") from None
    places = _keep(f"{sink.folder}/places-{here.partition:05d}-{here.task}.arrow", sink.write.storage, gathered.bitmaps)
    again = task is not None and task.attemptNumber() > 0
    report = Report(
        places, tuple(files), tuple(gathered.rows), tuple(gathered.twice), gathered.matched.serialize() if gathered.matched else b"", again
    )
    yield pa.record_batch({"report": pa.array([cloudpickle.dumps(report)], pa.binary())})


def _new_rows(sink: Sink, gathered: _Gathered, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows to write, while what happens to the others is noted."""
    schema = None if sink.schema is None else to_arrow_schema(sink.schema)
    for batch in batches:
        operations = batch.column(0)
        gathered.count(operations)
        leaves = pc.take(_LEAVES, operations)
        if pc.any(leaves).as_py():
            gathered.leave(batch.column(1).filter(leaves), batch.column(2).filter(leaves))
        if sink.numbered:
            gathered.matched |= bitmap(batch.column(3 + sink.write.lineage).to_numpy())
        if schema is None:
            continue
        writes = pc.take(_WRITES, operations)
        new = batch.filter(writes) if not pc.all(writes).as_py() else batch
        if new.num_rows:
            rows = fitted(pa.RecordBatch.from_arrays(new.columns[sink.first_column :], names=schema.names), schema)
            if sink.write.lineage:
                rows = sink.write.rows(pa.RecordBatch.from_arrays([*rows.columns, new.column(3)], names=[*schema.names, "_row_id"]))
            yield rows


def _keep(location: str, storage: Storage, bitmaps: dict[str, BitMap64]) -> Places | None:
    if not bitmaps:
        return None
    paths = sorted(bitmaps)
    counts = []
    with storage.open_output(location) as out, pa.ipc.new_file(out, pa.schema([("places", pa.large_binary())])) as writer:
        for path in paths:
            held = bitmaps.pop(path)
            counts.append(len(held))
            held.run_optimize()
            writer.write_batch(pa.record_batch({"places": pa.array([held.serialize()], pa.large_binary())}))
    return Places(location, tuple(paths), tuple(counts))


# Second job ----------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Touched:
    """A data file, and where the places of its rows that leave are: (file of bitmaps, row in it); `rows`: at most so many."""

    task: FileScanTask
    parts: tuple[tuple[str, int], ...]
    rows: int


def take_away(context: ChangeContext, unique: bool, group: Sequence[Touched]) -> Changed:
    """The worker's side of the second job. `reports` of what comes back: rows that left more than once where they must not (`unique`);
    then nothing was done."""
    opened: dict[str, Any] = {}
    work, twice = [], []
    for touched in group:
        held = BitMap64()
        for location, row in touched.parts:
            part = BitMap64.deserialize(_bitmaps(context.write.storage, location, opened).get_batch(row).column(0)[0].as_py())
            if unique and held.intersect(part):
                twice += [(touched.task.file.file_path, p) for p in list((held & part)[:SHOWN])]
            held |= part
        work.append((touched.task, positions_array(held)))
    if twice:
        return Changed(reports=tuple(twice[:SHOWN]))
    return remove_positions(context, work)


def _bitmaps(storage: Storage, location: str, opened: dict[str, Any]) -> Any:
    if location not in opened:
        local = storage.local_path(location)
        with told(location, "read"):
            opened[location] = pa.ipc.open_file(pa.memory_map(local) if local is not None else storage.open_input(location))
    return opened[location]
