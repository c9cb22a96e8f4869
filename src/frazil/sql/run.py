"""Run statements: for each class of `nodes` one function, which ends in a call of the table that
one could have typed in Python, or runs the change of rows that such a call would make.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from frazil.catalog.names import full_name
from frazil.errors import InvalidInput, ValidationError
from frazil.expr.nodes import AlwaysTrue
from frazil.ops.changes import DeleteRows, MergeRows, UpdateRows
from frazil.ops.engine import Frame
from frazil.ops.insert import require_branch
from frazil.ops.operation import CommitResult
from frazil.ops.session import Session
from frazil.rows.assign import INVALID_ASSIGNMENTS, name_parts, typed_name
from frazil.rows.clauses import Merge
from frazil.spec.partitioning import PartitionField
from frazil.spec.properties import DISTRIBUTION, SPARK_SCHEMA_EVOLUTION
from frazil.spec.snapshot import MAIN_BRANCH
from frazil.spec.sorting import NullOrder, default_nulls
from frazil.spec.sorting import SortDirection as Direction
from frazil.spec.transforms import IdentityTransform, parse_transform
from frazil.sql import nodes as n
from frazil.sql.nodes import Name, Statement, Term
from frazil.table.table import Table


@dataclass(frozen=True)
class Target:
    """Hold the table of a statement, the branch that its name selects (None: none), and how names
    of columns are matched. `spark`: the session that runs the statement."""

    table: Table
    branch: str | None = None
    case_sensitive: bool = False
    spark: Session | None = None

    @property
    def writes_to(self) -> str:
        """Return the branch to write to. Raises NoSuchRefError."""
        require_branch(self.branch, self.table.metadata)
        return self.branch or MAIN_BRANCH

    def column(self, name: Name) -> str:
        """Return the full name of a column. Raises ValidationError for one that the table lacks."""
        schema = self.table.schema()
        field = schema.find_field(".".join(name), self.case_sensitive)
        return schema.find_column_name(field.field_id) or field.name


class NamesOfTables(Protocol):
    """Look up names of tables as a session writes them: whole, or within its current catalog and
    namespace.
    """

    def is_ours(self, name: Name) -> bool:
        """Tell whether a name is a table of Frazil's at this moment."""

    def may_be_ours(self, name: Name) -> bool:
        """Tell whether a name can be a table of Frazil's, whichever catalog and namespace are
        current.
        """

    def open(self, name: Name) -> tuple[Table, str | None]:
        """Open a table, and return it with the branch that the name selects (`t.branch_x`)."""

    def frame(self, name: Name) -> Any:
        """Return what a query reads by a name: a table, a state of it, or a metadata table."""

    def catalogs(self) -> Collection[str]:
        """Return the names of the catalogs that Frazil serves."""

    def spelled(self, name: Name) -> Name:
        """Return the name with its catalog and namespace, by which expressions may call the table."""


def run(statement: Statement, target: Target) -> CommitResult | None:
    """Run a statement; return the result of its commit, None where it commits nothing."""
    return RUN[type(statement)](target, statement)


# Partition fields, write order, identifier fields
# --------------------------------------------------------------------------------------------------


def _add_partition_field(to: Target, s: n.AddPartitionField) -> CommitResult:
    with to.table.transaction() as tx, tx.update_spec(to.case_sensitive) as update:
        update.add_field(to.column(s.term.column), _transform(s.term), s.name)
    return tx.result


def _drop_partition_field(to: Target, s: n.DropPartitionField) -> CommitResult:
    with to.table.transaction() as tx, tx.update_spec(to.case_sensitive) as update:
        update.remove_field(_partition_field(to, s.term).name)
    return tx.result


def _replace_partition_field(to: Target, s: n.ReplacePartitionField) -> CommitResult:
    with to.table.transaction() as tx, tx.update_spec(to.case_sensitive) as update:
        update.remove_field(_partition_field(to, s.old).name)
        update.add_field(to.column(s.new.column), _transform(s.new), s.name)
    return tx.result


def _transform(term: Term) -> str:
    return term.transform or "identity"


def _partition_field(to: Target, term: Term) -> PartitionField:
    """Return the partition field that a statement means: by its transform, or else by its name.
    Raises ValidationError.
    """
    schema, fields = to.table.schema(), to.table.spec().fields
    transform = IdentityTransform() if term.transform is None else parse_transform(term.transform)
    source = schema.get_field(".".join(term.column), to.case_sensitive)
    for field in fields:
        if (
            source is not None
            and field.source_id == source.field_id
            and field.transform == transform
        ):
            return field
    for field in fields:
        if term.transform is None and (field.name,) == term.column:
            return field
    names = ", ".join(f.name for f in fields) or "(none)"
    raise ValidationError(
        f"Cannot find partition field to remove: {term}; fields are: {names}.", table=to.table._name
    )


def _write_order(to: Target, s: n.WriteOrder) -> CommitResult:
    with to.table.transaction() as tx:
        with tx.update_sort_order(to.case_sensitive) as update:
            for field in s.order:
                nulls = default_nulls(Direction.DESC if field.descending else Direction.ASC)
                if field.nulls_first is not None:
                    nulls = NullOrder.NULLS_FIRST if field.nulls_first else NullOrder.NULLS_LAST
                add = update.desc if field.descending else update.asc
                add(to.column(field.term.column), _transform(field.term), nulls)
        if s.mode is not None:
            tx.set_properties({DISTRIBUTION.name: s.mode})
    return tx.result


def _set_identifier_fields(to: Target, s: n.SetIdentifierFields) -> CommitResult:
    with to.table.transaction() as tx, tx.update_schema(case_sensitive=to.case_sensitive) as update:
        update.set_identifier_fields(*map(to.column, s.columns))
    return tx.result


def _drop_identifier_fields(to: Target, s: n.DropIdentifierFields) -> CommitResult:
    schema = to.table.schema()
    names = {schema.find_column_name(i) for i in schema.identifier_field_ids}
    for column in map(to.column, s.columns):
        if column not in names:
            text = f"Cannot complete drop identifier fields operation: {column} is not an identifier field"
            raise ValidationError(text, table=to.table._name, column=column)
        names.remove(column)
    with to.table.transaction() as tx, tx.update_schema(case_sensitive=to.case_sensitive) as update:
        update.set_identifier_fields(*sorted(str(name) for name in names))
    return tx.result


# Branches and tags
# --------------------------------------------------------------------------------------------------


def _set_ref(to: Target, s: n.SetRef) -> CommitResult | None:
    table, exists = to.table, s.name in to.table.metadata.refs
    if s.if_not_exists and exists:
        return None
    snapshot_id = table.metadata.current_snapshot_id if s.snapshot_id is None else s.snapshot_id
    retention = {"max_ref_age_ms": s.max_ref_age_ms}
    if s.kind == "branch":
        retention |= {
            "min_snapshots_to_keep": s.min_snapshots_to_keep,
            "max_snapshot_age_ms": s.max_snapshot_age_ms,
        }
    replaces = s.replace and (exists or not s.create)
    if snapshot_id is None and (replaces or s.kind == "tag"):
        verb = "replace" if s.replace else "create"
        text = f"Cannot complete {verb} {s.kind} operation on {table._name}, main has no snapshot"
        raise InvalidInput(text, hint="Write rows first.", table=table._name)
    if snapshot_id is None and exists:
        raise ValidationError(f"Ref {s.name} already exists", table=table._name)
    if snapshot_id is None:
        # as Java does, a branch of a table without rows begins with an empty snapshot
        result = table.append(table.schema().as_arrow().empty_table(), branch=s.name)
        if all(v is None for v in retention.values()):
            return result
    with table.transaction() as tx, tx.manage_snapshots() as manage:
        if replaces and snapshot_id is not None:
            change = manage.replace_branch if s.kind == "branch" else manage.replace_tag
            change(s.name, snapshot_id)
        elif snapshot_id is not None:
            create = manage.create_branch if s.kind == "branch" else manage.create_tag
            create(snapshot_id, s.name)
        if any(v is not None for v in retention.values()):
            manage.set_retention(s.name, **retention)
    return tx.result


def _drop_ref(to: Target, s: n.DropRef) -> CommitResult | None:
    if s.if_exists and s.name not in to.table.metadata.refs and s.name != MAIN_BRANCH:
        return None
    with to.table.transaction() as tx, tx.manage_snapshots() as manage:
        (manage.remove_branch if s.kind == "branch" else manage.remove_tag)(s.name)
    return tx.result


# Rows
# --------------------------------------------------------------------------------------------------


def _change_rows(to: Target, s: n.ChangeRows) -> CommitResult:
    change = replace(s.change, branch=to.writes_to, spark=to.spark)
    if isinstance(change, MergeRows) and not SPARK_SCHEMA_EVOLUTION.of(to.table.properties):
        change = replace(change, merge=replace(change.merge, merge_schema=False))
    return to.table._run_write(change)


def delete_from(table: Name, where: Any = None, alias: str = "") -> n.ChangeRows:
    """Return the node of DELETE, and of TRUNCATE. `where` None: all rows; `alias`: by what name the
    condition calls the table, empty where it does not."""
    return n.ChangeRows(table, DeleteRows(AlwaysTrue() if where is None else where, alias))


def update_set(
    table: Name, values: Iterable[tuple[str, Any]], where: Any = None, alias: str = ""
) -> n.ChangeRows:
    """Return the node of UPDATE. `values`: columns and their values in the order written. Raises
    InvalidInput for a column that is set twice."""
    by_column = {}
    for column, value in values:
        if column in by_column:
            raise InvalidInput(
                f"Multiple assignments for '{column}': UPDATE sets it more than once.",
                table=full_name(table),
                column=column,
                condition=INVALID_ASSIGNMENTS,
            )
        by_column[column] = value
    return n.ChangeRows(table, UpdateRows(by_column, where, alias))


def merge_into(table: Name, source: Frame, merge: Merge) -> n.ChangeRows:
    """Return the node of MERGE INTO."""
    return n.ChangeRows(table, MergeRows(source, merge))


def _analyze(to: Target, s: n.Analyze) -> None:
    columns = [to.column(name_parts(typed_name((c,)))) for c in s.columns] or None
    to.table.maintenance.compute_table_stats(columns=columns)


RUN: Mapping[type[Statement], Callable[[Target, Any], CommitResult | None]] = {
    n.AddPartitionField: _add_partition_field,
    n.DropPartitionField: _drop_partition_field,
    n.ReplacePartitionField: _replace_partition_field,
    n.WriteOrder: _write_order,
    n.SetIdentifierFields: _set_identifier_fields,
    n.DropIdentifierFields: _drop_identifier_fields,
    n.SetRef: _set_ref,
    n.DropRef: _drop_ref,
    n.ChangeRows: _change_rows,
    n.Analyze: _analyze,
}
"""What each statement does."""
