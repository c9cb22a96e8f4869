"""Batch reads of the rows that were appended between two tags, by Flink's options, at all doors."""

import pyarrow as pa
import pytest

from frazil.errors import InvalidInput, NoSuchRefError

pytestmark = pytest.mark.spark


@pytest.fixture
def table(catalog):
    """Snapshots 0 to 4; the third one is an overwrite. Tags t0 to t4, and a branch."""
    t = catalog.create_table("db.t", "id bigint")
    for n in range(5):
        rows = pa.table({"id": [n]})
        t.overwrite(rows, overwrite_filter="id = 1") if n == 2 else t.append(rows)
        with t.refresh().manage_snapshots() as manage:
            manage.create_tag(t.current_snapshot().snapshot_id, f"t{n}")
    with t.manage_snapshots() as manage:
        manage.create_branch(t.current_snapshot().snapshot_id, "b")
    return t.refresh()


RANGES = [
    ({"start-tag": "t0", "end-tag": "t3"}, [1, 3]), ({"start-tag": "t0"}, [1, 3, 4]), ({"end-tag": "t1"}, [0, 1]), ({"start-tag": "t3", "end-tag": "t3"}, []),
    ({"end-tag": "t0"}, [0]),
]  # fmt: skip


@pytest.fixture(params=["prepared", "bare", "arrow"])
def read(request, spark, session, table):
    """Reads the ids of a range at one door."""

    def ids(**options):
        if request.param == "arrow":
            return sorted(
                table.incremental_append_scan(
                    **{k.replace("-", "_"): v for k, v in options.items()}
                )
                .to_arrow()["id"]
                .to_pylist()
            )
        reader = (spark if request.param == "prepared" else session).read.format("iceberg")
        return sorted(r.id for r in reader.options(**options).load(table.location()).collect())

    return ids


@pytest.mark.parametrize(("options", "expected"), RANGES)
def test_a_range_begins_after_its_first_tag_and_ends_with_its_last(read, options, expected):
    assert read(**options) == expected


def test_ids_and_tags_go_together_and_names_take_them_too(spark, catalog, table, tmp_path):
    first = table.snapshots()[0].snapshot_id
    for key, value in (("type", "path"), ("warehouse", str(tmp_path / "wh"))):
        spark.conf.set(f"spark.sql.catalog.tags.{key}", value)
    by_name = (
        spark.read.option("start_snapshot_id", first).option("end_tag", "t3").table("tags.db.t")
    )
    assert [r.id for r in by_name.orderBy("id").collect()] == [1, 3]
    changed = (
        spark.read.format("iceberg")
        .options(**{"start-tag": "t1", "end-tag": "t2"})
        .load(f"{table.location()}#changes")
    )
    assert sorted((r.id, r._change_type) for r in changed.collect()) == [
        (1, "DELETE"),
        (2, "INSERT"),
    ]
    assert table.changes(start_tag="t1", end_tag="t2").to_arrow().num_rows == 2


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        (
            {"start-tag": "t0", "start-snapshot-id": "1"},
            InvalidInput,
            "'start-tag' and 'start-snapshot-id' both",
        ),
        (
            {"start-tag": "t0", "end-tag": "t1", "end-snapshot-id": "1"},
            InvalidInput,
            "'end-tag' and 'end-snapshot-id' both",
        ),
        ({"start-tag": "t0", "tag": "t1"}, InvalidInput, "when tag is set"),
        ({"end-tag": "t0", "branch": "b"}, InvalidInput, "when branch is set"),
        ({"start-tag": "nope"}, NoSuchRefError, "nope"),
        ({"end-tag": "b"}, InvalidInput, "end-tag=b is a branch"),
        ({"start-tag": "t3", "end-tag": "t1"}, Exception, "ancestor"),
    ],
)
def test_what_contradicts_is_refused(spark, session, table, options, error, told):
    with pytest.raises(error, match=told):
        spark.read.format("iceberg").options(**options).load(table.location()).collect()
    with pytest.raises(Exception, match=told):
        session.read.format("iceberg").options(**options).load(table.location()).collect()


def test_an_id_and_a_tag_for_one_end_are_refused_in_python_too(table):
    for scan in (
        lambda: table.incremental_append_scan(from_snapshot_id_exclusive=1, start_tag="t0"),
        lambda: table.changes(end_snapshot_id=1, end_tag="t0"),
    ):
        with pytest.raises(InvalidInput, match="both name a snapshot"):
            scan()
