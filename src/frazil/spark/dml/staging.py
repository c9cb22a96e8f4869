"""A DataFrame evaluated once: tasks write its rows as Arrow files into a folder of the operation; from there Spark and Arrow tasks read
them as often as they like. Rows have numbers: n is the n-th row over the files, in their order.

Failed and repeated attempts leave files that no report names; they go with the folder, which the caller removes at the end (`remove`).
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64
from pyspark import TaskContext, cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql import types as s
from pyspark.sql.pandas.types import from_arrow_schema

from frazil.arrow.write.write_context import WriteContext
from frazil.codec.deletion_vector import positions_array
from frazil.errors import InvalidInput, Unsupported
from frazil.spark.host.failures import failure
from frazil.spark.host.interruptible import interruptible
from frazil.spark.host.workers import check_shared, check_workers, guarded
from frazil.spark.tasks.numbered_groups import over_groups
from frazil.spark.tasks.stragglers import settle
from frazil.spark.types.arrow_types import arrow_schema
from frazil.spark.types.fitted import fitted
from frazil.storage import Storage
from frazil.storage.base import told
from frazil.storage.locations import data_root, scheme_of

FEW = 64
"""Distinct values of a key column that are remembered at most."""
_REPORT = s.StructType([s.StructField("part", s.IntegerType()), s.StructField("report", s.BinaryType())])
ORDERED = (
    s.ByteType, s.ShortType, s.IntegerType, s.LongType, s.DecimalType, s.DateType, s.TimestampType, s.TimestampNTZType, s.StringType,
)  # fmt: skip
"""Types whose values are ordered alike everywhere: no floats, whose NaN is not, and no text with a collation (a type of its own)."""


@dataclass(frozen=True)
class StagedFile:
    """One Arrow IPC file: its rows, its bytes."""

    location: str
    rows: int
    bytes: int


@dataclass(frozen=True)
class KeyValues:
    """What a key column holds beside nulls: the least, the greatest (Python values), and all of them when they are few, else None."""

    low: Any
    high: Any
    few: frozenset[Any] | None


@dataclass(frozen=True)
class StagedFrame:
    """Frozen and picklable. `schema`: of the files; columns have the frame's names, made different where the frame repeats one."""

    folder: str
    storage: Storage = field(repr=False)
    schema: pa.Schema
    spark_schema: s.StructType = field(repr=False)
    files: tuple[StagedFile, ...] = ()
    values: dict[int, KeyValues] = field(default_factory=dict, hash=False)
    """Of columns whose values have an order of one meaning, by their place; not of those of which every value is null."""

    @property
    def rows(self) -> int:
        return sum(f.rows for f in self.files)

    @property
    def bytes(self) -> int:
        return sum(f.bytes for f in self.files)


# The driver's side ---------------------------------------------------------------------------------------------------------------------


def folder_of(context: WriteContext) -> str:
    """Where an operation keeps what is not to stay: beside the table's data, which the workers reach anyway."""
    return f"{data_root(context.location, context.properties)}/staging-{context.operation_id}"


def stage(frame: DataFrame, folder: str, storage: Storage) -> StagedFrame:
    """The rows of a frame in files under a fresh folder in `folder`.

    Raises Unsupported for a column of a type that cannot be staged and for tables in memory, NotInstalledError for workers without Frazil;
    after an error nothing is left.
    """
    if scheme_of(folder) == "memory":
        raise Unsupported("A table in memory: lives in this process; Spark's workers cannot write to it.", hint="Give an Arrow frame.")
    spark = frame.sparkSession
    schema = _plain(frame.schema)
    place = f"{folder}/source-{uuid.uuid4()}"
    shared(spark, storage, folder)
    made = StagedFrame(place, storage, arrow_schema(schema), schema)
    try:
        numbered = frame.toDF(*(f"c{n}" for n in range(len(schema))))  # Spark would look for a name with a dot inside a struct
        parts = interruptible(spark, numbered.mapInArrow(guarded(__name__, "write_part", made), _REPORT).collect)
    except BaseException as e:
        settle(spark)
        remove(made)
        raise failure(e, folder) or e from e
    reports = [cloudpickle.loads(bytes(r["report"])) for r in sorted(parts, key=lambda r: int(r["part"]))]
    values = {k: v for k in range(len(schema)) if (v := _joined([r[1][k] for r in reports if k in r[1]])) is not None}
    return StagedFrame(place, storage, made.schema, schema, tuple(f for r in reports for f in r[0]), values)


def from_files(locations: Sequence[str], storage: Storage, schema: pa.Schema) -> StagedFrame:
    """Rows that others have staged in Arrow files; nothing is known of their values."""
    spark_schema = _plain(from_arrow_schema(schema, prefer_timestamp_ntz=True))
    found = []
    for location in locations:
        rows = _opened(storage, location)
        found.append(StagedFile(location, rows.num_rows, rows.nbytes))
    return StagedFrame(
        locations[0].rpartition("/")[0] if locations else "", storage, arrow_schema(spark_schema), spark_schema, tuple(found)
    )


def shared(spark: Any, storage: Storage, folder: str) -> None:
    """Before any work: workers have this Frazil, and see the folder."""
    check_workers(spark)
    if (local := storage.local_path(folder)) is not None:
        check_shared(spark, local.rpartition("/staging-")[0] or local)


def remove(staged: StagedFrame | str, storage: Storage | None = None) -> None:
    """The folder of something staged, or any folder, is gone; best effort, since what stays is an orphan and harmless."""
    folder, store = (staged.folder, staged.storage) if isinstance(staged, StagedFrame) else (staged, storage)
    assert store is not None
    with contextlib.suppress(Exception):
        if store.is_directory(folder):
            store.delete_tree(folder)


def as_frame(spark: Any, staged: StagedFrame, row_number: str | None = None, without: bytes = b"") -> DataFrame:
    """The staged rows as a DataFrame again, lazily, as often as wanted. `row_number`: name of a column with the rows' numbers.
    `without`: a serialised bitmap of the numbers of rows to leave out."""
    files, first = [], 0
    for f in staged.files:
        files.append((f.location, first))
        first += f.rows
    number = [] if row_number is None else [s.StructField(row_number, s.LongType())]
    schema = s.StructType([*staged.spark_schema.fields, *number])
    read = StagedRead(staged.storage, arrow_schema(schema), row_number is not None, without)
    return over_groups(spark, files, schema, __name__, "read_part", read)


def open_file(staged: StagedFrame, number: int) -> pa.Table:
    """The rows of one file; on local disks they stay there until they are looked at."""
    return _opened(staged.storage, staged.files[number].location)


def _plain(schema: s.StructType) -> s.StructType:
    """Every column by a name of its own, all nullable. Raises Unsupported for types that do not go to Python."""
    taken: set[str] = set()
    fields = []
    for f in schema.fields:
        name = f.name
        while name in taken:
            name = f"{name}_"
        taken.add(name)
        if isinstance(f.dataType, s.CalendarIntervalType | s.UserDefinedType):
            raise Unsupported(f"Column {f.name} of type {f.dataType.simpleString()} cannot be staged.", hint="Cast or drop it.")
        fields.append(s.StructField(name, f.dataType, True))
    return s.StructType(fields)


def _joined(parts: Sequence[KeyValues]) -> KeyValues | None:
    if not parts:
        return None
    few: frozenset[Any] | None = frozenset()
    for p in parts:
        few = None if few is None or p.few is None or len(few | p.few) > FEW else few | p.few
    return KeyValues(min(p.low for p in parts), max(p.high for p in parts), few)


# The worker's side ---------------------------------------------------------------------------------------------------------------------


def write_part(staged: StagedFrame, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of one task to one file (none when there are no rows), and one report."""
    task = TaskContext.get()
    part, attempt = (task.partitionId(), task.taskAttemptId()) if task is not None else (0, 0)
    location = f"{staged.folder}/{part:05d}-{attempt}.arrow"
    seen = {n: _Seen() for n, f in enumerate(staged.spark_schema.fields) if type(f.dataType) in ORDERED}
    rows, size = 0, 0
    first = next(batches, None)
    if first is not None:
        with staged.storage.open_output(location) as sink, pa.ipc.new_file(sink, staged.schema) as writer:
            while first is not None:
                batch = fitted(first, staged.schema)
                writer.write_batch(batch)
                rows, size = rows + batch.num_rows, size + batch.nbytes
                for n, values in seen.items():
                    values.add(batch.column(n))
                first = next(batches, None)
    files = (StagedFile(location, rows, size),) if rows else ()
    report = cloudpickle.dumps((files, {n: v for n, values in seen.items() if (v := values.found()) is not None}))
    yield pa.record_batch({"part": pa.array([part], pa.int32()), "report": pa.array([report], pa.binary())})


class _Seen:
    """Least, greatest and few values of a column, batch by batch."""

    def __init__(self) -> None:
        self._parts: list[tuple[Any, Any]] = []
        self._few: set[Any] | None = set()

    def add(self, column: pa.Array) -> None:
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

    def found(self) -> KeyValues | None:
        if not self._parts:
            return None
        return KeyValues(
            min(p[0] for p in self._parts), max(p[1] for p in self._parts), None if self._few is None else frozenset(self._few)
        )


@dataclass(frozen=True)
class StagedRead:
    """How staged rows are read back. `numbered`: with the rows' numbers as the last column. `without`: a serialised bitmap of the numbers
    of rows to leave out."""

    storage: Storage
    schema: pa.Schema
    numbered: bool
    without: bytes


def read_part(_: int, file: tuple[str, int], read: StagedRead) -> Iterator[pa.RecordBatch]:
    """The rows of one staged file, of which the location and the number of its first row are given."""
    location, first = file
    gone = positions_array(BitMap64.deserialize(read.without)) if read.without else None
    for batch in _opened(read.storage, location).to_batches():
        places = np.arange(first, first + batch.num_rows)
        first += batch.num_rows
        columns = [*batch.columns, pa.array(places)] if read.numbered else batch.columns
        found = fitted(pa.RecordBatch.from_arrays(columns, names=read.schema.names), read.schema)
        yield found if gone is None else found.filter(pa.array(~np.isin(places, gone, assume_unique=True)))


def _opened(storage: Storage, location: str) -> pa.Table:
    local = storage.local_path(location)
    try:
        with told(location, "read"):
            source = pa.memory_map(local) if local is not None else storage.open_input(location)
            return pa.ipc.open_file(source).read_all()
    except pa.ArrowInvalid as e:
        raise InvalidInput(f"{location} is no whole file of staged rows: {e}", file=location) from e
