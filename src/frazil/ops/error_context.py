"""Name the table in errors that are raised where its name is not known."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from frazil.errors import FrazilError


@contextlib.contextmanager
def naming(name: str, location: str) -> Iterator[None]:
    """Add the table's name to any FrazilError that leaves the `with` block and does not name it
    yet.
    """
    try:
        yield
    except FrazilError as e:
        e.of_table(name, location)
        raise
