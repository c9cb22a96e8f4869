"""Run a procedure from the command line: the arguments that were values, by name, and the result as
a table.
"""

from __future__ import annotations

from typing import Any

from frazil.cli.output import show_rows, wants_json
from frazil.maintain.procedures import BY_NAME, ON_CATALOG, TEXTS
from frazil.table.load import load_table, resolve
from frazil.table.procedure_calls import run_procedure
from frazil.table.table import Table


def run(procedure: str, **arguments: Any) -> None:
    """Run a procedure and print its output columns."""
    described = BY_NAME[procedure]
    values = {
        k: list(v) if isinstance(v, tuple) else v
        for k, v in arguments.items()
        if v not in (None, ())
    }
    for parameter in described.parameters:  # `--columns a,b` is `--columns a --columns b`
        if parameter.kind == TEXTS and parameter.name in values:
            values[parameter.name] = [
                part.strip() for text in values[parameter.name] for part in text.split(",")
            ]
    name: Any = values["table"]
    if described.on != ON_CATALOG and "/" in name:
        catalog: Any = _OneTable(load_table(name))
    else:
        catalog, values["table"] = (
            resolve(name) if described.name != "migrate" else (resolve(name)[0], name)
        )
    done = run_procedure(catalog, described, values, spelled=lambda call: call.as_command(name))
    rows = done.to_pylist()
    if not wants_json():  # seconds and minutes are estimates and measurements: three digits say all
        rows = [
            {k: float(f"{v:.3g}") if isinstance(v, float) else v for k, v in row.items()}
            for row in rows
        ]
    show_rows(rows, done.column_names, "nothing to do")


class _OneTable:
    """Stand for a catalog that holds one table, which was opened by its location."""

    def __init__(self, table: Table):
        self._table = table

    def load_table(self, _: object) -> Table:
        return self._table
