"""Parse patterns of LIKE."""

from __future__ import annotations

import re
from collections.abc import Sequence

from frazil.errors import InvalidInput

Pieces = tuple[str | int | None, ...]


def pattern_pieces(pattern: str, escape: str = "\\") -> Pieces:
    """Split a pattern into text, None for `%` (any text) and 1 for `_` (one character). The escape
    may precede `%`, `_` or itself.
    """
    pieces: list[str | int | None] = []
    text, position = "", 0
    while position < len(pattern):
        character = pattern[position]
        if character == escape:
            position += 1
            if position == len(pattern) or pattern[position] not in ("%", "_", escape):
                after = repr(pattern[position]) if position < len(pattern) else "the end"
                message = f"The LIKE pattern {pattern!r} has its escape character {escape!r} before {after}."
                raise InvalidInput(
                    message, hint="The escape character may only precede %, _ or itself."
                )
            text += pattern[position]
        elif character in "%_":
            if text:
                pieces.append(text)
                text = ""
            if character == "_" or not pieces or pieces[-1] is not None:
                pieces.append(1 if character == "_" else None)
        else:
            text += character
        position += 1
    return (*pieces, text) if text else tuple(pieces)


def as_regex(pieces: Sequence[str | int | None], ignore_case: bool = False) -> str:
    """Convert pieces to a regular expression (RE2) that matches the whole text."""
    body = "".join(".*" if p is None else "." if p == 1 else re.escape(str(p)) for p in pieces)
    return rf"\A(?s{'i' if ignore_case else ''}:{body})\z"
