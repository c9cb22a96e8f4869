"""Write reports of a table's health."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from frazil.catalog.names import full_name
from frazil.cli.look import every_namespace, opened, place_of
from frazil.cli.output import show_facts
from frazil.errors import FrazilError
from frazil.report.page import TableReport, overview_of


def report(name: str, out: str | None) -> None:
    """Write the report of a table; or, where the name is a namespace, a page of all its tables and
    one page for each of them.
    """
    page = Path(out or f"{name.rstrip('/').rsplit('/', 1)[-1]}.html")
    if "/" in name or not (inside := _tables_in(name)):
        _written(name, page)
        show_facts({"page": str(page)}, f"{page} was written")
        return
    reports, failed = [], []
    for table in inside:
        own_page = page.with_name(f"{table}.html")
        try:
            reports.append((_written(table, own_page).health, own_page.name))
        except FrazilError as e:
            failed.append((table, str(e)))
    page.write_text(overview_of(name, reports, failed), encoding="utf-8")
    text = f"{page} was written, and a page for each table in it: {len(reports)}"
    show_facts(
        {
            "page": str(page),
            "tables": [h.name for h, _ in reports],
            "failed": [n for n, _ in failed],
        },
        text,
    )


def _written(name: str, page: Path) -> TableReport:
    """Write the page of a table, which says commands."""
    report = replace(opened(name).report(), spelled=lambda call: call.as_command(name))
    report.save(page)
    return report


def _tables_in(name: str) -> list[str]:
    """Return the full names of the tables in a namespace; none where it is not the name of one, or
    that of a table.
    """
    catalog, namespace = place_of(name)
    if len(namespace) > 1 and catalog.table_exists(namespace):
        return []
    inside = [namespace] if namespace else every_namespace(catalog)
    return [
        full_name((catalog.name, *one))
        for n in inside
        if catalog.namespace_exists(n)
        for one in sorted(catalog.list_tables(n))
    ]
