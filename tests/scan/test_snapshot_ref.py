"""Which snapshot and schema a read means."""

from datetime import UTC, date, datetime

import pytest

from frazil.errors import InvalidInput, NoSuchRefError, NoSuchSnapshotError
from frazil.scan.snapshot_ref import (
    resolve,
    resolve_read,
    selector_suffix,
    to_milliseconds,
)
from frazil.spec.metadata import TableMetadata
from frazil.spec.schema import Schema
from frazil.spec.snapshot import Snapshot, SnapshotLogEntry, SnapshotRef, Snapshots
from frazil.spec.types import LongType, NestedField

OLD = Schema(NestedField(1, "a", LongType()), schema_id=0)
NEW = Schema(NestedField(1, "b", LongType()), schema_id=1)
FIRST = Snapshot(10, 1000, schema_id=0)
SECOND = Snapshot(20, 2000, parent_snapshot_id=10, schema_id=0)
THIRD = Snapshot(30, 3000, parent_snapshot_id=20, schema_id=1)
TABLE = TableMetadata(
    format_version=2,
    table_uuid="u",
    location="/t",
    last_updated_ms=3000,
    last_column_id=1,
    schemas=(OLD, NEW),
    current_schema_id=1,
    current_snapshot_id=30,
    snapshots=Snapshots.of([FIRST, SECOND, THIRD]),
    snapshot_log=tuple(
        SnapshotLogEntry(s.timestamp_ms, s.snapshot_id) for s in (FIRST, SECOND, THIRD)
    ),
    refs={
        "main": SnapshotRef(30),
        "dev": SnapshotRef(10),
        "v1": SnapshotRef(20, "tag"),
        "10": SnapshotRef(30, "tag"),
        "77": SnapshotRef(20),
    },
)


def test_without_selector_it_is_the_current_snapshot_with_the_current_schema():
    assert resolve(TABLE) == (THIRD, NEW)
    assert resolve_read(TABLE).branch == "main"


def test_by_id_time_and_tag_the_snapshots_own_schema_is_read():
    assert resolve(TABLE, snapshot_id=10) == (FIRST, OLD)
    assert resolve(TABLE, as_of=2999) == (SECOND, OLD)
    assert resolve(TABLE, as_of_ms=2000) == (SECOND, OLD)
    assert resolve(TABLE, tag="v1") == (SECOND, OLD)
    assert resolve_read(TABLE, tag="v1").branch is None


def test_a_branch_is_read_with_the_tables_schema():
    assert resolve(TABLE, branch="dev") == (FIRST, NEW)
    assert resolve(TABLE, branch="main") == (THIRD, NEW)


def test_a_version_that_is_a_number_is_an_id_before_it_is_a_name():
    assert resolve(TABLE, version="10") == (FIRST, OLD)
    assert resolve(TABLE, version=77) == (SECOND, NEW)
    assert resolve(TABLE, version="v1") == (SECOND, OLD)
    assert resolve(TABLE, version="main") == (THIRD, NEW)


UNRESOLVED = [
    ({"snapshot_id": 99}, NoSuchSnapshotError, "99"),
    ({"as_of": 999}, NoSuchSnapshotError, "1970-01-01T00:00:00.999"),
    ({"branch": "nope"}, NoSuchRefError, "nope"),
    ({"version": "nope"}, NoSuchRefError, "nope"),
    ({"snapshot_id": 10, "tag": "v1"}, InvalidInput, "snapshot_id and tag"),
    ({"branch": "v1"}, InvalidInput, "it is a tag"),
    ({"tag": "dev"}, InvalidInput, "it is a branch"),
]


def test_what_is_not_there_or_selected_twice_or_of_another_kind_is_named():
    for selected, error, message in UNRESOLVED:
        with pytest.raises(error, match=message):
            resolve(TABLE, **selected)


def test_a_table_without_snapshot_is_read_as_empty():
    empty = TableMetadata(
        format_version=2,
        table_uuid="u",
        location="/t",
        last_updated_ms=0,
        last_column_id=1,
        schemas=(OLD,),
    )
    assert resolve(empty) == (None, OLD) and resolve(empty, branch="main") == (None, OLD)


def test_times_are_milliseconds_datetimes_dates_or_text():
    assert to_milliseconds(5) == 5 and to_milliseconds("5") == 5
    assert to_milliseconds("1970-01-01T00:00:01.5") == 1500
    assert to_milliseconds("1970-01-01T01:00:00+01:00") == 0
    assert to_milliseconds("1970-01-01 01:00:00", "Europe/Berlin") == 0
    assert to_milliseconds(date(1970, 1, 2)) == 86_400_000
    assert to_milliseconds(datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)) == -1
    for bad in ("yesterday", True):
        with pytest.raises(InvalidInput):
            to_milliseconds(bad)
    with pytest.raises(InvalidInput, match="Nowhere"):
        to_milliseconds("1970-01-01", "Nowhere/Land")


def test_suffixes_become_selectors():
    assert selector_suffix("branch_dev") == {"branch": "dev"}
    assert selector_suffix("tag_v1") == {"tag": "v1"}
    assert selector_suffix("snapshot_id_10") == {"snapshot_id": 10}
    assert selector_suffix("at_timestamp_9") == {"as_of": 9}
    assert selector_suffix("files") is None and selector_suffix("snapshot_id_x") is None
