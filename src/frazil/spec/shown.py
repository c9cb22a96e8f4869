"""Format times, sizes, counts, long texts and long lists for people, so that output fits on one
screen of a console.
"""

from __future__ import annotations

import datetime as dt
import html
from collections.abc import Iterable, Sequence

LINES = 30
"""Lines that a list of columns, snapshots or entries takes; how many more there are stands below or
above.
"""
_EPOCH = dt.datetime(1970, 1, 1)


def time_text(milliseconds: int) -> str:
    """Format a time as `2026-11-22 21:59:02.968 UTC`."""
    try:
        return f"{(_EPOCH + dt.timedelta(milliseconds=milliseconds)).isoformat(' ', 'milliseconds')} UTC"
    except OverflowError:
        return f"{milliseconds} ms"


def shortened(text: object, most: int = 100) -> str:
    """Shorten a text to one line of at most `most` characters."""
    line = " ".join(str(text).splitlines())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def listed(items: Iterable[object], most: int = 100) -> str:
    """Join names as `a, b, c, … 597 more`: as many as fit into `most` characters, one at least."""
    texts, room = [str(i) for i in items], most
    shown: list[str] = []
    for text in texts:
        room -= len(text) + 2
        if shown and room < 0:
            break
        shown.append(shortened(text, most))
    more = [f"… {len(texts) - len(shown)} more"] if len(shown) < len(texts) else []
    return ", ".join([*shown, *more])


def size_text(size: float) -> str:
    """Format a number of bytes with its unit."""
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1024:
            return f"{size:,.0f} {unit}" if unit == "B" or size >= 100 else f"{size:,.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} TB"


def count_text(count: int, noun: str) -> str:
    """Format a number with a noun, in the plural where needed."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


_AGES = (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1_000))


def age_text(milliseconds: int) -> str:
    """Format a length of time in the largest unit that it has one of."""
    noun, unit = next(((n, u) for n, u in _AGES if milliseconds >= u), ("millisecond", 1))
    return count_text(milliseconds // unit, noun)


def html_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Format rows as a table of HTML for notebooks, with a line of column names unless all are
    empty; texts are escaped.
    """

    def line(cells: Sequence[object], tag: str) -> str:
        return (
            "<tr>"
            + "".join(
                f"<{tag} style='text-align:left'>{html.escape(str(c))}</{tag}>" for c in cells
            )
            + "</tr>"
        )

    top = f"<thead>{line(head, 'th')}</thead>" if any(head) else ""
    return f"<table>{top}<tbody>{''.join(line(row, 'td') for row in rows)}</tbody></table>"
