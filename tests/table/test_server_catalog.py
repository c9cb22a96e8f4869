"""Tables of a catalog that keeps metadata itself, as a REST server does: its places and storage are
used, updates are what is sent.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from frazil.errors import TableAlreadyExistsError, Unsupported
from frazil.storage import storage_for
from frazil.table.catalog import Catalog
from frazil.testing import FlakyBackend, ServerBackend

ROWS = pa.table({"id": [1, 2, 3], "s": ["a", "b", "c"]})


@pytest.fixture
def server() -> ServerBackend:
    found = ServerBackend("srv")
    found.create_namespace(("db",))
    return found


@pytest.fixture
def catalog(server: ServerBackend) -> Catalog:
    return Catalog(server)


def test_rows_are_written_changed_and_read_where_the_server_says(server: ServerBackend) -> None:
    with pytest.raises(Unsupported):  # nobody but the server hands out storage for its places
        storage_for("vended://x/y")
    t = Catalog(server).create_table(
        "db.t", "id bigint, s string", properties={"write.delete.mode": "merge-on-read"}
    )
    t.append(ROWS)
    t.delete("id = 2")
    with t.update_schema() as update:
        update.add_column("n", "int")
    assert t.scan().to_arrow().sort_by("id").to_pylist() == [
        {"id": 1, "s": "a", "n": None},
        {"id": 3, "s": "c", "n": None},
    ]
    assert (
        t.location().startswith("vended://")
        and Catalog(server).load_table("db.t").scan().count() == 2
    )
    assert not [
        i.location
        for i in server.storage.list(t.location())
        if i.location.endswith(".metadata.json")
    ]


def test_a_table_that_comes_with_its_first_rows_is_one_commit_of_all_its_updates(
    server: ServerBackend, catalog: Catalog
) -> None:
    with catalog.create_table_transaction("db.t", ROWS) as tx:
        tx.append(ROWS)
        assert not catalog.table_exists("db.t")
    assert catalog.load_table("db.t").scan().count() == 3
    assert len(server.received) == 1 and {
        "assign-uuid",
        "add-schema",
        "set-location",
        "add-snapshot",
        "set-snapshot-ref",
    } <= set(server.received[0])
    with (
        pytest.raises(TableAlreadyExistsError),
        catalog.create_table_transaction("db.t", ROWS) as tx,
    ):
        tx.append(ROWS)
    assert catalog.load_table("db.t").scan().count() == 3


def test_a_transaction_that_lost_its_name_leaves_no_file_behind(
    server: ServerBackend, catalog: Catalog
) -> None:
    with (
        pytest.raises(TableAlreadyExistsError),
        catalog.create_table_transaction("db.t", ROWS, location="vended://elsewhere/t") as tx,
    ):
        tx.append(ROWS)
        catalog.create_table("db.t", "id bigint")
    assert list(server.storage.list("vended://elsewhere/t")) == []


def test_a_creation_whose_answer_was_lost_is_recognised(server: ServerBackend) -> None:
    flaky = FlakyBackend(server, ["applied"])
    with Catalog(flaky).create_table_transaction("db.t", ROWS) as tx:
        tx.append(ROWS)
    assert flaky.fired == ["applied"] and tx.table.scan().count() == 3


def test_commits_from_stale_handles_are_taken_when_they_do_not_touch_each_other(
    catalog: Catalog,
) -> None:
    one = catalog.create_table("db.t", "id bigint, s string")
    two = catalog.load_table("db.t")
    one.set_properties({"a": "1"})
    two.set_properties({"b": "2"})
    assert two.properties["a"] == "1" and two.properties["b"] == "2", (
        "the handle shows what the server made of it"
    )
    one.append(ROWS)
    two.append(ROWS)
    assert two.scan().count() == one.refresh().scan().count() == 6


def test_a_replaced_table_keeps_its_place_and_history(catalog: Catalog) -> None:
    old = catalog.create_table("db.t", "id bigint, s string")
    old.append(ROWS)
    with catalog.replace_table_transaction("db.t", "id bigint") as tx:
        tx.append(ROWS.select(["id"]))
    new = catalog.load_table("db.t")
    assert (
        new.location() == old.location() and new.scan().count() == 3 and len(new.snapshots()) == 2
    )
