"""Parse identifiers such as `catalog.namespace.table` at dots outside back-quotes, and format their
parts as text again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from frazil.errors import InvalidInput
from frazil.expr.sql_text import back_quoted

_PART = re.compile(r"`((?:[^`]|``)*)`|([^.`]+)")
_PART_IN_SQL = r"(?:`(?:[^`]|``)+`|\w+)"
IN_SQL = rf"{_PART_IN_SQL}(?:\s*\.\s*{_PART_IN_SQL})*"
"""The pattern of an identifier within the text of a SQL statement, where blanks may stand around
its dots.
"""
_BACK_QUOTED_OR_DOT = re.compile(r"(`(?:[^`]|``)*`)|\s*\.\s*")


def identifier_parts(text: str) -> tuple[str, ...]:
    """Return the parts of an identifier, as Spark SQL reads them: cat.db.`a.b` has three, and ``
    within back-quotes is one back-quote.

    Raises InvalidInput for an empty part and for back-quotes that do not enclose a whole part.
    """
    parts: list[str] = []
    position = 0
    while (match := _PART.match(text, position)) is not None:
        quoted, plain = match.groups()
        parts.append(quoted.replace("``", "`") if quoted is not None else plain)
        position = match.end()
        if position == len(text) and all(parts):
            return tuple(parts)
        if text[position : position + 1] != ".":
            break
        position += 1
    hint = "Put a name that holds a dot or a back-quote into back-quotes, as in db.`a.b`."
    raise InvalidInput(
        f"{text!r} is not an identifier: give names with dots between them, as in db.events.",
        hint=hint,
    )


def full_name(parts: Sequence[str]) -> str:
    """Format parts as text that `identifier_parts` parses to the same parts; only those that need
    back-quotes get them.
    """
    return ".".join(back_quoted((p,)) if "." in p or "`" in p or not p else p for p in parts)


def without_blanks(text: str) -> str:
    """Remove the blanks around the dots of an identifier that was found by `IN_SQL`; those within
    back-quotes belong to a name.
    """
    return _BACK_QUOTED_OR_DOT.sub(lambda match: match[1] or ".", text)
