"""Take statements of a Spark Connect session, whose parser is out of reach: extension statements by
Frazil's grammar, those that change rows by sqlglot's (the extra `connect-sql`). Tables of Frazil's
within queries become temporary views of the session.

Both give the nodes that `run` takes, as from a classic session. What else is about tables of
Frazil's is refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from frazil.catalog.names import full_name
from frazil.errors import InvalidInput, NotInstalledError, Unsupported
from frazil.expr.sql_text import literal_text
from frazil.ops.session import Session, SqlArguments
from frazil.rows.assign import typed_name
from frazil.rows.clauses import Clause, Do, Merge, When
from frazil.spark.host.settings import is_case_sensitive
from frazil.sql.grammar import parse_extension
from frazil.sql.nodes import DEFAULT, Name, Statement
from frazil.sql.results import note
from frazil.sql.run import NamesOfTables, Target, delete_from, merge_into, run, update_set

_EVOLVES = re.compile(r"(\bmerge)\s+with\s+schema\s+evolution\b", re.IGNORECASE)
_VIEW = "__frazil_c_view_"
_DIALECT = "spark"


@dataclass(frozen=True)
class ConnectStatements:
    """Run statements of a Spark Connect session about tables of Frazil's."""

    spark: Session
    names: NamesOfTables

    def run(self, text: str, args: SqlArguments = None) -> Any:
        """Run a statement and return its frame; None where it is about no table of Frazil's. Raises
        NotInstalledError without sqlglot, Unsupported for statements that are not taken on Spark
        Connect."""
        if (extension := parse_extension(text)) is not None:
            return self._ran(extension) if self.names.is_ours(extension.table) else None
        evolves = _EVOLVES.search(text) is not None
        try:
            tree = self._glot.parse_one(_EVOLVES.sub(r"\1", text), dialect=_DIALECT)
        except self._glot.errors.ParseError:
            return None  # Spark reports what is wrong
        ours = [t for t in tree.find_all(self._exp.Table) if self.names.is_ours(_name(t))]
        if not ours:
            return None
        tree = self._with_arguments(tree, args)
        if isinstance(tree, self._exp.Query):
            return self.spark.sql(self._of_views(tree).sql(dialect=_DIALECT))
        statement = self._node(tree, evolves)
        if statement is None or not self.names.is_ours(statement.table):
            kind = tree.key.upper()
            text = f"{kind} of Iceberg tables is not supported through Spark Connect."
            hint = "Use the methods of the table, or a classic session."
            raise Unsupported(text, hint=hint, table=full_name(_name(ours[0])))
        return self._ran(statement)

    def _ran(self, statement: Statement) -> Any:
        table, branch = self.names.open(statement.table)
        result = run(statement, Target(table, branch, is_case_sensitive(self.spark), self.spark))
        if result is not None:
            note(self.spark, result)
        return self.spark.range(0).select()

    @cached_property
    def _glot(self) -> Any:
        try:
            import sqlglot
        except ImportError:
            hint = "pip install 'frazil[connect-sql]'; a classic session needs nothing."
            raise NotInstalledError(
                "SQL over Iceberg tables through Spark Connect needs sqlglot.", hint=hint
            ) from None
        return sqlglot

    @property
    def _exp(self) -> Any:
        return self._glot.exp

    # --- statements

    def _node(self, tree: Any, evolves: bool) -> Statement | None:
        """Return the node of a statement that changes rows; None for any other."""
        exp = self._exp
        if isinstance(tree, exp.TruncateTable):
            return delete_from(_name(tree.expressions[0]))
        if not isinstance(tree, exp.Delete | exp.Update | exp.Merge):
            return None
        target = tree.this
        table, alias = _name(target), target.alias or _name(target)[-1]
        if (around := tree.args.get("with_")) is not None:
            self._define(around)
        if isinstance(tree, exp.Merge):
            return self._merge(tree, table, alias, evolves)
        where = tree.args.get("where")
        condition = None if where is None else self._text(where.this, alias)
        if isinstance(tree, exp.Delete):
            return delete_from(table, condition, alias)
        values = (self._assignment(e, alias, plain=True) for e in tree.expressions)
        return update_set(table, values, condition, alias)

    def _merge(self, tree: Any, table: Name, alias: str, evolves: bool) -> Statement:
        exp = self._exp
        source = tree.args["using"]
        called = source.alias_or_name
        bare = source.copy()
        bare.set("alias", None)
        frame = self.spark.sql(self._of_views(exp.select("*").from_(bare)).sql(dialect=_DIALECT))
        clauses = tuple(self._clause(w, alias) for w in tree.args["whens"].expressions)
        on = self._text(tree.args["on"], "")
        return merge_into(table, frame, Merge(on, clauses, full_name((alias,)), called, evolves))

    def _clause(self, when: Any, alias: str) -> Clause:
        exp, then = self._exp, when.args["then"]
        kind = (
            When.MATCHED
            if when.args["matched"]
            else When.NOT_MATCHED_BY_SOURCE
            if when.args.get("source")
            else When.NOT_MATCHED
        )
        condition = None if (test := when.args.get("condition")) is None else self._text(test, "")
        if isinstance(then, exp.Var):
            return Clause(kind, Do.DELETE, condition)
        if isinstance(then, exp.Update):
            if isinstance(then.expressions[0], exp.Star):
                return Clause(kind, Do.UPDATE_ALL, condition)
            return Clause(
                kind,
                Do.UPDATE,
                condition,
                tuple(self._assignment(e, alias, plain=False) for e in then.expressions),
            )
        columns, values = then.this, then.args.get("expression")
        if values is None:
            return Clause(kind, Do.INSERT_ALL, condition)
        pairs = zip(columns.expressions, values.expressions, strict=True)
        return Clause(
            kind,
            Do.INSERT,
            condition,
            tuple((_key(c, alias), self._value(v, "")) for c, v in pairs),
        )

    def _assignment(self, equal: Any, alias: str, plain: bool) -> tuple[str, Any]:
        """Return a column and its value. `plain`: without the table's alias, which only sub-queries
        need.
        """
        return _key(equal.this, alias), self._value(equal.expression, alias if plain else "")

    def _value(self, value: Any, alias: str) -> Any:
        if (
            isinstance(value, self._exp.Column)
            and value.name.upper() == DEFAULT
            and not value.table
        ):
            return DEFAULT
        return self._text(value, alias)

    def _text(self, expression: Any, alias: str) -> str:
        """Return an expression as Spark's SQL; columns outside sub-queries without the table's
        alias, where one is given.
        """
        expression = self._of_views(expression)

        def plain(node: Any) -> Any:
            parts: list[Any] = node.parts if isinstance(node, self._exp.Column) else []
            if (
                len(parts) < 2
                or parts[0].name.lower() != alias.lower()
                or node.find_ancestor(self._exp.Query) is not None
            ):
                return node
            # `t.place.city` is a member of a column: its parts are taken for database, table, column
            return self._exp.column(*(part.copy() for part in reversed(parts[1:])))

        return str((expression.transform(plain) if alias else expression).sql(dialect=_DIALECT))

    # --- queries

    def _of_views(self, tree: Any) -> Any:
        """Return a tree in which tables of Frazil's are views of the session. Raises Unsupported
        for time travel.
        """

        def view(node: Any) -> Any:
            if not isinstance(node, self._exp.Table) or not self.names.is_ours(_name(node)):
                return node
            if node.args.get("version") is not None:
                hint = "frazil.load_table(…).scan(snapshot_id=…).to_spark() reads a state."
                raise Unsupported(
                    "Time travel in SQL is not supported through Spark Connect.",
                    hint=hint,
                    table=full_name(_name(node)),
                )
            name = _VIEW + re.sub(r"\W", "_", full_name(_name(node)))
            self.names.frame(_name(node)).createOrReplaceTempView(name)
            seen = self._exp.to_table(name)
            seen.set(
                "alias",
                node.args.get("alias")
                or self._exp.TableAlias(this=self._exp.to_identifier(_name(node)[-1], quoted=True)),
            )
            return seen

        return tree.copy().transform(view)

    def _define(self, around: Any) -> None:
        """Make the names that WITH defines views of the session, where later parts of the statement
        find them.
        """
        for definition in around.expressions:
            if "@" in definition.alias:
                raise InvalidInput(f"{definition.alias!r} is no name of a view.")
            self.spark.sql(
                self._of_views(definition.this).sql(dialect=_DIALECT)
            ).createOrReplaceTempView(f"`{definition.alias}`")

    def _with_arguments(self, tree: Any, args: SqlArguments) -> Any:
        """Return a tree with constants in place of parameters. Raises InvalidInput for one without
        a value.
        """
        if not args:
            return tree
        positions = iter(args if not isinstance(args, Mapping) else ())

        def constant(node: Any) -> Any:
            if not isinstance(node, self._exp.Placeholder | self._exp.Parameter):
                return node
            try:
                value = args[node.name] if isinstance(args, Mapping) else next(positions)
            except (KeyError, StopIteration):
                raise InvalidInput(
                    f"The parameter {node.sql(dialect=_DIALECT)} has no value."
                ) from None
            return self._glot.parse_one(literal_text(value, None), dialect=_DIALECT)

        return tree.transform(constant)


def _name(table: Any) -> Name:
    return tuple(part.name for part in table.parts)


def _key(column: Any, alias: str) -> str:
    """Return the name of an assigned column, without the table's alias."""
    parts = [p.name for p in column.parts] if hasattr(column, "parts") else [column.name]
    if len(parts) > 1 and parts[0].lower() == alias.lower():
        parts = parts[1:]
    return typed_name(parts)
