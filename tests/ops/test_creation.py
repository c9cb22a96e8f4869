"""New tables: empty, with their first rows, in place of another one, and when another writer is
first.
"""

from __future__ import annotations

import pytest

from frazil.catalog import CatalogBackend
from frazil.errors import CommitStateUnknownException, TableAlreadyExistsError
from frazil.ops.creation import Creation, create_empty, with_catalog_properties
from frazil.ops.table_definition import table_metadata
from frazil.ops.views import create_view, version_of
from frazil.spec.ddl import parse_schema
from frazil.spec.view import new_view
from frazil.testing import FlakyBackend
from tests.builders.frames import ID_P_V
from tests.ops.support import PARTS, Place, appended

NEW = table_metadata("", parse_schema(ID_P_V), None, None, {})
NAME = "mem.db.t"


def test_properties_of_the_catalog_stand_below_and_above_those_given() -> None:
    of_catalog = {
        "table-default.a": "default",
        "table-default.b": "default",
        "table-override.c": "override",
        "uri": "x",
    }
    assert with_catalog_properties({"b": "given", "c": "given"}, of_catalog) == {
        "a": "default",
        "b": "given",
        "c": "override",
    }
    assert with_catalog_properties(None, {}) == {}


def test_an_empty_table_is_created_once(backend: CatalogBackend) -> None:
    created = create_empty(backend, PARTS, NEW, NAME)
    assert (
        backend.load(PARTS).metadata_location == created.metadata_location
        and created.metadata.current_snapshot() is None
    )
    with pytest.raises(TableAlreadyExistsError, match=r"Table already exists: mem\.db\.t"):
        create_empty(backend, PARTS, table_metadata("", parse_schema(ID_P_V), None, None, {}), NAME)
    # as when a request goes out a second time: it is the table that was to be created
    again = create_empty(backend, PARTS, NEW, NAME)
    assert again.metadata_location == created.metadata_location


def test_an_answer_that_is_lost_is_told_as_unknown(backend: CatalogBackend) -> None:
    flaky = FlakyBackend(backend, ["lost"])
    with pytest.raises(
        CommitStateUnknownException, match=r"not known whether table mem\.db\.t was created"
    ):
        create_empty(flaky, PARTS, NEW, NAME)
    assert flaky.fired == ["lost"] and not backend.table_exists(PARTS)


def test_a_view_of_the_name_is_told_of(backend: CatalogBackend) -> None:
    version = version_of(None, "SELECT 1 AS id", None, None, PARTS)
    create_view(backend, PARTS, new_view("", parse_schema("id int"), version, {}), NAME)
    with pytest.raises(TableAlreadyExistsError, match="is a view"):
        create_empty(backend, PARTS, NEW, NAME)
    with pytest.raises(TableAlreadyExistsError, match="is a view"):
        Creation(backend, PARTS, NEW, None, NAME)


def test_a_table_appears_together_with_its_first_rows(backend: CatalogBackend) -> None:
    with Creation(backend, PARTS, NEW, None, NAME) as creation:
        creation.run(appended(1, 2))
        assert not backend.table_exists(PARTS)
    head = backend.load(PARTS).metadata.current_snapshot()
    assert (
        head is not None
        and head.summary["total-records"] == "2"
        and creation.result.rows_inserted == 2
    )


def test_a_creation_without_rows_creates_the_table_and_a_failed_one_leaves_nothing(
    backend: CatalogBackend,
) -> None:
    with pytest.raises(ZeroDivisionError), Creation(backend, PARTS, NEW, None, NAME) as failed:
        failed.run(appended(1))
        _ = 1 // 0
    assert (
        not backend.table_exists(PARTS)
        and failed.written
        and not any(map(failed.storage.exists, failed.written))
    )
    with Creation(backend, PARTS, NEW, None, NAME):
        pass
    assert backend.load(PARTS).metadata.current_snapshot() is None


def test_of_two_creations_at_once_the_second_says_that_the_table_is_there(
    backend: CatalogBackend,
) -> None:
    late = Creation(backend, PARTS, NEW, None, NAME)
    late.run(appended(1))
    create_empty(backend, PARTS, NEW, NAME)
    with pytest.raises(TableAlreadyExistsError):
        late.commit()
    assert backend.load(PARTS).metadata.current_snapshot() is None and not any(
        map(late.storage.exists, late.written)
    )


def test_a_replaced_table_keeps_its_history_and_its_uuid(place: Place) -> None:
    with place.operation() as operation:
        operation.run(appended(1, 2))
    before = place.load()
    other = table_metadata(
        before.metadata.location,
        parse_schema("id bigint, p string, v bigint, more int"),
        None,
        None,
        {},
    )
    with Creation(place.backend, PARTS, other, before, place.name) as creation:
        assert creation.known_columns == 3
        creation.run(appended(9))
    after = place.load().metadata
    assert after.table_uuid == before.metadata.table_uuid and len(after.snapshots) == 2
    assert (
        after.current_snapshot().summary["total-records"],
        [f.name for f in after.schema().fields][-1],
    ) == ("1", "more")  # type: ignore[union-attr]
