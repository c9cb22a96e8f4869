"""Resolve expressions by Spark's analyser, and inspect its plans where names alone do not suffice.

A MERGE needs to know which side an expression refers to, by what name the target is called, and
that a frame read back from staged files stands for the frame that was staged. Catalyst's plans tell
and carry all this. On Spark Connect plans are out of reach: there, aliases and column names are
used, and what only a plan could tell (pruning by keys, conditions as text) is left out, which costs
speed, not rows.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from frazil.catalog.names import identifier_parts
from frazil.errors import InvalidInput, ValidationError
from frazil.expr.nodes import Expression, Literal, Translated
from frazil.expr.sql_text import back_quoted
from frazil.spark.host import jvm_plans
from frazil.spark.host.expression_text import null_safe
from frazil.spark.host.jvm import is_classic
from frazil.spark.host.jvm_trees import Columns, bindings, translated
from frazil.spark.host.quiet import quietly
from frazil.spec.schema import Schema

OWN = "__frazil_"
"""How the names of Frazil's helper columns begin."""
# UUIDs are texts in Spark; quotes inside a constant are escaped
_UUID = re.compile(r"CAST\(('[0-9a-fA-F-]{36}') AS uuid\)")


def named(frame: DataFrame, parts: Sequence[str]) -> DataFrame:
    """Alias a frame by a name of several parts, so that `cat.db.t.id`, `db.t.id`, `t.id` and `id`
    all mean its column.
    """
    if not is_classic(frame) or len(parts) == 1:
        return frame.alias(parts[-1])
    return jvm_plans.aliased(frame, parts)


def standing_for(frame: DataFrame, like: DataFrame, alias: str = "") -> DataFrame:
    """Make the columns of a frame answer, by position, to the names and references of those of
    `like`; further columns stay.

    References such as `like.id`, which users put into conditions, then mean the frame's columns.
    `alias`: the alias of `like`, if any.
    """
    if not is_classic(frame):
        renamed = frame.toDF(*like.columns, *frame.columns[len(like.columns) :])
        return renamed.alias(alias) if alias else renamed
    return jvm_plans.with_columns_of(frame, like)


def bound_to(frame: DataFrame, columns: Sequence[Column]) -> list[Column]:
    """Resolve expressions against this frame alone. Raises InvalidInput, in Spark's words, for
    names that it lacks.
    """
    if not columns:
        return []
    chosen = analysed(frame, columns)
    if not is_classic(frame):
        return list(columns)
    if not jvm_plans.is_row_by_row(chosen, frame):
        raise InvalidInput(
            "Aggregate, window and generator functions are not allowed, as each row is decided by itself."
        )
    return [
        jvm_plans.column_of(frame.sparkSession, e) for e in jvm_plans.selected_expressions(chosen)
    ]


def columns_by_id(frame: DataFrame, schema: Schema) -> dict[int, Column]:
    """Return the columns of a table by field id, of a frame that begins with them."""
    columns = columns_at(frame, range(len(schema.fields)))
    return {f.field_id: column for f, column in zip(schema.fields, columns, strict=True)}


def columns_at(frame: DataFrame, places: Iterable[int]) -> list[Column]:
    """Return columns by their places, even where names contain dots or back quotes, or occur twice."""
    names = frame.columns
    alike, classic = Counter(name.lower() for name in names), is_classic(frame)
    return [
        jvm_plans.output_column(frame, place)
        # a session that ignores case takes names that differ only in that for one
        if alike[names[place].lower()] > 1 and classic
        else frame[back_quoted([names[place]])]
        for place in places
    ]


def analysed(frame: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """Select columns as `c0`, `c1`, … and have Spark analyse them. Raises InvalidInput for what the
    analyser refuses.
    """
    with as_input():
        chosen = frame.select(*(c.alias(f"c{n}") for n, c in enumerate(columns)))
        assert chosen.schema is not None
    return chosen


@contextlib.contextmanager
def as_input() -> Iterator[None]:
    """Raise errors of Spark's analyser and parser as InvalidInput, since they are about what the
    caller typed.
    """
    with quietly():
        try:
            yield
        except Exception as error:
            if type(error).__name__ in ("AnalysisException", "ParseException"):
                raise _as_input(error) from error
            raise


def _as_input(error: Any) -> InvalidInput:
    """Translate an error of the analyser; helper columns of Frazil are left out of its suggestions."""
    facts = (
        error.getMessageParameters() or {}
        if str(error.getCondition()).startswith("UNRESOLVED_COLUMN")
        else {}
    )
    if "objectName" not in facts:
        return InvalidInput(str(error).partition("\n\nJVM stacktrace")[0].strip().splitlines()[0])
    name = ".".join(identifier_parts(facts["objectName"]))
    near = [n.replace("`", "") for n in facts.get("proposal", "").split(", ") if n and OWN not in n]
    return ValidationError(
        f"Cannot find column {name!r}{'; columns are, among others: ' if near else ''}{', '.join(near)}.",
        column=name,
    )


def equal_columns(target: DataFrame, source: DataFrame, on: Column) -> list[tuple[int, int, bool]]:
    """Return which columns a condition equates: (place in the target, place in the source, whether
    null equals null) per conjunct.

    Only conjuncts that are plain equalities of columns of one type count. Empty on Spark Connect,
    where plans are out of reach.
    """
    if not (is_classic(target) and is_classic(source)):
        return []
    with as_input():
        condition = jvm_plans.join_condition(target.join(source, on))
    of_target = {id_: n for n, id_ in enumerate(jvm_plans.output_ids(target))}
    of_source = {id_: n for n, id_ in enumerate(jvm_plans.output_ids(source))}
    pairs = []
    for left, right, nulls in jvm_plans.equalities(condition):
        for target_id, source_id in ((left, right), (right, left)):
            if target_id in of_target and source_id in of_source:
                pairs.append((of_target[target_id], of_source[source_id], nulls))
    return pairs


def conditions(frame: DataFrame, where: Column) -> list[Expression]:
    """Return the conjuncts of a condition that Frazil's nodes can say, for pruning; empty on Spark
    Connect. Raises InvalidInput for unknown names."""
    with as_input():
        chosen = frame.filter(where)
    if not is_classic(frame):
        return []
    if (condition := jvm_plans.filter_condition(chosen)) is None:
        return []
    spark = frame.sparkSession
    columns = bindings(spark, jvm_plans.analysed_plan(frame))
    nodes = [translated(spark, e, columns) for e in jvm_plans.conjuncts(condition)]
    return [node for node in nodes if node is not None]


def nodes_of(
    frame: DataFrame, columns: Sequence[Column], bound: Columns
) -> list[Expression | None]:
    """Return expressions over a frame in Frazil's nodes; None for one that Spark has to evaluate.
    `bound`: what its columns are called."""
    if not columns:
        return []
    chosen = analysed(frame, columns)
    if not jvm_plans.is_row_by_row(chosen, frame):
        return [None] * len(columns)
    spark = frame.sparkSession
    return [translated(spark, e, bound) for e in jvm_plans.selected_expressions(chosen)]


def expression(value: object) -> Column:
    """Convert what a user gives as an expression to a Column: Spark SQL text, a Column, a predicate
    or term of `frazil.expressions`, or another Python value as a constant. Raises InvalidInput for
    texts that Spark cannot parse and for dicts and sets."""
    if isinstance(value, Column):
        return value
    with as_input():
        if isinstance(value, Translated):
            native: Column = value.native()
            return native
        if isinstance(value, str):
            return F.expr(null_safe(value))
        if isinstance(value, list | tuple):
            return F.lit(list(value))
        if isinstance(value, dict | set):
            raise InvalidInput(
                f"{value!r} ({type(value).__name__}) cannot be a constant.",
                hint="Write it as SQL text.",
            )
        # F.lit would take local times to be in Python's zone
        text = str(value if isinstance(value, Expression) else Literal(value))
        return F.expr(null_safe(_UUID.sub(r"\1", text)))
