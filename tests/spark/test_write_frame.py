"""Frames to data files: by Spark's own writer and by Arrow tasks, read back by us and by Java."""

import glob
import os

import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

from frazil.arrow.values.transforms import apply_arrow
from frazil.arrow.write.write_context import WriteContext
from frazil.errors import InvalidInput, SchemaMismatch, StorageError, ValidationError
from frazil.spark.tasks import spark_runner
from frazil.spark.write import write_frame
from frazil.spec import types as i
from frazil.spec.schema import Schema

pytestmark = pytest.mark.spark

EVERY = [
    "days(ts)", "bucket(4, id)", "truncate(2, name)", "bucket(3, name)", "bucket(5, dec)", "bucket(6, ts)", "bucket(7, d)", "truncate(50, dec)",
    "truncate(10, id)", "years(d)",
]  # fmt: skip


def frame_of(session, count=40):
    return session.range(count).selectExpr(
        "id",
        "case when id % 9 = 0 then null when id % 9 = 1 then '' else concat('n=', id % 7, '/ü %') end as name",
        "timestamp_micros((id - 20) * 40000000000 - 1) as ts",
        "timestampadd(HOUR, cast(id * 7 as int), timestamp_ntz'1959-12-31 23:59:59.999999') as tn",
        "date_from_unix_date(cast((id - 20) * 200 as int)) as d",
        "cast((id - 20) * 1.37 as decimal(9,2)) as dec",
        "array(cast(id as int), null) as l",
        "map('k', named_struct('x', cast(id as int))) as m",
        "case when id % 2 = 0 then named_struct('a', cast(id as int), 'b', 'q') end as s",
        "case when id % 3 = 0 then double('NaN') when id % 3 = 1 then -0.0D else cast(id as double) end as v",
        "encode(cast(id as string), 'utf-8') as bin",
    )


DDL = (
    "id bigint, name string, ts timestamp, tn timestamp_ntz, d date, dec decimal(9,2), l array<int>, m map<string, struct<x int>>, "
    "s struct<a int, b string>, v double, bin binary"
)


def texts(frame):
    return sorted(
        r[0]
        for r in frame.select(F.to_json(F.struct("*"), {"ignoreNullFields": "false"})).collect()
    )


def files_below(location):
    return [p for p in glob.glob(f"{location}/data/**", recursive=True) if os.path.isfile(p)]


@pytest.mark.parametrize(
    "partition_by",
    [
        [],
        ["name"],
        ["tn", "v"],
        EVERY[:5],
        EVERY[5:],
        ["hours(tn)", "hours(ts)", "bin", "truncate(1, bin)"],
    ],
)
def test_rows_come_back_and_every_file_lies_in_its_partition(catalog, session, partition_by):
    t = catalog.create_table("db.t", DDL, partition_by=partition_by)
    frame = frame_of(session)
    t.append(frame)
    assert texts(t.to_spark(session)) == texts(frame)
    spec, schema = t.spec(), t.schema()
    for task in t.scan().plan_files():
        # not read_table, which would take p=x in paths for columns
        held = pq.ParquetFile(task.file.file_path).read()
        for field, value in zip(spec.fields, task.file.partition, strict=True):
            source = schema.by_id[field.source_id]
            values = set(
                map(
                    repr,
                    apply_arrow(
                        field.transform, source.field_type, held.column(source.name)
                    ).to_pylist(),
                )
            )
            assert values == {repr(value)}, (field, value)
    assert len(t.scan().plan_files()) == len(files_below(t.location()))


def test_spark_writes_the_ids_of_lists_and_maps_too(catalog, session):
    t = catalog.create_table("db.ids", DDL)
    t.append(frame_of(session))
    ids = {n.field_id for p in files_below(t.location()) for n in _nodes(p)}
    assert ids - {None} == set(t.schema().by_id)


def _nodes(path):
    from frazil.arrow.footers.parquet_footer import read_footer

    with open(path, "rb") as f:
        return list(read_footer(f, os.path.getsize(path), path).root.walk())


def test_the_folder_way_and_the_arrow_way_write_equal_tables(catalog, session):
    frame = frame_of(session)
    counts = {}
    for name, options in (
        ("folder", {}),
        (
            "arrow",
            {
                "write-format": "parquet",
                "target-file-size-bytes": 1000,
                "distribution-mode": "none",
            },
        ),
    ):
        t = catalog.create_table(f"db.{name}", DDL, partition_by=["bucket(2, id)"])
        t.append(frame, **options)
        found = t.inspect.files().to_pylist()
        keys = ("value_counts", "null_value_counts")
        counts[name] = (texts(t.to_spark(session)), {k: _added(found, k) for k in keys})
    assert counts["folder"] == counts["arrow"]


def _added(files, key):
    total = {}
    for f in files:
        for k, v in f[key]:
            total[k] = total.get(k, 0) + v
    return total


@pytest.mark.parametrize("format_", ["orc", "avro"])
def test_other_formats_and_types_go_through_arrow(catalog, session, format_):
    fields = (
        i.NestedField(1, "id", i.LongType()),
        i.NestedField(2, "u", i.UUIDType()),
        i.NestedField(3, "f", i.FixedType(2)),
    )
    t = catalog.create_table(
        "db.odd", Schema(*fields), properties={"write.format.default": format_}
    )
    frame = session.range(4).selectExpr(
        "id", "'f79c3e09-677c-4bbd-a479-3f349cb785e7' as u", "X'0102' as f"
    )
    t.append(frame)
    assert texts(t.to_spark(session)) == texts(frame)
    assert all(p.endswith(f".{format_}") for p in files_below(t.location()))


def test_variant_and_unknown_columns_are_written_by_spark(catalog, session):
    schema = Schema(
        i.NestedField(1, "id", i.LongType()),
        i.NestedField(2, "v", i.VariantType()),
        i.NestedField(3, "n", i.UnknownType()),
    )
    t = catalog.create_table("db.variant", schema, format_version=3)
    t.append(session.range(2).selectExpr("id", 'parse_json(\'{"a": [1, null, "x"]}\') v', "null n"))
    assert [r[0] for r in t.to_spark(session).selectExpr("to_json(v)").collect()] == [
        '{"a":[1,null,"x"]}'
    ] * 2
    assert t.to_arrow().column("v").to_pylist() == ['{"a":[1,null,"x"]}'] * 2


@pytest.mark.parametrize(("mode", "files"), [("none", 8), ("hash", 4), ("range", 4)])
def test_distribution_modes_decide_how_many_tasks_write_a_partition(catalog, session, mode, files):
    t = catalog.create_table(
        "db.dist",
        "id bigint, p int",
        partition_by=["p"],
        properties={"write.distribution-mode": mode},
    )
    t.append(session.range(0, 400, 1, 2).selectExpr("id", "cast(id % 4 as int) p"))
    assert len(t.scan().plan_files()) == files


def test_a_size_of_shuffles_where_nothing_is_shuffled_is_refused(catalog, session):
    plain, parted = (
        catalog.create_table("db.plain", "id bigint"),
        catalog.create_table("db.parted", "id bigint", partition_by=["id"]),
    )
    for t, more in (
        (plain, {}),
        (plain, {"distribution-mode": "hash"}),
        (parted, {"distribution-mode": "none"}),
    ):
        with pytest.raises(InvalidInput, match="advisory-partition-size.*not shuffled"):
            t.append(session.range(3), **{"advisory-partition-size": 1 << 20}, **more)
    parted.append(session.range(3), **{"advisory-partition-size": 1 << 20})
    assert parted.to_spark(session).count() == 3


def test_a_sorted_table_has_sorted_files_and_says_so(catalog, session):
    t = catalog.create_table(
        "db.sorted", "id bigint, p int", partition_by=["p"], sort_by=["id desc nulls last"]
    )
    t.append(
        session.range(0, 200, 1, 4).selectExpr("(id * 7919) % 1000 as id", "cast(id % 3 as int) p")
    )
    for task in t.scan().plan_files():
        ids = pq.ParquetFile(task.file.file_path).read().column("id").to_pylist()
        assert ids == sorted(ids, reverse=True)
        assert task.file.sort_order_id == t.sort_order().order_id


def test_a_small_target_makes_several_files_of_a_task(catalog, session):
    t = catalog.create_table("db.small", "id bigint, x string")
    t.append(
        session.range(0, 120_000, 1, 1).selectExpr("id", "sha2(cast(id as string), 256) x"),
        **{"target-file-size-bytes": 1 << 20},
    )
    assert len(t.scan().plan_files()) > 2
    assert t.to_spark(session).count() == 120_000


def test_compression_is_the_options_then_the_tables(catalog, session):
    t = catalog.create_table(
        "db.codec", "id bigint", properties={"write.parquet.compression-codec": "gzip"}
    )
    t.append(session.range(10))
    t.append(session.range(10), **{"compression-codec": "snappy"})
    codecs = {
        pq.read_metadata(p).row_group(0).column(0).compression for p in files_below(t.location())
    }
    assert codecs == {"GZIP", "SNAPPY"}


def test_frames_are_matched_by_name_and_cast_safely(catalog, session, rows):
    t = catalog.create_table(
        "db.cast", "id bigint, d double, s struct<a bigint, b string>, x string"
    )
    t.append(session.sql("select named_struct('b', 'q', 'a', 1) s, cast(1.5 as float) D, 3 id"))
    assert rows(t.to_spark(session)) == [{"id": 3, "d": 1.5, "s": {"a": 1, "b": "q"}, "x": None}]


def test_every_mismatch_is_told_and_nothing_is_written(catalog, session):
    t = catalog.create_table("db.bad", "id int, t timestamp, need string not null, s struct<a int>")
    with pytest.raises(SchemaMismatch) as e:
        t.append(
            session.sql(
                "select '5' id, timestamp_ntz'2020-01-01 00:00:00' t, named_struct('a', 'text') s, 1 extra"
            )
        )
    for part in (
        "id: string cannot be written as int",
        "t: timestamp_ntz",
        "need: required",
        "s.a: string",
        "extra: the table has no such column",
        "merge_schema=True adds new columns",
        "give them one",
    ):
        assert part in str(e.value)
    assert files_below(t.location()) == []


@pytest.mark.parametrize("format_", ["parquet", "orc"])
def test_a_partition_value_too_long_for_a_folder_is_named_and_leaves_no_file(
    catalog, session, format_
):
    t = catalog.create_table("db.t", "id bigint, name string", partition_by=["name"])
    frame = session.range(4).selectExpr("id", "if(id = 3, repeat('x', 300), 'ok') AS name")
    with pytest.raises(
        StorageError, match="too long for the name of a folder .partitioned by name"
    ):
        t.append(frame, write_format=format_)
    assert files_below(t.location()) == [] and t.current_snapshot() is None


@pytest.mark.parametrize("options", [{}, {"check_nullability": False}])
@pytest.mark.parametrize("format_", ["parquet", "orc"])
def test_a_null_in_a_required_column_fails_and_leaves_no_file(catalog, session, format_, options):
    t = catalog.create_table(
        "db.required", "id bigint not null", properties={"write.format.default": format_}
    )
    frame = session.range(0, 1000, 1, 4).selectExpr("nullif(id, 999) id")
    with pytest.raises(ValidationError, match="column id is required, and a row has null in it"):
        t.append(frame, **options)
    assert files_below(t.location()) == []
    assert t.refresh().current_snapshot() is None


def test_a_value_that_arrow_cannot_write_is_told_in_one_line(catalog, session):
    t = catalog.create_table("db.uuid", Schema(i.NestedField(1, "u", i.UUIDType())))
    with pytest.raises(InvalidInput, match=r"^[^{]*'nonsense' is not a uuid") as e:
        t.append(session.sql("select 'nonsense' u"))
    assert "\n" not in str(e.value)
    assert files_below(t.location()) == []


def test_files_of_attempts_that_nobody_reported_are_removed(catalog, session, monkeypatch):
    t = catalog.create_table("db.again", "id bigint", properties={"write.format.default": "orc"})
    context = WriteContext.of(t.metadata, t.io)
    stray = f"{t.location()}/data/00009-7-{context.operation_id}-00001.orc"
    os.makedirs(os.path.dirname(stray))
    with open(stray, "w") as f:
        f.write("left by a killed attempt")
    monkeypatch.setattr(spark_runner, "speculates", lambda _: True)
    monkeypatch.setattr(write_frame.WriteContext, "of", lambda *_: context)
    files = write_frame.write(session.range(10), t.metadata, t.io)
    assert sum(f.record_count for f in files) == 10
    assert sorted(files_below(t.location())) == sorted(f.file_path for f in files)


def test_merge_schema_adds_columns(catalog, session, rows):
    t = catalog.create_table("db.merge", "id bigint")
    t.append(session.sql("select 1L id, 'x' name, array(1) l"), merge_schema=True)
    assert rows(t.refresh().to_spark(session)) == [{"id": 1, "name": "x", "l": [1]}]


@pytest.mark.java
def test_java_reads_what_spark_wrote_and_goes_on(catalog, session, java_check):
    made = {}
    for name, partition_by in (("plain", []), ("many", EVERY[:4]), ("name", ["name"])):
        t = catalog.create_table(
            f"db.java_{name}",
            DDL,
            partition_by=partition_by,
            sort_by=["id"] if name == "many" else [],
        )
        t.append(frame_of(session))
        made[t.location()] = t.to_spark(session).count()
    found = java_check(list(made), write=True)
    for location, count in made.items():
        assert found[location]["ok"], found[location]["problems"]
        assert found[location]["rows"] == count


@pytest.mark.parametrize(
    ("file_format", "second"), [("parquet", "c.d"), ("orc", "c.d"), ("orc", "A.b")]
)
def test_names_with_dots_and_names_that_differ_in_case_pass_in_and_out(
    catalog, session, file_format, second
):
    ddl = f"`a.b` int, `{second}` string, x struct<`y.z`: int>"
    t = catalog.create_table("db.t", ddl, properties={"write.format.default": file_format})
    frame = session.createDataFrame([(1, "u", (5,)), (2, None, None)], ddl)
    t.append(frame)
    t.merge(frame, on="target.x IS NULL AND source.x IS NULL").when_matched_delete().execute()
    assert [tuple(r) for r in t.to_spark(session).collect()] == [(1, "u", (5,))]
