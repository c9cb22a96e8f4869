"""Check that a text is one expression of Spark SQL, and prepare it so that it means on Spark what
it means without Spark, also for rows with nulls.

An alias after the expression is refused. Spark's parser takes it without an error, Frazil's own
parser does not, and a filter must mean the same with and without Spark.
"""

from __future__ import annotations

import re
from decimal import Decimal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from frazil.errors import InvalidInput, ParseError
from frazil.expr.literals import decimal_type
from frazil.expr.parse import parse
from frazil.expr.tokens import Token, error, tokens
from frazil.ops.reading import RowFilter
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
        if type(e).__name__ != "AnalysisException":
            # a column that is not found shows that the text was parsed
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


_LARGEST_LONG = 2**63 - 1
_MAY_EXCEED_LONG = re.compile(r"\d{19}|\d[eE]\+?\d+(?:BD|bd)")


def filtered(frame: DataFrame, where: RowFilter) -> DataFrame:
    """Return the rows of a DataFrame for which SQL text, a predicate or a Column is TRUE."""
    return frame.filter(where if isinstance(where, Column) else null_safe(str(where)))


def null_safe(text: str) -> str:
    """Return SQL text in which each number beyond the range of a long is a CAST to decimal.

    Spark's analyser replaces `y < 99999999999999999999`, where y is an integer column, by TRUE, and
    so returns rows in which y is null. It does so only if the number is a literal.
    """
    if not _MAY_EXCEED_LONG.search(text):
        return text
    parts, end = [], 0
    every = tokens(text, lenient=True)
    for n, token in enumerate(every):
        if token.kind == "number" and (cast := _as_cast(token, n > 0 and every[n - 1].text == "-")):
            parts += [text[end : token.position], cast]
            end = token.position + len(token.text)
    return "".join([*parts, text[end:]])


def _as_cast(token: Token, negative: bool) -> str | None:
    digits = token.value.lower()
    is_decimal = digits.endswith("bd")
    digits = digits.removesuffix("bd")
    if not digits[-1:].isdigit() and not digits.endswith("."):
        # a suffix names another type: 1L, 1.5F
        return None
    if (
        ("e" in digits and not is_decimal)
        or (value := Decimal(digits)) <= _LARGEST_LONG
        or (negative and value == _LARGEST_LONG + 1)
    ):
        return None
    try:
        return f"CAST({token.text} AS {decimal_type(value)})"
    except InvalidInput:  # more digits than a decimal has: Spark's own error says so
        return None
