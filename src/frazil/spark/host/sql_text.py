"""Prepare Spark SQL that users write so that it means on Spark what it means without Spark, also
for rows with nulls.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from pyspark.sql import Column, DataFrame

from frazil.errors import InvalidInput
from frazil.expr.literals import decimal_type
from frazil.expr.tokens import Token, tokens

_LARGEST_LONG = 2**63 - 1
_MAY_EXCEED_LONG = re.compile(r"\d{19}|\d[eE]\+?\d+(?:BD|bd)")


def filtered(frame: DataFrame, where: Any) -> DataFrame:
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
    if not digits[-1:].isdigit() and not digits.endswith(
        "."
    ):  # a suffix names another type: 1L, 1.5F
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
