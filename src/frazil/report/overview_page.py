"""Lay out the page of a namespace: each table in a row, those that need the most first."""

from __future__ import annotations

import html
from collections.abc import Sequence

from frazil.maintain.advice.finding import minutes_text, size_text
from frazil.report.charts import Bar, bars
from frazil.report.facts import Health
from frazil.report.page import document
from frazil.spec.shown import time_text


def overview_of(
    name: str, tables: Sequence[tuple[Health, str]], failed: Sequence[tuple[str, str]] = ()
) -> str:
    """Return the page of several tables. `tables`: the health of each, and the file name of its own
    page, "" for none; `failed`: tables that could not be opened, and why."""
    ordered = sorted(tables, key=lambda t: -sum(f.cost_minutes for f in t[0].findings))
    rows = []
    for health, page in ordered:
        latest = health.moments[-1] if health.moments else None
        link = (
            f'<a href="{html.escape(page)}">{html.escape(health.name)}</a>'
            if page
            else html.escape(health.name)
        )
        numbers = [
            "" if latest is None or latest.rows is None else f"{latest.rows:,}",
            "" if latest is None or latest.files is None else f"{latest.files:,}",
            "" if latest is None or latest.bytes is None else size_text(latest.bytes),
            "" if latest is None else time_text(latest.time_ms)[:16],
        ]
        cells = "".join(f"<td class='number'>{html.escape(c)}</td>" for c in numbers)
        advice = (
            ", ".join(
                f"{f.kind.replace('_', ' ')} ({minutes_text(f.cost_minutes)})"
                for f in health.findings
            )
            or "nothing"
        )
        rows.append(f"<tr><th scope='row'>{link}</th>{cells}<td>{html.escape(advice)}</td></tr>")
    head = "".join(
        f"<th scope='col'{kind}>{h}</th>"
        for h, kind in (
            ("table", ""),
            *((n, " class='number'") for n in ("rows", "files", "size", "last commit (UTC)")),
            ("what to do", ""),
        )
    )
    table = f"<div class='scroll'><table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    sizes = [
        Bar(h.name, (float(h.moments[-1].bytes or 0),), size_text(h.moments[-1].bytes or 0))
        for h, _ in ordered
        if h.moments
    ]
    largest = sorted(sizes, key=lambda bar: -bar.parts[0])[:25]
    errors = "".join(
        f"<li><strong>{html.escape(n)}</strong>: {html.escape(why)}</li>" for n, why in failed
    )
    broken = f"<h2>Could not be opened</h2><ul>{errors}</ul>" if errors else ""
    body = (
        f"<main><h1>{html.escape(name)}</h1><p class='soft'>{len(tables)} tables</p>{table}{broken}"
    )
    return document(
        f"{name}: tables", f"{body}{bars('Size', largest, ('size',), size_text)}</main>"
    )
