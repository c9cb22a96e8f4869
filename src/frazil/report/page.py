"""Provide the report that `t.report()` returns, and lay out its page: that of a table's health,
which begins with one sentence, or that of a namespace, with each table in a row, those that need
the most first. Each page is one file of HTML without scripts and network, light and dark, for
keyboards and screen readers.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from frazil.maintain.advice.finding import ProcedureCall, cost_text, minutes_text
from frazil.maintain.procedure import MaintainedTable
from frazil.report.charts import Bar, SnapshotPoint, bars, curve, graph
from frazil.report.facts import Health
from frazil.report.health import health_of
from frazil.spec.fact_tree import FactNode, text_of
from frazil.spec.shown import age_text, count_text, html_table, size_text, time_text
from frazil.spec.version import VERSION

_SKEWED = 10
"""How many times as large as the one in the middle a partition is that the sentence names."""


def headline(health: Health) -> str:
    """Return the sentence with which a report begins."""
    if not health.moments:
        return "Nothing was committed to this table yet."
    troubles = [*_troubles(health)]
    if not health.findings:
        verdict = "The table needs no maintenance, yet" if troubles else "The table is well"
    else:
        minutes = sum(f.cost_minutes for f in health.findings)
        troubles.append(f"to mend it takes about {minutes_text(minutes)}")
        verdict = f"The table needs maintenance, {_since(health)}"
    last = f"last commit {ago(health.made_at_ms - health.moments[-1].time_ms)}"
    joint = " " if verdict.endswith("yet") else ": "
    return f"{verdict}{joint}{'; '.join([*troubles, last])}."


def _since(health: Health) -> str:
    if health.maintained_ms is not None:
        return f"the last was {ago(health.made_at_ms - health.maintained_ms)}"
    age = ago(health.made_at_ms - health.moments[0].time_ms).removesuffix(" ago")
    return f"none in its history of {age}" if age != "just now" else "none so far"


def _troubles(health: Health) -> list[str]:
    findings = {f.kind: f for f in health.findings}
    texts = []
    if (small := findings.pop("small_files", None)) is not None:
        slow = f" by about {small.seconds_saved:.1f} s" if small.seconds_saved >= 0.05 else ""
        texts.append(f"{small.numbers['files']:,.0f} small files slow full reads{slow}")
    findings.pop("deleted_rows", None)
    if health.deleted_rows and health.rows is not None:
        all_rows = health.rows + health.deleted_rows
        texts.append(f"{health.deleted_rows:,} of {all_rows:,} rows are deleted")
    if health.equality_deletes:
        texts.append(f"{health.equality_deletes:,} equality deletes are applied by each read")
        findings.pop("equality_deletes", None)
    if health.largest is not None and health.largest[1] >= _SKEWED * health.largest[2]:
        name, size, _ = health.largest
        share = size / max(sum(c.bytes for c in health.sizes), 1)
        texts.append(f"partition {name} holds {share:.0%} of the bytes, so work on it is uneven")
    return texts + [f.text.rstrip(".") for f in list(findings.values())[: max(0, 3 - len(texts))]]


def ago(milliseconds: int) -> str:
    """Format how long ago something was."""
    return f"{age_text(milliseconds)} ago" if milliseconds >= 60_000 else "just now"


STYLE = (Path(__file__).parent / "style.css").read_text(encoding="utf-8")


@dataclass(frozen=True)
class TableReport:
    """Hold the report of a table. `health`: the facts; `html()`: the page; `save(path)` writes it,
    and notebooks show it. `spelled`: how the page says what to type.
    """

    health: Health
    spelled: Callable[[ProcedureCall], str] = str

    def html(self) -> str:
        """Return the page, one file of HTML that needs no network."""
        return page_of(self.health, self.spelled)

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
        facts = (("", headline(health)), *health.facts)
        return text_of(FactNode(f"Report of {health.name}", facts, (health.findings.tree,)))


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


def page_of(health: Health, spelled: Callable[[ProcedureCall], str] = str) -> str:
    """Return the page of one table. `spelled`: how it says what to type."""
    sections = [(name, key, text) for name, key, text in _sections(health, spelled) if text]
    links = " ".join(f'<a href="#{key}">{name}</a>' for name, key, _ in sections)
    tiles = "".join(
        f"<div{' class=wide' if len(text) > 20 else ''}><dt>{html.escape(name)}</dt><dd>{html.escape(text)}</dd></div>"
        for name, text in health.facts
    )
    parts = "".join(
        f'<section aria-labelledby="{key}"><h2 id="{key}">{name}</h2>{text}</section>'
        for name, key, text in sections
    )
    head = f'<h1>{html.escape(health.name)}</h1><p class="soft">as of {time_text(health.made_at_ms)[:16]} UTC, Frazil {VERSION}</p>'
    kind = "headline ill" if len(health.findings) else "headline"
    head += f'<p class="{kind}">{html.escape(headline(health))}</p>'
    skip = '<a class="skip" href="#content">Skip to the content</a>'
    body = f'{skip}<main id="content">{head}<nav aria-label="Sections">{links}</nav><dl class="facts">{tiles}</dl>{parts}</main>'
    return document(f"{health.name}: health", body)


def _sections(
    health: Health, spelled: Callable[[ProcedureCall], str]
) -> list[tuple[str, str, str]]:
    return [
        ("What to do", "advice", _advice(health, spelled)),
        ("Growth", "growth", _growth(health)),
        ("File sizes", "sizes", _sizes(health)),
        ("Deletes by partition", "deletes", _partitions(health)),
        ("Snapshots, branches, tags", "snapshots", _snapshots(health)),
        ("Columns, and what look-ups skip", "columns", _columns(health)),
        ("Manifests", "manifests", _manifests(health)),
    ]


def _advice(health: Health, spelled: Callable[[ProcedureCall], str]) -> str:
    if not len(health.findings):
        return "<p>The table needs no maintenance.</p>"
    items = "".join(
        f"<li><strong>{html.escape(f.kind.replace('_', ' '))}</strong>: {html.escape(f.text)}<br>"
        f"<code>{html.escape(spelled(f.cure))}</code><br>"
        f'<span class="soft">costs {cost_text(f)}; brings: {html.escape(f.brings)}</span></li>'
        for f in health.findings
    )
    auto = html.escape(spelled(ProcedureCall("auto")))
    return f"<p><code>{auto}</code> does what needs no decision of the owner.</p><ol>{items}</ol>"


def _growth(health: Health) -> str:
    curves = (
        ("Size, with delete files", "bytes", size_text),
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
    return f"<div class='curves'>{''.join(drawn)}</div>" if any(drawn) else ""


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _sizes(health: Health) -> str:
    items = [
        Bar(c.label, (float(c.files),), f"{count_text(c.files, 'file')}, {size_text(c.bytes)}")
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
            f"{count_text(p.files, 'file')}, {size_text(p.bytes)}",
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
        "Files that a look-up of one value skips by their ranges",
        items,
        ("skipped",),
        lambda v: f"{v:.0%}",
    )
    rows = [(c.name, c.type, c.lower, c.upper) for c in health.columns]
    left = health.column_count - len(rows)
    more = f'<p class="soft">… {left:,} more columns</p>' if left > 0 else ""
    head = ("column", "type", "lower bound", "upper bound")
    return f"{drawn}<div class='scroll'>{html_table(head, rows)}</div>{more}"


def _manifests(health: Health) -> str:
    rows: Sequence[Sequence[object]] = [
        (kind, f"{count:,}", size_text(size), f"{live:,}", f"{live / count:,.0f}" if count else "")
        for kind, count, size, live in health.manifests
    ]
    return (
        html_table(("of", "manifests", "size", "live files", "files in each"), rows) if rows else ""
    )


def overview_of(
    name: str, tables: Sequence[tuple[Health, str]], failed: Sequence[tuple[str, str]] = ()
) -> str:
    """Return the page of several tables. `tables`: the health of each, and the file name of its own
    page, "" for none; `failed`: tables that could not be opened, and why."""
    ordered = sorted(tables, key=lambda t: -sum(f.cost_minutes for f in t[0].findings))
    rows = []
    for health, page in ordered:
        latest = health.moments[-1].time_ms if health.moments else None
        link = html.escape(health.name)
        if page:
            link = f'<a href="{html.escape(quote(page))}">{link}</a>'
        numbers = [""] * 5
        if latest is not None and health.rows is not None:
            numbers = [
                f"{health.rows:,}",
                f"{health.deleted_rows:,}",
                f"{sum(c.files for c in health.sizes):,}",
                size_text(sum(c.bytes for c in health.sizes)),
                time_text(latest)[:16],
            ]
        cells = "".join(f"<td class='number'>{html.escape(c)}</td>" for c in numbers)
        advice = ", ".join(f.kind.replace("_", " ") for f in health.findings) or "nothing"
        rows.append(f"<tr><th scope='row'>{link}</th>{cells}<td>{html.escape(advice)}</td></tr>")
    head = "".join(
        f"<th scope='col'{kind}>{h}</th>"
        for h, kind in (
            ("table", ""),
            *(
                (n, " class='number'")
                for n in ("rows", "deleted", "files", "size", "last commit (UTC)")
            ),
            ("what to do", ""),
        )
    )
    table = f"<div class='scroll'><table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    totals = [(h.name, sum(c.bytes for c in h.sizes)) for h, _ in ordered if h.moments]
    sizes = [Bar(name, (float(size),), size_text(size)) for name, size in totals]
    largest = sorted(sizes, key=lambda bar: -bar.parts[0])[:25]
    errors = "".join(
        f"<li><strong>{html.escape(n)}</strong>: {html.escape(why)}</li>" for n, why in failed
    )
    ill = sum(1 for h, _ in tables if h.findings)
    minutes = sum(f.cost_minutes for h, _ in tables for f in h.findings)
    sentence = f"{ill:,} of {count_text(len(tables), 'table')} need maintenance, which takes about {minutes_text(minutes)}."
    sentence = sentence if ill else f"{count_text(len(tables), 'table')}: none needs maintenance."
    broken = f"<h2>Could not be opened</h2><ul>{errors}</ul>" if errors else ""
    body = f"<main><h1>{html.escape(name)}</h1><p class='headline{' ill' if ill else ''}'>{sentence}</p>{table}{broken}"
    return document(
        f"{name}: tables", f"{body}{bars('Size', largest, ('size',), size_text)}</main>"
    )
