"""Back ends for the contract: path, SQLite, memory, a store of the tests' own, one that keeps metadata itself as a server
does, PostgreSQL or MariaDB where FRAZIL_TEST_POSTGRES / _MARIADB hold a URL, Java's REST server
where FRAZIL_TEST_REST does, Project Nessie's where FRAZIL_TEST_NESSIE does, and Hive Metastores
where FRAZIL_TEST_HMS2, _HMS31 and _HMS4 do.
"""

from __future__ import annotations

import contextlib
import os
import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from frazil.catalog import CatalogBackend, Committed, LoadedTable, Outcome, load_backend
from frazil.catalog.base import Swap
from frazil.catalog.rest.catalog import RestBackend
from frazil.commit.apply import apply_updates
from frazil.commit.new_table import creation_updates
from frazil.spec.metadata import TableMetadata
from frazil.spec.schema import Schema
from frazil.spec.types import LongType, NestedField
from frazil.spec.updates import AddSchema, SetCurrentSchema, SetProperties, Update, requirements_for
from frazil.storage import storage_for
from frazil.testing import ServerBackend
from tests.builders.behind_proxies import rest_server_over, there
from tests.catalog.store_of_items import Items, catalog_of_items
from tests.storage.conftest import azurite_place, gcs_place, hdfs_place, s3_place

REMOTE = {"postgres": "FRAZIL_TEST_POSTGRES", "mariadb": "FRAZIL_TEST_MARIADB"}
HIVE = {"hive2": "FRAZIL_TEST_HMS2", "hive3": "FRAZIL_TEST_HMS31", "hive4": "FRAZIL_TEST_HMS4"}
SERVED = ("rest", "nessie")
STORES: dict[str, Callable[[], tuple[str, dict[str, str]]]] = {
    "s3": s3_place, "hdfs": lambda: (hdfs_place(), {}), "gcs": gcs_place, "azurite": azurite_place,
}  # fmt: skip
KINDS = [
    "path",
    "sqlite",
    "memory",
    "items",
    "server",
    *(k for k, v in REMOTE.items() if os.environ.get(v)),
    *(k for k in STORES if os.environ.get(f"FRAZIL_TEST_{k.upper()}")),
    *(["rest"] if os.environ.get("FRAZIL_TEST_REST") else []),
    *(["nessie"] if os.environ.get("FRAZIL_TEST_NESSIE") else []),
    *(k for k, v in HIVE.items() if os.environ.get(v)),
]
# Catalogs over other stores than a folder; Nessie's warehouse is in S3, too. The short form takes
# some of them through three tests. A metastore makes the folders of its tables through Hadoop's
# client, which asks Azure for what Azurite has not.
PAIRS = {
    "s3": ("sqlite", *REMOTE, *HIVE, "rest"),
    "hdfs": ("sqlite", *REMOTE, *HIVE, "rest"),
    "azurite": ("sqlite", *REMOTE, "rest"),
}
MIXED = [
    pair
    for store, catalogs in PAIRS.items()
    for catalog in catalogs
    if there(pair := f"{catalog}-{store}")
]
SHORT = {
    (test, kind)
    for test in (
        "test_a_new_table_is_found_again",
        "test_two_appends_that_start_from_one_base_are_both_kept",
        "test_purge_takes_the_files_and_drop_alone_leaves_a_sql_tables_files",
    )
    for kind in ("sqlite-s3", "hive2-hdfs", "hive4-hdfs", "postgres-azurite", "mariadb-s3")
}
ITEMS: dict[str, Items] = {}
NAMESPACE, TABLE = ("db",), ("db", "t")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        given = item.callspec.params if hasattr(item, "callspec") else {}
        kinds = {value for value in given.values() if isinstance(value, str)}
        mixed = given.get("mixed")
        if any(kind.startswith(("hive3", "gcs")) for kind in kinds) or (
            mixed in MIXED and (item.originalname, mixed) not in SHORT
        ):  # type: ignore[attr-defined]
            item.add_marker("soak")


class Nessie(RestBackend):
    """Show the tables of Project Nessie's server without the properties that it adds, which tell
    the state of its whole catalog.
    """

    def _loaded(
        self, identifier: tuple[str, ...], answer: Any, *, staged: bool = False
    ) -> LoadedTable:
        table = super()._loaded(identifier, answer, staged=staged)
        own = {
            k: v
            for k, v in table.metadata.properties.items()
            if not k.startswith("nessie.") and k != "gc.enabled"
        }
        return replace(table, metadata=replace(table.metadata, properties=own))


def open_backend(kind: str, folder: Path, name: str | None = None, **more: Any) -> CatalogBackend:
    """A back end of that kind; of the same folder and name, the same catalog. `sqlite-s3`: with its
    files in that store, not in the folder.
    """
    folder.mkdir(exist_ok=True)
    name, (catalog, _, store) = name or kind, kind.partition("-")
    if catalog in STORES:
        catalog, store = "path", catalog
    place, properties = place_in(store, folder)
    placed = {"warehouse": place, **properties, **more}
    match catalog:
        case "path":
            return load_backend(name, type="path", **placed)
        case "sqlite":
            return load_backend(name, type="sql", uri=f"sqlite:///{folder}/catalog.db", **placed)
        case "memory":
            return load_backend(name, type="memory", **more)
        case "items":
            items = ITEMS.setdefault(f"{folder}/{name}", Items())
            return catalog_of_items(name, {**properties, **more, "warehouse": place}, items)
        case "server":
            return ServerBackend(name, dict(more))
        case "rest":
            return load_backend(
                name,
                type="rest",
                uri=os.environ[f"FRAZIL_TEST_REST_{store.upper()}".rstrip("_")],
                **properties,
                **more,
            )
        case "nessie":
            return Nessie(
                name,
                {"type": "rest", "uri": os.environ["FRAZIL_TEST_NESSIE"], **s3_place()[1], **more},
            )
        case "hive2" | "hive3" | "hive4":
            return load_backend(name, type="hive", uri=os.environ[HIVE[catalog]], **placed)
        case _:
            return load_backend(name, type="sql", uri=os.environ[REMOTE[catalog]], **placed)


def place_in(store: str, folder: Path) -> tuple[str, dict[str, str]]:
    """A warehouse in a store (of the same folder, the same one), and the properties by which it is
    reached. Without a store it is in the folder.
    """
    if not store:
        return f"{folder}/warehouse", {}
    place, properties = STORES[store]()
    kept = folder / f"{store}.place"
    kept.exists() or kept.write_text(place)
    return kept.read_text(), properties


@pytest.fixture(scope="session")
def rest_over(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], None]]:
    """`rest_over("s3")`: one of Java's reference servers, with its warehouse in that store, runs
    until the end.
    """
    with contextlib.ExitStack() as stack, pytest.MonkeyPatch.context() as patch:

        def started(store: str) -> None:
            if (variable := f"FRAZIL_TEST_REST_{store.upper()}") not in os.environ:
                patch.setenv(
                    variable,
                    stack.enter_context(rest_server_over(store, tmp_path_factory.mktemp("rest"))),
                )

        yield started


@pytest.fixture(params=[*KINDS, *MIXED])
def mixed(request: pytest.FixtureRequest) -> str:
    """The kind of a catalog, with the store of its files where that is none of its own:
    `hive2-hdfs`.
    """
    catalog, _, store = str(request.param).partition("-")
    if catalog == "rest" and store:
        request.getfixturevalue("rest_over")(store)
    return str(request.param)


@pytest.fixture
def kind(mixed: str) -> str:
    return mixed.partition("-")[0]


@pytest.fixture
def backend(mixed: str, kind: str, tmp_path: Path) -> Iterator[CatalogBackend]:
    made = open_backend(mixed, tmp_path, f"c{uuid.uuid4().hex}" if kind in REMOTE else None)
    if kind in (*SERVED, *HIVE):  # one server holds the tables of all tests
        for namespace in own_namespaces(made):
            emptied(made, namespace)
    yield made
    made.close()


def own_namespaces(backend: CatalogBackend) -> list[tuple[str, ...]]:
    """The namespaces at the top, without the one that every metastore has, and those with random
    names: tests that run beside this one, over the same server, have these."""
    return [
        n
        for n in backend.list_namespaces()
        if n != ("default",) and not re.fullmatch("[a-z][0-9a-f]{8,}", n[0])
    ]


def emptied(backend: CatalogBackend, namespace: tuple[str, ...]) -> None:
    """Drop a namespace with its tables, their files, and the namespaces within it."""
    if not backend.namespace_exists(namespace):  # listed for one within it alone
        backend.create_namespace(namespace)
    for inner in backend.list_namespaces(namespace):
        emptied(backend, inner)
    if not backend.namespace_exists(namespace):  # it was there as the parent of another alone
        return
    for table in backend.list_tables(namespace):
        backend.drop_table(table)
    if backend.views is not None:
        for view in backend.views.list_views(namespace):
            backend.views.drop_view(view)
    place = backend.load_namespace_properties(namespace)["location"]
    # another test's, maybe
    reached = (
        s3_place()[1]
        if place.startswith("s3")
        else azurite_place()[1]
        if place.startswith("abfs")
        else {}
    )
    storage = storage_for(place, {**backend.properties, **reached})
    if storage.is_directory(place):
        storage.delete_tree(place)
    backend.drop_namespace(namespace)


def leaves_metadata_files(backend: CatalogBackend) -> bool:
    """Whether the catalog has metadata files, be it that its server writes them."""
    return backend.writes_metadata_files or isinstance(backend, RestBackend)


def new_metadata(location: str, **properties: str) -> TableMetadata:
    """An empty table of one column."""
    return TableMetadata(
        format_version=2,
        table_uuid=str(uuid.uuid4()),
        location=location,
        last_updated_ms=1_700_000_000_000,
        last_column_id=1,
        schemas=(Schema(NestedField(1, "id", LongType(), required=True)),),
        properties={k.replace("__", ".").replace("_", "-"): v for k, v in properties.items()},
    )


def changed(table: LoadedTable, **properties: str) -> TableMetadata:
    """The table's metadata with more properties and a later time."""
    before = table.metadata
    return replace(
        before,
        properties={**before.properties, **properties},
        last_updated_ms=before.last_updated_ms + 1000,
    )


def made(
    backend: CatalogBackend, identifier: tuple[str, ...] = TABLE, **properties: str
) -> LoadedTable:
    """A new table; its namespace is made if need be."""
    for depth in range(1 if isinstance(backend, Nessie) else len(identifier) - 1, len(identifier)):
        # it wants the outer ones first
        if not backend.namespace_exists(identifier[:depth]):
            backend.create_namespace(identifier[:depth])
    return committed(
        create(backend, backend.stage_create(identifier, new_metadata("", **properties)))
    )


def create(backend: CatalogBackend, staged: LoadedTable) -> Outcome:
    """Make a staged table, as `commit.table_commit.create` asks for it."""
    updates = creation_updates(staged.metadata)
    return backend.create(
        staged.identifier,
        staged.metadata,
        updates=updates,
        requirements=requirements_for(None, updates),
    )


def swap(backend: CatalogBackend, base: LoadedTable, *updates: Update) -> Outcome:
    """Commit updates on a base, as `commit.table_commit.commit` asks for it."""
    metadata = apply_updates(base.metadata, updates, now_ms=base.metadata.last_updated_ms + 1000)
    return backend.swap(
        base, metadata, updates=updates, requirements=requirements_for(base.metadata, updates)
    )


def change(base: LoadedTable, *updates: Update) -> Swap:
    """The part of a commit to several tables that makes these updates."""
    metadata = apply_updates(base.metadata, updates, now_ms=base.metadata.last_updated_ms + 1000)
    return Swap(base, metadata, updates, requirements_for(base.metadata, updates))


def set_to(**properties: str) -> SetProperties:
    return SetProperties({k.replace("__", ".").replace("_", "-"): v for k, v in properties.items()})


def column(base: LoadedTable, name: str) -> tuple[Update, Update]:
    """Updates that add a column: two of them on one base exclude each other in every catalog."""
    schema = base.metadata.schema()
    added = NestedField(schema.highest_field_id + 1, name, LongType(), required=False)
    return AddSchema(
        Schema(*schema.fields, added, schema_id=schema.schema_id + 1)
    ), SetCurrentSchema()


def committed(outcome: object) -> LoadedTable:
    assert isinstance(outcome, Committed), outcome
    return outcome.table


@pytest.fixture
def opened(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., CatalogBackend]:
    mixed = request.getfixturevalue("mixed") if "mixed" in request.fixturenames else ""
    return lambda kind, **more: open_backend(
        mixed if mixed.partition("-")[0] == kind else kind, tmp_path, **more
    )
