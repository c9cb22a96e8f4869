"""Route `df.mergeInto(table, condition)` of a prepared session: the builder is PySpark's, the merge
is Frazil's. Merges into other tables are left to Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import Column, DataFrame

from frazil.catalog.names import identifier_parts
from frazil.dropin.names import in_full, is_ours
from frazil.dropin.spark_errors import known_to_spark
from frazil.dropin.tables import open_table
from frazil.errors import InvalidInput, Unsupported
from frazil.expr.sql_text import back_quoted
from frazil.ops.changes import MergeRows
from frazil.ops.find_table import is_location
from frazil.ops.insert import require_branch
from frazil.rows import clauses
from frazil.rows.assign import name_parts, typed_name
from frazil.rows.clauses import Clause, Merge
from frazil.scan.snapshot_ref import split_location
from frazil.spark.dml.merge_nodes import in_nodes
from frazil.spec.properties import SPARK_SCHEMA_EVOLUTION
from frazil.spec.snapshot import MAIN_BRANCH
from frazil.table.table import Table


def merge_into(
    spark_merge_into: Callable[..., Any], frame: DataFrame, table: str, condition: Column
) -> Any:
    """Return the merge builder: Frazil's for tables of Frazil's, else Spark's own."""
    spark = frame.sparkSession
    name = in_full(spark, table)
    return (
        MergeIntoWriter(frame, name, condition)
        if is_ours(spark, name)
        else spark_merge_into(table, condition)
    )


class MergeIntoWriter:
    """Act as pyspark.sql.MergeIntoWriter. Expressions call the target by its name (`cat.db.t.id`,
    `t.id`, `id`) and the source by the names of the frame's columns; clauses of a kind are tried in
    the order given. `merge()` runs the merge and commits one snapshot."""

    def __init__(self, frame: DataFrame, table: str, condition: Column):
        self._frame, self._name, self._condition = frame, table, condition
        self._clauses: list[Clause] = []
        self._evolves = False

    def whenMatched(self, condition: Column | None = None) -> WhenMatched:
        """Begin a clause for target rows that match a source row."""
        return WhenMatched(self, condition)

    def whenNotMatched(self, condition: Column | None = None) -> WhenNotMatched:
        """Begin a clause for source rows that match no target row."""
        return WhenNotMatched(self, condition)

    def whenNotMatchedBySource(self, condition: Column | None = None) -> WhenNotMatchedBySource:
        """Begin a clause for target rows that match no source row."""
        return WhenNotMatchedBySource(self, condition)

    def withSchemaEvolution(self) -> MergeIntoWriter:
        """Add columns of the source that the table lacks."""
        self._evolves = True
        return self

    @known_to_spark()
    def merge(self) -> None:
        """Run the merge and commit it as one snapshot. Raises InvalidInput for what Spark cannot
        resolve and for ambiguous matches.
        """
        table, branch = open_table(self._name, {}, self._frame.sparkSession)
        require_branch(branch, table.metadata)
        parts = _parts(self._name, table, branch)
        resolved = tuple(_plain(c, parts, table) for c in self._clauses)
        evolves = self._evolves and SPARK_SCHEMA_EVOLUTION.of(table.properties)
        merge = Merge(self._condition, resolved, back_quoted(parts), "", evolves)
        merge.check()
        merge = in_nodes(self._frame, table.metadata, merge)
        table._run_write(MergeRows(self._frame, merge, branch=branch or MAIN_BRANCH))

    def _with(self, clause: Clause) -> MergeIntoWriter:
        """Add a clause."""
        self._clauses.append(clause)
        return self


class _When:
    """Hold a clause that has a condition and waits for its action."""

    def __init__(self, writer: MergeIntoWriter, condition: Column | None):
        self._writer, self._condition = writer, condition


class WhenMatched(_When):
    """Choose what happens to target rows that match a source row."""

    def updateAll(self) -> MergeIntoWriter:
        """Update every column of the table from the source column of its name."""
        return self._writer._with(clauses.matched_update_all(self._condition))

    def update(self, assignments: Mapping[str, Any]) -> MergeIntoWriter:
        """Update the named columns to Columns over both sides."""
        return self._writer._with(clauses.matched_update(assignments, self._condition))

    def delete(self) -> MergeIntoWriter:
        """Delete the rows."""
        return self._writer._with(clauses.matched_delete(self._condition))


class WhenNotMatched(_When):
    """Choose what happens to source rows that match no target row."""

    def insertAll(self) -> MergeIntoWriter:
        """Insert every column of the table from the source column of its name."""
        return self._writer._with(clauses.not_matched_insert_all(self._condition))

    def insert(self, assignments: Mapping[str, Any]) -> MergeIntoWriter:
        """Insert the given values; other columns take their write default or null."""
        return self._writer._with(clauses.not_matched_insert(assignments, self._condition))


class WhenNotMatchedBySource(_When):
    """Choose what happens to target rows that match no source row."""

    def updateAll(self) -> MergeIntoWriter:
        """Raise Unsupported: there is no source row to take values from."""
        raise Unsupported(
            "whenNotMatchedBySource().updateAll(): there is no source row to take values from.",
            hint="Use update({…}).",
        )

    def update(self, assignments: Mapping[str, Any]) -> MergeIntoWriter:
        """Update the named columns to Columns over the target."""
        return self._writer._with(
            clauses.not_matched_by_source_update(assignments, self._condition)
        )

    def delete(self) -> MergeIntoWriter:
        """Delete the rows."""
        return self._writer._with(clauses.not_matched_by_source_delete(self._condition))


def _parts(name: str, table: Table, branch: str | None) -> list[str]:
    """Return by what name expressions call the target: catalog, namespace and name, as in Spark;
    for a location, its last part.
    """
    if is_location(name):
        return [split_location(name)[0].rstrip("/").rpartition("/")[2]]
    typed, full = list(identifier_parts(name)), list(table.name())
    typed = typed if branch is None else typed[:-1]
    return full if full[-len(typed) :] == typed else typed


def _plain(clause: Clause, parts: list[str], table: Table) -> Clause:
    """Strip the target's name from the keys of assignments: `t.v`, `db.t.v` and `cat.db.t.v` become
    `v`, unless the table has a column `t`, `db` or `cat`."""
    if not clause.assignments:
        return clause
    assignments = []
    for key, value in clause.assignments:
        if isinstance(value, str):
            raise InvalidInput(
                f"mergeInto takes Columns as values; {key!r} is set to the text {value!r}.",
                hint="Use F.col, F.lit or F.expr.",
            )
        name = name_parts(key)
        for n in range(len(parts)):
            prefix = parts[n:]
            starts_so = [p.lower() for p in name[: len(prefix)]] == [p.lower() for p in prefix]
            if starts_so and table.schema().get_field(prefix[0], False) is None:
                name = name[len(prefix) :] or name
                break
        assignments.append((typed_name(name), value))
    return Clause(clause.when, clause.do, clause.condition, tuple(assignments))
