"""Tables and checkpoints that earlier releases wrote are read and written on by this one. A release
keeps its own by `python -m tests.compatibility.make`; what is kept is never made anew.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest

from tests.compatibility.kept import HERE, RELEASES, Kept, rows, unpacked

TABLES = ("v1", "v2_positions", "v2_equality", "v3_vectors", "evolved", "stream_in", "stream_out")


@pytest.fixture(params=RELEASES)
def kept(request: pytest.FixtureRequest) -> Iterator[Kept]:
    with unpacked(request.param) as found:
        yield found


def test_the_first_release_is_kept() -> None:
    assert "0.1.0" in RELEASES


def test_something_is_kept_of_each_kind_and_it_is_small(kept: Kept) -> None:
    assert kept.expected.keys() >= set(TABLES)
    assert sum(p.stat().st_size for p in HERE.glob("*.tar.xz")) < 300_000 * len(RELEASES)
    deletes = {name: set(told["deletes"]) for name, told in kept.expected.items()}
    assert {d.split()[0] for d in deletes["v2_equality"]} >= {"2"}
    assert deletes["v2_positions"] == {"1 PARQUET"} and deletes["v3_vectors"] == {"1 PUFFIN"}
    assert {t["format_version"] for t in kept.expected.values()} == {1, 2, 3}


@pytest.mark.parametrize("name", TABLES)
def test_rows_history_and_refs_are_those_that_were_written(kept: Kept, name: str) -> None:
    t, told = kept.catalog().load_table(f"db.{name}"), kept.expected[name]
    assert rows(t.scan()) == told["rows"]
    assert t.format_version == told["format_version"]
    counts = {
        str(s.snapshot_id): len(rows(t.scan(snapshot_id=s.snapshot_id))) for s in t.snapshots()
    }
    assert counts == told["snapshots"]
    assert {ref: s.snapshot_id for ref, s in t.refs().items()} == told["refs"]


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_written_on_compacted_and_expired(kept: Kept, name: str) -> None:
    t, before = kept.catalog().load_table(f"db.{name}"), kept.expected[name]["rows"]
    t.append([{"id": 1000}, {"id": 1001}])
    t.delete("id = 1001")
    t.update(set={"id": "id + 1"}, where="id = 1000")
    assert _others(rows(t.scan())) == before and t.scan(row_filter="id >= 1000").count() == 1

    done = t.maintenance.rewrite_data_files(options={"rewrite-all": True})
    assert done.rewritten_data_files_count > 0
    again = kept.catalog().load_table(f"db.{name}")
    assert _others(rows(again.scan())) == before

    expired = again.maintenance.expire_snapshots(older_than=dt.datetime(2099, 1, 1), retain_last=1)
    assert expired.deleted_manifest_lists_count > 0
    orphans = again.maintenance.remove_orphan_files(
        dry_run=True, older_than=dt.datetime(2099, 1, 1), allow_short_interval=True
    )
    assert orphans.orphan_file_location.to_pylist() == []
    last = kept.catalog().load_table(f"db.{name}")
    assert _others(rows(last.scan())) == before and last.scan(row_filter="id = 1001").count() == 1


def _others(found: list[Any]) -> list[Any]:
    """The rows that the earlier release wrote."""
    return [row for row in found if row["id"] < 1000]


def test_equality_deletes_of_before_become_positions(kept: Kept) -> None:
    t = kept.catalog().load_table("db.v2_equality")
    done = t.maintenance.convert_equality_deletes()
    assert done.converted_equality_delete_files_count > 0
    assert rows(t.scan()) == kept.expected["v2_equality"]["rows"]


def test_refs_partitions_and_marks_of_before_still_count(kept: Kept) -> None:
    t = kept.catalog().load_table("db.evolved")
    assert t.append([{"id": 51}], txn=("job", 7)).skipped  # as it was committed by the release
    assert not t.append([{"id": 51}], txn=("job", 8)).skipped
    t.append([{"id": 102}], branch="audit")
    assert t.scan(branch="audit").count() == 9 and t.scan(tag="first").count() == 6
    assert "note" not in t.scan(tag="first").to_arrow().column_names
    assert len(t.specs()) == 2


def test_rows_of_before_keep_their_ids(kept: Kept) -> None:
    t = kept.catalog().load_table("db.v3_vectors")
    columns = ("id", "_row_id")
    before = t.scan(selected_fields=columns).to_arrow().to_pylist()
    t.append([{"id": 1000}])
    t.maintenance.rewrite_data_files(options={"rewrite-all": True})
    after = t.scan(selected_fields=columns, row_filter="id < 1000").to_arrow().to_pylist()
    by_id = {row["id"]: row["_row_id"] for row in before}
    assert len(by_id) == len(before) == 32 and {r["id"]: r["_row_id"] for r in after} == by_id


def test_a_view_of_before_is_loaded_and_replaced(kept: Kept) -> None:
    catalog = kept.catalog()
    view = catalog.load_view("db.eu")
    assert view.sql_for("trino").sql == "SELECT id, amount FROM v1"
    sql = {"spark": "SELECT id, amount FROM kept.db.v1", "trino": "SELECT id FROM v1"}
    assert len(catalog.replace_view("db.eu", sql=sql).versions) == 2


@pytest.mark.spark
def test_streams_of_before_go_on_from_their_checkpoints(kept: Kept, spark: Any) -> None:
    from tests.compatibility.make import run_streams

    catalog = kept.catalog()
    catalog.load_table("db.stream_in").append([{"id": 3, "state": "on"}, {"id": 90, "state": "on"}])
    run_streams(catalog, kept.root)
    new = [{"id": 3, "state": "on"}, {"id": 90, "state": "on"}]
    out = rows(catalog.load_table("db.stream_out").scan())
    assert sorted(map(str, out)) == sorted(map(str, kept.expected["stream_out"]["rows"] + new))
    kept_keys = {row["id"]: row["state"] for row in kept.expected["v2_equality"]["rows"]}
    keyed = rows(catalog.load_table("db.v2_equality").scan())
    assert {r["id"]: r["state"] for r in keyed} == kept_keys | {3: "on", 90: "on"}
    assert len(keyed) == 8

    run_streams(catalog, kept.root)  # nothing new
    assert len(rows(catalog.load_table("db.stream_out").scan())) == len(out)


@pytest.mark.spark
def test_spark_reads_what_was_written_before_and_its_views(kept: Kept, spark: Any) -> None:
    settings = {f"spark.sql.catalog.kept.{k}": v for k, v in kept.properties.items()}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        for name in TABLES:
            assert spark.table(f"kept.db.{name}").count() == len(kept.expected[name]["rows"])
        in_eu = [row for row in kept.expected["v1"]["rows"] if row["region"] == "eu"]
        assert spark.table("kept.db.eu").count() == len(in_eu) > 0
        spark.sql("DELETE FROM kept.db.v3_vectors WHERE id < 10")
    finally:
        for key in settings:
            spark.conf.unset(key)
    left = [row for row in kept.expected["v3_vectors"]["rows"] if row["id"] >= 10]
    assert rows(kept.catalog().load_table("db.v3_vectors").scan()) == left
