"""Spark SQL that users type, as it is handed to Spark: so that it means there what it means without Spark, for rows with nulls too."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from pyspark.sql import Column, DataFrame

from frazil.errors import InvalidInput
from frazil.expr.literals import decimal_type
from frazil.expr.tokens import Token, tokens

_MOST = 2**63 - 1
_MAY_BE_BEYOND = re.compile(r"\d{19}|\d[eE]\+?\d+(?:BD|bd)")


def filtered(frame: DataFrame, where: Any) -> DataFrame:
    """The rows for which text, a predicate or a Column is TRUE."""
    return frame.filter(where if isinstance(where, Column) else null_safe(str(where)))


def null_safe(text: str) -> str:
    """The text with each number beyond a long as a cast of it.

    Spark's analyser takes `y < 99999999999999999999` for TRUE, whatever the row holds, where y is a whole number: it answers rows in
    which y is null. Only a literal is taken so.
    """
    if not _MAY_BE_BEYOND.search(text):
        return text
    found, at = [], 0
    every = tokens(text, lenient=True)
    for n, token in enumerate(every):
        if token.kind == "number" and (cast := _as_cast(token, n > 0 and every[n - 1].text == "-")):
            found += [text[at : token.at], cast]
            at = token.at + len(token.text)
    return "".join([*found, text[at:]])


def _as_cast(token: Token, negative: bool) -> str | None:
    digits = token.value.lower()
    exact = digits.endswith("bd")
    digits = digits.removesuffix("bd")
    if not digits[-1:].isdigit() and not digits.endswith("."):  # of another type: 1L, 1.5F
        return None
    if ("e" in digits and not exact) or (value := Decimal(digits)) <= _MOST or (negative and value == _MOST + 1):
        return None
    try:
        return f"CAST({token.text} AS {decimal_type(value)})"
    except InvalidInput:  # more digits than Spark has: Spark says so
        return None
