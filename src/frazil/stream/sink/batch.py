"""Commit the micro-batches of a streaming query, each exactly once: one operation with the query's
id and the batch's number as its txn.

The mark (query id and number of its last batch, a table property) is looked for inside each attempt
of the commit, on the branch that is written, and set in the same swap as the rows
(`commit.done_once`). So when Spark sends a batch again after a crash, at whatever point it
happened, the mark is found and the batch adds nothing; the files that were written again are
removed. An unknown outcome is raised as an error and keeps every file: Spark sends the batch again,
and the mark decides.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from frazil.catalog import CatalogBackend, LoadedTable
from frazil.commit.done_once import Txn, already_done
from frazil.commit.produce import parent_of
from frazil.errors import ValidationError, ValidationException
from frazil.ops.engine import Engine
from frazil.ops.operation import NOTHING, CommitResult, TableOperation, skipped
from frazil.ops.target import WriteArguments, WrittenTo, where_to
from frazil.spec.manifest import DataFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import COMMIT_RETRY, TXN_MARK
from frazil.spec.snapshot import MAIN_BRANCH
from frazil.stream.hooks import BatchHook, MicroBatch
from frazil.stream.sink.changes import BatchStage, FilesStage
from frazil.stream.sink.equality import RowsOutOfReach
from frazil.stream.sink.options import (
    SinkOptions,
    check_table,
    mode_of_table,
    named_mode,
    sink_options,
)
from frazil.stream.sink.rows import BatchRows

log = logging.getLogger("frazil.stream")
OnCommit = Callable[[int, CommitResult], object]
StageOf = Callable[[WriteArguments, ExitStack], BatchStage | FilesStage]


@dataclass
class StreamSink:
    """Commit the batches of one run of a query to one table. Not shared between queries.

    `query_id`: the same after restarts from one checkpoint; with the branch it names the mark.
    `on_commit`: called after every batch with its number and result, also for batches that held no
    rows and for those that were committed before (`result.skipped`).
    """

    backend: CatalogBackend
    table: LoadedTable
    name: str
    query_id: str
    options: SinkOptions = field(default_factory=lambda: sink_options({}))
    snapshot_properties: Mapping[str, str] = field(default_factory=dict)
    hooks: Sequence[BatchHook] = ()
    on_commit: OnCommit | None = None
    shown: Callable[[LoadedTable], object] = lambda _: None
    case_sensitive: bool | None = None
    empty: int = field(default=0, init=False)
    _asked_java: bool = field(default=False, init=False)

    def where_to(self, engine: Engine) -> WrittenTo:
        """Return where batches are written in the present state of the table; the session of
        `engine` may name another branch than the options do."""
        return where_to(self._arguments({}), self.table.metadata, engine)

    def commit(
        self,
        batch_id: int,
        rows: BatchRows,
        *,
        watermark_ms: int | None = None,
        last: bool = False,
        digest: str | None = None,
    ) -> CommitResult:
        """Write and commit one batch, unless it is committed already. `digest`: of the offsets at
        which the batch ends.

        Raises ValidationError when a later batch is committed already, or another one under the
        same number (option on-rewind), and CommitStateUnknownException when it is not known whether
        the batch was committed.
        """
        prefix = f"{self.query_id}-{batch_id}-"

        def stage(arguments: WriteArguments, resources: ExitStack) -> BatchStage:
            return BatchStage(self.options, rows, arguments, resources, prefix)

        return self._run(batch_id, stage, watermark_ms, last, digest)

    def commit_files(
        self,
        batch_id: int,
        files: Sequence[DataFile],
        schema_id: int,
        engine: Engine,
        digest: str | None = None,
    ) -> CommitResult:
        """Commit a batch whose rows are in data files already. `schema_id`: the schema of the table
        for which the files were written. The files are removed when the batch was committed before,
        or its commit has certainly failed."""
        return self._run(
            batch_id,
            lambda arguments, _: FilesStage(self.options, files, schema_id, engine, arguments),
            digest=digest,
        )

    def _run(
        self,
        batch_id: int,
        stage_of: StageOf,
        watermark_ms: int | None = None,
        last: bool = False,
        digest: str | None = None,
    ) -> CommitResult:
        begun = time.perf_counter()
        self.reload()
        summary = {QUERY: self.query_id, EPOCH: str(batch_id), **self.snapshot_properties}
        with ExitStack() as resources:
            stage = stage_of(self._arguments(summary), resources)
            micro = MicroBatch(
                self.query_id,
                batch_id,
                self.name,
                self.backend,
                MAIN_BRANCH,
                watermark_ms,
                last,
                digest=digest,
            )
            micro = self._placed(micro, stage)
            micro, result = self._committed(micro, stage)
        for hook in self.hooks:
            hook.committed(micro, self.table)
        self._tell(micro, result, time.perf_counter() - begun)
        if self.on_commit is not None:
            self.on_commit(batch_id, result)
        return result

    def _arguments(self, summary: Mapping[str, str]) -> WriteArguments:
        options: dict[str, Any] = dict(self.options.write)
        return WriteArguments(self.options.verb, MAIN_BRANCH, summary, options, self.case_sensitive)

    def _placed(self, micro: MicroBatch, stage: BatchStage | FilesStage) -> MicroBatch:
        to = stage.where_to(self.table.metadata)
        return replace(micro, branch=to.branch, wap_id=to.wap_id)

    def reload(self) -> None:
        """Load the newest state of the table. Raises ValidationError when another table has the
        name now.
        """
        fresh = self.backend.load(self.table.identifier or (self.table.metadata.location,))
        before, now = self.table.metadata.table_uuid, fresh.metadata.table_uuid
        if before is not None and now is not None and before != now:
            raise ValidationError(
                f"Table {self.name} was dropped and created again while the stream was running: its uuid was {before}, is {now}.",
                hint="Start the query again, with a new checkpoint folder, if it is meant to go on with the new table.",
                table=self.name,
            )
        self.table = fresh

    def _saw(self, loaded: LoadedTable) -> None:
        self.table = loaded
        self.shown(loaded)

    # --- one batch

    def _committed(
        self, micro: MicroBatch, stage: BatchStage | FilesStage
    ) -> tuple[MicroBatch, CommitResult]:
        """Commit a batch, again after conflicts where that helps; return the batch, with the branch
        that was written, and the result.
        """
        txn = Txn(self.query_id, micro.batch_id, self.options.on_rewind, micro.digest)
        check_table(self.options, self.table.metadata, stage.case_sensitive)
        properties = self.table.metadata.properties
        left, pause = (
            COMMIT_RETRY.retries.of(properties),
            COMMIT_RETRY.shortest.of(properties) / 1000,
        )
        if (mark := self._java(txn, micro.branch)) is not None:
            stage.discard(self.table.storage)
            return micro, skipped(mark.snapshot_id)
        while True:
            try:
                return micro, self._attempt(txn, micro, stage)
            except ValidationException as conflict:
                # others have added rows in a partition spec that the equality deletes do not reach
                if left <= 0 or not (isinstance(conflict, RowsOutOfReach) and stage.repeatable):
                    raise
                left -= 1
                time.sleep(pause)
                pause = min(
                    pause * 2, COMMIT_RETRY.longest.of(self.table.metadata.properties) / 1000
                )
                log.info(
                    "Batch %d of table %s is tried again: %s", micro.batch_id, self.name, conflict
                )
                self.reload()
                micro = self._placed(micro, stage)

    def _attempt(self, txn: Txn, micro: MicroBatch, stage: BatchStage | FilesStage) -> CommitResult:
        operation = TableOperation(
            self.backend, self.table, self.name, on_commit=self._saw, txn=txn
        )
        try:
            with operation:
                operation.run(stage)
                if not operation.is_done:
                    if not stage.came and self.empty + 1 < self.options.max_empty:
                        raise _NoRows
                    operation.stage(
                        *(
                            action
                            for hook in self.hooks
                            for action in hook.actions(micro, self.table)
                        )
                    )
        except _NoRows:
            self.empty += 1
            return CommitResult(None, None, {}, dict(NOTHING))
        self.empty = 0
        return operation.result

    def _java(self, txn: Txn, branch: str) -> JavaMark | None:
        """Find the last batch of this query that Java's sink has committed, if Frazil's has
        committed none: the query has changed sinks.
        """
        metadata = self.table.metadata
        if self._asked_java or already_done(metadata, txn, branch) is not None:
            return None
        mark = java_mark(metadata, branch, txn)
        self._asked_java = mark is None
        return mark

    def _tell(self, micro: MicroBatch, result: CommitResult, seconds: float) -> None:
        title = f"Stream into {self.name}, batch {micro.batch_id}"
        if result.skipped:
            log.info("%s: committed before; nothing was written, %.3f s.", title, seconds)
        elif result.snapshot_id is None:
            log.info("%s: no changes, %.3f s.", title, seconds)
        else:
            log.info(
                "%s: %s, snapshot %d, %d rows in %d files, %d updated, %d deleted, %d delete files, %.3f s.",
                title,
                self.options.mode,
                result.snapshot_id,
                result.rows_inserted,
                result.files_added,
                result.rows_updated,
                result.rows_deleted,
                result.delete_files_added,
                seconds,
            )


class _NoRows(Exception):
    """End an operation that has nothing to commit."""


def checked_options(
    option_values: Mapping[str, Any],
    table: LoadedTable,
    *,
    mode: str | None = None,
    case_sensitive: bool = True,
) -> SinkOptions:
    """Check the options of a streaming write against the table, before the query starts."""
    if mode is None and named_mode(option_values) is None:
        mode = mode_of_table(option_values, table.metadata)
    options = sink_options(option_values, mode=mode)
    check_table(options, table.metadata, case_sensitive)
    return options


QUERY, EPOCH = "spark.sql.streaming.queryId", "spark.sql.streaming.epochId"


@dataclass(frozen=True)
class JavaMark:
    """Name the last batch of a query that is in the history of a branch, and its snapshot."""

    number: int
    snapshot_id: int


def java_mark(metadata: TableMetadata, branch: str, txn: Txn) -> JavaMark | None:
    """Return the mark of a batch that is committed, or passed over by `on_rewind`; None: the batch
    is to be written.

    The summaries say nothing after their snapshots have expired, so this is only asked for queries
    without a mark of Frazil's own. Raises ValidationError for a batch before the last one, where
    the txn refuses to go back.
    """
    for snapshot in metadata.ancestors(parent_of(metadata, branch)):
        if snapshot.summary.get(QUERY) != txn.id:
            continue
        if f"{TXN_MARK.prefix}id" in snapshot.summary:
            # Frazil's own, whose marks are in the table's properties, by branch
            return None
        number = int(snapshot.summary.get(EPOCH, "-1"))
        if number > txn.number and txn.on_rewind == "fail":
            raise ValidationError(
                f"Batch {txn.number} of the streaming query {txn.id} comes after batch {number}, which is committed.",
                hint="on-rewind=skip passes over batches up to that one, on-rewind=rewrite writes them again.",
                table=metadata.location,
                snapshot_id=snapshot.snapshot_id,
            )
        is_done = number == txn.number or (number > txn.number and txn.on_rewind == "skip")
        return JavaMark(number, snapshot.snapshot_id) if is_done else None
    return None
