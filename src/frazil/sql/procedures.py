"""Run `CALL` of SQL: find the table that a procedure is about, and make the call of Python that the
registry names.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from frazil.catalog.names import full_name, identifier_parts
from frazil.errors import InvalidInput, NoSuchTableError
from frazil.expr.sql_text import quoted_name
from frazil.maintain.procedures import Procedure
from frazil.ops.session import Session
from frazil.spark.host.jvm_catalog import current_catalog, current_namespace
from frazil.table.catalog import Catalog
from frazil.table.procedure_calls import as_columns, run_procedure
from frazil.table.table import Table

_LOG = logging.getLogger("frazil")
_RANGE = {
    "start-snapshot-id": int,
    "end-snapshot-id": int,
    "start-timestamp": int,
    "end-timestamp": int,
    "branch": str,
}


def call_procedure(
    catalog: Catalog, spark: Session, procedure: Procedure, arguments: Mapping[str, Any]
) -> pa.Table:
    """Run a procedure with the arguments of a CALL, None for those that are left out, and return
    its output columns.
    """
    values = dict(arguments)
    if procedure.name != "migrate":  # which names a table of Spark's
        values["table"] = table_parts(catalog.name, spark, str(arguments["table"]))
    if procedure.name == "create_changelog_view":
        name = _create_changelog_view(catalog.load_table(values["table"]), spark, values)
        return as_columns(procedure, pa.table({"changelog_view": [name]}))
    if values.get("snapshot_ids"):
        values["snapshot_ids"] = _known(catalog.load_table(values["table"]), values["snapshot_ids"])
    return run_procedure(
        catalog,
        procedure,
        values,
        spark,
        lambda call: call.as_sql(catalog.name, full_name(values["table"])),
    )


def _known(table: Table, snapshot_ids: Sequence[int]) -> list[int]:
    """Leave out the ids of snapshots that a table does not have, as Java Iceberg does, so that a
    CALL that is sent again passes; a warning names them."""
    present = [i for i in snapshot_ids if table.metadata.snapshots.by_id(i) is not None]
    if unknown := sorted(set(snapshot_ids) - set(present)):
        _LOG.warning(
            "CALL expire_snapshots: table %s has no snapshots with these ids: %s",
            table._name,
            ", ".join(map(str, unknown)),
        )
    return present


def table_parts(catalog: str, spark: Session, text: str) -> tuple[str, ...]:
    """Return the parts, within a catalog, of the table that an argument of CALL names: `db.t`,
    `catalog.db.t`, or a bare name, which is in the current namespace where the catalog is the
    current one. Raises InvalidInput for a table of another catalog."""
    if not text.strip():
        raise InvalidInput("Cannot handle an empty identifier for parameter 'table'")
    parts = identifier_parts(text)
    if len(parts) > 1 and parts[0] == catalog:
        parts = parts[1:]
    if len(parts) == 1 and current_catalog(spark) == catalog:
        parts = (*current_namespace(spark), *parts)
    if len(parts) == 1:
        hint = f"Give it as in 'db.{text}', or make its namespace the current one: USE {quoted_name(catalog)}.db."
        raise NoSuchTableError(
            f"Couldn't load table '{text}' in catalog '{catalog}': it names no namespace.",
            hint=hint,
            table=text,
        )
    return parts


def _create_changelog_view(table: Table, spark: Session, arguments: Mapping[str, Any]) -> str:
    """Make the temporary view, and return its name. Rows that were only copied are left out;
    `compute_updates`, on where there are `identifier_columns`, shows a DELETE and an INSERT of one
    key as UPDATE_BEFORE and UPDATE_AFTER."""
    columns: Sequence[str] | None = arguments.get("identifier_columns")
    compute = arguments.get("compute_updates")
    compute = columns is not None if compute is None else compute
    net = bool(arguments.get("net_changes"))
    if compute and not columns:
        columns = sorted(table.schema().identifier_field_names()) or None
        if not columns:
            raise InvalidInput(
                "Cannot compute the update images because identifier columns are not set",
                hint="Give identifier_columns => array('id'), or set the table's identifier fields.",
            )
    if compute and net:
        raise InvalidInput(
            "Not support net changes with update images",
            hint="Leave out net_changes, or identifier_columns.",
        )
    options = dict(arguments.get("options") or {})
    limits: dict[str, Any] = {}
    for name, value in list(options.items()):
        key = name.lower().replace("_", "-")
        if key in _RANGE:
            limits[key.replace("-", "_")] = _read(name, value, _RANGE[key])
            del options[name]
    scan = table.changes(
        net=net, identifier_columns=columns if compute else None, options=options, **limits
    )
    name = arguments.get("changelog_view") or "`" + table.name()[-1].replace("`", "") + "_changes`"
    scan.to_spark(spark).createOrReplaceTempView(name)
    return str(name)


def _read(name: str, value: str, kind: type) -> Any:
    try:
        return kind(value)
    except ValueError:
        raise InvalidInput(f"{name} must be a whole number, not {value!r}.", option=name) from None
