"""Define the protocol of engines: this process (`in_process`) or a Spark session
(`frazil.spark.engine.engine`) does an operation's work.

Everything that an operation asks of a Spark session passes through this protocol and is answered
with Frazil's own types, so operations do not depend on Spark. Frames and conditions pass through as
users gave them; only the engine that a frame belongs to looks inside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from frazil.arrow.write.write_context import WriteContext
from frazil.arrow.write.write_options import WriteOptions
from frazil.expr.nodes import Predicate
from frazil.ops.reading import ChangelogReading, RowFilter, RowsReading
from frazil.ops.session import Session, SessionSettings, WriteAuditPublish
from frazil.rows.change import ChangeContext, Changed
from frazil.rows.clauses import Merge
from frazil.rows.source import MergeSource
from frazil.scan.plan import Plan
from frazil.spec.manifest import DataFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.schema import Schema
from frazil.spec.types import NestedField
from frazil.storage import Storage
from frazil.tasks.runner import Runner

Frame: TypeAlias = Any
"""Rows that users pass in or get back: a Spark DataFrame, or any object with an Arrow stream."""
Planned = Callable[[Predicate], Plan]
ContextOf = Callable[[Plan], ChangeContext]


@dataclass(frozen=True)
class Lineage:
    """Tell how a frame depends on the table that is changed. `reads_table`: it is computed from the
    table's rows when it is evaluated, or that cannot be told. `over`: returns the same frame over
    another state of the table; None where there is none, as for rows of a snapshot that the caller
    has named."""

    reads_table: bool = False
    over: Callable[[TableMetadata, Storage], Frame] | None = None


@dataclass(frozen=True)
class ReadySource:
    """Hold the source of a MERGE after its single evaluation.

    `rows`: how many rows it has. `open`: opens it for reading. `native`: the source as a frame of
    the engine; `frame`: the frame that the caller passed. Both are None unless the engine evaluates
    SQL over the source. `collated`: names of its text columns that the engine compares otherwise
    than byte by byte.
    """

    schema: Schema
    rows: int
    open: Callable[[], MergeSource]
    native: Any = None
    frame: Frame = None
    collated: tuple[str, ...] = ()

    @classmethod
    def of(cls, source: MergeSource) -> ReadySource:
        return cls(source.schema, source.num_rows, lambda: source)


@dataclass(frozen=True)
class RowChanges:
    """Hold the files that a DELETE, UPDATE or MERGE by an engine's SQL has written and not
    committed yet.

    `changed`: the data and delete files, those of inserted rows included in `added`.
    `conflict_filter`: the filter that the plan was pruned by, so that only concurrent changes to
    rows that match it are conflicts. `inserted`: the number of inserted rows. `counts`: numbers of
    rows per clause of MERGE, named as in Spark's summary properties (`matched-updated`, …).
    `reads_table`: the conditions or values have sub-queries over the table.
    """

    changed: Changed
    conflict_filter: Predicate
    inserted: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    reads_table: bool = False

    @property
    def updated(self) -> int:
        return self.changed.updated

    @property
    def deleted(self) -> int:
        return self.changed.deleted


class Engine(Protocol):
    """Do the work of one operation: read, write and change rows.

    `evaluates_sql`: whether the engine evaluates SQL beyond Frazil's grammar and can shuffle rows
    before they are written. The methods of the last section (`lacking` to `merge`) are only called
    where it is true. `case_sensitive` None: as the session's setting says.
    """

    @property
    def evaluates_sql(self) -> bool: ...

    # --- the session

    def settings(self, case_sensitive: bool | None = None) -> SessionSettings: ...

    def as_meant(self, settings: SessionSettings) -> AbstractContextManager[None]:
        """Apply the settings to the engine's SQL within a `with` block: literals without a zone and
        failing casts mean the same there, even where the session has other settings."""

    def write_audit_publish(self) -> WriteAuditPublish: ...

    def write_defaults(self) -> Mapping[str, str]:
        """Return the write options that the session sets, which those of the caller override.
        Raises Unsupported for an option that is not served."""

    def facts(self) -> dict[str, str]:
        """Return the properties of the snapshot summary that name the engine: engine-name,
        engine-version, …
        """

    def runner(self, metadata: TableMetadata, storage: Storage) -> Runner:
        """Return a runner whose workers can read and write the table. Raises NotInstalledError
        where a package is missing, InvalidInput where the session cannot reach the table."""

    # --- frames

    def schema_of(self, frame: Frame) -> Schema: ...

    def lineage(self, frame: Frame, metadata: TableMetadata) -> Lineage:
        """Tell how a frame depends on the table of this metadata."""

    def write(
        self,
        frame: Frame,
        metadata: TableMetadata,
        storage: Storage,
        options: WriteOptions,
        case_sensitive: bool | None = None,
    ) -> list[DataFile]:
        """Write the rows of a frame as data files of the table, and return their entries once all
        are durable. After an error no file is left."""

    def stage_source(
        self, frame: Frame, write: WriteContext, like: Schema, case_sensitive: bool = True
    ) -> AbstractContextManager[ReadySource]:
        """Evaluate a frame once, and store it where all tasks of the operation that `write` belongs
        to can read it, until the end of the `with` block. `like`: the table's schema, by which
        Python values are converted."""

    def read(self, reading: RowsReading) -> Frame:
        """Return the rows of a table as a lazy frame."""

    def read_changelog(self, reading: ChangelogReading) -> Frame:
        """Return the changelog of a table as a lazy frame."""

    def shown(self, table: pa.Table) -> Frame:
        """Return a small Arrow table, such as a metadata table, as a frame of this engine."""

    # --- rows found by SQL: each method writes files and commits nothing; after an error no file is
    # left

    def lacking(self, schema: Schema) -> NestedField | None:
        """Return the first column of a type that the engine's SQL cannot hold; None: it can hold
        all of them.
        """

    def evaluated(
        self,
        metadata: TableMetadata,
        words: Sequence[Any],
        *,
        case_sensitive: bool | None = None,
        alias: str = "",
    ) -> list[Any] | None:
        """Return conditions and values with the values of their sub-queries that do not depend on
        the row, evaluated now; None where there are none.
        """

    def delete(
        self,
        planned: Planned,
        where: RowFilter,
        context_of: ContextOf,
        *,
        case_sensitive: bool | None = None,
        alias: str = "",
    ) -> RowChanges:
        """Delete the rows of a condition. `alias`: by what name, of one or more parts, the
        condition calls the table.
        """

    def update(
        self,
        planned: Planned,
        assignments: Mapping[str, Any],
        where: RowFilter,
        context_of: ContextOf,
        *,
        case_sensitive: bool | None = None,
        alias: str = "",
    ) -> RowChanges: ...

    def check_merge(
        self,
        metadata: TableMetadata,
        frame: Frame,
        merge: Merge,
        *,
        case_sensitive: bool | None = None,
    ) -> None:
        """Check a MERGE before its source is evaluated. Raises what the engine refuses."""

    def merge(
        self,
        planned: Planned,
        source: ReadySource,
        merge: Merge,
        context_of: ContextOf,
        *,
        case_sensitive: bool | None = None,
        checked: bool = False,
    ) -> RowChanges:
        """Join the table with the source by SQL and apply the clauses. `checked`: `check_merge` has
        accepted the MERGE already.
        """


@dataclass(frozen=True)
class InputFrame:
    """Hold a frame that a caller passed, and the engine that can evaluate it."""

    frame: Frame
    engine: Engine


class Engines(Protocol):
    """Choose the engine of a change: `ops.in_process` chooses this process, `table.engines` also
    Spark."""

    def of_frame(self, frame: Frame) -> InputFrame:
        """Pair a frame with the engine that evaluates it."""

    def of_rows(
        self,
        metadata: TableMetadata,
        storage: Storage,
        runner: Runner | str | None = None,
        spark: Session | None = None,
    ) -> tuple[Engine, Runner]:
        """Choose the engine and the runner that change existing rows."""

    def active_session(self) -> Session | None: ...


@dataclass(frozen=True)
class ViewQuery:
    """Hold the query of an Iceberg view in Spark's SQL. `schema`: the columns of the view.
    `query_columns`: the names that the query's columns had when the view was made; none: its
    columns count by position. `resolve`: returns the rows of a table that the query names, or the
    full name of a table that Spark is to look up."""

    name: str
    sql: str
    schema: Schema
    query_columns: Sequence[str]
    resolve: Callable[[tuple[str, ...]], Frame | tuple[str, ...]]


class SparkSessions(Protocol):
    """Serve what a table or catalog asks of Spark beside the work of an `Engine`."""

    def engine_on(self, session: Session) -> Engine:
        """Return the engine on a session. Raises InvalidInput for a session that was stopped."""

    def schema_of(self, frame_or_type: Frame) -> Schema:
        """Return the schema of a DataFrame or StructType; this needs no running session."""

    def view_rows(self, session: Session, query: ViewQuery) -> Frame:
        """Return the rows of a view as a DataFrame. Raises Unsupported on Spark Connect,
        InvalidInput where Spark refuses the query.
        """
