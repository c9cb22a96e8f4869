"""Run a procedure by its name, as SQL's `CALL` and the command line do: one call of
`t.maintenance`, a table or a catalog, and its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any

import pyarrow as pa

from frazil.maintain.advice.finding import ProcedureCall
from frazil.maintain.procedures import ON_CATALOG, ON_MAINTENANCE, STRING, Procedure
from frazil.ops.session import Session
from frazil.spec.snapshot import MAIN_BRANCH
from frazil.table.catalog import Catalog

_ARROW = {
    STRING: pa.string(), "INT": pa.int32(), "BIGINT": pa.int64(), "DOUBLE": pa.float64(),
}  # fmt: skip


def run_procedure(
    catalog: Catalog,
    procedure: Procedure,
    arguments: Mapping[str, Any],
    spark: Session | None = None,
    spelled: Callable[[ProcedureCall], str] = str,
) -> pa.Table:
    """Run a procedure and return its output columns. `arguments`: by the names of SQL; those that
    are None are left out. `table` is an identifier within the catalog. `spark`: the session that
    does the work of procedures on files; None: the running one, if any. `spelled`: how the column
    `call` of `recommend` and `auto` says what to type."""
    values = {
        p.in_python: arguments[p.name]
        for p in procedure.parameters
        if arguments.get(p.name) is not None
    }
    if procedure.on == ON_CATALOG:
        owner: Any = catalog
    else:
        table = catalog.load_table(values.pop("table"))
        owner = table.maintenance if procedure.on == ON_MAINTENANCE else table
    if procedure.name == "mark_partition_done":
        owner.mark_partition_done(
            values["partition"], values.get("branch", MAIN_BRANCH), **values.get("options", {})
        )
        rows = pa.table(
            {"partition": ["/".join(f"{k}={v}" for k, v in values["partition"].items())]}
        )
    else:
        method = getattr(owner, procedure.name)
        named = signature(method).parameters
        if "dry_run" in named:  # without any argument expire_snapshots is PyIceberg's chain
            values.setdefault("dry_run", False)
        if "spark" in named and spark is not None:
            values["spark"] = spark
        result = method(**values)
        rows = result.to_arrow()
        if "call" in rows.column_names:
            calls = pa.array(map(spelled, result.cures), pa.string())
            rows = rows.set_column(rows.column_names.index("call"), "call", calls)
    return as_columns(procedure, rows)


def as_columns(procedure: Procedure, rows: pa.Table) -> pa.Table:
    """Return the output columns of a procedure, with the types that SQL shows."""
    arrays = {
        c.name: rows[c.name].cast(_ARROW[c.kind])
        for c in procedure.columns
        if c.name in rows.column_names
    }
    return pa.table(
        arrays,
        schema=pa.schema([pa.field(c.name, _ARROW[c.kind], c.nullable) for c in procedure.columns]),
    )
