"""Draw curves, bars and the graph of snapshots as SVG, each with a title that a screen reader reads
and a table of its numbers.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from frazil.spec.shown import html_table, shortened, time_text

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 720, 200, 76, 24


@dataclass(frozen=True)
class Bar:
    """Describe one bar: its label, the value of each part, and what stands behind it."""

    label: str
    parts: tuple[float, ...]
    note: str = ""


def curve(title: str, points: Sequence[tuple[int, float]], text: Callable[[float], str]) -> str:
    """Draw values over time as a curve from zero. `points`: (milliseconds, value); `text`: formats
    a value.
    """
    if len(points) < 2:
        return ""
    start, end = points[0][0], points[-1][0]
    top = max(v for _, v in points) or 1
    inner, height = _WIDTH - _LEFT - 12, _HEIGHT - _BOTTOM - 12

    def place(moment: int, value: float) -> tuple[float, float]:
        return _LEFT + inner * (moment - start) / max(end - start, 1), 12 + height * (
            1 - value / top
        )

    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(m, v) for m, v in points))
    base = 12 + height
    area = f"{_LEFT},{base} {line} {place(end, 0)[0]:.1f},{base}"
    lines = "".join(
        f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - 12}" y1="{12 + height * (1 - s):.1f}" y2="{12 + height * (1 - s):.1f}"/>'
        f'<text x="{_LEFT - 8}" y="{16 + height * (1 - s):.1f}" text-anchor="end">{html.escape(text(top * s))}</text>'
        for s in (0, 0.5, 1)
    )
    ends = "".join(
        f'<text x="{x}" y="{_HEIGHT - 6}" text-anchor="{anchor}">{time_text(moment)[:16]}</text>'
        for x, anchor, moment in ((_LEFT, "start", start), (_WIDTH - 12, "end", end))
    )
    last = f"{title}: {text(points[0][1])} at {time_text(start)[:16]}, {text(points[-1][1])} at {time_text(end)[:16]}"
    body = f'{lines}<polygon class="area" points="{area}"/><polyline class="line" points="{line}"/>{ends}'
    step = max(1, len(points) // 24)
    rows = [(time_text(m), text(v)) for m, v in [*points[::step], points[-1]]]
    return _figure(title, last, _WIDTH, _HEIGHT, body, ("time", title.lower()), rows)


def bars(
    title: str, items: Sequence[Bar], names: Sequence[str], text: Callable[[float], str]
) -> str:
    """Draw horizontal bars, each of stacked parts called `names`."""
    if not items:
        return ""
    top = max(sum(bar.parts) for bar in items) or 1
    left, row, width = 210, 22, _WIDTH - 210 - 190
    height = row * len(items) + 8
    drawn = []
    for number, bar in enumerate(items):
        y, x = 4 + row * number, float(left)
        label = html.escape(shortened(bar.label, 34))
        drawn.append(
            f'<text x="{left - 8}" y="{y + 14}" text-anchor="end"><title>{html.escape(bar.label)}</title>{label}</text>'
        )
        for kind, value in enumerate(bar.parts):
            size = width * value / top
            drawn.append(
                f'<rect class="part{kind}" x="{x:.1f}" y="{y + 3}" width="{max(size, 0.5 if value else 0):.1f}" height="{row - 8}" rx="2"/>'
            )
            x += size
        drawn.append(
            f'<text class="note" x="{x + 6:.1f}" y="{y + 14}">{html.escape(bar.note)}</text>'
        )
    rows = [(bar.label, *(text(v) for v in bar.parts), bar.note) for bar in items]
    legend = (
        "".join(f'<span class="key part{k}"></span>{html.escape(n)} ' for k, n in enumerate(names))
        if len(names) > 1
        else ""
    )
    largest = max(items, key=lambda bar: sum(bar.parts))
    summary = f"{title}: {len(items)} bars, the longest is {largest.label} with {text(sum(largest.parts))}"
    return _figure(title, summary, _WIDTH, height, "".join(drawn), ("", *names, ""), rows, legend)


@dataclass(frozen=True)
class SnapshotPoint:
    """Describe a point of the graph of snapshots. `lane`: the column it stands in."""

    key: int
    parent: int | None
    label: str
    refs: tuple[str, ...]


def graph(title: str, nodes: Sequence[SnapshotPoint]) -> str:
    """Draw snapshots from the oldest at the bottom to the newest at the top, with lines to their
    parents and the names of refs.
    """
    if not nodes:
        return ""
    lanes = _lanes(nodes)
    row, count = 26, len(nodes)
    place = {
        n.key: (20 + 18 * lanes[n.key], 16 + row * (count - 1 - i)) for i, n in enumerate(nodes)
    }
    wide = 20 + 18 * (max(lanes.values()) + 1)
    drawn = []
    for node in nodes:
        x, y = place[node.key]
        if node.parent in place:
            px, py = place[node.parent]
            drawn.append(
                f'<path class="edge" d="M{x},{y} C{x},{(y + py) / 2} {px},{(y + py) / 2} {px},{py}"/>'
            )
    for node in nodes:
        x, y = place[node.key]
        drawn.append(f'<circle class="node" cx="{x}" cy="{y}" r="5"/>')
        tags = "".join(
            f'<tspan class="ref"> {html.escape(shortened(r, 24))} </tspan>' for r in node.refs
        )
        drawn.append(f'<text x="{wide}" y="{y + 4}">{tags}{html.escape(node.label)}</text>')
    rows = [(n.key, n.parent or "", n.label, ", ".join(n.refs)) for n in reversed(nodes)]
    summary = f"{title}: {count} snapshots, the newest is {nodes[-1].label}"
    return _figure(
        title,
        summary,
        _WIDTH,
        row * count + 12,
        "".join(drawn),
        ("snapshot", "parent", "what", "refs"),
        rows,
    )


def _lanes(nodes: Sequence[SnapshotPoint]) -> dict[int, int]:
    """Give each snapshot a lane: that of its parent, unless another child has taken it."""
    lanes: dict[int, int] = {}
    ends: dict[int, int] = {}  # lane -> the snapshot at its end
    for node in nodes:
        lane = next((n for n, end in ends.items() if end == node.parent), None)
        lane = len(ends) if lane is None else lane
        lanes[node.key] = lane
        ends[lane] = node.key
    return lanes


def _figure(
    title: str,
    summary: str,
    width: int,
    height: int,
    body: str,
    head: Sequence[str],
    rows: Sequence[Sequence[object]],
    legend: str = "",
) -> str:
    svg = f'<svg role="img" aria-label="{html.escape(summary)}" viewBox="0 0 {width} {height}">{body}</svg>'
    numbers = f"<details><summary>Numbers</summary><div class='scroll'>{html_table(head, rows)}</div></details>"
    return f"<figure><figcaption>{html.escape(title)} {legend}</figcaption>{svg}{numbers}</figure>"
