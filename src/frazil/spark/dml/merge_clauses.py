"""Translate the clauses of a MERGE to columns over the join of both sides: which clause acts on a
row, and the values it assigns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as s

from frazil.errors import InvalidInput
from frazil.rows.clauses import Clause, Do, Merge, When
from frazil.spark.dml.analysis import as_input, bound_to, columns_at, columns_by_id, expression
from frazil.spark.dml.expression_checks import GivenExpression, checked, refuse_windows_of_times
from frazil.spark.dml.new_values import Given, Matched, NewColumns, given_expressions
from frazil.spark.dml.row_changes import FILE, NUMBER
from frazil.spark.host.jvm import is_classic
from frazil.spec import types as i
from frazil.spec.schema import Schema

Named = tuple[str, s.DataType, Column]
# helper columns: true where there is a source row; the clause that acts
FOUND, ACT = (
    "__frazil_c_found",
    "__frazil_c_act",
)


@dataclass(frozen=True)
class Clauses:
    """Hold the clauses of a MERGE and its two sides, frames that begin with the columns of target
    and source. `names`: the parts of the target's name; `time`: whether the session has the type
    TIME."""

    target: DataFrame
    source: DataFrame
    schema: Schema
    merge: Merge
    names: tuple[str, ...]
    case_sensitive: bool
    time: bool

    def check(self) -> None:
        """Check all conditions and values, even of clauses that no row reaches. Raises
        InvalidInput, ParseError or SchemaMismatch."""
        both = self.target.join(self.source)
        on = checked(both, [GivenExpression(self.merge.on, "MERGE: ON")], repeatable=True)[0]
        refuse_windows_of_times(both, on, "MERGE: ON")
        with as_input():
            assert self.target.join(self.source, on).schema is not None
        for when in When:
            if clauses := self.merge.of(when):
                self._check_kind(when, clauses, self.source if when is When.NOT_MATCHED else both)

    def _check_kind(self, when: When, clauses: Sequence[Clause], frame: DataFrame) -> None:
        """Check the clauses of one kind."""
        side = self.side(when, frame)
        about = f"MERGE: the condition of {when.value.upper()}"
        conditions = [
            GivenExpression(c.condition, about) for c in clauses if not c.is_unconditional
        ]
        checked(side, conditions, repeatable=True)
        assignments = {
            n: self.given(c, self._source_of(c, frame))
            for n, c in enumerate(clauses)
            if c.do is not Do.DELETE
        }
        checked(
            side,
            [
                e
                for n, values in assignments.items()
                if not clauses[n].takes_all
                for e in given_expressions(values)
            ],
        )
        self.act(frame, clauses, when is When.NOT_MATCHED)
        self.values(frame, clauses)

    def act(self, frame: DataFrame, clauses: Sequence[Clause], alone: bool) -> Column:
        """Return the index of the clause that acts on a row, null where none does. `alone`: the
        frame has only source rows that match nothing."""
        chains: dict[When, Column] = {}
        for when in When:
            of_kind = [(n, c) for n, c in enumerate(clauses) if c.when is when]
            tests = iter(
                bound_to(
                    self.side(when, frame),
                    [expression(c.condition) for _, c in of_kind if not c.is_unconditional],
                )
            )
            chain: Any = F
            for n, c in of_kind:
                chain = chain.when(F.lit(True) if c.is_unconditional else next(tests), F.lit(n))
            if of_kind:
                chains[when] = chain
        if len(chains) == 1 and (alone or FOUND not in frame.columns):
            return next(iter(chains.values()))
        nothing = F.lit(None).cast("int")
        both = F.when(F.col(FILE).isNull(), chains.get(When.NOT_MATCHED, nothing))
        both = both.when(F.col(FOUND).isNull(), chains.get(When.NOT_MATCHED_BY_SOURCE, nothing))
        return both.otherwise(chains.get(When.MATCHED, nothing))

    def side(self, when: When, frame: DataFrame) -> DataFrame:
        """Return the frame against which the expressions of a clause are resolved: the join, the
        source or the target.

        On Spark Connect a staged frame that is read again cannot stand for the source, so its own
        names are used.
        """
        source = self.source if is_classic(frame) or FOUND in frame.columns else frame
        return {
            When.MATCHED: frame,
            When.NOT_MATCHED: source,
            When.NOT_MATCHED_BY_SOURCE: self.target,
        }[when]

    def values(self, frame: DataFrame, clauses: Sequence[Clause]) -> list[Column]:
        """Return the new value of each column of the table, by the clause that acts; empty where
        every clause deletes.
        """
        by_clause = {}
        for n, clause in enumerate(clauses):
            if clause.do is Do.DELETE:
                continue
            old = (
                None if clause.when is When.NOT_MATCHED else columns_by_id(self.target, self.schema)
            )
            fills = clause.takes_all and self.merge.merge_schema and not clause.updates
            values = NewColumns(
                self.side(clause.when, frame),
                self.schema,
                old,
                self.case_sensitive,
                self.time,
                whole=not fills,
            )
            by_clause[n] = values.columns(self.given(clause, self._source_of(clause, frame)))
        return choices(by_clause)

    def _source_of(self, clause: Clause, frame: DataFrame) -> DataFrame:
        """Return the frame with the source columns that a clause assigns by name."""
        return self.side(clause.when, frame) if clause.when is When.NOT_MATCHED else self.source

    def given(self, clause: Clause, source: DataFrame) -> Given:
        """Return the assignments of a clause. Raises InvalidInput for columns that do not exist."""
        if clause.takes_all:
            return self._all(clause, source)
        values = Given.of(
            self.schema,
            clause.assignments,
            self.case_sensitive,
            [".".join(self.names[n:]) for n in range(len(self.names))],
        )
        if clause.when is When.NOT_MATCHED and (
            inside := [p for p, _ in values.pairs if len(p) > 1]
        ):
            raise InvalidInput(
                f"An insert takes whole columns, not members of a struct: {'.'.join(f.name for f in inside[0])}."
            )
        return values

    def _all(self, clause: Clause, source: DataFrame) -> Given:
        """Assign every column of the table from the source column of that name (`UPDATE *`, `INSERT
        *`); with schema evolution an update keeps the columns that the source lacks."""
        missing: list[str] = []
        fields = [f for f in self.source.schema.fields if f.name != NUMBER]
        columns = [
            (f.name, f.dataType, column)
            for f, column in zip(fields, columns_at(source, range(len(fields))), strict=True)
        ]
        structs: dict[int, Column] = {}
        pairs = tuple(
            self._matched(
                self.schema.fields,
                columns,
                (),
                missing,
                structs,
                self.merge.merge_schema and clause.updates,
            )
        )
        if missing and not self.merge.merge_schema:
            raise InvalidInput(
                f"MERGE: the source lacks columns of the target: {', '.join(missing)}.",
                hint="Name the columns to set, or use merge_schema=True, which leaves them as they are.",
            )
        return Given(pairs, structs)

    def _matched(
        self,
        fields: Sequence[i.NestedField],
        of_source: Sequence[Named],
        path: tuple[i.NestedField, ...],
        missing: list[str],
        structs: dict[int, Column],
        members: bool,
    ) -> Iterator[tuple[tuple[i.NestedField, ...], Any]]:
        """Yield (path, value) of the fields that the source has; the names of others are added to
        `missing`. `members`: of a struct only the members that the source has are assigned, and the
        source's struct is added to `structs`."""
        exact, in_any_case = (defaultdict[str, list[Named]](list) for _ in range(2))
        for c in of_source:
            exact[c[0]].append(c)
            in_any_case[c[0].lower()].append(c)
        for field in fields:
            of_other_case = [] if self.case_sensitive else in_any_case[field.name.lower()]
            candidates = exact[field.name] or of_other_case
            name = ".".join(p.name for p in (*path, field))
            if len(candidates) > 1:
                raise InvalidInput(
                    f"MERGE: the source has several columns {name}: {', '.join(c[0] for c in candidates)}."
                )
            if not candidates:
                missing.append(name)
                continue
            _, type_, column = candidates[0]
            if isinstance(field.field_type, i.StructType) and isinstance(type_, s.StructType):
                lacking: list[str] = []
                inside = [(m.name, m.dataType, column.getField(m.name)) for m in type_.fields]
                parts = list(
                    self._matched(
                        field.field_type.fields, inside, (*path, field), lacking, structs, members
                    )
                )
                missing += lacking
                if lacking and members:  # the members that the source has, so that the others stay
                    structs[field.field_id] = column
                    yield from parts
                    continue
            yield (*path, field), Matched(column)


def choices(by_clause: Mapping[int, Sequence[Column]]) -> list[Column]:
    """Return the values of the clause that acts, of the values of each clause."""
    tests = [F.col(ACT) == F.lit(n) for n in by_clause]
    chosen = []
    for values in zip(*by_clause.values(), strict=True):
        chain: Any = F
        for test, value in zip(tests, values, strict=True):
            chain = chain.when(test, value)
        chosen.append(chain)
    return chosen
