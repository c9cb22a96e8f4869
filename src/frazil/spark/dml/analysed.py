"""What Spark's analyser must be told where names alone do not say it: which side an expression is about, what a table is called, that a
frame read back stands for the one it was made of. On Spark Connect, where plans are out of reach, names must do."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from frazil.catalog.names import identifier_parts
from frazil.errors import InvalidInput, ValidationError
from frazil.expr.nodes import Expression, Literal
from frazil.spark.host.jvm import analysed_plan, catalyst, column_of, each, frame_of, is_classic, no_option, scala_seq
from frazil.spark.host.quiet import quietly
from frazil.spark.host.sql_text import null_safe
from frazil.spec.schema import Schema

OWN = "__frazil_"
"""How names of columns begin that are Frazil's own."""
_EQUAL = {"EqualTo": False, "EqualNullSafe": True}
_UUID = re.compile(r"CAST\(('[0-9a-fA-F-]{36}') AS uuid\)")  # Spark has them as text; inside a constant quotes are escaped
_WHOLE_NUMBERS = ("byte", "short", "integer", "long")


def named(frame: DataFrame, parts: Sequence[str]) -> DataFrame:
    """The frame under a name of several parts: `cat.db.t.id`, `db.t.id`, `t.id` and `id` are its column."""
    if not is_classic(frame) or len(parts) == 1:
        return frame.alias(parts[-1])
    name = catalyst(frame.sparkSession).AliasIdentifier(parts[-1], scala_seq(frame.sparkSession, parts[:-1]))
    return frame_of(frame.sparkSession, catalyst(frame.sparkSession).plans.logical.SubqueryAlias(name, analysed_plan(frame)))


def standing_for(frame: DataFrame, like: DataFrame, alias: str = "") -> DataFrame:
    """A frame with the columns of another, by position, such that `like.id` and `alias.id` mean its columns; further columns stay.
    `alias`: what `like` is called, if it is."""
    if not is_classic(frame):
        made = frame.toDF(*like.columns, *frame.columns[len(like.columns) :])
        return made.alias(alias) if alias else made
    room, plan = catalyst(frame.sparkSession), analysed_plan(frame)
    nothing = no_option(frame.sparkSession)
    columns = [
        room.expressions.Alias(have, want.name(), want.exprId(), want.qualifier(), nothing, scala_seq(frame.sparkSession, ()))
        for have, want in zip(each(plan.output()), each(analysed_plan(like).output()), strict=False)
    ]
    columns += list(each(plan.output()))[len(columns) :]
    return frame_of(frame.sparkSession, room.plans.logical.Project(scala_seq(frame.sparkSession, columns), plan))


def bound_to(frame: DataFrame, columns: Sequence[Column]) -> list[Column]:
    """The same expressions, their names looked up in this frame alone. Raises InvalidInput, in Spark's words, for what it lacks."""
    if not columns:
        return []
    chosen = analysed(frame, columns)
    if not is_classic(frame):
        return list(columns)
    spark = frame.sparkSession
    if not _is_row_by_row(frame, chosen):
        raise InvalidInput("Aggregate, window and generator functions are not allowed, as each row is decided by itself.")
    found = each(analysed_plan(chosen).projectList())
    return [column_of(spark, e.child() if e.getClass().getSimpleName() == "Alias" else e) for e in found]


def _is_row_by_row(frame: DataFrame, chosen: DataFrame) -> bool:
    """Whether expressions over a frame are computed from its columns alone, a row at a time."""
    plan = analysed_plan(chosen)
    return bool(plan.getClass().getSimpleName() == "Project" and plan.references().subsetOf(analysed_plan(frame).outputSet()))


def are_deterministic(chosen: DataFrame) -> list[bool]:
    """Whether each expression that a frame was made of is the same each time it is computed."""
    return [bool(e.deterministic()) for e in each(analysed_plan(chosen).projectList())]


def columns_by_id(frame: DataFrame, schema: Schema) -> dict[int, Column]:
    """The columns of a table, by field id, in a frame that begins with them."""
    return {f.field_id: at(frame, n) for n, f in enumerate(schema.fields)}


def at(frame: DataFrame, place: int) -> Column:
    """A column by its place, whatever its name looks like."""
    names = frame.columns  # asked for once: each time costs as much as there are columns
    alike = sum(n.lower() == names[place].lower() for n in names)
    if alike > 1 and is_classic(frame):  # a session may take them for one name
        return column_of(frame.sparkSession, analysed_plan(frame).output().apply(place))
    return frame["`" + names[place].replace("`", "``") + "`"]


def analysed(frame: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """The frame with just these columns `c0`, `c1`, …; errors of the analyser as InvalidInput."""
    with as_input():
        chosen = frame.select(*(c.alias(f"c{n}") for n, c in enumerate(columns)))
        assert chosen.schema is not None
    return chosen


@contextlib.contextmanager
def as_input() -> Iterator[None]:
    """Errors of Spark's analyser are errors of what the caller typed."""
    with quietly():
        try:
            yield
        except Exception as error:
            if type(error).__name__ in ("AnalysisException", "ParseException"):
                raise _as_input(error) from error
            raise


def _as_input(error: Any) -> InvalidInput:
    """Spark's error in Frazil's words where Frazil has them. Names of columns that are Frazil's own are not suggested."""
    facts = error.getMessageParameters() or {} if str(error.getCondition()).startswith("UNRESOLVED_COLUMN") else {}
    if "objectName" not in facts:
        return InvalidInput(str(error).partition("\n\nJVM stacktrace")[0].strip().splitlines()[0])
    name = ".".join(identifier_parts(facts["objectName"]))
    near = [n.replace("`", "") for n in facts.get("proposal", "").split(", ") if n and OWN not in n]
    return ValidationError(f"Cannot find column {name!r}{'; columns are, among others: ' if near else ''}{', '.join(near)}.", column=name)


def equal_columns(target: DataFrame, source: DataFrame, on: Column) -> list[tuple[int, int, bool]]:
    """Which columns a condition equates: (place in the target, place in the source, whether null equals null), for its conjuncts that say
    just that of columns of one type. Nothing where plans are out of reach."""
    if not (is_classic(target) and is_classic(source)):
        return []
    with as_input():
        condition = analysed_plan(target.join(source, on)).condition().get()
    mine = {a.exprId().id(): n for n, a in enumerate(each(analysed_plan(target).output()))}
    theirs = {a.exprId().id(): n for n, a in enumerate(each(analysed_plan(source).output()))}
    found = []
    for e in _conjuncts(condition):
        nulls = _EQUAL.get(e.getClass().getSimpleName())
        left, right = (None, None) if nulls is None else (_attribute(e.left()), _attribute(e.right()))
        if nulls is None or left is None or right is None:
            continue
        for a, b in ((left, right), (right, left)):
            if a in mine and b in theirs:
                found.append((mine[a], theirs[b], nulls))
    return found


def _attribute(e: Any) -> int | None:
    """The id of a column, also of a whole number made wider, which keeps its order."""
    if e.getClass().getSimpleName() == "Cast":
        before, after = (
            _WHOLE_NUMBERS.index(n) if n in _WHOLE_NUMBERS else -1 for n in (e.child().dataType().typeName(), e.dataType().typeName())
        )
        e = e.child() if 0 <= before <= after else e
    return int(e.exprId().id()) if e.getClass().getSimpleName() == "AttributeReference" else None


def conditions(frame: DataFrame, where: Column) -> list[str]:
    """The conjuncts of a condition as SQL text, without those that are not the same each time. Raises InvalidInput for unknown names."""
    with as_input():
        chosen = frame.filter(where)
    if not is_classic(frame):
        return []
    plan = analysed_plan(chosen)
    if not hasattr(plan, "condition"):
        return []
    return [str(e.sql()) for e in _conjuncts(plan.condition()) if e.deterministic() and _is_builtin(e)]


def texts_of(frame: DataFrame, columns: Sequence[Column], sides: Mapping[str, DataFrame]) -> list[str | None]:
    """Expressions over a frame as SQL, each column led by the name of the side it is from; None for what has no text that says it all."""
    if not columns:
        return []
    of = {a.exprId().id(): name for name, side in sides.items() for a in each(analysed_plan(side).output())}
    chosen = analysed(frame, columns)
    if not _is_row_by_row(frame, chosen):
        return [None] * len(columns)
    resolved = [e.child() if e.getClass().getSimpleName() == "Alias" else e for e in each(analysed_plan(chosen).projectList())]
    return [str(_renamed(frame, e, of).sql()) if e.deterministic() and _is_builtin(e) else None for e in resolved]


def _renamed(frame: DataFrame, e: Any, of: Mapping[int, str]) -> Any:
    if e.getClass().getSimpleName() == "AttributeReference":
        return e.withQualifier(scala_seq(frame.sparkSession, [of[e.exprId().id()]]))
    inside = [_renamed(frame, c, of) for c in each(e.children())]
    return e.withNewChildren(scala_seq(frame.sparkSession, inside)) if inside else e


def _is_builtin(e: Any) -> bool:
    """Whether its text says it all: a function of the user's may be called as one that Frazil knows."""
    name = e.getClass().getSimpleName()
    return not ("UDF" in name or "Subquery" in name or "UDAF" in name) and all(_is_builtin(c) for c in each(e.children()))


def _conjuncts(e: Any) -> Iterator[Any]:
    if e.getClass().getSimpleName() == "And":
        yield from _conjuncts(e.left())
        yield from _conjuncts(e.right())
    else:
        yield e


def expression(value: Any) -> Column:
    """What a user may give as an expression: Spark SQL text, a Column, a predicate or term of frazil.expressions, another Python value."""
    if isinstance(value, Column):
        return value
    with as_input():
        if isinstance(value, str):
            return F.expr(null_safe(value))
        if isinstance(value, list | tuple):
            return F.lit(list(value))
        if isinstance(value, dict | set):
            raise InvalidInput(f"{value!r} ({type(value).__name__}) cannot be a constant.", hint="Write it as SQL text.")
        text = str(value if isinstance(value, Expression) else Literal(value))  # F.lit would read local times in Python's own zone
        return F.expr(null_safe(_UUID.sub(r"\1", text)))
