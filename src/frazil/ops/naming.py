"""Errors from deep inside say which table they are about."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from frazil.errors import FrazilError


@contextlib.contextmanager
def naming(name: str, location: str) -> Iterator[None]:
    """Errors of Frazil that leave this block name the table, if they do not yet."""
    try:
        yield
    except FrazilError as e:
        e.of_table(name, location)
        raise
