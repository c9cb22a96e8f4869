"""Database servers that keep a catalog waiting: no wait is without end, and what is told of it is
right.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy

from frazil.catalog import Conflict
from frazil.catalog.base import Unclear
from frazil.catalog.pointer import PointerCatalog
from frazil.catalog.sql.database_remote import RemoteDatabase
from frazil.catalog.sql.store import sql_catalog
from tests.catalog.conftest import TABLE, committed, new_metadata, set_to, swap
from tests.fault_proxy import FaultProxy, Fired

POSTGRES = [uri for uri in (os.environ.get("FRAZIL_TEST_POSTGRES"),) if uri]
MARIADB = [uri for uri in (os.environ.get("FRAZIL_TEST_MARIADB"),) if uri]
Opened = Callable[..., PointerCatalog]


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    name = f"c{uuid.uuid4().hex[:10]}"
    return lambda uri, **limits: sql_catalog(
        name, {"uri": uri, "warehouse": str(tmp_path)}, RemoteDatabase(uri, **limits)
    )


@pytest.mark.parametrize("uri", POSTGRES)
def test_a_row_that_a_forgotten_transaction_holds_is_a_conflict_after_a_while(
    uri: str, opened: Opened
) -> None:
    backend = opened(uri, timeout=0.5)
    backend.create_namespace(("db",))
    base = committed(backend.create(TABLE, new_metadata("")))
    engine = sqlalchemy.create_engine(uri.replace("postgresql://", "postgresql+psycopg://"))
    with engine.connect() as other:
        held = other.execute(
            sqlalchemy.text(
                "SELECT table_name FROM iceberg_tables WHERE catalog_name = :c FOR UPDATE"
            ),
            {"c": backend.name},
        )
        assert held.fetchall() == [("t",)]
        outcome = swap(backend, base, set_to(a="1"))
        assert isinstance(outcome, Conflict) and "lock timeout" in outcome.reason
        other.rollback()
    committed(swap(backend, base, set_to(a="1")))
    engine.dispose()
    backend.close()


@pytest.mark.parametrize("uri", MARIADB)
def test_a_server_that_no_longer_answers_is_given_up(uri: str, opened: Opened) -> None:
    proxy = FaultProxy(uri)
    backend = opened(f"{proxy.uri}?ssl_disabled=true", timeout=0.3)
    backend.create_namespace(("db",))
    proxy.once("COMMIT", "delay", 5.0)
    begun = time.monotonic()
    with pytest.raises(Unclear, match="Could not tell whether"):
        backend.create_namespace(("other",))
    proxy.once("SELECT", "delay", 5.0)
    assert ("db",) in backend.list_namespaces(), (
        "what only reads is asked again over another connection"
    )
    assert time.monotonic() - begun < 5 and [f.kind for f in proxy.fired] == ["delay", "delay"]
    assert proxy.fired[0] == Fired("COMMIT", "delay")
    backend.close()
    proxy.close()


@pytest.mark.parametrize("uri", MARIADB)
def test_names_are_told_apart_by_each_character_in_tables_of_our_own(
    uri: str, opened: Opened
) -> None:
    """By default MariaDB ignores case and accents, and holds Latin-1 alone."""
    url, database = sqlalchemy.engine.make_url(uri), f"d{uuid.uuid4().hex[:10]}"
    engine = sqlalchemy.create_engine(url.set(drivername="mysql+pymysql"))
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text(f"CREATE DATABASE {database} CHARACTER SET latin1"))
    names = ["t", "T", "e", "\u00e9", "e\u0301", "\U0001f600", "\u20ac"]
    backend = opened(url.set(database=database).render_as_string(hide_password=False))
    backend.create_namespace(("db",))
    for name in names:
        committed(backend.create(("db", name), new_metadata("")))
    assert backend.list_tables(("db",)) == sorted(("db", name) for name in names)
    backend.drop_table(("db", "T"))
    assert backend.table_exists(("db", "t")) and backend.load(
        ("db", "\u20ac")
    ).metadata.location.endswith("/\u20ac")
    backend.close()
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text(f"DROP DATABASE {database}"))
    engine.dispose()
