"""Format a tree of facts as text for a terminal and as HTML for a notebook or a page: overviews of
tables and views, explanations of scans, reports.
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import dataclass

_NAME_WIDTH = 14  # so that the short lists of facts of one session stand below each other


@dataclass(frozen=True)
class FactNode:
    """Hold a label, the facts that stand below it as (name, text), and the nodes below these. A
    text may have several lines; a node without a label adds no level.
    """

    label: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    children: tuple[FactNode, ...] = ()


class ShownAsTree:
    """Show an object by its tree of facts: as text in a console, as HTML in a notebook."""

    @property
    def tree(self) -> FactNode:
        """Return the object's facts as a tree."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return text_of(self.tree)

    def _repr_html_(self) -> str:
        return html_of(self.tree)


def leaves(texts: Iterator[str] | list[str]) -> tuple[FactNode, ...]:
    """Make one node without facts of each text."""
    return tuple(FactNode(text) for text in texts)


def text_of(node: FactNode) -> str:
    """Format a tree as text, each level two spaces further to the right, the texts of facts below
    each other.
    """
    return "\n".join(_lines(node, ""))


def _lines(node: FactNode, indent: str) -> Iterator[str]:
    if node.label:
        yield indent + node.label
        indent += "  "
    width = max((_NAME_WIDTH, *(len(name) for name, _ in node.facts)))
    for name, text in node.facts:
        for number, line in enumerate(text.split("\n")):
            yield f"{indent}{'' if number else name:>{width}}  {line}".rstrip()
    for child in node.children:
        yield from _lines(child, indent)


def html_of(node: FactNode) -> str:
    """Format a tree as HTML: facts as a table, nodes with something below them so that they can be
    closed. Texts are escaped.
    """
    return f"<div>{f'<p>{html.escape(node.label)}</p>' if node.label else ''}{_below(node)}</div>"


def _below(node: FactNode) -> str:
    rows = "".join(
        f"<tr><th scope='row' style='text-align:left'>{html.escape(name)}</th>"
        f"<td style='text-align:left'>{_cell(text)}</td></tr>"
        for name, text in node.facts
    )
    table = f"<div class='facts'><table><tbody>{rows}</tbody></table></div>" if rows else ""
    return table + "".join(map(_child, node.children))


def _child(node: FactNode) -> str:
    label = html.escape(node.label)
    if not (below := _below(node)):
        return f"<p>{label}</p>"
    return f"<details open><summary>{label}</summary>{below}</details>" if label else below


def _cell(text: str) -> str:
    return f"<pre>{html.escape(text)}</pre>" if "\n" in text else html.escape(text)
