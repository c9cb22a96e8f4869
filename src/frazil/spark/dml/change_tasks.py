"""Change rows in Spark tasks, in two jobs.

First job: each row comes with an operation. New rows are written to data files; the positions of
rows that are deleted or replaced are collected as bitmaps, one per data file and task. Second job:
the positions of a data file, from whatever tasks, are removed from it, by rewriting the file or by
delete files. There are two jobs because Spark distributes the rows of one data file over many
tasks, while a data file must be rewritten, or get its deletion vector, once. Bitmaps keep what
passes between the jobs small.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64
from pyspark import cloudpickle

from frazil.arrow.values.arrow_schema import to_arrow_schema
from frazil.arrow.write.write_context import WriteContext
from frazil.arrow.write.write_rows import write
from frazil.codec.deletion_vector import positions_array, positions_bitmap
from frazil.rows.change import ChangeContext, Changed, placed, remove_positions
from frazil.scan.tasks import FileScanTask
from frazil.spark.tasks.this_task import input_errors, this_task
from frazil.spark.types.arrow_types import fitted
from frazil.spec.manifest import DataFile
from frazil.spec.schema import Schema
from frazil.storage import Storage
from frazil.storage.base import translated_errors
from frazil.tasks.runner import Place, place

DELETED, UPDATED, INSERTED, BY_SOURCE_DELETED, BY_SOURCE_UPDATED, MATCHED = 1, 2, 3, 4, 5, 6
"""What happens to a row. MATCHED: nothing, but a source row of a MERGE matches it."""
LEAVES = (DELETED, UPDATED, BY_SOURCE_DELETED, BY_SOURCE_UPDATED)
WRITES = (UPDATED, INSERTED, BY_SOURCE_UPDATED)
_LEAVES = pa.array([n in LEAVES for n in range(MATCHED + 1)])
_MATCHED = pa.scalar(MATCHED, pa.int8())
_PLACES = pa.schema([(name, pa.large_binary()) for name in ("leave", "stay")])
_WRITES = pa.array([n in WRITES for n in range(MATCHED + 1)])
SHOWN = 3
"""The rows that an error names, at most."""


@dataclass(frozen=True)
class Sink:
    """Hold what the tasks of the first job share.

    Columns of incoming rows: operation, file, position, `_row_id` (with row lineage), number of the
    source row (with `numbered`), then those of `schema`, which is None where the operation writes
    no new rows. `folder`: where the bitmaps are written.
    """

    write: WriteContext
    folder: str
    schema: Schema | None = None
    numbered: bool = False

    @property
    def first_column(self) -> int:
        """Return the place of the first column of `schema`."""
        return 3 + self.write.lineage + self.numbered


@dataclass(frozen=True)
class Places:
    """Refer to an Arrow file of bitmaps: its row n has the positions of data file `paths[n]`, of
    rows that leave it (`counts[n]` many) and of rows that are matched only.
    """

    location: str
    paths: tuple[str, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True)
class TaskReport:
    """Report what a task of the first job did. `rows`: counts by operation. `twice`: some rows, as
    (path, position), that were deleted, replaced or matched more than once. `matched`: numbers of
    the source rows that matched, a serialised bitmap. `retried`: Spark tried the task more than
    once.
    """

    places: Places | None
    files: tuple[DataFile, ...]
    rows: tuple[int, ...]
    twice: tuple[tuple[str, int], ...]
    matched: bytes
    retried: bool


# First job
# --------------------------------------------------------------------------------------------------


@dataclass
class _CountedRows:
    """Collect what the first job reports: counts by operation, positions by data file, numbers of
    matched source rows.
    """

    rows: list[int] = field(default_factory=lambda: [0] * (MATCHED + 1))
    leave: dict[str, BitMap64] = field(default_factory=dict)
    stay: dict[str, BitMap64] = field(default_factory=dict)
    twice: list[tuple[str, int]] = field(default_factory=list)
    matched: BitMap64 = field(default_factory=BitMap64)

    def count(self, operations: pa.Array) -> None:
        """Count rows by operation."""
        for pair in pc.value_counts(operations).to_pylist():
            self.rows[pair["values"]] += pair["counts"]

    def place(self, files: pa.Array, positions: pa.Array, bitmaps: dict[str, BitMap64]) -> None:
        """Add the positions of rows to `leave` or `stay`: sort them by file, then add those of each
        file to its bitmap.
        """
        codes = files.dictionary_encode()
        order = np.argsort(codes.indices.to_numpy(), kind="stable")
        numbers, places = codes.indices.to_numpy()[order], positions.to_numpy()[order]
        starts = np.flatnonzero(np.diff(numbers, prepend=-1))
        for start, end in zip(starts, [*starts[1:], len(numbers)], strict=True):
            path = codes.dictionary[int(numbers[start])].as_py()
            new = self._new(path, places[start:end])
            bitmaps.setdefault(path, BitMap64())
            bitmaps[path] |= new

    def _new(self, path: str, places: np.ndarray) -> BitMap64:
        """Return the bitmap of positions in a file, and note some of those that occur twice."""
        new = positions_bitmap(places)
        repeated: list[int] = []
        if len(new) < len(places):
            values, counts = np.unique(places, return_counts=True)
            repeated += values[counts > 1][:SHOWN].tolist()
        for earlier in (self.leave.get(path), self.stay.get(path)):
            if earlier is not None and earlier.intersect(new):
                repeated += (earlier & new)[:SHOWN]
        self.twice += [(path, p) for p in repeated][: SHOWN - len(self.twice)]
        return new


def write_rows_and_positions(
    sink: Sink, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Run a task of the first job in a worker: write new rows and bitmaps, yield one report."""
    task, gathered, files = this_task(), _CountedRows(), list[DataFile]()
    with place(Place(task.partition, task.attempt, 1)):
        rows = _new_rows(sink, gathered, batches)
        target = placed(sink.write)
        if sink.schema is None:
            for _ in rows:
                pass
        else:
            with input_errors():
                files = write(rows, target)
    places = _write_places(
        f"{sink.folder}/places-{task.partition:05d}-{task.attempt}.arrow",
        sink.write.storage,
        gathered,
    )
    matched = gathered.matched.serialize() if gathered.matched else b""
    report = TaskReport(
        places, tuple(files), tuple(gathered.rows), tuple(gathered.twice), matched, task.retried
    )
    yield pa.record_batch({"report": pa.array([cloudpickle.dumps(report)], pa.binary())})


def _new_rows(
    sink: Sink, gathered: _CountedRows, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows to write; count operations and collect positions on the way."""
    schema = None if sink.schema is None else to_arrow_schema(sink.schema)
    for batch in batches:
        operations = batch.column(0)
        gathered.count(operations)
        for chosen, bitmaps in (
            (pc.take(_LEAVES, operations), gathered.leave),
            (pc.equal(operations, _MATCHED), gathered.stay),
        ):
            if pc.any(chosen).as_py():
                gathered.place(
                    batch.column(1).filter(chosen), batch.column(2).filter(chosen), bitmaps
                )
        if sink.numbered:
            gathered.matched |= positions_bitmap(batch.column(3 + sink.write.lineage).to_numpy())
        if schema is None:
            continue
        writes = pc.take(_WRITES, operations)
        new = batch.filter(writes) if not pc.all(writes).as_py() else batch
        if new.num_rows:
            rows = fitted(
                pa.RecordBatch.from_arrays(new.columns[sink.first_column :], names=schema.names),
                schema,
            )
            if sink.write.lineage:
                rows = sink.write.rows(
                    pa.RecordBatch.from_arrays(
                        [*rows.columns, new.column(3)], names=[*schema.names, "_row_id"]
                    )
                )
            yield rows


def _write_places(location: str, storage: Storage, gathered: _CountedRows) -> Places | None:
    """Write the bitmaps of a task to an Arrow file, one row per data file; they are freed as they
    are written. None: there are none.
    """
    paths = sorted({*gathered.leave, *gathered.stay})
    if not paths:
        return None
    counts = []
    with (
        storage.open_output(location) as out,
        pa.ipc.new_file(out, _PLACES) as writer,
    ):
        for path in paths:
            bitmaps = [part.pop(path, BitMap64()) for part in (gathered.leave, gathered.stay)]
            counts.append(len(bitmaps[0]))
            for positions in bitmaps:
                positions.run_optimize()
            writer.write_batch(pa.record_batch([[b.serialize()] for b in bitmaps], schema=_PLACES))
    return Places(location, tuple(paths), tuple(counts))


# Second job
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Touched:
    """Hold a data file with rows that leave it or are matched, and where their positions are: (file
    of bitmaps, row in it). `rows`: how many leave it, at most.
    """

    task: FileScanTask
    parts: tuple[tuple[str, int], ...]
    rows: int


def take_away(context: ChangeContext, unique: bool, group: Sequence[Touched]) -> Changed:
    """Remove in a worker the collected positions from a group of data files.

    `unique`: no row may be matched twice, as in a MERGE with a WHEN MATCHED clause; where one is,
    the result has only `reports`, which name such rows, and no file is written.
    """
    opened: dict[str, Any] = {}
    work, twice = [], []
    for touched in group:
        positions, matched = BitMap64(), BitMap64()
        for location, row in touched.parts:
            bitmaps = _bitmaps(context.write.storage, location, opened).get_batch(row)
            leave, stay = (BitMap64.deserialize(column[0].as_py()) for column in bitmaps.columns)
            if unique:
                part = leave | stay
                if matched.intersect(part):
                    repeated = (matched & part)[:SHOWN]
                    twice += [(touched.task.file.file_path, p) for p in repeated]
                matched |= part
            positions |= leave
        if positions:
            work.append((touched.task, positions_array(positions)))
    if twice:
        return Changed(reports=tuple(twice[:SHOWN]))
    return remove_positions(context, work)


def _bitmaps(storage: Storage, location: str, opened: dict[str, Any]) -> Any:
    """Open a file of bitmaps, once per task."""
    if location not in opened:
        local = storage.local_path(location)
        with translated_errors(location, "read"):
            opened[location] = pa.ipc.open_file(
                pa.memory_map(local) if local is not None else storage.open_input(location)
            )
    return opened[location]
