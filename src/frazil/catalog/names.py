"""Identifiers as text: parse `catalog.namespace.table` into its parts, at dots outside back-quotes, and write parts as text again."""

from __future__ import annotations

import re
from collections.abc import Sequence

from frazil.errors import InvalidInput

_PART = re.compile(r"`((?:[^`]|``)*)`|([^.`]+)")


def identifier_parts(text: str) -> tuple[str, ...]:
    """The parts of an identifier, as Spark SQL reads them: cat.db.`a.b` has three, and `` inside back-quotes is one back-quote.

    Raises InvalidInput for an empty part and for back-quotes that do not enclose a whole part.
    """
    parts: list[str] = []
    at = 0
    while (found := _PART.match(text, at)) is not None:
        quoted, plain = found.groups()
        parts.append(quoted.replace("``", "`") if quoted is not None else plain)
        at = found.end()
        if at == len(text) and all(parts):
            return tuple(parts)
        if text[at : at + 1] != ".":
            break
        at += 1
    hint = "A name that holds a dot or a back-quote stands in back-quotes, as in db.`a.b`."
    raise InvalidInput(f"{text!r} is no identifier: its parts are names with dots between them, as in db.events.", hint=hint)


def full_name(parts: Sequence[str]) -> str:
    """The text of which `identifier_parts` makes these parts; only those that need back-quotes get them."""
    return ".".join(f"`{p.replace('`', '``')}`" if "." in p or "`" in p or not p else p for p in parts)
