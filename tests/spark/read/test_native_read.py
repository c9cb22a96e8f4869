"""Each trap of Spark's own scan, with tables on which it would give wrong rows."""

import datetime as dt
import shutil
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

from frazil.commit.actions import Append
from frazil.commit.table_commit import commit
from frazil.errors import FrazilError, Unsupported
from frazil.expr.nodes import GreaterThan
from frazil.spark.host.settings import READ_IDS
from frazil.spark.scan import parquet_scan
from frazil.spec import types as i
from frazil.spec.manifest import DataFile
from frazil.spec.schema import Schema

pytestmark = pytest.mark.spark


def plan_text(frame):
    return frame._jdf.queryExecution().toString()


def executed(frame):
    return frame._jdf.queryExecution().executedPlan().toString()


def swapped(catalog, name="db.swapped"):
    t = catalog.create_table(name, "a int, b int")
    t.append(
        pa.table({"a": pa.array([1, 2, 3], pa.int32()), "b": pa.array([101, 102, 103], pa.int32())})
    )
    with t.update_schema() as u:
        u.rename_column("a", "tmp")
    with t.update_schema() as u:
        u.rename_column("b", "a")
    with t.update_schema() as u:
        u.rename_column("tmp", "b")
    return t


def test_columns_whose_names_were_swapped_are_filtered_by_what_they_are_now(catalog, session, rows):
    frame = swapped(catalog).to_spark(session)
    assert rows(frame) == [{"b": n, "a": 100 + n} for n in (1, 2, 3)]
    assert frame.filter("a > 50").count() == 3
    assert frame.filter("b > 50").count() == 0
    pushed = executed(frame.filter("a > 50")).split("PushedFilters")[1].split("]")[0]
    assert "GreaterThan(_f2,50)" in pushed  # a name that no file has, so Parquet looks at nothing


@pytest.mark.versions
def test_columns_are_found_by_id_whatever_the_session_says(catalog, session, rows):
    session.conf.set(READ_IDS, "false")
    t = swapped(catalog)
    frame = t.to_spark(session)
    assert rows(frame) == rows(t.to_spark(session)) == [{"b": n, "a": 100 + n} for n in (1, 2, 3)]
    assert session.conf.get(READ_IDS) == "false"


def test_without_a_jvm_a_plan_of_a_renamed_table_fails_when_ids_are_switched_off(
    catalog, session, monkeypatch
):
    monkeypatch.setattr(parquet_scan, "jvm_of", lambda _: None)
    frame = swapped(catalog).to_spark(session)
    session.conf.set(READ_IDS, "false")
    with pytest.raises(Exception, match=r"fieldId|DATA_TYPE_MISMATCH|FAILED_READ_FILE"):
        frame.collect()
    session.conf.set(READ_IDS, "true")
    assert frame.count() == 3


def test_without_a_jvm_a_plan_of_a_table_without_renames_is_right_by_name_too(
    catalog, session, rows, monkeypatch
):
    monkeypatch.setattr(parquet_scan, "jvm_of", lambda _: None)
    t = catalog.create_table("db.plain", "a int, b string")
    t.append(pa.table({"a": pa.array([1], pa.int32()), "b": ["x"]}))
    frame = t.to_spark(session)
    session.conf.set(READ_IDS, "false")
    assert rows(frame) == [{"a": 1, "b": "x"}]


def test_a_dropped_name_used_again_is_another_column(catalog, session, rows):
    t = catalog.create_table("db.reused", "id int, b int, s struct<x int, y int>")
    old = pa.table(
        {"id": pa.array([1], pa.int32()), "b": pa.array([7], pa.int32()), "s": [{"x": 1, "y": 2}]}
    )
    t.append(
        old.cast(
            pa.schema(
                [
                    ("id", pa.int32()),
                    ("b", pa.int32()),
                    ("s", pa.struct([("x", pa.int32()), ("y", pa.int32())])),
                ]
            )
        )
    )
    with t.update_schema() as u:
        u.delete_column("b")
        u.delete_column(("s", "x"))
    with t.update_schema() as u:
        u.add_column("B", i.IntegerType())
        u.add_column(("s", "x"), i.StringType())
    frame = t.to_spark(session)
    assert rows(frame) == [{"id": 1, "s": {"y": 2, "x": None}, "B": None}]
    assert frame.filter("B = 7").count() == 0
    assert frame.filter("B is null and s.x is null").count() == 1


def test_parts_of_nested_columns_that_were_renamed_are_found(catalog, session, rows):
    t = catalog.create_table(
        "db.nested",
        "id int, s struct<x int, y int, z int>, l array<struct<p int, q int>>, plain struct<a int, b int>",
    )
    t.append(
        pa.Table.from_pylist(
            [
                {
                    "id": 1,
                    "s": {"x": 1, "y": 2, "z": 3},
                    "l": [{"p": 4, "q": 5}],
                    "plain": {"a": 6, "b": 7},
                }
            ]
        )
    )
    for path, name in (
        (("s", "x"), "tmp"),
        (("s", "y"), "x"),
        (("s", "tmp"), "y"),
        (("l", "element", "p"), "r"),
        ("s", "t"),
        (("t", "z"), "new"),
    ):
        with t.update_schema() as u:
            u.rename_column(path, name)
    frame = t.to_spark(session)
    assert rows(frame.select("t.x")) == [{"x": 2}]
    assert rows(frame.select("t.y", "t.new", "l.r", "plain.b")) == [
        {"y": 1, "new": 3, "r": [4], "b": 7}
    ]
    assert frame.filter("t.x = 2 and l.r[0] = 4").count() == 1
    assert frame.filter("t.x = 1").count() == 0
    assert "plain:struct<b:int>" in executed(frame.select("plain.b"))


def test_defaults_hold_at_the_top_and_inside_structs(catalog, session, rows):
    t = catalog.create_table("db.defaults", "id int, s struct<a int>", format_version=3)
    t.append(
        pa.table(
            {
                "id": pa.array([1, 2], pa.int32()),
                "s": pa.array([{"a": 1}, None], pa.struct([("a", pa.int32())])),
            }
        )
    )
    with t.update_schema() as u:
        u.add_column("d", i.IntegerType(), default_value=7)
        u.add_column("bin", i.BinaryType(), default_value=b"\x01")
        u.add_column(("s", "n"), i.StringType(), default_value="deep")
    frame = t.to_spark(session)
    expected = [
        {"id": 1, "s": {"a": 1, "n": "deep"}, "d": 7, "bin": b"\x01"},
        {"id": 2, "s": None, "d": 7, "bin": b"\x01"},
    ]
    assert sorted(rows(frame), key=lambda r: r["id"]) == expected
    assert frame.filter("d = 7").count() == 2
    assert frame.filter("s.n = 'deep'").count() == 1


def test_paths_that_look_like_patterns_or_are_encoded_name_one_file_each(catalog, session, rows):
    t = catalog.create_table("db.paths", "p string, n int", partition_by=["p"])
    values = ["a*b", "axb", "[a]", "a", "{a,b}", "a b%2F", "ü?#", "x=1"]
    t.append(pa.table({"p": values, "n": pa.array(range(len(values)), pa.int32())}))
    frame = t.scan(selected_fields=("p", "n", "_file")).to_spark(session)
    found = rows(frame)
    assert sorted(r["p"] for r in found) == sorted(values)
    assert {r["_file"] for r in found} == {task.file.file_path for task in t.scan().plan_files()}
    assert t.scan("p = 'a*b'").to_spark(session).count() == 1


def _add(t, path, table, field_ids, partition=()):
    schema = pa.schema(
        [
            pa.field(f.name, f.type, metadata={"PARQUET:field_id": str(n)})
            for f, n in zip(table.schema, field_ids, strict=True)
        ]
    )
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table.cast(schema), path)
    file = DataFile(
        file_path=str(path),
        file_format="parquet",
        record_count=table.num_rows,
        file_size_in_bytes=Path(path).stat().st_size,
        partition=partition,
        spec_id=t.spec().spec_id,
    )
    commit(t._writable(), t._loaded, [Append(files=(file,))])
    t.refresh()


def test_files_that_spark_hides_by_their_name_are_read(catalog, session, rows, tmp_path):
    t = catalog.create_table("db.hidden", "n int")
    for number, name in enumerate(("_a.parquet", ".b.parquet", "c.parquet")):
        _add(t, f"{t.location()}/data/{name}", pa.table({"n": pa.array([number], pa.int32())}), [1])
    assert [r["n"] for r in rows(t.to_spark(session))] == [0, 1, 2]


def test_a_file_without_its_identity_partition_column_takes_the_partitions_value(
    catalog, session, rows
):
    t = catalog.create_table("db.hive", "n int, p string, d date", partition_by=["p", "d"])
    t.append(pa.table({"n": pa.array([1], pa.int32()), "p": ["in"], "d": [dt.date(2020, 1, 1)]}))
    _add(
        t,
        f"{t.location()}/data/lacks.parquet",
        pa.table({"n": pa.array([2], pa.int32())}),
        [1],
        ("out", 18262),
    )
    _add(
        t,
        f"{t.location()}/data/null.parquet",
        pa.table({"n": pa.array([3], pa.int32())}),
        [1],
        (None, None),
    )
    found = rows(t.to_spark(session))
    assert [(r["n"], r["p"], r["d"]) for r in found] == [
        (1, "in", dt.date(2020, 1, 1)),
        (2, "out", dt.date(2020, 1, 1)),
        (3, None, None),
    ]
    assert t.to_spark(session).filter("p = 'out'").count() == 1


def test_files_without_ids_are_read_by_the_name_mapping_beside_files_with_ids(
    catalog, session, rows, tmp_path
):
    t = catalog.create_table("db.mapped", "n int, s string")
    t.append(pa.table({"n": pa.array([1], pa.int32()), "s": ["with"]}))
    pq.write_table(
        pa.table({"n": pa.array([2], pa.int32()), "s": ["without"]}), tmp_path / "foreign.parquet"
    )
    t.add_files([str(tmp_path / "foreign.parquet")])
    with t.update_schema() as u:
        u.rename_column("s", "renamed")
    frame = t.to_spark(session)
    assert rows(frame) == [{"n": 1, "renamed": "with"}, {"n": 2, "renamed": "without"}]
    assert frame.filter("renamed = 'without'").count() == 1


def test_uuid_time_and_negative_zero(catalog, session, rows):
    fields = (
        i.NestedField(1, "u", i.UUIDType()),
        i.NestedField(2, "t", i.TimeType()),
        i.NestedField(3, "d", i.DoubleType()),
        i.NestedField(
            4,
            "s",
            i.StructType(i.NestedField(5, "u", i.UUIDType()), i.NestedField(6, "f", i.FloatType())),
        ),
    )
    t = catalog.create_table("db.odd", Schema(*fields))
    u = str(uuid.uuid4())
    t.append(
        pa.table(
            {
                "u": [u, None],
                "t": pa.array([1, 86_399_999_999], pa.time64("us")),
                "d": [-0.0, float("nan")],
                "s": pa.array(
                    [{"u": u, "f": -0.0}, {"u": None, "f": None}],
                    pa.struct([("u", pa.string()), ("f", pa.float32())]),
                ),
            }
        )
    )
    frame = t.to_spark(session)
    assert [(r["u"], r["t"], r["s"]) for r in sorted(rows(frame), key=lambda r: str(r["t"]))] == [
        (u, dt.time(0, 0, 0, 1), {"u": u, "f": -0.0}),
        (None, dt.time(23, 59, 59, 999999), {"u": None, "f": None}),
    ]
    assert (
        frame.filter("d = 0").count()
        == frame.filter("s.f = 0").count()
        == frame.filter("s.f >= 0").count()
        == 1
    )
    assert frame.filter("d > 5").count() == 1  # NaN
    assert frame.filter(F.col("s.u") == u).count() == 1
    session.conf.set("spark.sql.timeType.enabled", "false")
    with pytest.raises(Unsupported, match="timeType"):
        t.to_spark(session)


def test_filters_and_columns_are_pushed_to_the_scan(catalog, session):
    t = catalog.create_table("db.pushed", "id bigint, name string, s struct<a int, b int>")
    t.append(
        pa.table(
            {
                "id": [1, 2],
                "name": ["x", "y"],
                "s": pa.array(
                    [{"a": 1, "b": 2}] * 2, pa.struct([("a", pa.int32()), ("b", pa.int32())])
                ),
            }
        )
    )
    text = executed(t.to_spark(session).filter("id > 1 and name like 'y%'").select("id", "s.a"))
    assert "GreaterThan(id,1)" in text
    assert "StringStartsWith(name,y)" in text
    assert "ReadSchema: struct<id:bigint,name:string,s:struct<a:int>" in text


@pytest.mark.parametrize(
    "where", ["id > 1", "id > 1 and upper(name) = 'Y'", GreaterThan("id", 1), "COLUMN"]
)
def test_a_filter_is_text_a_predicate_or_a_column(catalog, session, rows, where):
    t = catalog.create_table("db.filtered", "id bigint, name string")
    t.append(pa.table({"id": [1, 2], "name": ["x", "y"]}))
    chosen = F.col("id") > 1 if where == "COLUMN" else where
    assert rows(t.scan(chosen, selected_fields=("name",)).to_spark(session)) == [{"name": "y"}]


def test_metadata_columns_are_the_same_on_both_ways_of_reading(catalog, session, rows):
    t = catalog.create_table("db.meta", "id bigint, p string", partition_by=["p"], format_version=3)
    t.append(pa.table({"id": [1, 2, 3], "p": ["a", "a", None]}))
    t.append(pa.table({"id": [4], "p": ["a"]}), **{"write-format": "orc"})
    with t.update_spec() as u:
        u.add_field("id", "bucket[4]", "b")
    t.append(pa.table({"id": [5, 6], "p": ["a", "b"]}))
    names = (
        "id",
        "_file",
        "_pos",
        "_spec_id",
        "_partition",
        "_deleted",
        "_row_id",
        "_last_updated_sequence_number",
    )
    found = rows(t.scan(selected_fields=names).to_spark(session))
    assert found == sorted(t.scan(selected_fields=names).to_arrow().to_pylist(), key=repr)
    assert sorted(r["_row_id"] for r in found) == [0, 1, 2, 3, 4, 5]


def test_pieces_of_structs_can_be_selected(catalog, session, rows):
    t = catalog.create_table("db.pieces", "id bigint, s struct<a int, b struct<c int, d int>>")
    t.append(
        pa.Table.from_pylist(
            [{"id": 1, "s": {"a": 1, "b": {"c": 2, "d": 3}}}, {"id": 2, "s": None}]
        )
    )
    frame = t.scan("s.a = 1 or id = 2", selected_fields=("s.b.c",)).to_spark(session)
    assert rows(frame) == [{"s": None}, {"s": {"b": {"c": 2}}}]


def test_structs_whose_wanted_fields_are_all_new_stay_null_or_not(catalog, session, rows):
    t = catalog.create_table("db.all_new", "id bigint, s struct<a int>, l array<struct<a int>>")
    t.append(
        pa.Table.from_pylist(
            [
                {"id": 1, "s": {"a": 1}, "l": [{"a": 1}]},
                {"id": 2, "s": None, "l": None},
                {"id": 3, "s": {"a": None}, "l": []},
            ]
        )
    )
    with t.update_schema() as u:
        u.add_column(("s", "n"), i.IntegerType())
        u.add_column(("l", "n"), i.IntegerType())
    found = rows(t.to_spark(session).selectExpr("id", "s is null sn", "s.n", "l.n ln"))
    assert [(r["sn"], r["n"], r["ln"]) for r in found] == [
        (False, None, [None]),
        (True, None, None),
        (False, None, []),
    ]


def test_an_empty_table_has_its_columns(catalog, session):
    frame = catalog.create_table(
        "db.empty", "id bigint, v variant, u string", format_version=3
    ).to_spark(session)
    assert frame.columns == ["id", "v", "u"]
    assert frame.count() == 0


def test_a_file_that_is_gone_fails_the_read(catalog, session):
    t = catalog.create_table("db.gone", "id bigint")
    t.append(pa.table({"id": [1]}))
    frame = t.to_spark(session)
    shutil.rmtree(f"{t.location()}/data")
    with pytest.raises(
        Exception, match=r"FAILED_READ_FILE|does not exist|PATH_NOT_FOUND|FILE_NOT_EXIST"
    ):
        frame.collect()


def test_dates_before_1582_and_the_year_one_are_as_they_were_written(catalog, session, rows):
    t = catalog.create_table("db.old", "d date, t timestamp_ntz")
    t.append(
        pa.table(
            {
                "d": [dt.date(1, 1, 1), dt.date(1582, 10, 5)],
                "t": [dt.datetime(1, 1, 1), dt.datetime(1500, 1, 1)],
            }
        )
    )
    assert {(r["d"], r["t"]) for r in rows(t.to_spark(session))} == {
        (dt.date(1, 1, 1), dt.datetime(1, 1, 1)),
        (dt.date(1582, 10, 5), dt.datetime(1500, 1, 1)),
    }


def test_limit_comes_with_the_plan(catalog, session):
    t = catalog.create_table("db.limited", "id bigint")
    t.append(pa.table({"id": list(range(10))}))
    assert t.scan(limit=3).to_spark(session).count() == 3
    assert issubclass(Unsupported, FrazilError)


@pytest.mark.parametrize(
    ("zone", "kept"), [("America/Los_Angeles", 1), ("UTC", 2), ("+05:30", 2), ("Asia/Kolkata", 2)]
)
def test_a_time_without_zone_prunes_files_in_the_zone_of_the_session(catalog, session, zone, kept):
    t = catalog.create_table("db.zoned", "ts timestamp")
    for hour in (7, 9):
        t.append(
            pa.table(
                {
                    "ts": pa.array(
                        [dt.datetime(2024, 1, 1, hour, tzinfo=dt.UTC)], pa.timestamp("us", "UTC")
                    )
                }
            )
        )
    session.conf.set("spark.sql.session.timeZone", zone)
    for text in (
        "ts >= TIMESTAMP '2024-01-01 00:00:00'",
        "ts >= '2024-01-01 00:00:00'",
        "NOT (ts < TIMESTAMP '2024-01-01 00:00:00')",
    ):
        frame = t.scan(text).to_spark(session)
        assert frame.count() == kept
        assert zone == "+05:30" or f"Files: {kept} of" in executed(frame)


@pytest.mark.parametrize("nested", [False, True])
def test_dates_of_imported_files_are_what_the_file_says_whatever_spark_marked_it_with(
    catalog, session, rows, tmp_path, monkeypatch, nested
):
    """Spark's scan moves dates of files that it marked with its old calendar; the format, Java and
    Arrow do not.
    """
    # Java's import does not look
    monkeypatch.setattr("frazil.arrow.write.add_files.check_calendar", lambda path, file: None)
    t = catalog.create_table("db.old", "id int, d array<date>" if nested else "id int, d date")
    days = [dt.date(1, 1, 3), dt.date(1500, 6, 1), dt.date(2024, 1, 1)]
    for n, notes in enumerate(
        ({"version": "3.5.1", "legacyDateTime": ""}, {"version": "2.4.8"}, {"version": "4.1.0"}, {})
    ):
        values = pa.array(
            [[d] for d in days] if nested else days,
            pa.list_(pa.date32()) if nested else pa.date32(),
        )
        table = pa.table({"id": pa.array([n] * 3, pa.int32()), "d": values})
        path = str(tmp_path / f"{n}.parquet")
        pq.write_table(
            table.replace_schema_metadata({f"org.apache.spark.{k}": v for k, v in notes.items()}),
            path,
        )
        t.add_files([path])
    wanted = sorted(
        ({"id": n, "d": [d] if nested else d} for n in range(4) for d in days), key=repr
    )
    assert sorted(t.scan().to_arrow().to_pylist(), key=repr) == rows(t.to_spark(session)) == wanted
    assert t.to_spark(session).where("id = 0" if nested else "d = date'1500-06-01'").count() == (
        3 if nested else 4
    )
