"""Draw curves and the graph of snapshots as SVG, and bars as lines of HTML, each with a title that a
screen reader reads and a table of its numbers. Texts keep their size on a telephone: curves are as
narrow as one, and stand beside each other on a wide page.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from frazil.spec.shown import html_table, shortened, time_text

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _ROW = 360, 170, 72, 24, 26


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
    # a line stands at the value that it is labelled with: none between 0 and 1
    marks = {text(v): v for v in (top, round(top / 2), 0)}
    lines = "".join(
        f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - 12}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{html.escape(label)}</text>'
        for label, y in ((label, place(start, v)[1]) for label, v in marks.items())
    )
    ends = "".join(
        f'<text x="{x}" y="{_HEIGHT - 6}" text-anchor="{anchor}">{time_text(moment)[:16]}</text>'
        for x, anchor, moment in ((_LEFT, "start", start), (_WIDTH - 12, "end", end))
    )
    last = f"{title}: {text(points[0][1])} at {time_text(start)[:16]}, {text(points[-1][1])} at {time_text(end)[:16]}"
    body = f'{lines}<polygon class="area" points="{area}"/><polyline class="line" points="{line}"/>{ends}'
    drawn = f'<svg role="img" aria-label="{html.escape(last)}" viewBox="0 0 {_WIDTH} {_HEIGHT}">{body}</svg>'
    step = max(1, len(points) // 24)
    rows = [(time_text(m), text(v)) for m, v in [*points[::step], points[-1]]]
    return _figure(title, drawn, ("time", title.lower()), rows)


def bars(
    title: str, items: Sequence[Bar], names: Sequence[str], text: Callable[[float], str]
) -> str:
    """Draw horizontal bars, each of stacked parts called `names`."""
    if not items:
        return ""
    top = max(sum(bar.parts) for bar in items) or 1
    drawn = []
    for bar in items:
        parts = "".join(
            f'<span class="part{kind}" style="width:{100 * value / top:.2f}%"></span>'
            for kind, value in enumerate(bar.parts)
            if value
        )
        label = html.escape(shortened(bar.label, 80))
        note = html.escape(bar.note)
        drawn.append(
            f'<div class="bar"><span class="name">{label}</span><span class="track">{parts}</span><span class="note">{note}</span></div>'
        )
    rows = [(bar.label, *(text(v) for v in bar.parts), bar.note) for bar in items]
    legend = (
        "".join(f'<span class="key part{k}"></span>{html.escape(n)} ' for k, n in enumerate(names))
        if len(names) > 1
        else ""
    )
    largest = max(items, key=lambda bar: sum(bar.parts))
    summary = f"{title}: {len(items)} bars, the longest is {largest.label} with {text(sum(largest.parts))}"
    figure = (
        f'<div class="bars" role="img" aria-label="{html.escape(summary)}">{"".join(drawn)}</div>'
    )
    return _figure(title, figure, ("", *names, ""), rows, legend)


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
    count = len(nodes)
    place = {
        n.key: (12 + 18 * lanes[n.key], _ROW // 2 + _ROW * (count - 1 - i))
        for i, n in enumerate(nodes)
    }
    drawn, labels = [], []
    for node in nodes:
        x, y = place[node.key]
        if node.parent in place:
            px, py = place[node.parent]
            drawn.append(
                f'<path class="edge" d="M{x},{y} C{x},{(y + py) / 2} {px},{(y + py) / 2} {px},{py}"/>'
            )
    for node in reversed(nodes):
        x, y = place[node.key]
        drawn.append(f'<circle class="node" cx="{x}" cy="{y}" r="5"/>')
        tags = "".join(f"<b>{html.escape(shortened(r, 40))}</b> " for r in node.refs)
        labels.append(f"<div>{tags}{html.escape(node.label)}</div>")
    rows = [(n.key, n.parent or "", n.label, ", ".join(n.refs)) for n in reversed(nodes)]
    summary = html.escape(f"{title}: {count} snapshots, the newest is {nodes[-1].label}")
    wide, high = 24 + 18 * max(lanes.values()), _ROW * count
    svg = f'<svg role="img" aria-label="{summary}" width="{wide}" height="{high}" viewBox="0 0 {wide} {high}">{"".join(drawn)}</svg>'
    figure = f'<div class="graph scroll">{svg}<div>{"".join(labels)}</div></div>'
    return _figure(title, figure, ("snapshot", "parent", "what", "refs"), rows)


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
    drawn: str,
    head: Sequence[str],
    rows: Sequence[Sequence[object]],
    legend: str = "",
) -> str:
    numbers = f"<details><summary>Numbers</summary><div class='scroll'>{html_table(head, rows)}</div></details>"
    return (
        f"<figure><figcaption>{html.escape(title)} {legend}</figcaption>{drawn}{numbers}</figure>"
    )
