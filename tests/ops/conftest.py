"""A catalog in memory, and a table in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from frazil.catalog import CatalogBackend, load_backend
from frazil.ops.creation import create_empty
from frazil.ops.table_definition import table_metadata
from frazil.spec.ddl import parse_schema
from tests.builders.frames import ID_P_V
from tests.ops.support import PARTS, Place


@pytest.fixture
def backend() -> Iterator[CatalogBackend]:
    made = load_backend("mem", type="memory")
    made.create_namespace(("db",), {})
    yield made
    made.close()  # type: ignore[attr-defined]


@pytest.fixture
def place(backend: CatalogBackend) -> Place:
    create_empty(
        backend, PARTS, table_metadata("", parse_schema(ID_P_V), None, None, {}), "mem.db.t"
    )
    return Place(backend)
