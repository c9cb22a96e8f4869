"""Carry out ALTER TABLE: all changes of a statement in one transaction, which is one commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import types as s

from frazil.commit.evolve.evolve_schema import SchemaChanges
from frazil.errors import InvalidInput, Unsupported
from frazil.ops import table_definition as changes
from frazil.ops.session import Session
from frazil.ops.table_definition import TableChange
from frazil.spark.host.jvm_changes import constant
from frazil.spark.types.spark_types import spark_type
from frazil.spec.types import IcebergType
from frazil.table.create import schema_of
from frazil.table.table import Table
from frazil.table.transaction import Transaction

_RESERVED = {  # kept by Iceberg in another way: the statement that sets it
    "sort-order": "ALTER TABLE … WRITE ORDERED BY",
    "identifier-fields": "ALTER TABLE … SET IDENTIFIER FIELDS",
}


def alter_table(table: Table, spark: Session, steps: Sequence[TableChange]) -> None:
    """Make the changes of one ALTER TABLE. Raises Unsupported for those that Iceberg's tables do
    not have.
    """
    columns = [c for c in steps if isinstance(c, changes.ColumnChange)]
    with table.transaction() as tx:
        for change in steps:
            match change:
                case changes.SetProperty(name, value):
                    _set(tx, name, value)
                case changes.RemoveProperty(name):
                    tx.remove_properties(name)
                case changes.NotServed(text):
                    raise Unsupported(
                        f"Cannot apply unknown table change: {text} is not for Iceberg's tables."
                    )
        if columns:
            with tx.update_schema() as update:
                for column in columns:
                    _change(update, table, spark, column)


def _set(tx: Transaction[Any], name: str, value: str) -> None:
    """Set a property, or do what a special one of Java Iceberg's stands for."""
    if name in _RESERVED:
        text = f"Cannot specify the '{name}' because it's a reserved table property."
        raise Unsupported(text, hint=f"Use the command '{_RESERVED[name]}'.")
    match name:
        case "location":
            tx.update_location(value)
        case "format-version":
            tx.upgrade_table_version(_number(name, value))
        case "current-snapshot-id":
            snapshot_id = _number(name, value)
            with tx.manage_snapshots() as manage:
                manage.set_current_snapshot(snapshot_id)
        case "cherry-pick-snapshot-id":
            tx.cherrypick_snapshot(_number(name, value))
        case _:
            tx.set_properties({name: value})


def _number(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise InvalidInput(f"{name} must be a whole number, not {value!r}.") from None


def _change(
    update: SchemaChanges, table: Table, spark: Session, change: changes.ColumnChange
) -> None:
    """Make one change of columns."""
    match change:
        case changes.AddColumn(path, type_, nullable, comment, position, default):
            update.add_column(
                path, iceberg_type(type_), comment, required=not nullable, default_value=default
            )
            if position is not None:
                _move(update, path, position)
        case changes.DeleteColumn(path, if_exists):
            if not if_exists or table.schema().get_field(".".join(path)) is not None:
                update.delete_column(path)
        case changes.RenameColumn(path, name):
            update.rename_column(path, name)
        case changes.ChangeType(path, type_):
            update.update_column(path, iceberg_type(type_))
        case changes.ChangeComment(path, comment):
            update.update_column(path, doc=comment)
        case changes.ChangeNullable(path, nullable):
            update.make_column_optional(path) if nullable else update.require_column(path)
        case changes.MoveColumn(path, position):
            _move(update, path, position)
        case changes.ChangeDefault(path, text):
            field = table.schema().find_field(".".join(path))
            value = (
                constant(spark, text, spark_type(field.field_type, field.name)) if text else None
            )
            update.set_default_value(path, value)


def _move(update: SchemaChanges, path: changes.Path, position: changes.ColumnPosition) -> None:
    _, after = position
    if after is None:
        update.move_first(path)
    else:
        update.move_after(path, (*path[:-1], after))


def iceberg_type(type_: s.DataType) -> IcebergType:
    """Return the type of a column of Spark's."""
    return schema_of(s.StructType([s.StructField("column", type_)])).fields[0].field_type
