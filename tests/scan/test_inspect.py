"""Metadata tables beyond what the golden tables say of them."""

from dataclasses import replace
from uuid import UUID

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from frazil.errors import CorruptData, InvalidInput, NoSuchSnapshotError, Unsupported
from frazil.scan.inspect import (
    METADATA_TABLES,
    TIME_TRAVEL_TABLES,
    metadata_table,
    position_deletes,
)
from frazil.scan.manifests import clear_caches
from frazil.spec.partitioning import PartitionField, PartitionSpec
from frazil.spec.schema import Schema
from frazil.spec.snapshot import Snapshots
from frazil.spec.transforms import IdentityTransform
from frazil.spec.types import (
    DoubleType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    UUIDType,
)
from frazil.storage import storage_for
from tests.builders.golden_metadata import opened
from tests.golden import names
from tests.scan.made import MadeFile, make_table


@pytest.fixture(autouse=True)
def _cold():
    clear_caches()


SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "d", DoubleType()),
    NestedField(3, "u", UUIDType()),
)


def test_nan_and_both_zeros_are_a_partition_each_and_once():
    nan = float("nan")
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "d"), spec_id=0)
    files = [MadeFile(({2: v},)) for v in (nan, -0.0, 0.0, nan, None, None)]
    made = make_table(SCHEMA, [(spec, files)])
    found = metadata_table("partitions", made.metadata, made.storage)
    assert sorted(str(p["d"]) for p in found.column("partition").to_pylist()) == [
        "-0.0",
        "0.0",
        "None",
        "nan",
    ]
    assert sorted(found.column("file_count").to_pylist()) == [1, 1, 2, 2]


def test_partitions_outlive_the_snapshots_that_wrote_them():
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "id"), spec_id=0)
    made = make_table(SCHEMA, [(spec, [MadeFile(({1: 5},))])])
    (snapshot,) = made.metadata.snapshots
    later = replace(snapshot, snapshot_id=2, parent_snapshot_id=1)
    metadata = replace(made.metadata, snapshots=Snapshots.of([later]), current_snapshot_id=2)
    (row,) = metadata_table("partitions", metadata, made.storage).to_pylist()
    assert (
        row["last_updated_at"] is None
        and row["last_updated_snapshot_id"] is None
        and row["file_count"] == 1
    )
    (line,) = metadata_table("history", metadata, made.storage).to_pylist()
    assert (line["snapshot_id"], line["parent_id"], line["is_current_ancestor"]) == (1, None, False)


def test_a_filter_on_columns_limits_the_partitions():
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "id"), spec_id=0)
    made = make_table(SCHEMA, [(spec, [MadeFile(({1: i, 2: float(i)},)) for i in range(5)])])
    found = metadata_table("partitions", made.metadata, made.storage, row_filter="id >= 3")
    assert sorted(p["id"] for p in found.column("partition").to_pylist()) == [3, 4]
    assert (
        metadata_table("partitions", made.metadata, made.storage, row_filter="d > 3").num_rows == 1
    )
    assert (
        metadata_table("partitions", made.metadata, made.storage, row_filter="FALSE").num_rows == 0
    )


def test_uuid_bounds_are_shown_as_text():
    made = make_table(
        SCHEMA, [(PartitionSpec(), [MadeFile(({3: bytes(15) + b"\x01"}, {3: b"\xff" * 16}))])]
    )
    (row,) = metadata_table("files", made.metadata, made.storage).to_pylist()
    metrics = row["readable_metrics"]["u"]
    assert (metrics["lower_bound"], metrics["upper_bound"]) == (
        "00000000-0000-0000-0000-000000000001",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
    )


def test_time_travel_is_refused_where_a_table_has_none():
    made = make_table(SCHEMA, [(PartitionSpec(), [MadeFile(({1: 5},))])])
    for name in METADATA_TABLES:
        if name in TIME_TRAVEL_TABLES:
            with pytest.raises(NoSuchSnapshotError):
                metadata_table(name, made.metadata, made.storage, snapshot_id=77)
        else:
            with pytest.raises(InvalidInput, match=name):
                metadata_table(name, made.metadata, made.storage, snapshot_id=1)
    with pytest.raises(InvalidInput, match="nothing"):
        metadata_table("nothing", made.metadata, made.storage)
    with pytest.raises(InvalidInput, match="files takes no row_filter"):
        metadata_table("files", made.metadata, made.storage, row_filter="id = 1")
    assert metadata_table("FILES", made.metadata, made.storage).num_rows == 1


def test_all_tables_show_what_older_snapshots_hold(golden):
    table, metadata, storage = opened(golden, "branches_tags")
    rows = {name: metadata_table(name, metadata, storage).num_rows for name in METADATA_TABLES}
    assert rows["all_files"] > rows["files"] == table.expected["counts"]["data_files"]
    assert rows["snapshots"] == len(metadata.snapshots) and rows["refs"] == len(metadata.refs)
    assert rows["all_manifests"] == sum(
        metadata_table("manifests", metadata, storage, snapshot_id=s.snapshot_id).num_rows
        for s in metadata.snapshots
    )


def test_the_metadata_log_ends_with_the_current_file(golden):
    _table, metadata, storage = opened(golden, "schema_evolution")
    rows = metadata_table(
        "metadata_log_entries", metadata, storage, metadata_location="/here/v9.metadata.json"
    ).to_pylist()
    assert len(rows) == len(metadata.metadata_log) + 1
    assert (
        rows[-1]["file"] == "/here/v9.metadata.json"
        and rows[-1]["latest_snapshot_id"] == metadata.current_snapshot_id
    )
    assert rows[0]["latest_snapshot_id"] is None


@pytest.mark.parametrize("name", names(deletes=True))
def test_deleted_positions_are_as_many_as_the_manifests_say(golden, name):
    table, metadata, storage = opened(golden, name)
    found = metadata_table("position_deletes", metadata, storage)
    listed = [
        f
        for f in metadata_table("delete_files", metadata, storage).to_pylist()
        if f["content"] == 1
    ]
    assert found.num_rows == sum(f["record_count"] for f in listed)
    assert set(found.column("delete_file_path").to_pylist()) == {f["file_path"] for f in listed}
    counts = table.expected["counts"]
    if counts["equality_delete_files"] == 0:
        live = set(metadata_table("data_files", metadata, storage).column("file_path").to_pylist())
        deleted = {
            (p, n)
            for p, n in zip(
                found.column("file_path").to_pylist(), found.column("pos").to_pylist(), strict=True
            )
            if p in live
        }
        total = sum(
            metadata_table("data_files", metadata, storage).column("record_count").to_pylist()
        )
        assert total - len(deleted) == table.expected["rows"]


def test_delete_files_that_are_none_are_corrupt(golden):
    row = {
        "file_path": golden["dv_v3"].metadata_file,
        "file_format": "puffin",
        "key_metadata": None,
        "content_offset": 4,
        "content_size_in_bytes": 10**12,
        "referenced_data_file": "x",
        "record_count": 1,
    }
    with pytest.raises(CorruptData, match="ends after the end of the file"):
        list(position_deletes._positions(row, storage_for("/tmp", {}), StructType()))
    with pytest.raises(CorruptData):
        list(
            position_deletes._positions(
                {**row, "content_size_in_bytes": 50}, storage_for("/tmp", {}), StructType()
            )
        )
    for kind in ("parquet", "orc", "avro", "strange"):
        with pytest.raises(CorruptData) as bad:
            list(
                position_deletes._positions(
                    {**row, "file_format": kind}, storage_for("/tmp", {}), StructType()
                )
            )
        assert bad.value.facts["file"] == row["file_path"]


ROW = StructType(
    NestedField(1, "id", LongType()),
    NestedField(
        2,
        "renamed",
        StructType(
            NestedField(3, "a", StringType(), required=True), NestedField(4, "new", StringType())
        ),
    ),
    NestedField(5, "list", ListType(6, LongType())),
    NestedField(7, "map", MapType(8, StringType(), 9, UUIDType())),
)


def test_rows_that_a_delete_file_carries_are_shown_by_field_id(tmp_path):
    def field(number, name, type_):
        return pa.field(name, type_, metadata={"PARQUET:field_id": str(number)})

    key, value = pa.field("key", pa.string(), False), field(9, "value", pa.binary(16))
    row_type = pa.struct(
        [
            field(5, "list", pa.list_(field(6, "element", pa.int32()))),
            field(1, "id", pa.int32()),
            field(2, "old", pa.struct([field(3, "a", pa.string())])),
            field(7, "map", pa.map_(key, value)),
        ]
    )
    one = {"list": [1, None], "id": 7, "old": {"a": "x"}, "map": [("k", bytes(16))]}
    carried = pa.array([one, None, {"list": None, "id": None, "old": None, "map": None}], row_type)
    schema = pa.schema([("file_path", pa.string()), ("pos", pa.int64()), ("row", row_type)])
    file, storage = (
        {"file_path": str(tmp_path / "d.parquet"), "file_format": "parquet", "key_metadata": None},
        storage_for(str(tmp_path), {}),
    )
    pq.write_table(
        pa.table([["f", "f", "g"], [1, 2, 0], carried], schema=schema), file["file_path"]
    )
    (found,) = position_deletes._positions(file, storage, ROW)
    found.rows.validate(full=True)
    nothing = {"id": None, "renamed": None, "list": None, "map": None}
    shown = {
        "id": 7,
        "renamed": {"a": "x", "new": None},
        "list": [1, None],
        "map": [("k", str(UUID(int=0)))],
    }
    assert found.rows.to_pylist() == [shown, None, nothing] and found.positions.to_pylist() == [
        1,
        2,
        0,
    ]
    plain = {**file, "file_path": str(tmp_path / "d.orc"), "file_format": "orc"}
    orc.write_table(pa.table({"file_path": ["f"], "pos": [1], "row": [1]}), plain["file_path"])
    with pytest.raises(Unsupported, match=r"carries deleted rows"):
        list(position_deletes._positions(plain, storage, ROW))


def test_what_manifests_repeat_is_held_once_and_the_sign_of_zero_stays():
    zeros = [
        [MadeFile(({1: n, 2: zero, 3: None},)) for n in (k, k + 1)]
        for k, zero in ((1, 0.0), (5, -0.0))
    ]
    # not of one spec: they come apart
    made = make_table(SCHEMA, [(PartitionSpec(spec_id=n), files) for n, files in enumerate(zeros)])
    found = metadata_table("files", made.metadata, made.storage)
    first, second = found.column("value_counts").chunks
    assert first.keys.buffers()[1].address == second.keys.buffers()[1].address
    assert [str(m["d"]["lower_bound"]) for m in found.column("readable_metrics").to_pylist()] == [
        "0.0",
        "0.0",
        "-0.0",
        "-0.0",
    ]
    assert [m["id"]["upper_bound"] for m in found.column("readable_metrics").to_pylist()] == [
        1,
        2,
        5,
        6,
    ]
    assert {tuple(sorted(dict(v))) for v in found.column("value_counts").to_pylist()} == {(1, 2, 3)}
