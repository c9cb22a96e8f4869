"""Provide the report that `t.report()` returns, and lay out its page: that of a table's health, or
that of a namespace, with each table in a row, those that need the most first. Each page is one file
of HTML without scripts and network, light and dark, for keyboards and screen readers.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from frazil.maintain.advice.finding import minutes_text
from frazil.maintain.procedure import MaintainedTable
from frazil.report.charts import Bar, SnapshotPoint, bars, curve, graph
from frazil.report.facts import Health
from frazil.report.health import health_of
from frazil.spec.fact_tree import FactNode, html_of, text_of
from frazil.spec.shown import html_table, size_text, time_text
from frazil.spec.version import VERSION

STYLE = (Path(__file__).parent / "style.css").read_text(encoding="utf-8")


@dataclass(frozen=True)
class TableReport:
    """Hold the report of a table. `health`: the facts; `html()`: the page; `save(path)` writes it,
    and notebooks show it.
    """

    health: Health

    def html(self) -> str:
        """Return the page, one file of HTML that needs no network."""
        return page_of(self.health)

    def save(self, path: str | Path) -> Path:
        """Write the page to a file, and return its path."""
        file = Path(path)
        file.write_text(self.html(), encoding="utf-8")
        return file

    def _repr_html_(self) -> str:
        page, title = (
            html.escape(self.html(), quote=True),
            html.escape(self.health.name, quote=True),
        )
        return f'<iframe title="Report of {title}" srcdoc="{page}" style="width:100%;height:720px;border:0"></iframe>'

    def __repr__(self) -> str:
        health = self.health
        return text_of(FactNode(f"Report of {health.name}", health.facts, (health.findings.tree,)))


def report_of(table: MaintainedTable) -> TableReport:
    """Report on the newest state of a table. Reads metadata and manifests, no data files."""
    return TableReport(health_of(table))


def document(title: str, body: str) -> str:
    """Return a whole page of HTML with the style of reports."""
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head><body>{body}</body></html>"
    )


def page_of(health: Health) -> str:
    """Return the page of one table."""
    sections = [(name, key, text) for name, key, text in _sections(health) if text]
    links = " ".join(f'<a href="#{key}">{name}</a>' for name, key, _ in sections)
    tiles = html_of(FactNode(facts=health.facts))
    parts = "".join(
        f'<section aria-labelledby="{key}"><h2 id="{key}">{name}</h2>{text}</section>'
        for name, key, text in sections
    )
    head = f'<h1>{html.escape(health.name)}</h1><p class="soft">as of {time_text(health.made_at_ms)[:16]} UTC, Frazil {VERSION}</p>'
    skip = '<a class="skip" href="#content">Skip to the content</a>'
    body = f'{skip}<main id="content">{head}<nav aria-label="Sections">{links}</nav>{tiles}{parts}</main>'
    return document(f"{health.name}: health", body)


def _sections(health: Health) -> list[tuple[str, str, str]]:
    return [
        ("What to do", "advice", _advice(health)),
        ("Growth", "growth", _growth(health)),
        ("File sizes", "sizes", _sizes(health)),
        ("Deletes by partition", "deletes", _partitions(health)),
        ("Snapshots, branches, tags", "snapshots", _snapshots(health)),
        ("Columns, and what look-ups skip", "columns", _columns(health)),
        ("Manifests", "manifests", _manifests(health)),
        ("What queries read", "queries", _scans(health)),
    ]


def _advice(health: Health) -> str:
    if not len(health.findings):
        return "<p>The table needs no maintenance.</p>"
    items = "".join(
        f"<li><strong>{html.escape(f.kind.replace('_', ' '))}</strong>: {html.escape(f.text)}<br><code>{html.escape(f.call)}</code><br>"
        f'<span class="soft">costs {size_text(f.cost_bytes)} read and written, about {minutes_text(f.cost_minutes)}; brings: '
        f"{html.escape(f.brings)}</span></li>"
        for f in health.findings
    )
    return f"<p><code>t.maintenance.auto()</code> does what needs no decision of the owner.</p><ol>{items}</ol>"


def _growth(health: Health) -> str:
    curves = (
        ("Size", "bytes", size_text),
        ("Rows", "rows", _count),
        ("Data files", "files", _count),
        ("Delete files", "delete_files", _count),
    )
    drawn = []
    for title, name, text in curves:
        points = [
            (m.time_ms, float(v)) for m in health.moments if (v := getattr(m, name)) is not None
        ]
        if name != "delete_files" or any(v for _, v in points):
            drawn.append(curve(title, points, text))
    return "".join(drawn)


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _sizes(health: Health) -> str:
    items = [
        Bar(c.label, (float(c.files),), f"{c.files:,} files, {size_text(c.bytes)}")
        for c in health.sizes
    ]
    target = f"<p>The target is {size_text(health.target_bytes)}.</p>" if items else ""
    return target + bars("Data files by size", items, ("files",), _count)


def _partitions(health: Health) -> str:
    items = [
        Bar(
            p.name,
            (
                float(max(p.rows - p.deleted_rows, 0)),
                float(min(p.deleted_rows, p.rows)),
                float(p.equality_deletes),
            ),
            f"{p.files:,} files, {size_text(p.bytes)}",
        )
        for p in health.partitions
    ]
    names = ("rows", "rows with position deletes", "equality deletes")
    left = health.partition_count - len(items)
    more = f'<p class="soft">… {left:,} more partitions, with fewer deletes</p>' if left > 0 else ""
    return bars("Rows and deletes, those with the most deletes first", items, names, _count) + more


def _snapshots(health: Health) -> str:
    nodes = [
        SnapshotPoint(
            s.snapshot_id,
            s.parent_id,
            f"{time_text(s.time_ms)[:19]}  {s.operation}{'' if s.added_rows is None else f', +{s.added_rows:,} rows'}",
            s.refs,
        )
        for s in health.snapshots
    ]
    left = health.snapshot_count - len(nodes)
    more = f'<p class="soft">… {left:,} older snapshots</p>' if left > 0 else ""
    return graph("Snapshots", nodes) + more


def _columns(health: Health) -> str:
    if not health.columns:
        return ""
    items = [
        Bar(
            c.name + (" (sorted by)" if c.is_sorted_by else ""),
            (c.skipped,),
            f"{c.skipped:.0%} of the files",
        )
        for c in health.columns
        if c.skipped is not None
    ]
    drawn = bars(
        "Files that a look-up of one value skips", items, ("skipped",), lambda v: f"{v:.0%}"
    )
    rows = [(c.name, c.type, c.least, c.greatest) for c in health.columns]
    return (
        drawn
        + f"<div class='scroll'>{html_table(('column', 'type', 'least', 'greatest'), rows)}</div>"
    )


def _manifests(health: Health) -> str:
    rows: Sequence[Sequence[object]] = [
        (kind, f"{count:,}", size_text(size), f"{live:,}", f"{live / count:,.0f}" if count else "")
        for kind, count, size, live in health.manifests
    ]
    return (
        html_table(("of", "manifests", "size", "live files", "files in each"), rows) if rows else ""
    )


def _scans(health: Health) -> str:
    if not health.scans:
        return ""
    items = [
        Bar(
            time_text(s.time_ms)[:19],
            (float(s.files), float(max((s.table_files or s.files) - s.files, 0))),
            size_text(s.bytes),
        )
        for s in health.scans[-25:]
    ]
    return bars("Files read and skipped by the latest queries", items, ("read", "skipped"), _count)


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
