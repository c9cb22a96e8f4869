"""Describe one logged scan: what it planned to read, and by which columns it filtered. Lines of
JSON hold the records.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import islice
from typing import Any

from frazil.expr.bound import (
    Bound,
    BoundLiteral,
    BoundNot,
    BoundReference,
    Comparison,
    LikeTest,
    Membership,
    NullTest,
    PrefixTest,
    conjuncts,
    walk,
)

KINDS = ("equal", "range", "in", "prefix", "null", "other")
MOST_PARTS = 32
MOST_VALUES = 32
"""Values of an IN list that are kept; of a longer list the least and the greatest are."""
_MOST_NODES = 200


@dataclass(frozen=True)
class LoggedPart:
    """Describe what a filter asks of one column: one of the conditions that must all hold.

    `column`: the field id. `kind`: one of `KINDS`; `other` is anything that is no plain comparison
    with constants. `points`: the values of `equal`, `in` and `prefix`. `low`, `high`: the ends of a
    `range`, or of a long IN list; None: open. Without any value the kind is all that is known.
    """

    column: int
    kind: str
    points: tuple[Any, ...] = ()
    low: Any = None
    high: Any = None

    @property
    def has_values(self) -> bool:
        return bool(self.points) or self.low is not None or self.high is not None

    def without_values(self) -> LoggedPart:
        return LoggedPart(self.column, self.kind)

    def cut(self, length: int) -> LoggedPart:
        """Return the part with texts and bytes cut to their first characters."""
        low, high, *points = (
            v[:length] if isinstance(v, str | bytes) else v
            for v in (self.low, self.high, *self.points)
        )
        return replace(self, points=tuple(points), low=low, high=high)


@dataclass(frozen=True)
class LoggedScan:
    """Describe one planned scan: when, of which snapshot, the files and bytes that it planned to
    read, those of the whole table (None where the snapshot's summary lacks them), and its
    filter."""

    time_ms: int
    snapshot_id: int
    files: int
    bytes: int
    table_files: int | None
    table_bytes: int | None
    parts: tuple[LoggedPart, ...] = ()


def parts_of(bounds: Iterable[Bound]) -> tuple[LoggedPart, ...]:
    """Take filters apart by columns. Takes microseconds, whatever the filters' size."""
    parts: dict[LoggedPart, None] = {}
    for bound in islice((part for b in bounds for part in conjuncts(b)), MOST_PARTS):
        parts.update(dict.fromkeys(_parts(bound)))
    return _joined(parts)


def _parts(bound: Bound) -> tuple[LoggedPart, ...]:
    match bound:
        case BoundNot(child=NullTest()):
            return ()  # engines add IS NOT NULL to every comparison
        case NullTest(term=BoundReference(field_id=i)):
            return (LoggedPart(i, "null"),)
        case Comparison(
            op="eq" | "nseq", left=BoundReference(field_id=i), right=BoundLiteral(value=v)
        ) if v is not None:
            return (LoggedPart(i, "equal", (v,)),)
        case Comparison(op=op, left=BoundReference(field_id=i), right=BoundLiteral(value=v)) if (
            v is not None
        ):
            if type(v) is int and op in ("lt", "gt"):
                v += 1 if op == "gt" else -1
            return (
                LoggedPart(i, "range", low=v)
                if op in ("gt", "ge")
                else LoggedPart(i, "range", high=v),
            )
        case Membership(term=BoundReference(field_id=i), values=values) if values:
            if len(values) > MOST_VALUES:
                return (LoggedPart(i, "in", low=values[0], high=values[-1]),)
            return (LoggedPart(i, "in", tuple(values)),)
        case PrefixTest(term=BoundReference(field_id=i), prefix=prefix) if prefix:
            return (LoggedPart(i, "prefix", (prefix,)),)
        case LikeTest(term=BoundReference(field_id=i), pieces=(str() as prefix, *_)):
            return (LoggedPart(i, "prefix", (prefix,)),)
    columns = {
        n.field_id: None for n in islice(walk(bound), _MOST_NODES) if isinstance(n, BoundReference)
    }
    return tuple(LoggedPart(i, "other") for i in columns)


def _joined(parts: Iterable[LoggedPart]) -> tuple[LoggedPart, ...]:
    """Join the lower and upper ends of a column that were given apart (`a >= 1 AND a < 5`)."""
    joined: list[LoggedPart] = []
    for part in parts:
        for n, other in enumerate(joined):
            if part.kind == other.kind == "range" and part.column == other.column:
                if part.high is None and other.low is None:
                    joined[n] = replace(other, low=part.low)
                    break
                if part.low is None and other.high is None:
                    joined[n] = replace(other, high=part.high)
                    break
        else:
            joined.append(part)
    return tuple(joined)


# JSON
# --------------------------------------------------------------------------------------------------


def line_of(scan: LoggedScan) -> bytes:
    """Return a record as one line of JSON. Bytes are hexadecimal, decimals numbers; a value that is
    no finite number is left out.
    """
    filters = [
        {"column": p.column, "kind": p.kind}
        | (
            {"values": [_stored(v) for v in p.points]}
            if p.points and all(_stored(v) is not None for v in p.points)
            else {}
        )
        | {
            name: stored
            for name, v in (("low", p.low), ("high", p.high))
            if v is not None and (stored := _stored(v)) is not None
        }
        for p in scan.parts
    ]
    record = {
        "time_ms": scan.time_ms,
        "snapshot_id": scan.snapshot_id,
        "files": scan.files,
        "bytes": scan.bytes,
        "table_files": scan.table_files,
        "table_bytes": scan.table_bytes,
        "filter": filters,
    }
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def _stored(value: object) -> Any:
    match value:
        case bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case Decimal():
            return float(value)
        case bytes():
            return value.hex()
    return None


def scan_of(line: bytes) -> LoggedScan:
    """Read a record. Raises ValueError for a line that is none."""
    record = json.loads(line)
    if not isinstance(record, dict):
        raise ValueError("no object")
    time_ms, snapshot_id, files, size = (
        _number(record, name) for name in ("time_ms", "snapshot_id", "files", "bytes")
    )
    table_files, table_bytes = (
        None if record.get(n) is None else _number(record, n)
        for n in ("table_files", "table_bytes")
    )
    filters = record.get("filter")
    if not isinstance(filters, list) or len(filters) > 2 * MOST_PARTS:
        raise ValueError("filter")
    return LoggedScan(
        time_ms,
        snapshot_id,
        files,
        size,
        table_files,
        table_bytes,
        tuple(_part(p) for p in filters),
    )


def _part(record: object) -> LoggedPart:
    if not isinstance(record, dict) or record.get("kind") not in KINDS:
        raise ValueError("filter")
    points, low, high = record.get("values", []), record.get("low"), record.get("high")
    if not isinstance(points, list) or not all(
        isinstance(v, int | float | str) for v in (*points, low or 0, high or 0)
    ):
        raise ValueError("filter")
    return LoggedPart(
        _number(record, "column"), record["kind"], tuple(points[:MOST_VALUES]), low, high
    )


def _number(record: Mapping[str, Any], name: str) -> int:
    value = record.get(name)
    if type(value) is not int:
        raise ValueError(name)
    return value
