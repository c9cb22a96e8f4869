"""Iceberg views in a real Hive Metastore: what it stores of them, views that are not Iceberg's,
answers that are lost, commits without lock.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from frazil.catalog import Catalog
from frazil.catalog.base import Unclear
from frazil.catalog.hive import calls
from frazil.catalog.hive.pointers import Pointers, view_change
from frazil.catalog.hive.structs import (
    EnvironmentContext,
    FieldSchema,
    HiveTable,
    SerDeInfo,
    StorageDescriptor,
)
from frazil.errors import (
    NoSuchTableError,
    NoSuchViewError,
    TableAlreadyExistsError,
    Unsupported,
    ViewAlreadyExistsError,
)
from frazil.storage import storage_for
from tests.fault_proxy import FaultProxy

Opened = Callable[..., Catalog]


def stored(catalog: Any, db: str, name: str = "v") -> HiveTable:
    found: HiveTable = catalog._backend.store.stored((db, name))
    return found


def view_of_hive(catalog: Any, db: str, name: str) -> None:
    """A view that Hive itself has made."""
    formats = StorageDescriptor(
        [FieldSchema("id", "int")], None, None, None, False, -1, SerDeInfo(parameters={}), [], {}
    )
    view = HiveTable(
        name,
        db,
        "someone",
        1,
        1,
        0,
        formats,
        [],
        {},
        "select 1",
        "select 1 as `id`",
        "VIRTUAL_VIEW",
    )
    catalog._backend.store.client.ask(calls.CREATE_TABLE, view, EnvironmentContext({}))


def test_the_metastore_shows_what_hive_and_java_need_of_a_view(opened: Opened, db: str) -> None:
    catalog: Any = opened()
    sql = {"spark": "SELECT 1 AS id", "hive": "SELECT 2 AS id"}
    made = catalog.create_view(
        f"{db}.v",
        "id bigint, at timestamptz",
        sql=sql,
        properties={"comment": "mine", "hive.metastore.table.owner": "them"},
    )
    found = stored(catalog, db)
    parameters = found.parameters or {}
    assert (found.tableType, found.owner, found.viewOriginalText) == (
        "VIRTUAL_VIEW",
        "them",
        "SELECT 2 AS id",
    ) and found.partitionKeys == []
    assert (parameters["table_type"], parameters["metadata_location"], parameters["uuid"]) == (
        "ICEBERG-VIEW",
        made.metadata_location,
        str(made.uuid()),
    )
    assert parameters["comment"] == "mine" and [
        f["name"] for f in json.loads(parameters["current-schema"])["fields"]
    ] == ["id", "at"]
    assert (
        not {
            "EXTERNAL",
            "previous_metadata_location",
            "storage_handler",
            "hive.metastore.table.owner",
        }
        & parameters.keys()
    )
    assert (
        found.sd is not None
        and found.sd.location == made.location()
        and found.sd.inputFormat == "org.apache.hadoop.mapred.FileInputFormat"
    )
    assert [(c.name, c.type) for c in found.sd.cols or ()] == [
        ("id", "bigint"),
        ("at", "timestamp"),
    ]
    found.parameters = {**parameters, "tool.of.others": "kept"}
    catalog._backend.store.client.ask(calls.ALTER_TABLE, db, "v", found, EnvironmentContext({}))
    text = {dialect: f"SELECT 'x' AS id -- {dialect}" for dialect in sql}
    catalog.replace_view(f"{db}.v", "id string", sql=text)
    catalog.rename_view(f"{db}.v", f"{db}.w")
    again = stored(catalog, db, "w")
    assert (
        again.sd is not None
        and [(c.name, c.type) for c in again.sd.cols or ()] == [("id", "string")]
        and again.viewExpandedText == text["hive"]
    )
    assert (again.parameters or {})["previous_metadata_location"] == made.metadata_location and (
        again.parameters or {}
    )["tool.of.others"] == "kept"
    assert catalog.list_views(db) == [(db, "w")] and catalog.list_tables(db) == []
    catalog.drop_view(f"{db}.w")
    assert stored(catalog, db, "w") is None and storage_for(made.location()).read(
        made.metadata_location
    )


def test_views_that_are_not_icebergs_are_left_alone_and_named(opened: Opened, db: str) -> None:
    catalog = opened()
    view_of_hive(catalog, db, "theirs")
    catalog.create_view(f"{db}.ours", "id bigint", sql="SELECT 1")
    catalog.create_table(f"{db}.t", "id bigint")
    assert catalog.list_views(db) == [(db, "ours")] and catalog.list_tables(db) == [(db, "t")]
    assert not catalog.view_exists(f"{db}.theirs") and not catalog.table_exists(f"{db}.theirs")
    for ask in (
        catalog.load_view,
        catalog.drop_view,
        lambda n: catalog.rename_view(n, f"{db}.new"),
        lambda n: catalog.replace_view(n, sql="SELECT 2"),
    ):
        with pytest.raises(NoSuchViewError, match="theirs is no Iceberg view, but a view of Hive"):
            ask(f"{db}.theirs")
    with pytest.raises(NoSuchTableError, match="no Iceberg table, but a view of Hive"):
        catalog.load_table(f"{db}.theirs")
    with pytest.raises(TableAlreadyExistsError, match="theirs"):
        catalog.create_table(f"{db}.theirs", "id bigint")
    with pytest.raises(ViewAlreadyExistsError, match="theirs"):
        catalog.create_view(f"{db}.theirs", "id bigint", sql="SELECT 1")
    with pytest.raises(ViewAlreadyExistsError, match="theirs.*a view of Hive"):
        catalog.rename_view(f"{db}.ours", f"{db}.theirs")
    assert stored(catalog, db, "theirs").viewOriginalText == "select 1"


@pytest.mark.parametrize("lost", ["answer", "call"])
def test_a_new_version_whose_answer_is_lost_is_decided_by_where_the_pointer_is(
    opened: Opened, db: str, address: str, metastore: str, lost: str
) -> None:
    proxy = FaultProxy(address)
    catalog = opened(uri=proxy.uri, **{"hive.lock-timeout-ms": "5000"})
    proxy.once("create_table_with_environment_context", "answer")
    catalog.create_view(f"{db}.v", "id bigint", sql="SELECT 0")
    catalog.replace_view(f"{db}.v", sql="SELECT 9")
    proxy.once("alter_table_with_environment_context", lost)
    if lost == "call":
        with pytest.raises(Exception, match="not known whether view"):
            catalog.replace_view(f"{db}.v", sql="SELECT 1")
    else:
        assert catalog.replace_view(f"{db}.v", sql="SELECT 1").current_version().version_id == 3
    if (metastore, lost) != (
        "hive3",
        "call",
    ):
        # it compares nothing: its lock stays behind, as the call might still come
        assert catalog.replace_view(f"{db}.v", sql="SELECT 2").current_version().version_id == (
            4 if lost == "answer" else 3
        )
    assert len(proxy.fired) == 2
    proxy.close()


def test_without_lock_the_server_compares_the_pointer_of_a_view_or_the_commit_is_refused(
    opened: Opened, db: str, metastore: str
) -> None:
    catalog: Any = opened(**{"engine.hive.lock-enabled": "false"})
    catalog.create_view(
        f"{db}.v", "id bigint", sql="SELECT 0", properties={"version.history.num-entries": "20"}
    )
    if metastore == "hive3":  # it compares nothing
        with pytest.raises(Unsupported, match="lock-enabled"):
            catalog.replace_view(f"{db}.v", sql="SELECT 1")
        assert [v.version_id for v in catalog.load_view(f"{db}.v").versions] == [1]
        return
    asked: list[str] = []
    ask = catalog._backend.store.client.ask
    catalog._backend.store.client.ask = lambda call, *values, **first: (
        asked.append(call.name),
        ask(call, *values, **first),
    )[1]
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda n: catalog.replace_view(f"{db}.v", sql=f"SELECT {n}"), range(1, 4)))
    view = catalog.load_view(f"{db}.v")
    assert {v.queries["spark"].sql for v in view.versions} == {
        f"SELECT {n}" for n in range(4)
    } and len(view.history()) == 4
    # None: it has only read
    compares = {connection.compares for connection in catalog._backend.store.client._idle}
    assert "lock" not in asked and True in compares and False not in compares


def test_a_server_that_compares_nothing_is_found_out_without_changing_the_view(
    opened: Opened, db: str
) -> None:
    """An old server is asked in its own words: the real one, without the expectation that it would
    not know.
    """
    catalog: Any = opened(**{"engine.hive.lock-enabled": "false"})
    catalog.create_view(f"{db}.v", "id bigint", sql="SELECT 0")
    before, client = stored(catalog, db), catalog._backend.store.client
    pointers = Pointers(OldServer(client), catalog._backend.store.settings)  # type: ignore[arg-type]
    base = catalog._backend.load_view((db, "v"))
    change = view_change(
        base,
        replace(base, metadata_location=f"{base.metadata_location}-next"),
        catalog._backend.storage_of,
        catalog._backend.store.settings,
    )
    for _ in range(2):
        with pytest.raises(Unsupported, match="does not compare expected_parameter_value"):
            pointers.move((db, "v"), change)
    assert stored(catalog, db) == before


class OldServer:
    """Take the expectations out of calls, as metastores before 2.3.10 pass over them."""

    def __init__(self, client: Any):
        self._client = client

    def ask(self, call: calls.MetastoreCall, *values: Any, first: Any = None) -> Any:
        wrapped = None if first is None else lambda connection: first(OldConnection(connection))
        return self._client.ask(call, *without_expectations(values), first=wrapped)


class OldConnection:
    compares: bool | None = None

    def __init__(self, connection: Any):
        self._connection = connection

    def call(self, call: calls.MetastoreCall, values: tuple[Any, ...]) -> Any:
        return self._connection.call(call, without_expectations(values))


def without_expectations(values: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(
        EnvironmentContext({}) if isinstance(value, EnvironmentContext) else value
        for value in values
    )


def test_whether_a_version_was_current_for_a_moment_is_told_by_the_log(
    opened: Opened, db: str
) -> None:
    catalog: Any = opened()
    catalog.create_view(
        f"{db}.v", "id bigint", sql="SELECT 0", properties={"version.history.num-entries": "2"}
    )
    states = [catalog._backend.load_view((db, "v"))]
    for n in range(1, 4):
        catalog.replace_view(f"{db}.v", sql=f"SELECT {n}")
        states.append(catalog._backend.load_view((db, "v")))

    def went_by(base: int, new: Any, current: int) -> bool:
        change = view_change(
            states[base], new, catalog._backend.storage_of, catalog._backend.store.settings
        )
        return change.went_by(states[current].metadata_location)

    assert went_by(0, states[1], 2), "the newer one was committed on top of it"
    lost = states[1].metadata
    other = replace(lost.version_log[-1], timestamp_ms=lost.version_log[-1].timestamp_ms + 5)
    never = replace(states[1], metadata=replace(lost, version_log=(*lost.version_log[:-1], other)))
    assert not went_by(0, never, 1), (
        "the log begins with the base, and another version came after it"
    )
    with pytest.raises(Unclear, match="Could not tell"):
        went_by(0, never, 3)  # the log has lost the base
    with pytest.raises(Unclear, match="Could not tell"):
        went_by(1, replace(states[1], metadata=replace(lost, properties={"a": "b"})), 2)
