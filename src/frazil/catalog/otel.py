"""Turn metrics reports into OpenTelemetry's metrics and spans (catalog property
`metrics-reporter-impl=otel`).

The process's own providers decide where metrics and spans go; without any, OpenTelemetry drops
them.
"""

from __future__ import annotations

import json
import time
from functools import cache
from typing import Any

from opentelemetry import metrics, trace

from frazil.catalog.reports import COMMIT_DURATION, PLANNING_DURATION, CommitReport, Report
from frazil.spec.version import VERSION

_DURATIONS = (PLANNING_DURATION, COMMIT_DURATION)
_METER, _TRACER = metrics.get_meter("frazil", VERSION), trace.get_tracer("frazil", VERSION)


def report(report: Report) -> None:
    """Record one scan or commit: its counters and duration as metrics, and a span that ends now,
    below the span in which the operation ran.

    Metrics are called `iceberg.scan.<name>` and `iceberg.commit.<name>`, by Java's names with `_`
    for `-`: histograms for durations, in seconds; gauges for the totals of a table after a commit;
    counters for all others. Their attributes are `iceberg.table.name` and, of commits,
    `iceberg.operation`. The span `iceberg.scan` or `iceberg.commit` has the same attributes and
    counters, the snapshot's id, and of a scan its schema, columns and filter.
    """
    now, duration, counters = time.time_ns(), 0, dict[str, int]()
    kind, of_kind = _kind(report)
    attributes = {"iceberg.table.name": report.table_name}
    if isinstance(report, CommitReport):
        attributes["iceberg.operation"] = report.operation
    for name, value in report.metrics.items():
        metric = f"iceberg.{kind}.{name.replace('-', '_')}"
        if name in _DURATIONS:
            duration = value
            _instrument("histogram", metric, "s").record(value / 1e9, attributes)
            continue
        counters[metric] = value
        unit = "By" if "size" in name else "1"
        if kind == "commit" and name.startswith("total-"):
            _instrument("gauge", metric, unit).set(value, attributes)
        else:
            _instrument("counter", metric, unit).add(value, attributes)
    span = _TRACER.start_span(
        f"iceberg.{kind}",
        start_time=now - duration,
        attributes={
            **attributes,
            "iceberg.snapshot.id": report.snapshot_id,
            **of_kind,
            **counters,
        },
    )
    span.end(now)


def _kind(report: Report) -> tuple[str, dict[str, Any]]:
    """Return the kind of a report (scan or commit), and the attributes that only its span has."""
    if isinstance(report, CommitReport):
        return "commit", {"iceberg.commit.sequence_number": report.sequence_number}
    return "scan", {
        "iceberg.scan.filter": json.dumps(report.filter),
        "iceberg.scan.schema_id": report.schema_id,
        "iceberg.scan.projected_field_names": report.projected_field_names,
    }


@cache
def _instrument(kind: str, name: str, unit: str) -> Any:
    return getattr(_METER, f"create_{kind}")(name, unit)
