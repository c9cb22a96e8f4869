"""Run a procedure from the command line: the arguments that were values, by name, and the result as
a table.
"""

from __future__ import annotations

from typing import Any

import click

from frazil.cli.look import opened, snapshot_id_of
from frazil.cli.output import show_rows, wants_json
from frazil.cli.procedures import is_snapshot
from frazil.commit.apply import now_millis
from frazil.maintain.advice.finding import findings_tree
from frazil.maintain.procedures import BY_NAME, ON_CATALOG, TEXTS
from frazil.maintain.snapshots.retention import RetentionRequest, why_kept
from frazil.scan.snapshot_ref import to_milliseconds
from frazil.spec.fact_tree import text_of
from frazil.table.load import load_table, resolve
from frazil.table.procedure_calls import run_procedure
from frazil.table.table import Table


def run(procedure: str, **arguments: Any) -> None:
    """Run a procedure and print its output columns."""
    described = BY_NAME[procedure]
    values: dict[str, Any] = {
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
    if described.name == "recommend" and not wants_json():
        findings = opened(name).maintenance.recommend()
        click.echo(text_of(findings_tree(findings, lambda call: call.as_command(name))))
        return
    for parameter in described.parameters:
        if is_snapshot(parameter) and (chosen := values.get(parameter.name)):
            is_one, table = isinstance(chosen, str), opened(name)
            ids = [snapshot_id_of(table, one) for one in ([chosen] if is_one else chosen)]
            values[parameter.name] = ids[0] if is_one else ids
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
    if procedure == "expire_snapshots" and not wants_json() and not any(rows[0].values()):
        moment = values.get("older_than")
        request = RetentionRequest(
            None if moment is None else to_milliseconds(moment), values.get("retain_last")
        )
        click.echo(why_kept(opened(name).metadata, request, now_millis()))


class _OneTable:
    """Stand for a catalog that holds one table, which was opened by its location."""

    def __init__(self, table: Table):
        self._table = table

    def load_table(self, _: object) -> Table:
        return self._table
