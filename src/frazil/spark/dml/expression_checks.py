"""Check expressions of DELETE, UPDATE and MERGE by Spark's parser and analyser before anything is
read or written.

A text must be one expression without an alias. An expression must depend on its own row only:
aggregate, window and generator functions are refused by name. Conditions of MERGE must be
deterministic. The frames that are analysed here have no rows, and none of Frazil's helper columns,
so that no error mentions them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from frazil.errors import InvalidInput, ParseError
from frazil.ops.session import Session
from frazil.rows.assign import meant_as_constant
from frazil.spark.dml.analysis import analysed, as_input, expression
from frazil.spark.host.expression_text import check_text
from frazil.spark.host.jvm import is_classic
from frazil.spark.host.jvm_plans import are_deterministic
from frazil.spark.host.quiet import quietly

_KINDS = {  # the error of Spark's analyser about a filter: the kind of function that it contains
    "INVALID_WHERE_CONDITION": "aggregate",
    "WINDOW_FUNCTION_NOT_ALLOWED_IN_CLAUSE": "window",
    "_LEGACY_ERROR_TEMP_1034": "window",  # the same, on Spark 4.1
    "UNSUPPORTED_GENERATOR": "generator",
}


@dataclass(frozen=True)
class GivenExpression:
    """Hold an expression as the caller gave it. `about`: what errors call it, as "Column z";
    `column`: the one that it is assigned to.
    """

    value: Any
    about: str
    column: str | None = None

    def __str__(self) -> str:
        return str(self.value).removeprefix("Column<'").removesuffix("'>")

    def checked(self, spark: Session) -> Column:
        """Return the expression as a Column. Raises ParseError for a text that is no expression, as
        `frazil.expr.parse` would.
        """
        if isinstance(self.value, str):
            try:
                check_text(spark, self.value)
            except ParseError as e:
                raise (
                    e if self.column is None else meant_as_constant(e, self.column, self.value)
                ) from e
        return expression(self.value)


def checked(
    frame: DataFrame, expressions: Sequence[GivenExpression], *, repeatable: bool = False
) -> list[Column]:
    """Return expressions over the columns of a frame as Columns. `repeatable`: they must be
    deterministic.

    Raises ParseError for texts that are no expression; InvalidInput for aggregate, window,
    generator and random functions. Names that the frame lacks are left to whoever computes the
    expression.
    """
    columns = [e.checked(frame.sparkSession) for e in expressions]
    if not columns or _needs_other_rows(frame, F.struct(*columns)) is None:
        kinds: list[str | None] = [None] * len(columns)
    else:
        kinds = [_needs_other_rows(frame, c) for c in columns]
    for expr, kind in zip(expressions, kinds, strict=True):
        if kind is not None:
            hint = "Compute it in a frame first, and merge that."
            raise InvalidInput(
                f"{expr.about}: {kind} functions are not allowed, as each row is decided by itself: {expr}.",
                hint=hint,
            )
    if repeatable and columns:
        for expr, deterministic in zip(expressions, _repeatable(frame, columns), strict=True):
            if not deterministic:
                hint = "Put its result into a column of the source."
                raise InvalidInput(
                    f"{expr.about}: non-deterministic functions are not allowed: {expr}.", hint=hint
                )
    return columns


def refuse_windows_of_times(frame: DataFrame, condition: Column, about: str) -> None:
    """Raise InvalidInput for `window(…)` and `session_window(…)`, which Spark refuses in UPDATE and
    MERGE: it computes them in a plan below the condition, which has a row for each window of a row.
    """
    # A DataFrame of Spark Connect hands the schema that it was once asked for to its filters, which
    # then are not analysed: so a copy is asked.
    whole = frame.select("*")
    with as_input():
        if whole.filter(condition).columns != whole.columns:
            raise InvalidInput(
                f"{about}: windows of times are not allowed, as a row may be in several of them.",
                hint="Compare with date_trunc('day', …) or a range of times.",
                condition="UNSUPPORTED_FEATURE.TABLE_OPERATION",
            )


def _needs_other_rows(frame: DataFrame, value: Column) -> str | None:
    """Return which kind of multi-row function an expression contains; None where it contains none,
    or is wrong in another way.

    Spark's analyser tells by refusing the expression in a filter; on Spark Connect it can be asked
    in no other way.
    """
    try:
        # the first filter keeps Spark from taking the second one for the HAVING of an aggregation
        with quietly():
            assert frame.filter(F.lit(True)).filter(F.isnull(value)).schema is not None
    except Exception as e:
        if type(e).__name__ not in ("AnalysisException", "ParseException"):
            raise
        return _KINDS.get(str(e.getCondition()).partition(".")[0])  # type: ignore[attr-defined]
    return None


def _repeatable(frame: DataFrame, columns: Sequence[Column]) -> list[bool]:
    """Return for each expression whether it is deterministic."""
    if is_classic(frame):
        return are_deterministic(analysed(frame, columns))
    return [not _is_random(frame, c) for c in columns]


def _is_random(frame: DataFrame, condition: Column) -> bool:
    """Return whether a condition is random, on Spark Connect: plans are out of reach there, but
    Spark refuses a random join condition.
    """
    try:
        with quietly():
            assert (
                frame.join(frame.sparkSession.range(0).toDF("__frazil_c_other"), condition).schema
                is not None
            )
    except Exception as e:
        return "INVALID_NON_DETERMINISTIC_EXPRESSIONS" in str(e)
    return False
