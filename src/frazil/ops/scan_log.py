"""Note each planned scan: for the catalog's metrics reporters, and in the log from which
`t.maintenance.recommend()` learns, where the table property `frazil.scan-log.enabled` asks for it.

What a record of the log may hold: columns by their ids, kinds of conditions, counts of files and
bytes; and of the constants no more than manifests hold of the column: none where the column's
metrics mode keeps no bounds (`none`, `counts`), the first characters of texts and bytes as the mode
`truncate(n)` says, at most 64.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial

import pyarrow as pa
import pyarrow.compute as pc

from frazil.arrow.write.metrics import metrics_config
from frazil.catalog.reporting import TableReporter
from frazil.expr.bound import Bound
from frazil.scan.plan import Plan
from frazil.scan.scan_log.files import BUFFER, PendingScan, directory_of
from frazil.scan.scan_log.records import LoggedPart, LoggedScan, parts_of
from frazil.scan.tasks import PlannedFiles
from frazil.spec import logs
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import SCAN_LOG
from frazil.spec.schema import Schema

_log = logging.getLogger("frazil.scan")
SWITCH = "FRAZIL_SCAN_LOG"
_LONGEST = 64


def is_logged(metadata: TableMetadata) -> bool:
    """Tell whether scans of a table are logged: by its property, unless the environment switches
    the log off in this process.
    """
    if metadata.properties.get(SCAN_LOG.name) is None:
        return False
    switch = os.environ.get(SWITCH, "on").strip().lower()
    if switch not in ("on", "off"):
        _warn_once(f"{SWITCH} is on or off, not {switch!r}: scans are not logged.")
    return switch == "on" and SCAN_LOG.of(metadata.properties)


def log_plan(
    plan: Plan,
    more: Sequence[Bound] = (),
    files: Collection[str] | None = None,
    groups: Sequence[PlannedFiles] | None = None,
) -> None:
    """Log a planned scan. `more`: filters that the engine added when the query ran, `files`: the
    planned files that these leave (None: all); `groups`: the files that are read, where they are
    not all that were planned. Never raises."""
    try:
        if plan.snapshot is None or plan.storage is None or not is_logged(plan.metadata):
            return
        count, size = _read_by(plan.groups if groups is None else groups, files)
        texts = [
            plan.snapshot.summary.get(key, "") for key in ("total-data-files", "total-files-size")
        ]
        table_files, table_bytes = (int(text) if text.isdigit() else None for text in texts)
        parts = parts_of((plan.row_filter, *more))
        scan = LoggedScan(
            time.time_ns() // 1_000_000,
            plan.snapshot.snapshot_id,
            count,
            size,
            table_files,
            table_bytes,
            parts,
        )
        record = partial(without_secrets, scan, plan.metadata.properties, plan.schema)
        BUFFER.add(
            PendingScan(
                directory_of(plan.metadata), plan.storage, plan.snapshot.manifest_list, record
            )
        )
    except Exception as error:  # a scan never fails because of its log
        _warn_once(
            f"Scans of {plan.metadata.location} are not logged ({type(error).__name__}: {error})."
        )


@lru_cache(maxsize=100)
def _warn_once(text: str) -> None:
    _log.warning("%s", text)


def _read_by(groups: Sequence[PlannedFiles], files: Collection[str] | None) -> tuple[int, int]:
    tables = [g.table for g in groups]
    if files is not None:
        remaining = pa.array(files, pa.string())
        tables = [t.filter(pc.is_in(t.column("file_path"), remaining)) for t in tables]
    return sum(t.num_rows for t in tables), sum(
        pc.sum(t.column("file_size_in_bytes")).as_py() or 0 for t in tables
    )


def without_secrets(scan: LoggedScan, properties: dict[str, str], schema: Schema) -> LoggedScan:
    """Return the record with no more of the constants than manifests may hold of these columns."""
    modes = metrics_config(properties, schema)

    def shortened(part: LoggedPart) -> LoggedPart:
        mode = modes.mode(part.column)
        return (
            part.cut(min(mode.length or _LONGEST, _LONGEST))
            if mode.has_bounds
            else part.without_values()
        )

    return replace(scan, parts=tuple(shortened(p) for p in scan.parts))


def flush() -> None:
    """Write the records of this process now, for a process that is about to end without notice."""
    BUFFER.flush()


def note_plan(
    plan: Plan,
    reporter: TableReporter | None,
    projection: Callable[[], Schema],
    options: Mapping[str, str],
) -> None:
    """Log a planned scan (at level DEBUG, since there may be many), and report it where there is a
    reporter.
    """
    if _log.isEnabledFor(logging.DEBUG):
        report = plan.report
        name = report.table if reporter is None else reporter.table_name
        _log.debug(
            "Planned a scan of %s: %d data files, %d skipped",
            name,
            report.result_data_files,
            report.skipped_data_files,
            extra=logs.facts(
                name,
                "scan",
                location=report.table,
                snapshot_id=report.snapshot_id,
                seconds=report.total_planning_duration / 1e9,
                result={
                    k: v
                    for k, v in vars(report).items()
                    if k not in ("table", "snapshot_id", "filter")
                },
            ),
        )
    if reporter is not None:
        reporter.planned(plan, projection, options)
