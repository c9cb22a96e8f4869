"""The seam between an operation and whoever does its work: this process (`in_process`), or a Spark session (`frazil.spark.door.engine`).

Everything that an operation asks of a session passes here; what it asks is answered by values of Frazil, so that operations know no Spark.
Frames and conditions are handed through as users gave them: only the engine that a frame belongs to looks inside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from frazil.arrow.write.write_context import WriteContext
from frazil.arrow.write.write_options import WriteOptions
from frazil.expr.nodes import Predicate
from frazil.ops.reading import RowsReading
from frazil.ops.reading_changes import ChangesReading
from frazil.ops.session import SessionSettings, WriteAuditPublish
from frazil.rows.change import ChangeContext, Changed
from frazil.rows.clauses import Merge
from frazil.rows.source import MergeSource
from frazil.scan.plan import Plan
from frazil.spec.data_file import DataFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.schema import Schema
from frazil.spec.types import NestedField
from frazil.storage import Storage
from frazil.tasks.runner import Runner

Frame: TypeAlias = Any
"""Rows as users hand them in or get them: a Spark DataFrame, or anything that has an Arrow stream."""
Planned = Callable[[Predicate], Plan]
ContextOf = Callable[[Plan], ChangeContext]


@dataclass(frozen=True)
class ReadySource:
    """The source of a MERGE, evaluated once, before anybody looks into it. `native`: how the engine itself knows it, `frame`: what it was
    made of; both only where the engine evaluates SQL over it."""

    schema: Schema
    rows: int
    open: Callable[[], MergeSource]
    native: Any = None
    frame: Frame = None

    @classmethod
    def of(cls, source: MergeSource) -> ReadySource:
        return cls(source.schema, source.num_rows, lambda: source)


@dataclass(frozen=True)
class RowChanges:
    """What an operation has made, not committed yet. `changed`: as the engine-free operations give it, new rows' files among `added`.

    `conflict_filter`: what the plan was pruned by, hence which rows of others could matter. `counts`: rows, by operation of MERGE as in
    the names of Spark's summary properties (`matched-updated`, …).
    """

    changed: Changed
    conflict_filter: Predicate
    inserted: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def updated(self) -> int:
        return self.changed.updated

    @property
    def deleted(self) -> int:
        return self.changed.deleted


class Engine(Protocol):
    """Who does the work of one operation.

    `evaluates_sql`: conditions and values beyond Frazil's grammar, rows that are shuffled before they are written. The methods of the last
    part, rows found by any SQL, are only called where it is true. `case_sensitive` None: as the session says.
    """

    @property
    def evaluates_sql(self) -> bool: ...

    # --- the session

    def settings(self, case_sensitive: bool | None = None) -> SessionSettings: ...

    def as_meant(self, settings: SessionSettings) -> AbstractContextManager[None]:
        """Inside, the engine's SQL reads times and failures by these settings, also in a session that merely runs and has others."""

    def write_audit_publish(self) -> WriteAuditPublish: ...

    def write_defaults(self) -> Mapping[str, str]:
        """Write options that the session gives, below those of the caller. Raises Unsupported for one that is not served."""

    def facts(self) -> dict[str, str]:
        """What every snapshot's summary says of the engine that made it: engine-name, engine-version, …"""

    def runner(self, metadata: TableMetadata, storage: Storage) -> Runner:
        """A runner whose workers can read and write the table. Raises NotInstalledError and InvalidInput that say what is missing."""

    # --- frames

    def schema_of(self, frame: Frame) -> Schema: ...

    def write(
        self, frame: Frame, metadata: TableMetadata, storage: Storage, options: WriteOptions, case_sensitive: bool | None = None
    ) -> list[DataFile]:
        """The rows of a frame as data files of the table, durable and complete; after an error none is left."""

    def stage_source(
        self, frame: Frame, write: WriteContext, like: Schema, case_sensitive: bool = True
    ) -> AbstractContextManager[ReadySource]:
        """A frame evaluated once, where all tasks of the operation `write` can read it; gone at the end, however it ends. `like`: the
        table's columns, by which Python values are read."""

    def read(self, reading: RowsReading) -> Frame:
        """The rows of a table, lazily."""

    def read_changes(self, reading: ChangesReading) -> Frame: ...

    def shown(self, table: pa.Table) -> Frame:
        """A small table, as are the metadata tables, as a frame of this engine."""

    # --- rows found by any SQL: what has been made, not committed yet; after an error nothing is left

    def lacking(self, schema: Schema) -> NestedField | None:
        """The first column, if any, of a type that its SQL cannot hold."""

    def delete(self, planned: Planned, where: Any, context_of: ContextOf, *, case_sensitive: bool | None = None) -> RowChanges: ...

    def update(
        self, planned: Planned, assignments: Mapping[str, Any], where: Any, context_of: ContextOf, *, case_sensitive: bool | None = None
    ) -> RowChanges: ...

    def check_merge(self, schema: Schema, frame: Frame, merge: Merge, *, case_sensitive: bool | None = None) -> None:
        """Looks at a MERGE before its source is evaluated. Raises what the engine refuses."""

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
        """`checked`: `check_merge` has looked at it already."""
