"""Make metrics reports with Java's names, ScanReport after planning and CommitReport after a
commit, and their JSON for REST servers.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import reduce
from typing import Any, TypeAlias

from frazil.expr.bound import (
    Bound,
    BoundAnd,
    BoundLiteral,
    BoundNot,
    BoundOr,
    BoundReference,
    Comparison,
    Constant,
    Membership,
    NaNTest,
    NullTest,
    PrefixTest,
)
from frazil.scan.report import PlanReport
from frazil.spec.schema import Schema
from frazil.spec.snapshot import Snapshot
from frazil.spec.types import (
    DateType,
    IcebergType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
)


@dataclass(frozen=True, kw_only=True)
class ScanReport:
    """Report one planned scan of the snapshot `snapshot_id`; scans of empty tables are not
    reported. `table_name`: with its catalog and namespace. `filter`: Iceberg's JSON of the
    expression, as Python values, with constants replaced by their kinds (`(2-digit-int)`); parts
    that this JSON cannot express are true. `schema_id`: the schema that the columns were taken
    from. `projected_field_ids`, `projected_field_names`: the columns that were read, nested fields
    among them, in the order of their ids; names are full (`a.b`). `metrics`: counters and
    `total-planning-duration` (nanoseconds) by Java's names. `metadata`: the scan's options."""

    table_name: str
    snapshot_id: int
    filter: bool | Mapping[str, Any] = True
    schema_id: int = 0
    projected_field_ids: tuple[int, ...] = ()
    projected_field_names: tuple[str, ...] = ()
    metrics: Mapping[str, int] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class CommitReport:
    """Report the committed snapshot `snapshot_id`, with its `sequence_number` (0 in format version
    1). `table_name`: with its catalog and namespace. `operation`: append, overwrite, delete or
    replace. `metrics`: counters, `attempts` and `total-duration` (nanoseconds) by Java's names.
    `metadata`: the engine's facts, as in the summary of the snapshot."""

    table_name: str
    snapshot_id: int
    sequence_number: int
    operation: str
    metrics: Mapping[str, int] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)


Report: TypeAlias = ScanReport | CommitReport
MetricsReporter: TypeAlias = Callable[[Report], object]
"""Take a report; the returned value is ignored. A reporter is called in a thread of its own, with
one report at a time.
"""

PLANNING_DURATION, COMMIT_DURATION = "total-planning-duration", "total-duration"
SCAN_METRICS = (
    PLANNING_DURATION, "result-data-files", "result-delete-files", "scanned-data-manifests", "scanned-delete-manifests",
    "total-data-manifests", "total-delete-manifests", "total-file-size-in-bytes", "total-delete-file-size-in-bytes",
    "skipped-data-manifests", "skipped-delete-manifests", "skipped-data-files", "skipped-delete-files", "indexed-delete-files",
    "equality-delete-files", "positional-delete-files", "dvs",
)  # fmt: skip
# counters of a commit by Java's names, and the keys of the snapshot's summary where these differ
_OF_SUMMARY = {
    **{f"{change}-delete-files": f"{change}-delete-files" for change in ("added", "removed", "total")},
    **{f"{change}-{noun}": f"{change}-{noun}" for change in ("added", "total") for noun in ("data-files", "records")},
    "removed-data-files": "deleted-data-files", "removed-records": "deleted-records",
    **{f"{change}-equality-delete-files": f"{change}-equality-delete-files" for change in ("added", "removed")},
    **{f"{change}-positional-delete-files": f"{change}-position-delete-files" for change in ("added", "removed")},
    **{f"{change}-dvs": f"{change}-dvs" for change in ("added", "removed")},
    **{f"{change}-files-size-bytes": f"{change}-files-size" for change in ("added", "removed", "total")},
    **{f"{change}-positional-deletes": f"{change}-position-deletes" for change in ("added", "removed", "total")},
    **{f"{change}-equality-deletes": f"{change}-equality-deletes" for change in ("added", "removed", "total")},
    "manifests-created": "manifests-created", "manifests-replaced": "manifests-replaced", "manifests-kept": "manifests-kept",
    "manifest-entries-processed": "entries-processed",
}  # fmt: skip


def scan_report(
    table_name: str,
    snapshot_id: int,
    counters: PlanReport,
    row_filter: Bound,
    projection: Callable[[], Schema],
    options: Mapping[str, str],
) -> ScanReport:
    """Make the report of a planned scan of one snapshot."""
    counted, schema = counters.as_dict(), projection()
    names = {i: schema.find_column_name(i) or "" for i in sorted(schema.by_id)}
    return ScanReport(
        table_name=table_name,
        snapshot_id=snapshot_id,
        filter=without_constants(row_filter),
        schema_id=counters.schema_id,
        projected_field_ids=tuple(names),
        projected_field_names=tuple(names.values()),
        metrics={name: int(counted[name]) for name in SCAN_METRICS},
        metadata=dict(options),
    )


def commit_report(
    table_name: str, snapshot: Snapshot, attempts: int, seconds: float, metadata: Mapping[str, str]
) -> CommitReport:
    """Make the report of a committed snapshot. Counters that its summary lacks are left out, as
    Java leaves them out.
    """
    counters = {
        name: int(text)
        for name, key in _OF_SUMMARY.items()
        if (text := snapshot.summary.get(key, "")).isdecimal()
    }
    return CommitReport(
        table_name=table_name,
        snapshot_id=snapshot.snapshot_id,
        sequence_number=snapshot.sequence_number,
        operation=str(snapshot.summary.operation or ""),
        metadata=dict(metadata),
        metrics={COMMIT_DURATION: int(seconds * 1e9), "attempts": attempts, **counters},
    )


# The filter, without constants
# --------------------------------------------------------------------------------------------------

_OPS = {"eq": "eq", "nseq": "eq", "lt": "lt", "le": "lt-eq", "gt": "gt", "ge": "gt-eq"}
_NEGATED = {
    "eq": "not-eq",
    "in": "not-in",
    "is-null": "not-null",
    "is-nan": "not-nan",
    "starts-with": "not-starts-with",
}
Json: TypeAlias = bool | dict[str, Any]


def without_constants(bound: Bound) -> Json:
    """Return a filter as Iceberg's JSON of expressions, with constants replaced by their kinds.
    Parts that the JSON cannot express become true."""
    expression = _json(bound)
    return True if expression is None else expression


def _json(bound: Bound) -> Json | None:
    """Return the JSON of an expression; None where it has none."""
    match bound:
        case Constant(value=value):
            return value is True
        case BoundAnd(parts=parts):
            return _joined("and", [without_constants(p) for p in parts])
        case BoundOr(parts=parts):
            sides = [side for p in parts if (side := _json(p)) is not None]
            return _joined("or", sides) if len(sides) == len(parts) else None
        case BoundNot(child=BoundAnd()):
            # a part that the JSON cannot express is true in it, and its negation would wrongly be
            # false
            return None
        case BoundNot(child=child):
            return _negated(_json(child))
        case Comparison(op=op, left=BoundReference() as term, right=BoundLiteral(value=value)) if (
            op in _OPS and value is not None
        ):
            return {"type": _OPS[op], "term": _name(term), "value": kind_of(value, term.type)}
        case Membership(term=BoundReference() as term, values=values):
            return {
                "type": "in",
                "term": _name(term),
                "values": sorted({kind_of(v, term.type) for v in values}),
            }
        case NullTest(term=BoundReference() as term):
            return {"type": "is-null", "term": _name(term)}
        case NaNTest(term=BoundReference() as term):
            return {"type": "is-nan", "term": _name(term)}
        case PrefixTest(term=BoundReference() as term, prefix=prefix):
            return {"type": "starts-with", "term": _name(term), "value": kind_of(prefix, term.type)}
    return None


def _name(term: BoundReference) -> str:
    return ".".join(term.path)


def _joined(word: str, sides: list[Json]) -> Json:
    neutral = word == "and"
    sides = [s for s in sides if s is not neutral]
    if any(s is (not neutral) for s in sides):
        return not neutral
    return (
        reduce(lambda left, right: {"type": word, "left": left, "right": right}, sides)
        if sides
        else neutral
    )


def _negated(child: Json | None) -> Json | None:
    match child:
        case None:
            return None
        case bool():
            return not child
        case {"type": str(word)} if word in _NEGATED:
            return {**child, "type": _NEGATED[word]}
        case {"type": "or" | "and"}:
            return None
    return {"type": "not", "child": child}


def kind_of(value: object, iceberg_type: IcebergType) -> str:
    """Name the kind of a constant, as Java does in reports: `(2-digit-int)`, `(date)`; of texts and
    bytes no more than that.
    """
    match iceberg_type:
        case DateType():
            return "(date)"
        case TimeType():
            return "(time)"
        case TimestampType() | TimestamptzType() | TimestampNanoType() | TimestamptzNanoType():
            return "(timestamp)"
    match value:
        case bool():
            return "(boolean)"
        case int():
            return f"({len(str(abs(value)))}-digit-int)"
        case float() | Decimal():
            return f"({len(str(abs(int(value)))) if math.isfinite(value) else 0}-digit-float)"
        case datetime.date():
            return "(date)"
        case bytes():
            return "(bytes)"
    return "(text)"


# JSON
# --------------------------------------------------------------------------------------------------


def request_of(report: Report) -> dict[str, Any]:
    """Return a report as the REST specification's ReportMetricsRequest."""
    metrics = {name: _result(name, value) for name, value in report.metrics.items()}
    common: dict[str, Any] = {
        "table-name": report.table_name,
        "snapshot-id": report.snapshot_id,
        "metrics": metrics,
    }
    if report.metadata:
        common["metadata"] = dict(report.metadata)
    if isinstance(report, CommitReport):
        return {
            "report-type": "commit-report",
            **common,
            "sequence-number": report.sequence_number,
            "operation": report.operation,
        }
    return {
        "report-type": "scan-report",
        **common,
        "filter": report.filter,
        "schema-id": report.schema_id,
        "projected-field-ids": list(report.projected_field_ids),
        "projected-field-names": list(report.projected_field_names),
    }


def _result(name: str, value: int) -> dict[str, Any]:
    if name in (PLANNING_DURATION, COMMIT_DURATION):
        return {"count": 1, "time-unit": "nanoseconds", "total-duration": value}
    return {"unit": "bytes" if "size" in name else "count", "value": value}
