"""Policies of tables: success files, tags, properties, custom ones and merge, chained in the order
written and safe to repeat.
"""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from frazil.stream.partitions.policies.chain import property_of, tag_name
from tests.stream.partitions import custom
from tests.stream.partitions.support import KIND, TRIGGER, Stream, ms, rows, stream

BY_TIME = {KIND: "property", TRIGGER: "partition-time"}
JAN1 = ms("2026-01-01")


def digest(table):
    """The rows of a table in an order of their own, all columns."""
    return sorted(map(repr, table.to_arrow().to_pylist()))


def test_the_success_file_says_when_the_partition_was_committed_and_again_after_late_data(tmp_path):
    s = stream(tmp_path, {KIND: "success-file"})
    s.batch(0, rows([1], "a b/c"))
    (place,) = (tmp_path / "db/t/data").glob("*/_SUCCESS")
    first = json.loads(place.read_text())
    assert (
        first["creationTime"] == first["modificationTime"]
        and first["late"] is False
        and place.parent.name == "dt=a+b%2Fc"
    )
    s.batch(1, rows([2], "a b/c"))
    again = json.loads(place.read_text())
    assert (
        again["creationTime"] == first["creationTime"] <= again["modificationTime"]
        and again["late"] is True
    )


def test_the_success_file_has_the_name_and_the_place_that_are_documented_also_under_object_store_layout(
    tmp_path,
):
    options = {KIND: "success-file", "sink.partition-commit.success-file.name": "_DONE"}
    s = stream(tmp_path, options, properties={"write.object-storage.enabled": "true"})
    s.batch(0, rows([1], "a"))
    assert (tmp_path / "db/t/data/dt=a/_DONE").exists()
    assert list((tmp_path / "db/t/data/dt=a").iterdir()) == [tmp_path / "db/t/data/dt=a/_DONE"]


def test_the_success_file_of_a_branch_is_not_taken_for_mains(tmp_path):
    s = stream(tmp_path, {KIND: "success-file"})
    s.table.append(rows([0], "z"))
    s.table.manage_snapshots().create_branch(
        s.table.current_snapshot().snapshot_id, "audit"
    ).commit()
    s.restarted(branch="audit").batch(0, rows([1], "a"))
    assert [p.name for p in (tmp_path / "db/t/data/dt=a").glob("_*")] == ["_SUCCESS.audit"]


def test_an_empty_success_file_of_another_engine_is_replaced(tmp_path):
    s = stream(tmp_path, {KIND: "success-file"})
    place = tmp_path / "db/t/data/dt=a/_SUCCESS"
    place.parent.mkdir(parents=True)
    place.write_text("")
    s.batch(0, rows([1], "a"))
    assert json.loads(place.read_text())["creationTime"] > 0


def test_the_tag_of_a_partition_shows_it_complete_and_moves_after_late_data(tmp_path):
    s = stream(tmp_path, {KIND: "tag"})
    s.batch(0, rows([1], "a"))
    s.batch(1, rows([2], "b"))
    assert s.table.scan(tag=tag_name("dt=a")).to_arrow()["id"].to_pylist() == [1]
    s.batch(2, rows([3], "a"))
    assert sorted(s.table.scan(tag="done/dt=a").to_arrow()["id"].to_pylist()) == [1, 2, 3]
    assert sorted(s.table.scan(tag="done/dt=b").to_arrow()["id"].to_pylist()) == [1, 2]


def test_the_property_of_a_partition_tells_the_snapshot_and_late_data(tmp_path):
    s = stream(tmp_path, {KIND: "property"})
    s.batch(0, rows([1], "a"))
    told = json.loads(s.table.properties[property_of("dt=a", "main")])
    assert told == {
        "snapshot-id": s.table.current_snapshot().snapshot_id,
        "watermark": None,
        "late": False,
    }
    s.batch(1, rows([2], "a"))
    assert json.loads(s.table.properties["frazil.partition-commit.done/dt=a@main"])["late"] is True


def test_a_custom_policy_gets_the_context_that_is_documented(tmp_path):
    told = []
    s = stream(
        tmp_path,
        {
            TRIGGER: "partition-time",
            "partition.default-name": "none",
            "partition.time-extractor.timestamp-pattern": "$dt",
        },
        (told.append,),
        columns="id bigint, dt string, region string",
        by=["dt", "region"],
    )
    s.batch(
        0,
        pa.table({"id": [1], "dt": ["2026-01-01"], "region": pa.array([None], pa.string())}),
        JAN1 + 1,
    )
    (c,) = told
    assert (c.catalog, c.database, c.table) == ("streams", "db", "t")
    assert c.partition_keys == ("dt", "region") and c.partition_values == ("2026-01-01", "none")
    assert (
        c.path.endswith("/db/t/data/dt=2026-01-01/region=null")
        and c.watermark == JAN1 + 1
        and c.late is False
    )
    assert c.partition_spec == {"dt": "2026-01-01", "region": "none"}


def test_a_policy_class_is_made_with_its_parameters_and_its_commit_is_called(tmp_path):
    custom.CALLS.clear()
    custom.Recorder.made = 0
    options = {
        KIND: "custom",
        "sink.partition-commit.policy.class": "tests.stream.partitions.custom:Recorder",
        "sink.partition-commit.policy.class.parameters": "a;b",
    }
    s = stream(tmp_path, options)
    s.batch(0, rows([1], "x"))
    s.batch(1, rows([2], "y"))
    assert custom.CALLS == [(("a", "b"), {"dt": "x"}), (("a", "b"), {"dt": "y"})]
    assert custom.Recorder.made == 1, "a policy may keep a connection"


def test_policies_run_in_the_order_written_for_each_partition(tmp_path):
    seen = []

    def look(context):
        seen.append(
            (context.partition_values, len(s.table.inspect.files()), "done/dt=a" in s.table.refs())
        )

    s = stream(tmp_path, {KIND: "merge,custom,tag"}, (look,))
    s.table.append(rows([0], "a"))
    s.batch(0, rows([1], "a"))
    assert seen == [(("a",), 1, False)] and "done/dt=a" in s.table.refs()


def test_a_failing_policy_keeps_its_partition_pending_is_reported_and_is_tried_again(
    tmp_path, caplog
):
    down = [True]

    def sometimes(context):
        if down[0] and context.partition_values == ("a",):
            raise OSError("no route to host")

    s = stream(tmp_path, {KIND: "custom,success-file"}, (sometimes,))
    s.batch(0, rows([1, 2], ["a", "b"]))
    assert (
        s.pending == {"dt=a"}
        and s.times == {"dt=b": 1}
        and not (tmp_path / "db/t/data/dt=a/_SUCCESS").exists()
    )
    (failure,) = s.hook.failures
    assert (
        (failure.partition, failure.policy) == ("dt=a", "custom")
        and "no route" in str(failure.error)
        and "no route" in caplog.text
    )
    down[0] = False
    s.batch(1, None)
    assert s.pending == set() and s.times == {"dt=a": 1, "dt=b": 1} and s.hook.failures == ()


# --- merge


@pytest.mark.parametrize("version", [1, 2, 3])
def test_merge_makes_one_file_of_many_in_one_replace_snapshot_with_equal_rows(tmp_path, version):
    s = stream(tmp_path, {KIND: "merge"}, format_version=version)
    for number in range(5):
        s.table.append(rows(range(10 * number, 10 * number + 10), "a"))
    s.table.append(rows([1000], "b"))
    before = digest(s.table)
    s.batch(0, rows([500], "a"))
    assert digest(s.table) == sorted([*before, repr({"id": 500, "dt": "a"})])
    files = s.table.inspect.files()["file_path"].to_pylist()
    assert sum("dt=a" in f for f in files) == 1 and sum("dt=b" in f for f in files) == 1
    assert s.table.current_snapshot().operation == "replace" and s.times == {"dt=a": 1}


def test_merge_of_a_v3_table_keeps_the_ids_of_rows(tmp_path):
    s = stream(tmp_path, {KIND: "merge"}, format_version=3)
    s.table.append(rows([1, 2], "a"))
    s.table.append(rows([3], "a"))
    read = lambda: sorted(
        map(
            repr,
            s.table.scan(selected_fields=("id", "_row_id", "_last_updated_sequence_number"))
            .to_arrow()
            .to_pylist(),
        )
    )
    before = read()
    s.table.mark_partition_done({"dt": "a"}, sink_partition_commit_policy_kind="merge")
    assert s.table.current_snapshot().operation == "replace" and read() == before


def test_merge_honours_every_schema_the_files_were_written_with_and_all_deletes(tmp_path):
    properties = {"write.delete.mode": "merge-on-read"}
    s = stream(
        tmp_path, {KIND: "merge"}, columns="id int, dt string, gone string", properties=properties
    )
    first = pa.table({"id": pa.array([1, 2, 3], pa.int32()), "dt": ["a"] * 3, "gone": ["x"] * 3})
    s.table.append(first)
    with s.table.update_schema() as change:
        change.delete_column("gone")
        change.update_column("id", "long")
        change.add_column("note", "string")
    s.table.append(
        pa.table({"id": pa.array([4, 5], pa.int64()), "dt": ["a"] * 2, "note": ["n", None]})
    )
    with s.table.update_schema() as change:
        change.rename_column("note", "remark")
        change.add_column("gone", "long")
    s.table.append(
        pa.table({"id": pa.array([6], pa.int64()), "dt": ["a"], "remark": ["r"], "gone": [7]})
    )
    s.table.delete("id in (2, 5)")
    assert len(s.table.inspect.delete_files()) > 0
    before = digest(s.table)
    s.table.mark_partition_done({"dt": "a"}, sink_partition_commit_policy_kind="merge")
    assert digest(s.table) == before and len(before) == 4 and len(s.table.inspect.data_files()) == 1


def test_merge_takes_only_the_files_of_its_partition_also_of_an_older_spec(tmp_path):
    s = stream(tmp_path, {KIND: "merge"}, columns="id bigint, dt string, ts timestamp", by=["dt"])

    def at(*ids):
        return pa.table(
            {
                "id": ids,
                "dt": ["a"] * len(ids),
                "ts": pa.array([JAN1 * 1000] * len(ids), pa.timestamp("us", "UTC")),
            }
        )

    s.table.append(at(1))
    s.table.append(at(2))
    with s.table.update_spec() as change:
        change.add_field("ts", "day", "ts_day")
    s.table.append(at(3))
    s.table.append(at(4))
    before = digest(s.table)
    s.table.mark_partition_done(
        {"dt": "a", "ts_day": "2026-01-01"}, sink_partition_commit_policy_kind="merge"
    )
    specs = s.table.inspect.files()["spec_id"].to_pylist()
    assert digest(s.table) == before and sorted(specs) == [0, 0, 1]


@pytest.mark.parametrize(
    ("by", "partition"),
    [
        (["hours(ts)"], {"ts_hour": "2026-01-01-05"}),
        (["days(ts)"], {"ts_day": "2026-01-01"}),
        (["months(ts)"], {"ts_month": "2026-01"}),
        (["years(ts)"], {"ts_year": "2026"}),
        (["bucket(4, id)"], None),
        (["truncate(1, name)"], {"name_trunc": "a"}),
        (["id"], {"id": 7}),
        (["day"], {"day": "2026-01-01"}),
        (["name"], {"name": None}),
        (["price"], {"price": "1.50"}),
    ],
)
def test_merge_finds_the_files_of_partitions_by_every_transform(tmp_path, by, partition):
    s = stream(
        tmp_path,
        {KIND: "merge"},
        columns="id bigint, ts timestamp, day date, name string, price decimal(5, 2)",
        by=by,
    )
    name = None if partition == {"name": None} else "abc"
    one = pa.table(
        {
            "id": pa.array([7], pa.int64()),
            "ts": pa.array([ms("2026-01-01 05:30") * 1000], pa.timestamp("us", "UTC")),
            "day": pa.array([JAN1 // 86_400_000], pa.int32()).cast(pa.date32()),
            "name": pa.array([name], pa.string()),
            "price": pa.array(["1.50"]).cast(pa.decimal128(5, 2)),
        }
    )
    for _ in range(3):
        s.table.append(one)
    field = s.table.spec().fields[0].name
    given = partition or {field: s.table.inspect.files()["partition"].to_pylist()[0][field]}
    s.table.mark_partition_done(given, sink_partition_commit_policy_kind="merge")
    assert len(s.table.inspect.files()) == 1 and s.table.count() == 3


@pytest.mark.parametrize(
    ("columns", "one"),
    [
        ("id bigint, s struct<dt: string>", {"id": [1], "s": [{"dt": "a"}]}),
        ("id bigint, `s.dt` string", {"id": [1], "s.dt": ["a"]}),
    ],
    ids=["a member of a struct", "a column whose name has a dot"],
)
def test_merge_finds_the_files_of_a_partition_by_a_name_with_a_dot(tmp_path, columns, one):
    s = stream(tmp_path, {KIND: "merge"}, columns=columns, by=["s.dt"])
    for _ in range(3):
        s.table.append(pa.table(one))
    (field,) = s.table.spec().fields
    s.table.mark_partition_done({field.name: "a"}, sink_partition_commit_policy_kind="merge")
    assert len(s.table.inspect.files()) == 1 and s.table.count() == 3


def test_merge_groups_files_up_to_the_target_and_leaves_large_ones(tmp_path):
    s = stream(tmp_path, {KIND: "merge"})
    for number in range(4):
        s.table.append(rows([number], "a"))
    size = max(s.table.inspect.files()["file_size_in_bytes"].to_pylist())
    s.table.mark_partition_done(
        {"dt": "a"}, sink_partition_commit_policy_kind="merge", compaction_file_size=int(size * 2.5)
    )
    assert len(s.table.inspect.files()) == 2 and s.table.count() == 4
    head = s.table.current_snapshot().snapshot_id
    s.table.mark_partition_done(
        {"dt": "a"}, sink_partition_commit_policy_kind="merge", compaction_file_size=size
    )
    assert s.table.current_snapshot().snapshot_id == head


def test_late_files_are_merged_once_with_what_was_merged_before(tmp_path):
    s: Stream = stream(tmp_path, {KIND: "merge"})
    s.table.append(rows([0], "a"))
    for number in range(1, 4):
        s.batch(number, rows([number], "a"))
        assert len(s.table.inspect.files()) == 1
    assert digest(s.table) == sorted(repr({"id": n, "dt": "a"}) for n in range(4)) and s.times == {
        "dt=a": 3
    }
