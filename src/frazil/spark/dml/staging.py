"""Stage a DataFrame: tasks write its rows once, as Arrow files in a folder of the operation, from
where Spark and Arrow tasks read them any number of times.

The source of a MERGE is used several times: its keys prune the target, its rows are matched,
unmatched rows are inserted. A DataFrame is a query, which Spark would run again each time, perhaps
with other results. Files are used instead of Spark's cache because cached blocks are computed again
when an executor is lost, and because tasks without a session can map files into memory.

Rows are numbered: n is the n-th row over the files, in their order. Failed and repeated attempts
leave files that no report names; these are deleted with the folder, which the caller removes at the
end (`remove`).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64
from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql import types as s

from frazil.arrow.write.write_context import WriteContext
from frazil.codec.deletion_vector import positions_array
from frazil.errors import InvalidInput, Unsupported
from frazil.ops.session import Session
from frazil.spark.host.failures import failure
from frazil.spark.host.interruptible import interruptible
from frazil.spark.host.workers import check_shared, check_workers, guarded
from frazil.spark.tasks.numbered_groups import over_groups
from frazil.spark.tasks.spark_runner import folder_removed_on_error
from frazil.spark.tasks.this_task import this_task
from frazil.spark.types.arrow_types import arrow_schema, fitted
from frazil.storage import Storage
from frazil.storage.base import translated_errors
from frazil.storage.locations import data_root, scheme_of

FEW = 64
"""The distinct values of a key column that are kept, at most."""
_REPORT = s.StructType(
    [s.StructField("part", s.IntegerType()), s.StructField("report", s.BinaryType())]
)
ORDERED = (
    s.ByteType, s.ShortType, s.IntegerType, s.LongType, s.DecimalType, s.DateType, s.TimestampType, s.TimestampNTZType, s.StringType,
)  # fmt: skip
"""Types whose order is the same in Spark, Arrow and Iceberg: no floats, because of NaN."""


@dataclass(frozen=True)
class StagedFile:
    """Refer to one Arrow IPC file, with its number of rows and bytes."""

    location: str
    rows: int
    bytes: int


@dataclass(frozen=True)
class KeyValues:
    """Summarise the non-null values of a key column, as Python values: the least, the greatest, and
    all of them when they are few, else None."""

    low: Any
    high: Any
    few: frozenset[Any] | None


@dataclass(frozen=True)
class StagedFrame:
    """Refer to the files of a staged frame; picklable. `schema`: of the files, whose columns have
    the frame's names, made unique.
    """

    folder: str
    storage: Storage = field(repr=False)
    schema: pa.Schema
    spark_schema: s.StructType = field(repr=False)
    files: tuple[StagedFile, ...] = ()
    values: dict[int, KeyValues] = field(default_factory=dict, hash=False)
    """By place, for the columns of the ORDERED types that have a value other than null."""

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return sum(f.rows for f in self.files)

    @property
    def bytes(self) -> int:
        """Return the size of the rows in Arrow's memory layout."""
        return sum(f.bytes for f in self.files)


# The driver's side
# --------------------------------------------------------------------------------------------------


def folder_of(context: WriteContext) -> str:
    """Return the folder for temporary files of an operation. It lies beside the table's data,
    because workers can reach that.
    """
    return f"{data_root(context.location, context.properties)}/staging-{context.operation_id}"


def stage(frame: DataFrame, folder: str, storage: Storage) -> StagedFrame:
    """Write the rows of a frame to files in a new folder under `folder`; after an error no file is
    left.

    Raises Unsupported for a column of a type that cannot be staged and for tables whose location is
    in memory, NotInstalledError where workers lack Frazil.
    """
    if scheme_of(folder) == "memory":
        raise Unsupported(
            "A table at a memory: location lives in this process; Spark's workers cannot write to it.",
            hint="Give an Arrow frame.",
        )
    spark = frame.sparkSession
    schema = plain(frame.schema)
    place = f"{folder}/source-{uuid.uuid4()}"
    shared(spark, storage, folder)
    staged = StagedFrame(place, storage, arrow_schema(schema), schema)
    try:
        with folder_removed_on_error(spark, storage, place):
            # Spark would look for a name with a dot inside a struct
            by_place = frame.toDF(*(f"c{n}" for n in range(len(schema))))
            parts = interruptible(
                spark, by_place.mapInArrow(guarded(__name__, "write_part", staged), _REPORT).collect
            )
    except BaseException as e:
        raise failure(e, folder) or e from e
    reports = [
        cloudpickle.loads(bytes(r["report"])) for r in sorted(parts, key=lambda r: int(r["part"]))
    ]
    values = {
        k: v
        for k in range(len(schema))
        if (v := _combined([r[1][k] for r in reports if k in r[1]])) is not None
    }
    return StagedFrame(
        place, storage, staged.schema, schema, tuple(f for r in reports for f in r[0]), values
    )


def stage_table(
    table: pa.Table, schema: s.StructType, folder: str, storage: Storage
) -> StagedFrame:
    """Write rows that the driver holds to a file in a new folder. `schema`: as `plain` returns it."""
    staged = StagedFrame(folder, storage, arrow_schema(schema), schema)
    files, values = _written(staged, f"{folder}/00000-0.arrow", iter(table.to_batches()))
    return replace(staged, files=files, values=values)


def shared(spark: Session, storage: Storage, folder: str) -> None:
    """Check before any work that workers have this version of Frazil and see the folder. Raises
    NotInstalledError and InvalidInput.
    """
    check_workers(spark)
    if (local := storage.local_path(folder)) is not None:
        check_shared(spark, local.rpartition("/staging-")[0] or local)


def as_frame(
    spark: Session, staged: StagedFrame, row_number: str | None = None, without: bytes = b""
) -> DataFrame:
    """Read the staged rows as a lazy DataFrame. `row_number`: the name of an added column with the
    numbers of the rows. `without`: a serialised bitmap of the numbers of rows to leave out."""
    files, first = [], 0
    for f in staged.files:
        files.append((f.location, first))
        first += f.rows
    number = [] if row_number is None else [s.StructField(row_number, s.LongType())]
    schema = s.StructType([*staged.spark_schema.fields, *number])
    read = StagedRead(staged.storage, arrow_schema(schema), row_number is not None, without)
    return over_groups(spark, files, schema, __name__, "read_part", read)


def open_file(staged: StagedFrame, number: int) -> pa.Table:
    """Read the rows of one file; on local disks the file is mapped into memory, so only what is
    used is read.
    """
    return open_rows(staged.storage, staged.files[number].location)


def plain(schema: s.StructType) -> s.StructType:
    """Return a schema with unique names and nullable columns. Raises Unsupported for types that
    Spark does not hand to Python.
    """
    taken: set[str] = set()
    fields = []
    for f in schema.fields:
        name = f.name
        while name in taken:
            name = f"{name}_"
        taken.add(name)
        if isinstance(f.dataType, s.CalendarIntervalType | s.UserDefinedType):
            raise Unsupported(
                f"Column {f.name} of type {f.dataType.simpleString()} cannot be staged.",
                hint="Cast or drop the column.",
            )
        fields.append(s.StructField(name, f.dataType, True))
    return s.StructType(fields)


def _combined(parts: Sequence[KeyValues]) -> KeyValues | None:
    """Combine the key values of several tasks; None where there are none."""
    if not parts:
        return None
    few: frozenset[Any] | None = frozenset()
    for p in parts:
        few = None if few is None or p.few is None or len(few | p.few) > FEW else few | p.few
    return KeyValues(min(p.low for p in parts), max(p.high for p in parts), few)


# The worker's side
# --------------------------------------------------------------------------------------------------


def write_part(staged: StagedFrame, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write in a worker the rows of one task to one file (none when there are no rows) and yield
    one report.
    """
    task = this_task()
    report = cloudpickle.dumps(
        _written(staged, f"{staged.folder}/{task.partition:05d}-{task.attempt}.arrow", batches)
    )
    yield pa.record_batch(
        {"part": pa.array([task.partition], pa.int32()), "report": pa.array([report], pa.binary())}
    )


def _written(
    staged: StagedFrame, location: str, batches: Iterator[pa.RecordBatch]
) -> tuple[tuple[StagedFile, ...], dict[int, KeyValues]]:
    """Write batches to a file; returns the file (none when there are no rows) and the summaries of
    its columns.
    """
    key_values = {
        number: _Seen()
        for number, f in enumerate(staged.spark_schema.fields)
        if type(f.dataType) in ORDERED
    }
    rows, size = 0, 0
    batch = next(batches, None)
    if batch is not None:
        with (
            staged.storage.open_output(location) as sink,
            pa.ipc.new_file(sink, staged.schema) as writer,
        ):
            while batch is not None:
                conformed = fitted(batch, staged.schema)
                writer.write_batch(conformed)
                rows, size = rows + conformed.num_rows, size + conformed.nbytes
                for number, values in key_values.items():
                    values.add(conformed.column(number))
                batch = next(batches, None)
    files = (StagedFile(location, rows, size),) if rows else ()
    return files, {
        number: v for number, values in key_values.items() if (v := values.summary()) is not None
    }


class _Seen:
    """Collect the least, the greatest and, while they are few, all values of a column, batch by
    batch.
    """

    def __init__(self) -> None:
        self._parts: list[tuple[Any, Any]] = []
        self._few: set[Any] | None = set()

    def add(self, column: pa.Array) -> None:
        """Add the values of a batch."""
        column = column.drop_null()
        if not len(column):
            return
        ends = pc.min_max(column)
        self._parts.append((ends["min"].as_py(), ends["max"].as_py()))
        if self._few is not None:
            distinct = pc.unique(column)
            self._few = None if len(distinct) > FEW else self._few | set(distinct.to_pylist())
            if self._few is not None and len(self._few) > FEW:
                self._few = None

    def summary(self) -> KeyValues | None:
        """Return the summary of all values; None where every one is null."""
        if not self._parts:
            return None
        return KeyValues(
            min(p[0] for p in self._parts),
            max(p[1] for p in self._parts),
            None if self._few is None else frozenset(self._few),
        )


@dataclass(frozen=True)
class StagedRead:
    """Say how staged rows are read back. `numbered`: with the numbers of the rows as the last
    column. `without`: a serialised bitmap of the numbers of rows to leave out."""

    storage: Storage
    schema: pa.Schema
    numbered: bool
    without: bytes


def read_part(_: int, file: tuple[str, int], read: StagedRead) -> Iterator[pa.RecordBatch]:
    """Read in a worker the rows of one staged file, given as (location, number of its first row)."""
    location, first = file
    left_out = positions_array(BitMap64.deserialize(read.without)) if read.without else None
    for batch in open_rows(read.storage, location).to_batches():
        places = np.arange(first, first + batch.num_rows)
        first += batch.num_rows
        columns = [*batch.columns, pa.array(places)] if read.numbered else batch.columns
        rows = fitted(pa.RecordBatch.from_arrays(columns, names=read.schema.names), read.schema)
        yield (
            rows
            if left_out is None
            else rows.filter(pa.array(~np.isin(places, left_out, assume_unique=True)))
        )


def open_rows(storage: Storage, location: str) -> pa.Table:
    """Read a file of staged rows; on local disks it is mapped into memory. Raises InvalidInput
    where it is incomplete.
    """
    local = storage.local_path(location)
    try:
        with translated_errors(location, "read"):
            source = pa.memory_map(local) if local is not None else storage.open_input(location)
            return pa.ipc.open_file(source).read_all()
    except pa.ArrowInvalid as e:
        raise InvalidInput(
            f"{location} is not a complete file of staged rows: {e}", file=location
        ) from e
