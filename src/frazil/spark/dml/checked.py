"""Expressions of DELETE, UPDATE and MERGE, checked by Spark's parser and analyser before anything is read or written.

A text is one expression without an alias. Nothing in it needs other rows than the one it is about: aggregate, window and generator
functions are refused by name. Conditions of MERGE give the same answer each time. Frames asked here hold no rows, and no columns of
Frazil's own, so that no error names them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from frazil.errors import InvalidInput, ParseError
from frazil.expr.parse import parse
from frazil.expr.tokens import error, tokens
from frazil.rows.assign import meant_as_constant
from frazil.spark.dml.analysed import analysed, are_deterministic, expression
from frazil.spark.host.jvm import is_classic, parsed_kind
from frazil.spark.host.quiet import quietly

_KINDS = {  # what Spark's analyser says of a filter: the functions that it holds
    "INVALID_WHERE_CONDITION": "aggregate",
    "WINDOW_FUNCTION_NOT_ALLOWED_IN_CLAUSE": "window",
    "_LEGACY_ERROR_TEMP_1034": "window",  # the same, on Spark 4.1
    "UNSUPPORTED_GENERATOR": "generator",
}
_PLACE = re.compile(r"\(line (\d+), pos (\d+)\)")


@dataclass(frozen=True)
class Asked:
    """An expression as the caller gave it. `about`: what errors call it, as in "Column z"; `column`: the one that it is assigned to."""

    value: Any
    about: str
    column: str | None = None

    def __str__(self) -> str:
        return str(self.value).removeprefix("Column<'").removesuffix("'>")

    def checked(self, spark: Any) -> Column:
        """The expression for Spark. Raises ParseError for a text that is none, as `frazil.expr.parse` would."""
        if isinstance(self.value, str):
            try:
                check_text(spark, self.value)
            except ParseError as e:
                raise (e if self.column is None else meant_as_constant(e, self.column, self.value)) from e
        return expression(self.value)


def checked(frame: DataFrame, asked: Sequence[Asked], *, repeatable: bool = False) -> list[Column]:
    """The expressions for Spark, over the columns of a frame. `repeatable`: they must give the same each time they are computed.

    Raises ParseError for texts that are no expression; InvalidInput for aggregate, window, generator and random functions. Names that the
    frame lacks are left to whoever computes the expression.
    """
    columns = [a.checked(frame.sparkSession) for a in asked]
    if not columns or _needs_other_rows(frame, F.struct(*columns)) is None:
        kinds: list[str | None] = [None] * len(columns)
    else:
        kinds = [_needs_other_rows(frame, c) for c in columns]
    for a, kind in zip(asked, kinds, strict=True):
        if kind is not None:
            hint = "Compute it in a frame first, and merge that."
            raise InvalidInput(f"{a.about}: {kind} functions are not allowed, as each row is decided by itself: {a}.", hint=hint)
    if repeatable and columns:
        for a, same in zip(asked, _repeatable(frame, columns), strict=True):
            if not same:
                hint = "Put its result into a column of the source."
                raise InvalidInput(f"{a.about}: non-deterministic functions are not allowed: {a}.", hint=hint)
    return columns


def _needs_other_rows(frame: DataFrame, value: Column) -> str | None:
    """The kind of functions of many rows that an expression holds, which no filter may; None: none, or another mistake."""
    try:
        with quietly():  # the filter in between keeps Spark from taking the next one for a HAVING of a frame that aggregates
            assert frame.filter(F.lit(True)).filter(F.isnull(value)).schema is not None
    except Exception as e:
        if type(e).__name__ not in ("AnalysisException", "ParseException"):
            raise
        return _KINDS.get(str(e.getCondition()).partition(".")[0])  # type: ignore[attr-defined]
    return None


def _repeatable(frame: DataFrame, columns: Sequence[Column]) -> list[bool]:
    if is_classic(frame):
        return are_deterministic(analysed(frame, columns))
    return [not _is_random(frame, c) for c in columns]


def _is_random(frame: DataFrame, condition: Column) -> bool:
    """For Spark Connect, where plans are out of reach: a join takes no random condition."""
    try:
        with quietly():
            assert frame.join(frame.sparkSession.range(0).toDF("__frazil_c_other"), condition).schema is not None
    except Exception as e:
        return "INVALID_NON_DETERMINISTIC_EXPRESSIONS" in str(e)
    return False


# Texts ---------------------------------------------------------------------------------------------------------------------------------


def check_text(spark: Any, text: str) -> None:
    """Raises ParseError unless the text is one expression of Spark's SQL. An alias after it is none of it, though Spark would take it."""
    try:
        with quietly():
            named = _has_alias(spark, text)
    except Exception as e:
        if type(e).__name__ != "ParseException":
            raise
        raise _unreadable(text, str(e).strip()) from e
    if named:
        raise _aliased(text)


def _has_alias(spark: Any, text: str) -> bool:
    if (kind := parsed_kind(spark, text)) is not None:
        return kind in ("Alias", "MultiAlias")
    _parse_on_server(spark, text)
    try:
        _parse_on_server(spark, f"CASE WHEN true THEN {text}\nEND")  # where an alias cannot stand
    except Exception as e:
        if type(e).__name__ != "ParseException":
            raise
        return True
    return False


def _parse_on_server(spark: Any, text: str) -> None:
    try:
        assert spark.range(0).select(F.expr(text)).schema is not None
    except Exception as e:
        if type(e).__name__ != "AnalysisException":  # that it lacks the columns tells that it was parsed
            raise


def _aliased(text: str) -> ParseError:
    """As the error of Frazil's own parser for a word too many."""
    try:
        *_, before, last, _ = [None, *tokens(text)]
    except ParseError:
        return ParseError(f"Cannot read the filter: it ends in an alias, which is no part of an expression.\n  {text}")
    assert last is not None
    if before is not None and before.value == "as" and before.kind == "word":
        last = before
    return error(text, last.at, f"expected an operator or the end, got {last.text!r}")


def _unreadable(text: str, spark_says: str) -> ParseError:
    """Frazil's own error for a text where it is about the same place as Spark's, which knows more words."""
    place = _PLACE.search(spark_says)
    at = None if place is None else sum(len(x) + 1 for x in text.split("\n")[: int(place[1]) - 1]) + int(place[2])
    try:
        parse(text)
    except ParseError as own:
        ours = own.facts.get("position")
        if ours is None or at is None or at in (ours, _after(text, ours)):
            return own
    what = re.sub(r"^\[[A-Z_.]+\] ", "", spark_says.splitlines()[0]).partition(" SQLSTATE")[0].rstrip(".")
    return ParseError(what) if at is None else error(text, min(at, len(text)), what)


def _after(text: str, at: int) -> int | None:
    """Where the word after the one at a place begins: what Spark takes for an alias is a word too many for Frazil."""
    try:
        found = tokens(text)
    except ParseError:
        return None
    return next((b.at for a, b in zip(found, found[1:], strict=False) if a.at == at), None)
