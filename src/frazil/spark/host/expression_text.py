"""Text of an expression as Spark's parser takes it, but for an alias, which Spark takes without a word and Frazil's own parser does not."""

from __future__ import annotations

import re
from typing import Any

from pyspark.sql import functions as F

from frazil.errors import ParseError
from frazil.expr.parse import parse
from frazil.expr.tokens import error, tokens
from frazil.spark.host.jvm import parsed_kind
from frazil.spark.host.quiet import quietly

_PLACE = re.compile(r"\(line (\d+), pos (\d+)\)")


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
    *_, before, last, _ = [None, *tokens(text, lenient=True)]
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
    found = tokens(text, lenient=True)
    return next((b.at for a, b in zip(found, found[1:], strict=False) if a.at == at), None)
