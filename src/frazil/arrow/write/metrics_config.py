"""Read which metrics a table keeps per column and how long their bounds are
(`write.metadata.metrics.*`; Java's MetricsConfig).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass

from frazil.spec.properties import METRICS_DEFAULT, METRICS_MAX_INFERRED, METRICS_OF_COLUMN
from frazil.spec.schema import Schema
from frazil.spec.sorting import SortOrder
from frazil.spec.transforms import (
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    YearTransform,
)
from frazil.spec.types import ListType, MapType, NestedField, StructType, children

_KEEP_ORDER = (
    IdentityTransform,
    TruncateTransform,
    YearTransform,
    MonthTransform,
    DayTransform,
    HourTransform,
)
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class MetricsMode:
    """Hold the metrics mode of a column. `kind`: none, counts, truncate or full. `length`: code
    points (bytes) of truncated bounds.
    """

    kind: str
    length: int = 0

    @property
    def has_bounds(self) -> bool:
        return self.kind in ("truncate", "full")


NONE, COUNTS, FULL, TRUNCATE_16 = (
    MetricsMode("none"),
    MetricsMode("counts"),
    MetricsMode("full"),
    MetricsMode("truncate", 16),
)


def parse_mode(text: str, otherwise: MetricsMode = TRUNCATE_16) -> MetricsMode:
    """Parse a metrics mode; an invalid one counts as `otherwise`, as in Java, with a warning."""
    lowered = text.strip().lower()
    if lowered in ("none", "counts", "full"):
        return MetricsMode(lowered)
    if (match := re.fullmatch(r"truncate\((\d+)\)", lowered)) and int(match[1]) > 0:
        return MetricsMode("truncate", int(match[1]))
    _log.warning("Ignoring metrics mode %r: it must be none, counts, truncate(n) or full.", text)
    return otherwise


@dataclass(frozen=True)
class MetricsConfig:
    """Hold metrics modes by field id; all other columns have the `default`."""

    modes: Mapping[int, MetricsMode]
    default: MetricsMode = TRUNCATE_16

    def mode(self, field_id: int) -> MetricsMode:
        return self.modes.get(field_id, self.default)


def metrics_config(
    properties: Mapping[str, str], schema: Schema, order: SortOrder | None = None
) -> MetricsConfig:
    """Derive the modes of columns as Java does: the default for columns up to the inferred limit,
    at least truncate(16) for columns of the sort order, then the modes that properties set per
    column."""
    modes: dict[int, MetricsMode] = {}
    default = TRUNCATE_16
    if (default_text := METRICS_DEFAULT.text(properties)) is not None:
        default = parse_mode(default_text)
    elif len(_measured(schema)) > (limit := METRICS_MAX_INFERRED.of(properties)):
        modes = dict.fromkeys(_first_ids(schema.as_struct(), limit, []), TRUNCATE_16)
        default = NONE
    sorted_mode = TRUNCATE_16 if default in (NONE, COUNTS) else default
    for field in order.fields if order else ():
        if isinstance(field.transform, _KEEP_ORDER) and field.source_id in schema.by_id:
            modes[field.source_id] = sorted_mode
    for name, text in METRICS_OF_COLUMN.texts(properties).items():
        if (column := schema.get_field(name)) is not None:
            modes[column.field_id] = parse_mode(text, default)
    return MetricsConfig(modes, default)


def _measured(schema: Schema) -> list[int]:
    """List the ids that Java counts against the limit: those of all leaves."""
    return [i for i, f in schema.by_id.items() if not children(f.field_type)]


def _first_ids(struct: StructType, limit: int, ids: list[int]) -> list[int]:
    """List the first `limit` leaves: those directly in a struct before those in its nested fields."""
    for f in struct.fields:
        if len(ids) < limit and not children(f.field_type):
            ids.append(f.field_id)
    for f in struct.fields:
        if len(ids) < limit:
            _inside(f, limit, ids)
    return ids


def _inside(field: NestedField, limit: int, ids: list[int]) -> None:
    match field.field_type:
        case StructType():
            _first_ids(field.field_type, limit, ids)
        case ListType() | MapType():
            members = children(field.field_type)
            ids.extend(m.field_id for m in members if not children(m.field_type))
            del ids[limit:]
            for m in members:
                if len(ids) < limit:
                    _inside(m, limit, ids)
