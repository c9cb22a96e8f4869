"""Implement the engine without Spark: Arrow frames, threads of this process and Frazil's own SQL
expressions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from typing import Any

import pyarrow as pa

from frazil.arrow.write import conform, write_rows
from frazil.arrow.write.write_context import WriteContext
from frazil.arrow.write.write_options import WriteOptions
from frazil.errors import Unsupported
from frazil.ops.engine import (
    ContextOf,
    Engine,
    Frame,
    InputFrame,
    Lineage,
    Planned,
    ReadySource,
    RowChanges,
)
from frazil.ops.reading import ChangelogReading, RowFilter, RowsReading
from frazil.ops.session import Session, SessionSettings, WriteAuditPublish
from frazil.rows.clauses import Merge
from frazil.rows.source import stage
from frazil.spec.manifest import DataFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.schema import Schema
from frazil.spec.types import NestedField
from frazil.spec.version import VERSION
from frazil.storage import Storage
from frazil.tasks.runner import InProcess, Runner


@dataclass(frozen=True)
class InProcessEngine:
    """Implement `ops.engine.Engine` without Spark. Frames are Arrow data; reads return a stream of
    Arrow batches. `name` and `version`: of the program that snapshot summaries name."""

    _: KW_ONLY
    name: str = "frazil"
    version: str = VERSION

    @property
    def evaluates_sql(self) -> bool:
        return False

    def settings(self, case_sensitive: bool | None = None) -> SessionSettings:
        return SessionSettings(case_sensitive is not False)

    @contextmanager
    def as_meant(self, settings: SessionSettings) -> Iterator[None]:
        yield

    def write_audit_publish(self) -> WriteAuditPublish:
        return WriteAuditPublish()

    def write_defaults(self) -> Mapping[str, str]:
        return {}

    def facts(self) -> dict[str, str]:
        return {"engine-name": self.name, "engine-version": self.version}

    def runner(self, metadata: TableMetadata, storage: Storage) -> Runner:
        return InProcess()

    def schema_of(self, frame: Frame) -> Schema:
        return conform.frame_schema(frame)

    def lineage(self, frame: Frame, metadata: TableMetadata) -> Lineage:
        return Lineage()

    def write(
        self,
        frame: Frame,
        metadata: TableMetadata,
        storage: Storage,
        options: WriteOptions,
        case_sensitive: bool | None = None,
    ) -> list[DataFile]:
        context = WriteContext.of(metadata, storage, options)
        rows = conform.conform(frame, metadata.schema(), case_sensitive=case_sensitive is not False)
        return write_rows.write(rows, context)

    @contextmanager
    def stage_source(
        self, frame: Frame, write: WriteContext, like: Schema, case_sensitive: bool = True
    ) -> Iterator[ReadySource]:
        with stage(frame, like=like, case_sensitive=case_sensitive) as source:
            yield ReadySource.of(source)

    def read(self, reading: RowsReading) -> pa.RecordBatchReader:
        return reading.batches()

    def read_changelog(self, reading: ChangelogReading) -> pa.RecordBatchReader:
        return reading.batches()

    def shown(self, table: pa.Table) -> pa.Table:
        return table

    def lacking(self, schema: Schema) -> NestedField | None:
        return None

    def evaluated(
        self,
        metadata: TableMetadata,
        words: Sequence[Any],
        *,
        case_sensitive: bool | None = None,
        alias: str = "",
    ) -> list[Any] | None:
        raise _spark_needed()

    def delete(
        self,
        planned: Planned,
        where: RowFilter,
        context_of: ContextOf,
        *,
        case_sensitive: bool | None = None,
        alias: str = "",
    ) -> RowChanges:
        raise _spark_needed()

    def update(
        self,
        planned: Planned,
        assignments: Mapping[str, Any],
        where: RowFilter,
        context_of: ContextOf,
        *,
        case_sensitive: bool | None = None,
        alias: str = "",
    ) -> RowChanges:
        raise _spark_needed()

    def check_merge(
        self,
        metadata: TableMetadata,
        frame: Frame,
        merge: Merge,
        *,
        case_sensitive: bool | None = None,
    ) -> None:
        raise _spark_needed()

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
        raise _spark_needed()


def _spark_needed() -> Unsupported:
    return Unsupported(
        "A Spark Column, or SQL beyond Frazil's grammar, needs Spark.",
        hint="Pass spark=, or strings within the grammar.",
    )


IN_PROCESS = InProcessEngine()


# The choice of an engine (`ops.engine.Engines`), which is always this one


def of_frame(frame: Frame) -> InputFrame:
    """Pair a frame with the engine of this process."""
    return InputFrame(frame, IN_PROCESS)


def of_rows(
    metadata: TableMetadata,
    storage: Storage,
    runner: Runner | str | None = None,
    spark: Session | None = None,
) -> tuple[Engine, Runner]:
    """Return the engine of this process, and the given Runner or else one of its threads."""
    return IN_PROCESS, InProcess() if runner is None or isinstance(runner, str) else runner


def active_session() -> Session | None:
    """Return None: this process has no Spark session."""
    return None
