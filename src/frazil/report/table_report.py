"""Provide the report that `t.report()` returns: its facts, and the page that shows them."""

from __future__ import annotations

import html
from dataclasses import dataclass
from pathlib import Path

from frazil.maintain.procedure import MaintainedTable
from frazil.report.facts import Health
from frazil.report.health import health_of
from frazil.report.page import page_of
from frazil.spec.fact_tree import FactNode, text_of


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
