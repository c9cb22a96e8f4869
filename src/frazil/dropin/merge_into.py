"""`df.mergeInto(table, condition)` of a prepared session: PySpark's builder, Frazil's merge. Merges into other tables are Spark's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from frazil.catalog.names import identifier_parts
from frazil.dropin.names import is_ours
from frazil.dropin.tables import open_table, split_branch
from frazil.errors import InvalidInput, Unsupported
from frazil.rows import clauses
from frazil.rows.assign import name_parts, typed_name
from frazil.rows.clauses import Clause, Merge
from frazil.spark.dml.merge_text import as_texts
from frazil.table.table import Table


def merge_into(own: Callable[..., Any], frame: Any, table: str, condition: Any) -> Any:
    """Spark's writer for tables that are Spark's, ours for Frazil's."""
    name, branch = split_branch(table)
    return MergeIntoWriter(frame, name, branch, condition) if is_ours(frame.sparkSession, name) else own(table, condition)


class MergeIntoWriter:
    """As pyspark.sql.MergeIntoWriter. Expressions call the target by its name (`cat.db.t.id`, `t.id`, `id`) and the source as the frame's
    own columns are called; clauses of a kind are tried in the order given. `merge()` does it: one snapshot."""

    def __init__(self, frame: Any, table: str, branch: str | None, condition: Any):
        self._frame, self._name, self._branch, self._condition = frame, table, branch, condition
        self._clauses: list[Clause] = []
        self._evolves = False

    def whenMatched(self, condition: Any = None) -> WhenMatched:
        return WhenMatched(self, condition)

    def whenNotMatched(self, condition: Any = None) -> WhenNotMatched:
        return WhenNotMatched(self, condition)

    def whenNotMatchedBySource(self, condition: Any = None) -> WhenNotMatchedBySource:
        return WhenNotMatchedBySource(self, condition)

    def withSchemaEvolution(self) -> MergeIntoWriter:
        self._evolves = True
        return self

    def merge(self) -> None:
        table = open_table(self._name, {}, self._frame.sparkSession)
        parts = _parts(self._name, table)
        done = tuple(_plain(c, parts, table) for c in self._clauses)
        asked = Merge(self._condition, done, ".".join(f"`{p.replace('`', '``')}`" for p in parts), "", self._evolves)
        asked.check()
        asked = as_texts(self._frame, table.schema(), asked) or asked
        with table.transaction() as tx:
            tx.do_merge(self._frame, asked, branch=self._branch or "main")

    def _with(self, clause: Clause) -> MergeIntoWriter:
        self._clauses.append(clause)
        return self


class _When:
    def __init__(self, writer: MergeIntoWriter, condition: Any):
        self._writer, self._condition = writer, condition


class WhenMatched(_When):
    def updateAll(self) -> MergeIntoWriter:
        return self._writer._with(clauses.matched_update_all(self._condition))

    def update(self, assignments: Mapping[str, Any]) -> MergeIntoWriter:
        return self._writer._with(clauses.matched_update(assignments, self._condition))

    def delete(self) -> MergeIntoWriter:
        return self._writer._with(clauses.matched_delete(self._condition))


class WhenNotMatched(_When):
    def insertAll(self) -> MergeIntoWriter:
        return self._writer._with(clauses.not_matched_insert_all(self._condition))

    def insert(self, assignments: Mapping[str, Any]) -> MergeIntoWriter:
        return self._writer._with(clauses.not_matched_insert(assignments, self._condition))


class WhenNotMatchedBySource(_When):
    def updateAll(self) -> MergeIntoWriter:
        raise Unsupported("whenNotMatchedBySource().updateAll(): there is no source row to take values from.", hint="Use update({…}).")

    def update(self, assignments: Mapping[str, Any]) -> MergeIntoWriter:
        return self._writer._with(clauses.not_matched_by_source_update(assignments, self._condition))

    def delete(self) -> MergeIntoWriter:
        return self._writer._with(clauses.not_matched_by_source_delete(self._condition))


def _parts(name: str, table: Table) -> list[str]:
    """What expressions call the target: catalog, namespace and name, as Spark does; for a location, its last part."""
    if "/" in name:
        return [name.rstrip("/").rpartition("/")[2]]
    typed, full = list(identifier_parts(name)), list(table.name())
    return full if full[-len(typed) :] == typed else typed


def _plain(clause: Clause, parts: list[str], table: Table) -> Clause:
    """Assignments by the columns' own names: `t.v`, `db.t.v` and `cat.db.t.v` are `v`, unless the table has a column of the first name."""
    if not clause.assignments:
        return clause
    found = []
    for key, value in clause.assignments:
        if isinstance(value, str):
            raise InvalidInput(
                f"mergeInto takes Columns as values; {key!r} is set to the text {value!r}.", hint="Use F.col, F.lit or F.expr."
            )
        given = name_parts(key)
        for n in range(len(parts)):
            led = parts[n:]
            if [p.lower() for p in given[: len(led)]] == [p.lower() for p in led] and table.schema().get_field(led[0], False) is None:
                given = given[len(led) :] or given
                break
        found.append((typed_name(given), value))
    return Clause(clause.when, clause.do, clause.condition, tuple(found))
