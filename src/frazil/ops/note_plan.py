"""Note each planned scan: in the log of the process, and for the catalog's metrics reporters."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from frazil.catalog.reporting import TableReporter
from frazil.scan.plan import Plan
from frazil.spec import logs
from frazil.spec.schema import Schema

_log = logging.getLogger("frazil.scan")


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
