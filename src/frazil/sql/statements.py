"""Take statements of a session: decide which are Frazil's, translate and run them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark.errors import ParseException

from frazil.catalog.names import full_name, identifier_parts
from frazil.errors import FrazilError, NoSuchTableError
from frazil.expr.tokens import without_comments
from frazil.ops.session import Session
from frazil.scan.snapshot_ref import selector_suffix
from frazil.spark.catalog.relation import (
    inserts_what_it_reads,
    named_in,
    names_columns_in_full,
    shows_hidden,
    without_hidden,
)
from frazil.spark.host.jvm_catalog import (
    with_full_names,
    with_targets_of_their_own,
)
from frazil.spark.host.jvm_statements import (
    ParsedStatement,
    altered_table,
    parsed_plan,
    parsed_statement,
)
from frazil.spark.host.jvm_view_statements import VIEW_OF_FORMAT, view_of_query
from frazil.spark.host.settings import is_case_sensitive
from frazil.spec.schema import Schema
from frazil.sql.from_spark import node_of
from frazil.sql.grammar import parse_extension, with_extensions_executed
from frazil.sql.nodes import Name, Statement
from frazil.sql.results import note
from frazil.sql.run import NamesOfTables, Target, run

_FIRST_WORD = re.compile(r"[\s(;]*([a-z]+)", re.IGNORECASE)
_OF_INTEREST = frozenset("delete update merge truncate analyze begin explain with".split())
_WITHIN = re.compile(r"\b(?:delete|update|merge|truncate|analyze)\b", re.IGNORECASE)
_HOLD_OTHERS = frozenset("begin explain".split())
_ALTERS_BRANCH = re.compile(r"\b(?:alter|comment)\b.*\bbranch_", re.IGNORECASE | re.DOTALL)
_MAY_HOLD_ONE = _HOLD_OTHERS | {"with"}


@dataclass(frozen=True)
class SessionStatements:
    """Implement `spark.host.jvm_parser.Statements` for a session."""

    spark: Session
    names: NamesOfTables

    def may_take(self, text: str) -> bool:
        """Tell whether a text begins as DELETE, UPDATE, MERGE, TRUNCATE, ANALYZE, or may hold one
        of them.
        """
        word = _first_word(text)
        return word in _OF_INTEREST and (
            word not in _MAY_HOLD_ONE or _WITHIN.search(text) is not None
        )

    def holds_others(self, text: str) -> bool:
        """Tell by the beginning of a text whether its plan holds those of other statements."""
        return _first_word(text) in _HOLD_OTHERS

    def adapted(self, text: str, plan: JavaObject, in_script: bool = False) -> Any:
        """Return a plan in which columns can be called by a table's full name, and a temporary view
        `USING iceberg` reads by the catalog. Targets of a script's statements are renamed only
        where their names are full: the others are looked up when the statement runs.
        """
        if _ALTERS_BRANCH.search(text):
            self._refuse_branch(plan)
        if inserts_what_it_reads(self.spark, text):
            is_ours = self._is_ours_in_full if in_script else self.names.is_ours
            plan = with_targets_of_their_own(self.spark, plan, is_ours, self.names.spelled)
        if not in_script and named_in(text) and shows_hidden(self.spark, plan, self.names.spelled):
            plan = without_hidden(self.spark, text, plan, self._schema_of)
        if names_columns_in_full(text, self.names.catalogs()):
            plan = with_full_names(self.spark, plan, self.names.spelled)
        if VIEW_OF_FORMAT.search(text):
            plan = view_of_query(self.spark, plan)
        return plan

    def _refuse_branch(self, plan: JavaObject) -> None:
        """Raise NoSuchTableError for a branch as the table of ALTER TABLE, as Java Iceberg does:
        all branches share the columns and properties of their table."""
        name = altered_table(plan)
        if name and selector_suffix(name[-1]) and self.names.is_ours(name):
            table = full_name(self.names.spelled(name)[:-1])
            raise NoSuchTableError(
                f"{full_name(self.names.spelled(name))} is a branch, which has no columns and properties of its own.",
                hint=f"ALTER TABLE {table} changes those of all branches.",
                table=table,
            )

    def _is_ours_in_full(self, name: Name) -> bool:
        return self.names.is_ours(name) and tuple(self.names.spelled(name)) == tuple(name)

    def _schema_of(self, name: Name) -> Schema | None:
        """Return the columns of the table whose rows a name means; None for other names."""
        parts = name
        while len(parts) > 1 and selector_suffix(parts[-1]):
            parts = parts[:-1]
        if not self.names.is_ours(parts):
            return None
        try:
            return self.names.open(parts)[0].schema()
        except FrazilError:  # a view, a metadata table
            return None

    def takes_refused(self, text: str) -> bool:
        """Tell whether a text that Spark refuses is one of Iceberg's extension statements about a
        table of Frazil's. Raises ParseError.
        """
        try:
            statement = parse_extension(text)
        except FrazilError:
            if _first_word(text) != "alter":
                return False
            raise
        return statement is not None and self.names.is_ours(statement.table)

    def readable(self, text: str) -> str | None:
        """Return a script that Spark refuses in a form that it takes; None: it has no extension
        statement. Raises ParseError.
        """
        return with_extensions_executed(text) if _first_word(text) == "begin" else None

    def takes(self, plan: JavaObject, in_script: bool) -> bool:
        """Tell whether a plan is a statement about a table of Frazil's. In a script names are
        looked up when the statement runs, so every one that may be Frazil's is taken."""
        parsed = parsed_statement(self.spark, plan)
        if parsed is None:
            return False
        name = parsed.facts.table
        if name is None:  # IDENTIFIER computes it, when the statement runs
            return True
        return self.names.may_be_ours(name) if in_script else self.names.is_ours(name)

    def run_text(self, text: str) -> bool:
        """Run the text of a statement if it is taken, and tell so: for sessions whose parser cannot
        ask.
        """
        try:
            plan = parsed_plan(self.spark, text)
        except ParseException:
            if not self.takes_refused(text):
                return False
            self.run(text)
            return True
        if not self.may_take(text) or not self.takes(plan, False):
            return False
        self.run(plan)
        return True

    def run(self, statement: JavaObject | str) -> None:
        """Run a statement: a parsed plan, or the text of an extension statement."""
        if isinstance(statement, str):
            node = parse_extension(statement)
            assert node is not None
            self._run(node, self._target(node.table))
            return
        parsed = parsed_statement(self.spark, statement)
        assert parsed is not None
        name = self._name(parsed)
        if name is None or not self.names.is_ours(name):
            parsed.run()
            return
        try:
            target = self._target(name)
        except NoSuchTableError:
            parsed.run()  # Spark's error shows the place in the text
            raise
        self._run(node_of(parsed, self.names.spelled(name), target.table.metadata), target)

    def _target(self, name: Name) -> Target:
        table, branch = self.names.open(name)
        return Target(table, branch, is_case_sensitive(self.spark), self.spark)

    def _name(self, parsed: ParsedStatement) -> Name | None:
        name = parsed.facts.table
        if name is None and (text := parsed.computed_table()) is not None:
            name = identifier_parts(text)
        return name

    def _run(self, statement: Statement, target: Target) -> None:
        result = run(statement, target)
        if result is not None:
            note(self.spark, result)


def _first_word(text: str) -> str:
    """Return the first word of a statement in small letters, empty where it begins with none.
    Comments are looked for only before it.
    """
    first = _FIRST_WORD.match(text) or _FIRST_WORD.match(without_comments(text))
    return first[1].lower() if first else ""
