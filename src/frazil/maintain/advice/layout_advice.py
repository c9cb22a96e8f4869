"""Find the order of rows with which the logged scans would have skipped most of the bytes that they
read.
"""

from __future__ import annotations

import datetime as dt
import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from frazil.expr.sql_text import back_quoted
from frazil.maintain.advice.data_files import rewrite_minutes
from frazil.maintain.advice.finding import (
    READ_BYTES_PER_SECOND,
    Finding,
    ProcedureCall,
    saving_text,
)
from frazil.maintain.advice.layouts import Filter, LayoutEstimator, RowLayout
from frazil.maintain.advice.positions import columns_with_values
from frazil.maintain.advice.table_state import LiveFiles, sorted_by
from frazil.maintain.procedure import MaintainedTable
from frazil.scan.scan_log.files import read_log
from frazil.scan.scan_log.records import LoggedScan
from frazil.spec.properties import SCAN_LOG
from frazil.spec.schema import Schema
from frazil.spec.shown import size_text
from frazil.spec.types import ListType, MapType

FEWEST_SCANS = 10
WORTH = 0.2
"""Share of the bytes read that a layout must have skipped to be recommended."""
_SIMPLER = 0.03
_MOST_COLUMNS = 3
_MOST_FILTERS = 1_000


@dataclass(frozen=True)
class LayoutValue:
    """Hold the value of a layout: the bytes that the logged scans would not have read."""

    layout: RowLayout
    skipped: float


def logged_scans(table: MaintainedTable) -> list[LoggedScan]:
    """Return the logged scans; none if the log is switched off, or holds too few for an estimate."""
    if not SCAN_LOG.of(table.metadata.properties) or table.metadata.current_snapshot() is None:
        return []
    scans = read_log(table.metadata, table.storage)
    return scans if len(scans) >= FEWEST_SCANS else []


def compared_columns(scans: Sequence[LoggedScan], schema: Schema) -> frozenset[int]:
    """Return the columns that filters compare with known constants, and that are single values of
    their rows.
    """
    columns = columns_with_values(p for s in scans for p in s.parts)
    return frozenset(
        i
        for i in columns
        if i in schema.by_id and schema.by_id[i].field_type.is_primitive and not _repeats(schema, i)
    )


def _repeats(schema: Schema, field_id: int) -> bool:
    return any(
        isinstance(schema.by_id[p].field_type, ListType | MapType) for p in schema.parents[field_id]
    )


def layout_values(
    state: LiveFiles, scans: Sequence[LoggedScan], columns: frozenset[int]
) -> list[LayoutValue]:
    """Estimate what each layout that comes into question would have skipped (`layouts` says how):
    sorted by each of the three columns that most of the bytes read were filtered by, and the
    z-orders of these. Simple layouts come first."""
    estimator = LayoutEstimator.of(state, columns)
    by_identity = {
        f.source_id for f in state.metadata.spec().fields if str(f.transform) == "identity"
    }
    used: Counter[int] = Counter()
    weights: Counter[Filter] = Counter()
    for scan in scans:
        row_filter = tuple(p for p in scan.parts if p.has_values and p.column in estimator.axes)
        weights[row_filter] += scan.bytes
        used.update(
            dict.fromkeys((p.column for p in row_filter if p.column not in by_identity), scan.bytes)
        )
    chosen = [column for column, _ in used.most_common(_MOST_COLUMNS)]
    filters = dict(weights.most_common(_MOST_FILTERS))
    current = {f: estimator.current.bytes_for(f, estimator.axes) for f in filters if f}
    layouts = [
        RowLayout(columns)
        for n in range(1, len(chosen) + 1)
        for columns in itertools.combinations(chosen, n)
    ]
    return [
        LayoutValue(layout, _skipped(estimator, layout, filters, current)) for layout in layouts
    ]


def _skipped(
    estimator: LayoutEstimator,
    layout: RowLayout,
    filters: Mapping[Filter, int],
    current: Mapping[Filter, float],
) -> float:
    after = estimator.after(layout)
    left = {f: after.bytes_for(f, estimator.axes) / now for f, now in current.items() if now > 0}
    # scans that would read more count against the layout
    return max(0.0, sum(filters[f] * (1 - share) for f, share in left.items()))


def best_of(values: Sequence[LayoutValue], read: int) -> LayoutValue | None:
    """Choose the layout that skips most, and the simpler one of two that skip about the same."""
    best: LayoutValue | None = None
    for value in sorted(values, key=lambda v: (len(v.layout.columns), -v.skipped)):
        if best is None or value.skipped > best.skipped + _SIMPLER * read:
            best = value
    return best


def layout(
    state: LiveFiles, scans: Sequence[LoggedScan], columns: frozenset[int]
) -> tuple[Finding, RowLayout] | None:
    """Find the layout with which the logged scans would have skipped a fifth or more of the bytes
    that they read.
    """
    read = sum(s.bytes for s in scans)
    if not read or not columns or state.files.num_rows < 2:
        return None
    values = layout_values(state, scans, columns)
    best = best_of(values, read)
    if best is None or best.skipped < WORTH * read:
        return None
    schema, share = state.metadata.schema(), best.skipped / read
    order = _sort_order(best.layout, schema)
    since = dt.datetime.fromtimestamp(min(s.time_ms for s in scans) / 1000, dt.UTC)
    others = [
        f"{_words(v.layout, schema)}: {v.skipped / read:.0%}"
        for v in values
        if v is not best and v.skipped > 0
    ]
    other_layouts = f" ({', '.join(others)})" if others else ""
    text = (
        f"{len(scans):,} scans since {since:%Y-%m-%d %H:%M} UTC read {size_text(read)}; with files {_words(best.layout, schema)} they "
        f"would have skipped about {share:.0%} of that{other_layouts}."
    )
    is_own = _is_own_order(state, best.layout)
    keeps = (
        ""
        if is_own
        else "; new files are written in the table's own order, t.update_sort_order() changes it"
    )
    size, skipped = state.file_bytes, int(best.skipped)
    saved = skipped / len(scans) / (READ_BYTES_PER_SECOND * state.workers)
    finding = Finding(
        "layout",
        text,
        {
            "scans": len(scans),
            "bytes_read": read,
            "bytes_skipped": skipped,
            "share": share,
            "bytes": size,
        },
        2 * size,
        2 * rewrite_minutes(state, size, state.files.num_rows),
        f"scans like these read about {1 - share:.0%} of what they read now{saving_text(saved)}{keeps}",
        saved,
        ProcedureCall(
            "rewrite_data_files",
            {"strategy": "sort", "sort_order": order, "options": {"rewrite-all": "true"}},
        ),
        by_auto=False,
    )
    return finding, best.layout


def joined(
    finding_and_layout: tuple[Finding, RowLayout] | None,
    unsorted: Finding | None,
    state: LiveFiles,
) -> list[Finding]:
    """Join the findings of a layout and of unsorted files if the layout that scans ask for is the
    table's own sort order, which `auto` may restore."""
    if (
        finding_and_layout is None
        or unsorted is None
        or not _is_own_order(state, finding_and_layout[1])
    ):
        return [
            f
            for f in (unsorted, finding_and_layout[0] if finding_and_layout else None)
            if f is not None
        ]
    layout_finding = finding_and_layout[0]
    text, numbers = (
        f"{unsorted.text} {layout_finding.text}",
        {**layout_finding.numbers, **unsorted.numbers},
    )
    return [replace(unsorted, text=text, numbers=numbers, brings=layout_finding.brings)]


def _is_own_order(state: LiveFiles, chosen: RowLayout) -> bool:
    field = sorted_by(state.metadata)
    return field is not None and chosen.columns == (field.source_id,)


def _name(schema: Schema, field_id: int) -> str:
    name = schema.find_column_name(field_id) or str(field_id)
    return name if re.fullmatch(r"[A-Za-z_][\w.]*", name) else back_quoted((name,))


def _words(chosen: RowLayout, schema: Schema) -> str:
    names = [_name(schema, i) for i in chosen.columns]
    return (
        f"sorted by {names[0]}"
        if len(names) == 1
        else f"in z-order of {', '.join(names[:-1])} and {names[-1]}"
    )


def _sort_order(chosen: RowLayout, schema: Schema) -> str:
    names = ", ".join(_name(schema, i) for i in chosen.columns)
    return f"zorder({names})" if chosen.is_zorder else names
