"""What users of other engines reported of manifests: lists without bounds, records that may be
null, lean and foreign metadata.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from frazil.errors import ValidationException
from frazil.table import Table
from tests.builders.catalogs import catalog_of
from tests.builders.foreign_manifests import (
    Change,
    Records,
    avro_files,
    lengths_corrected,
    manifest_list,
    records_changed,
    rewritten,
)

EIGHT = pa.table(
    {
        "id": pa.array(range(1, 9), pa.int32()),
        "ts": [dt.datetime(2020 + i // 4, 5, 1) for i in range(8)],
    }
)


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
    # with vectors: the second deletion replaces the first one's where both lie in one file
    t.delete("id = 8", mode=mode)
    return t.refresh().count() + t.scan("id = 8").count() + t.scan(where).count()


CASES = [(*p, DENIED, 3) for p in PARTITIONS]
CASES += [
    (*p, change, 2)
    for p in PARTITIONS[::3]
    for change in (without_summaries, _blank(contains_null=True, contains_nan=False))
]


@pytest.mark.parametrize(("partition", "where", "rows", "change", "version"), CASES)
def test_a_manifest_list_whose_summaries_have_no_bounds_hides_no_file_from_any_change(
    tmp_path: Path,
    partition: str,
    where: str,
    rows: int,
    change: Callable[[dict[str, Any]], None],
    version: int,
) -> None:
    catalog = catalog_of("memory", tmp_path)

    def blank(name: str) -> Table:
        t = catalog.create_table(
            f"db.{name}",
            "id int, ts timestamp_ntz",
            partition_by=[partition],
            format_version=version,
        )
        t.append(EIGHT)
        records_changed(manifest_list(t), change)
        return catalog.load_table(f"db.{name}")

    read = blank("read")
    assert (
        read.scan(where).to_arrow().num_rows,
        read.scan(where).count(),
        read.scan("id is null").count(),
    ) == (rows, rows, 0)
    gone = 8 - rows if where.startswith("ts") else 7 - rows  # id 8 is among the later ones
    assert (
        _deleted(blank("cow"), where, "copy-on-write")
        == _deleted(blank("mor"), where, "merge-on-read")
        == gone
    )
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


def test_null_partitions_are_found_although_summaries_without_bounds_deny_them(
    tmp_path: Path,
) -> None:
    t = catalog_of("memory", tmp_path).create_table(
        "db.t", "id bigint, p string", partition_by=["p"]
    )
    t.append([{"id": 1, "p": None}, {"id": 2, "p": "a"}])
    records_changed(manifest_list(t), _blank(contains_null=False, contains_nan=False))
    t.refresh()
    assert t.scan("p is null").to_arrow()["id"].to_pylist() == [1]
    t.overwrite([{"id": 3, "p": None}], overwrite_filter="p is null")
    assert sorted(t.refresh().scan().to_arrow()["id"].to_pylist()) == [2, 3]


def test_a_second_vector_is_refused_where_wrong_bounds_hide_the_first_one(tmp_path: Path) -> None:
    t = catalog_of("memory", tmp_path).create_table(
        "db.t", "id bigint, p bigint", partition_by=["p"], format_version=3
    )
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


# Manifests of other writers
# ----------------------------------------------------------------------------------------------------------------

LEFT_OUT = {
    "min_sequence_number", "file_sequence_number", "key_metadata", "sort_order_id", "nan_value_counts", "column_sizes", "split_offsets",
    "equality_ids",
}  # fmt: skip


def _each_record(schema: Any, change: Callable[[dict[str, Any]], None]) -> None:
    """Apply a change to each record of an Avro schema, inner ones first; the pairs of maps stay as
    they are.
    """
    if isinstance(schema, list):
        for branch in schema:
            _each_record(branch, change)
    elif isinstance(schema, dict) and "fields" in schema:
        for field in schema["fields"]:
            _each_record(field["type"], change)
        change(schema)
    elif isinstance(schema, dict) and schema.get("logicalType") != "map":
        _each_record(schema.get("items"), change)


def nullable(records: Records, schema: Any, header: dict[str, str]) -> Any:
    def optional(record: dict[str, Any]) -> None:
        for field in record["fields"]:
            if not isinstance(field["type"], list):
                field["type"] = ["null", field["type"]]

    _each_record(schema, optional)
    return records, schema, header


def lean(records: Records, schema: Any, header: dict[str, str]) -> Any:
    def less(record: dict[str, Any]) -> None:
        record["fields"] = [f for f in record["fields"] if f["name"] not in LEFT_OUT]

    _each_record(schema, less)
    return records, schema, header


def without_header(records: Records, schema: Any, header: dict[str, str]) -> Any:
    return records, schema, {}


def with_another_notation_in_its_header(
    records: Records, schema: Any, header: dict[str, str]
) -> Any:
    avro = '{"type": "record", "name": "manifest_entry", "fields": [{"name": "id", "type": ["null", "long"]}]}'
    return (
        records,
        schema,
        header | ({"schema": avro, "partition-spec": "[]"} if "schema" in header else {}),
    )


def without_ids(records: Records, schema: Any, header: dict[str, str]) -> Any:
    def named_only(record: dict[str, Any]) -> None:
        for field in record["fields"]:
            field.pop("field-id", None)

    _each_record(schema, named_only)
    return records, schema, header


def with_fields_of_a_vendor(records: Records, schema: Any, header: dict[str, str]) -> Any:
    """Also without ids; but in the partition, whose fields are those of the spec."""

    def more(record: dict[str, Any]) -> None:
        if record["name"] != "r102":
            tags = {"type": "map", "values": "string"}
            record["fields"].insert(0, {"name": "tags", "type": ["null", tags], "default": None})
            record["fields"].append({"name": "text", "type": "string", "default": "x"})

    _each_record(schema, more)
    return records, schema, header


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize(
    "change",
    [
        nullable,
        lean,
        without_header,
        with_another_notation_in_its_header,
        without_ids,
        with_fields_of_a_vendor,
    ],
)
def test_tables_whose_manifests_other_writers_wrote_in_their_way_are_read_and_changed(
    tmp_path: Path, change: Change, version: int
) -> None:
    catalog = catalog_of("memory", tmp_path)
    t = catalog.create_table(
        "db.t",
        "id bigint, s string, p string",
        partition_by=["truncate(1, p)"],
        format_version=version,
    )
    t.append([{"id": 1, "s": "a", "p": "xx"}])
    t.append([{"id": 2, "s": "b", "p": "yy"}, {"id": 3, "s": None, "p": None}])
    if version > 1:
        t.delete("id = 2", mode="merge-on-read")
    for path, is_list in avro_files(t):
        rewritten(path, change)
        if is_list:
            lengths_corrected(path)
    t = catalog.load_table("db.t")
    rows = 3 if version == 1 else 2
    assert (
        t.scan().to_arrow().num_rows,
        t.scan("s = 'a'").count(),
        t.scan("p is null").count(),
    ) == (rows, 1, 1)
    assert (
        t.scan(snapshot_id=t.snapshots()[0].snapshot_id).count() == 1 and t.inspect.files().num_rows
    )
    t.append([{"id": 4, "s": "d", "p": "zz"}])
    t.delete("id = 1")
    assert t.refresh().count() == rows
    t.maintenance.rewrite_data_files(options={"rewrite-all": True})
    assert t.refresh().count() == rows


def test_partition_fields_without_ids_are_those_of_the_spec_in_the_header(tmp_path: Path) -> None:
    catalog = catalog_of("memory", tmp_path)
    t = catalog.create_table("db.t", "id bigint, p bigint", partition_by=["p"])
    t.append([{"id": n, "p": n % 2} for n in range(4)])
    with t.update_spec() as update:
        update.remove_field("p")
        update.add_field("id", "bucket[4]", "b")
        update.add_field("p", "truncate[7]", "c")
    t.append([{"id": n, "p": n} for n in range(4, 40)])
    for path, is_list in avro_files(t):
        if not is_list:
            rewritten(path, without_ids)
    for path, is_list in avro_files(t):
        if is_list:
            lengths_corrected(path)
    t = catalog.load_table("db.t")
    assert [t.scan(f"id = {n}").to_arrow().num_rows for n in range(40)] == [1] * 40
    assert t.scan("p = 1").count() == 2


# Metadata of other writers
# -----------------------------------------------------------------------------------------------------------------


def _no_operation(m: dict[str, Any]) -> None:
    for snapshot in m["snapshots"]:
        del snapshot["summary"]["operation"]


def _no_summary(m: dict[str, Any]) -> None:
    for snapshot in m["snapshots"]:
        del snapshot["summary"]


def _lean(m: dict[str, Any]) -> None:
    first = (
        ("sort-orders", "default-sort-order-id", "table-uuid") if m["format-version"] == 1 else ()
    )
    for key in (
        "schema",
        "partition-spec",
        "snapshot-log",
        "metadata-log",
        "refs",
        "properties",
        "statistics",
        "partition-statistics",
        *first,
    ):
        m.pop(key, None)


def _nulls(m: dict[str, Any]) -> None:
    m.update(
        dict.fromkeys(
            (
                "snapshot-log",
                "metadata-log",
                "refs",
                "properties",
                "statistics",
                "partition-statistics",
            )
        )
    )
    for snapshot in m["snapshots"]:
        snapshot.setdefault("parent-snapshot-id")
    for field in m["schemas"][0]["fields"]:
        field["doc"] = None


def _minus_one(m: dict[str, Any]) -> None:
    m["snapshots"][0]["parent-snapshot-id"] = -1


def _of_a_vendor(m: dict[str, Any]) -> None:
    for place in (
        m,
        m["snapshots"][0],
        m["schemas"][0],
        m["schemas"][0]["fields"][0],
        m["refs"]["main"],
    ):
        place["vendor"] = {"x": [1]}


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize(
    "change", [_no_operation, _no_summary, _lean, _nulls, _minus_one, _of_a_vendor]
)
def test_tables_whose_metadata_other_writers_wrote_in_their_way_are_read_and_changed(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], version: int
) -> None:
    catalog = catalog_of("sql", tmp_path)
    t = catalog.create_table(
        "db.t", "id bigint, p string", partition_by=["p"], format_version=version
    )
    for n in range(3):
        t.append([{"id": n, "p": "x"}])
    metadata = json.loads(Path(t.metadata_location.removeprefix("file://")).read_text())
    change(metadata)
    foreign = Path(t.metadata_location.removeprefix("file://")).with_name(
        "90000-foreign.metadata.json"
    )
    foreign.write_text(json.dumps(metadata))
    x = catalog.register_table("db.x", str(foreign))
    assert (x.scan().to_arrow().num_rows, len(x.snapshots()), x.inspect.snapshots().num_rows) == (
        3,
        3,
        3,
    )
    assert x.changes().to_arrow().num_rows == 3
    x.maintenance.expire_snapshots(older_than="2099-01-01", dry_run=True)
    x.maintenance.recommend()
    x.append([{"id": 9, "p": "y"}])
    x.delete("id = 1")
    assert sorted(x.refresh().scan().to_arrow()["id"].to_pylist()) == [0, 2, 9]
