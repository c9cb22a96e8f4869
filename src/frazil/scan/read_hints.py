"""Check read options of Java's that tune its reader and never choose rows: the value that says what
happens here is taken, the other one is refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from frazil.errors import InvalidInput, Unsupported


@dataclass(frozen=True)
class ReadHint:
    """Say whether reads do what an option asks for, and why they always or never do."""

    is_done: bool
    reason: str


VECTORIZATION: Final = "vectorization-enabled"
VECTORIZED: Final = ReadHint(True, "rows are always read in batches of columns")


def check_hints(texts: Mapping[str, str], hints: Mapping[str, ReadHint]) -> None:
    """Raise InvalidInput for a value that is neither true nor false, and Unsupported for one that
    asks for what reads do not do.
    """
    for key, hint in hints.items():
        text = texts.get(key, str(hint.is_done)).strip().lower()
        if text not in ("true", "false"):
            raise InvalidInput(f"Read option {key!r} is true or false, not {texts[key]!r}.")
        if (text == "true") != hint.is_done:
            raise Unsupported(
                f"Read option {key}={text} is not supported: {hint.reason}.",
                hint="Leave it out: the rows are the same.",
            )
