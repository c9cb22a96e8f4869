"""What users of other engines reported of manifests: lists without bounds, records that may be null, lean and foreign metadata."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from frazil.errors import ValidationException
from frazil.table import Table
from tests.builders.catalogs import catalog_of
from tests.builders.foreign_manifests import manifest_list, records_changed

EIGHT = pa.table({"id": pa.array(range(1, 9), pa.int32()), "ts": [dt.datetime(2020 + i // 4, 5, 1) for i in range(8)]})


def without_summaries(manifest: dict[str, Any]) -> None:
    manifest["partitions"] = None


def _blank(**flags: Any) -> Callable[[dict[str, Any]], None]:
    def blank(manifest: dict[str, Any]) -> None:
        for summary in manifest["partitions"] or ():
            summary.update(lower_bound=None, upper_bound=None, **flags)

    return blank


DENIED = _blank(contains_null=False, contains_nan=None)
PARTITIONS = [
    ("bucket(16, id)", "id = 5", 1), ("truncate(10, id)", "id = 5", 1), ("years(ts)", "ts >= '2021-01-01 00:00:00'", 4), ("id", "id IN (2, 3)", 2),
]  # fmt: skip


def _deleted(t: Table, where: str, mode: str) -> int:
    t.delete(where, mode=mode)
    t.delete("id = 8", mode=mode)  # with vectors: the second deletion replaces the first one's where both lie in one file
    return t.refresh().count() + t.scan("id = 8").count() + t.scan(where).count()


CASES = [(*p, DENIED, 3) for p in PARTITIONS]
CASES += [(*p, change, 2) for p in PARTITIONS[::3] for change in (without_summaries, _blank(contains_null=True, contains_nan=False))]


@pytest.mark.parametrize(("partition", "where", "rows", "change", "version"), CASES)
def test_a_manifest_list_whose_summaries_have_no_bounds_hides_no_file_from_any_change(
    tmp_path: Path, partition: str, where: str, rows: int, change: Callable[[dict[str, Any]], None], version: int
) -> None:
    catalog = catalog_of("memory", tmp_path)

    def blank(name: str) -> Table:
        t = catalog.create_table(f"db.{name}", "id int, ts timestamp_ntz", partition_by=[partition], format_version=version)
        t.append(EIGHT)
        records_changed(manifest_list(t), change)
        return catalog.load_table(f"db.{name}")

    read = blank("read")
    assert (read.scan(where).to_arrow().num_rows, read.scan(where).count(), read.scan("id is null").count()) == (rows, rows, 0)
    gone = 8 - rows if where.startswith("ts") else 7 - rows  # id 8 is among the later ones
    assert _deleted(blank("cow"), where, "copy-on-write") == _deleted(blank("mor"), where, "merge-on-read") == gone
    updated = blank("updated")
    updated.update(set={"id": "id + 100"}, where=where)
    assert (updated.refresh().scan("id > 100").count(), updated.count()) == (rows, 8)
    compacted = blank("compacted")
    compacted.maintenance.rewrite_data_files(options={"rewrite-all": True})
    assert compacted.refresh().count() == 8
    one = pa.table({"id": pa.array([50], pa.int32()), "ts": [dt.datetime(2030, 1, 1)]})
    overwritten = blank("overwritten")
    overwritten.overwrite(one, overwrite_filter=where)
    assert overwritten.refresh().count() == 9 - rows
    dynamic = blank("dynamic")
    dynamic.dynamic_partition_overwrite(EIGHT)
    assert dynamic.refresh().count() == 8
    upserted = blank("upserted")
    upserted.upsert(EIGHT, join_cols=["id"])
    assert upserted.refresh().count() == 8
    upserted.maintenance.rewrite_manifests()
    assert (upserted.refresh().count(), upserted.scan(where).count()) == (8, rows)


def test_null_partitions_are_found_although_summaries_without_bounds_deny_them(tmp_path: Path) -> None:
    t = catalog_of("memory", tmp_path).create_table("db.t", "id bigint, p string", partition_by=["p"])
    t.append([{"id": 1, "p": None}, {"id": 2, "p": "a"}])
    records_changed(manifest_list(t), _blank(contains_null=False, contains_nan=False))
    t.refresh()
    assert t.scan("p is null").to_arrow()["id"].to_pylist() == [1]
    t.overwrite([{"id": 3, "p": None}], overwrite_filter="p is null")
    assert sorted(t.refresh().scan().to_arrow()["id"].to_pylist()) == [2, 3]


def test_a_second_vector_is_refused_where_wrong_bounds_hide_the_first_one(tmp_path: Path) -> None:
    t = catalog_of("memory", tmp_path).create_table("db.t", "id bigint, p bigint", partition_by=["p"], format_version=3)
    t.append([{"id": n, "p": 1} for n in range(9)])
    t.delete("id = 1", mode="merge-on-read")
    wrong = (100).to_bytes(8, "little")

    def hide(manifest: dict[str, Any]) -> None:
        if manifest["content"] == 1:
            manifest["partitions"][0].update(lower_bound=wrong, upper_bound=wrong)

    records_changed(manifest_list(t), hide)
    t.refresh()
    with pytest.raises(ValidationException, match="Missing required files to delete"):
        t.delete("id = 2", mode="merge-on-read")
    assert t.refresh().count() == 8
