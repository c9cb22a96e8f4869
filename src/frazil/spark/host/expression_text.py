"""Check that a text is one expression of Spark SQL.

An alias after the expression is refused. Spark's parser takes it without an error, Frazil's own
parser does not, and a filter must mean the same with and without Spark.
"""

from __future__ import annotations

import re

from pyspark.sql import functions as F

from frazil.errors import ParseError
from frazil.expr.parse import parse
from frazil.expr.tokens import error, tokens
from frazil.ops.session import Session
from frazil.spark.host.jvm_plans import NodeKind, parsed_kind
from frazil.spark.host.quiet import quietly

_SPARK_POSITION = re.compile(r"\(line (\d+), pos (\d+)\)")


def check_text(spark: Session, text: str) -> None:
    """Raise ParseError, with the position, unless the text is one expression of Spark SQL without
    an alias.
    """
    try:
        with quietly():
            has_alias = _has_alias(spark, text)
    except Exception as e:
        if type(e).__name__ != "ParseException":
            raise
        raise _parse_error(text, str(e).strip()) from e
    if has_alias:
        raise _alias_error(text)


def _has_alias(spark: Session, text: str) -> bool:
    if (kind := parsed_kind(spark, text)) is not None:
        return kind in (NodeKind.ALIAS, NodeKind.MULTI_ALIAS)
    # Spark Connect does not show what its parser returns, so the text is parsed a second time where
    # an alias is a syntax error.
    _parse_on_server(spark, text)
    try:
        _parse_on_server(spark, f"CASE WHEN true THEN {text}\nEND")
    except Exception as e:
        if type(e).__name__ != "ParseException":
            raise
        return True
    return False


def _parse_on_server(spark: Session, text: str) -> None:
    try:
        assert spark.range(0).select(F.expr(text)).schema is not None
    except Exception as e:
        if (
            type(e).__name__ != "AnalysisException"
        ):  # a column that is not found shows that the text was parsed
            raise


def _alias_error(text: str) -> ParseError:
    """Return the error that Frazil's own parser raises for a word after the expression."""
    *_, before, last, _ = [None, *tokens(text, lenient=True)]
    assert last is not None
    if before is not None and before.value == "as" and before.kind == "word":
        last = before
    return error(text, last.position, f"expected an operator or the end, got {last.text!r}")


def _parse_error(text: str, spark_message: str) -> ParseError:
    """Return Frazil's own error if it is about the same position as Spark's, else Spark's: Spark's
    grammar has more words than Frazil's, so Frazil's parser may stop at a word that is not the
    mistake."""
    place = _SPARK_POSITION.search(spark_message)
    position = (
        None
        if place is None
        else sum(len(line) + 1 for line in text.split("\n")[: int(place[1]) - 1]) + int(place[2])
    )
    try:
        parse(text)
    except ParseError as own_error:
        own_position = own_error.facts.get("position")
        if (
            own_position is None
            or position is None
            or position in (own_position, _next_token(text, own_position))
        ):
            return own_error
    reason = (
        re.sub(r"^\[[A-Z_.]+\] ", "", spark_message.splitlines()[0])
        .partition(" SQLSTATE")[0]
        .rstrip(".")
    )
    return ParseError(reason) if position is None else error(text, min(position, len(text)), reason)


def _next_token(text: str, position: int) -> int | None:
    """Return where the token after the one at a position begins. Spark takes a word that Frazil
    refuses for an alias, and complains about the token after it."""
    every = tokens(text, lenient=True)
    return next(
        (b.position for a, b in zip(every, every[1:], strict=False) if a.position == position), None
    )
