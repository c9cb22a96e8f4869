"""Existing Parquet files become data files: metrics from footers, partition values from metrics or
paths.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from frazil import load_catalog
from frazil.arrow.write.add_files import data_files_of
from frazil.codec.single_value import to_bytes
from frazil.errors import CorruptData, InvalidInput, NoSuchFileError, SchemaMismatch, Unsupported
from frazil.spec.metadata import TableMetadata
from frazil.spec.partitioning import build_spec
from frazil.spec.schema import Schema
from frazil.spec.types import (
    DateType,
    DoubleType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)
from frazil.tasks.runner import InProcess
from tests.arrow.support import STORAGE, arrow_table, written

N = NestedField
SCHEMA = Schema(
    N(1, "id", LongType()), N(2, "p", StringType()), N(3, "d", DateType()), N(4, "f", DoubleType())
)


def metadata(*terms: str, **properties: str) -> TableMetadata:
    return TableMetadata(
        format_version=2,
        table_uuid="u",
        location="/t",
        last_updated_ms=0,
        last_column_id=4,
        schemas=(SCHEMA,),
        partition_specs=(build_spec(SCHEMA, terms),),
        properties=properties,
    )


def parquet(where, table: pa.Table, name: str = "x.parquet") -> str:
    path = where / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)
    return str(path)


def test_metrics_come_from_the_footer(tmp_path):
    path = parquet(
        tmp_path,
        pa.table({"id": [3, 1, None], "p": ["b", "a", "b"], "f": [1.0, float("nan"), 2.0]}),
    )
    (file,) = data_files_of([path], metadata(), STORAGE)
    assert (file.record_count, file.file_size_in_bytes, file.split_offsets) == (
        3,
        (tmp_path / "x.parquet").stat().st_size,
        (4,),
    )
    assert (file.value_counts[1], file.null_value_counts[1], file.lower_bounds[1]) == (
        3,
        1,
        to_bytes(LongType(), 1),
    )
    assert 4 not in (file.nan_value_counts or {})
    assert file.partition == ()


def test_partition_values_come_from_bounds_that_agree(tmp_path):
    one = parquet(
        tmp_path,
        pa.table(
            {
                "id": [1, 2],
                "p": ["a" * 30] * 2,
                "d": pa.array([10, 29], pa.int32()).view(pa.date32()),
            }
        ),
    )
    null = parquet(
        tmp_path,
        pa.table(
            {
                "id": [1],
                "p": pa.array([None], pa.string()),
                "d": pa.array([-1], pa.int32()).view(pa.date32()),
            }
        ),
        "n.parquet",
    )
    files = data_files_of([one, null], metadata("p", "months(d)"), STORAGE)
    assert [f.partition for f in files] == [("a" * 30, 0), (None, -1)]
    mixed = parquet(tmp_path, pa.table({"id": [1, 2], "p": ["a", "b"]}), "m.parquet")
    with pytest.raises(InvalidInput, match="several partitions"):
        data_files_of([mixed], metadata("p"), STORAGE)


def test_partition_values_of_columns_outside_the_file_come_from_its_path(tmp_path):
    path = parquet(tmp_path, pa.table({"id": [1]}), "p=a%20b/d=2020-01-02/x.parquet")
    none = parquet(
        tmp_path, pa.table({"id": [1]}), "p=__HIVE_DEFAULT_PARTITION__/d=2020-01-02/x.parquet"
    )
    files = data_files_of([path, none], metadata("p", "d"), STORAGE)
    assert [f.partition for f in files] == [("a b", 18263), (None, 18263)]
    with pytest.raises(InvalidInput, match="d"):
        data_files_of(
            [parquet(tmp_path, pa.table({"id": [1]}), "p=a/d=soon/x.parquet")],
            metadata("p", "d"),
            STORAGE,
        )
    with pytest.raises(InvalidInput, match="neither"):
        data_files_of([parquet(tmp_path, pa.table({"id": [1]}))], metadata("p"), STORAGE)


def test_files_that_do_not_fit_are_refused_by_name(tmp_path):
    with pytest.raises(SchemaMismatch, match=r"x\.parquet"):
        data_files_of([parquet(tmp_path, pa.table({"id": ["text"]}))], metadata(), STORAGE)
    with pytest.raises(NoSuchFileError):
        data_files_of([str(tmp_path / "gone.parquet")], metadata(), STORAGE)
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 no file PAR1")
    with pytest.raises(CorruptData, match="bad"):
        data_files_of([str(tmp_path / "bad.parquet")], metadata(), STORAGE)
    with pytest.raises(Unsupported, match="orc"):
        data_files_of([str(tmp_path / "x.orc")], metadata(), STORAGE)


def numbered(name, type_, number):
    return pa.field(name, type_, metadata={"PARQUET:field_id": str(number)})


def test_columns_that_the_table_has_not_are_refused(tmp_path):
    """Nobody would see their values. Columns that the table had once are known to be gone."""
    inside = Schema(*SCHEMA.fields, N(5, "s", StructType(N(6, "a", LongType()))))
    struct = pa.array([{"a": 1, "b": 2}], pa.struct([("a", pa.int64()), ("b", pa.int64())]))
    with pytest.raises(
        SchemaMismatch,
        match=r"x\.parquet has columns that the table does not have: s\.b, more\. Add the columns first",
    ):
        data_files_of(
            [parquet(tmp_path, pa.table({"id": [1], "s": struct, "more": [1]}))],
            replace(metadata(), schemas=(inside,)),
            STORAGE,
        )
    (own,) = written(arrow_table(SCHEMA, [{1: 1, 2: "a", 3: 0, 4: 0.5}]), SCHEMA, tmp_path / "own")
    narrow = replace(
        metadata(), schemas=(SCHEMA, Schema(*SCHEMA.fields[:2], schema_id=1)), current_schema_id=1
    )
    assert data_files_of([own.file_path], narrow, STORAGE)[0].value_counts.keys() == {1, 2}
    with pytest.raises(
        SchemaMismatch,
        match=r"does not have: d, f\. The field ids in the file are those of another table",
    ):
        data_files_of([own.file_path], replace(narrow, schemas=narrow.schemas[1:]), STORAGE)


def test_elements_without_ids_and_columns_that_the_mapping_leaves_out_are_no_unknown_columns(
    tmp_path,
):
    lists = Schema(N(1, "id", LongType()), N(2, "l", ListType(3, LongType())))
    file = pa.table(
        [[1], [[1]]],
        schema=pa.schema([numbered("id", pa.int64(), 1), numbered("l", pa.list_(pa.int64()), 2)]),
    )
    assert (
        data_files_of([parquet(tmp_path, file)], replace(metadata(), schemas=(lists,)), STORAGE)[
            0
        ].record_count
        == 1
    )
    mapped = metadata(
        **{"schema.name-mapping.default": '[{"field-id": 1, "names": ["id"]}, {"names": ["more"]}]'}
    )
    plain = parquet(tmp_path, pa.table({"id": [1], "more": [2]}), "mapped.parquet")
    assert data_files_of([plain], mapped, STORAGE)[0].record_count == 1
    with pytest.raises(
        SchemaMismatch, match="Names are matched with their case: the table's column is 'id'"
    ):
        data_files_of(
            [parquet(tmp_path, pa.table({"ID": [1]}), "case.parquet")], metadata(), STORAGE
        )


def test_ids_inside_columns_and_of_dropped_ones_must_mean_the_tables_too(tmp_path):
    """Spark's scan looks up filters and members by name, and trusts files that were checked."""
    inside = StructType(N(3, "x", LongType()), N(4, "y", LongType()))
    before = Schema(
        N(1, "a.b", LongType()),
        N(2, "l", ListType(5, ListType(6, inside))),
        N(7, "old", LongType()),
        schema_id=0,
    )
    now = Schema(*before.fields[:2], schema_id=1)
    table = replace(metadata(), schemas=(before, now), current_schema_id=1)

    def file(dotted, first, second, old):
        point = pa.struct([numbered(first, pa.int64(), 3), numbered(second, pa.int64(), 4)])
        inner = pa.list_(numbered("item", point, 6))
        columns = [
            numbered(dotted, pa.int64(), 1),
            numbered("l", pa.list_(numbered("array", inner, 5)), 2),
            numbered(old, pa.int64(), 7),
        ]
        values = [[1], [[[{first: 1, second: 2}]]], [1]]
        rows = [pa.array(v, f.type) for v, f in zip(values, columns, strict=True)]
        return parquet(tmp_path, pa.Table.from_arrays(rows, schema=pa.schema(columns)))

    for name in ("a.b", "a_x2Eb"):  # as Java spells it in files
        assert data_files_of([file(name, "x", "y", "old")], table, STORAGE)[0].record_count == 1
    for names, meant in (
        (("b", "x", "y", "old"), "id 1 is column b in the file and a.b in"),
        (("a.b", "y", "x", "old"), "id 3 is column l.y in the file and l.element.element.x in"),
        (("a.b", "x", "y", "a"), "id 7 is column a in the file and a dropped column in"),
    ):
        with pytest.raises(SchemaMismatch, match=meant):
            data_files_of([file(*names)], table, STORAGE)


def test_ids_of_the_file_itself_must_mean_the_tables_columns(tmp_path):
    other = Schema(N(1, "ID2", LongType()), N(9, "more", IntegerType()))
    (strange,) = written(arrow_table(other, [{1: 1, 9: 2}]), other, tmp_path)
    with pytest.raises(SchemaMismatch, match="ID2"):
        data_files_of([strange.file_path], metadata(), STORAGE)
    (own,) = written(arrow_table(SCHEMA, [{1: 1, 2: "a", 3: 0, 4: 0.5}]), SCHEMA, tmp_path / "own")
    (file,) = data_files_of([own.file_path], metadata(), STORAGE)
    assert (file.lower_bounds, file.value_counts) == (own.lower_bounds, own.value_counts)


def test_one_partition_of_doubles_is_told_by_the_rows_not_by_the_footer(tmp_path):
    """Footers leave NaN out of their bounds and say -0.0 for the least of any zeros."""
    nan, by_f = float("nan"), metadata("f")
    for name, rows in {
        "zero": [0.0, 0.0],
        "minus": [-0.0],
        "nan": [nan, nan],
        "one": [1.5],
    }.items():
        (file,) = data_files_of(
            [parquet(tmp_path, pa.table({"id": [1] * len(rows), "f": rows}), f"{name}.parquet")],
            by_f,
            STORAGE,
        )
        assert repr(file.partition) == repr((rows[0],))
    for rows in ([1.5, nan], [0.0, -0.0], [0.0, None], [nan, None], [1.0, 2.0]):
        with pytest.raises(InvalidInput, match="several partitions"):
            data_files_of(
                [parquet(tmp_path, pa.table({"id": [1, 2], "f": pa.array(rows, pa.float64())}))],
                by_f,
                STORAGE,
            )


@pytest.mark.parametrize("statistics", [True, False])
def test_dates_that_spark_wrote_by_the_old_calendar_are_refused(tmp_path, statistics):
    """Spark marks such files; the days before 1582 in them would be others in Iceberg."""
    ids = Schema(
        N(1, "d", DateType()),
        N(2, "l", ListType(3, DateType(), False)),
        N(4, "m", MapType(5, DateType(), 6, DateType(), False)),
    )
    of = replace(metadata(), schemas=(ids,))
    day, old = dt.date(1582, 10, 15), dt.date(1582, 10, 14)

    def written_by_spark(name: str, **notes: str) -> str:
        table = pa.table({c: pa.array([v], t) for c, (v, t) in values.items()})
        path = tmp_path / f"{name}.parquet"
        pq.write_table(
            table.replace_schema_metadata({f"org.apache.spark.{k}": v for k, v in notes.items()}),
            path,
            write_statistics=statistics,
        )
        return str(path)

    days = pa.map_(pa.date32(), pa.date32())
    values = {
        "d": (day, pa.date32()),
        "l": ([day, None], pa.list_(pa.date32())),
        "m": ([(day, day)], days),
    }
    assert (
        len(
            data_files_of(
                [written_by_spark("young", version="4.1.0", legacyDateTime="")], of, STORAGE
            )
        )
        == 1
    )
    for column, value in (("d", old), ("l", [day, old]), ("m", [(old, day)]), ("m", [(day, old)])):
        before = values[column]
        values[column] = (value, before[1])
        for notes in ({"version": "3.5.1", "legacyDateTime": ""}, {"version": "2.4.8"}):
            with pytest.raises(Unsupported, match=rf"Column {column}.* holds dates before 1582.*"):
                data_files_of([written_by_spark("old", **notes)], of, STORAGE)
        assert len(data_files_of([written_by_spark("new", version="4.1.0")], of, STORAGE)) == 1
        values[column] = before


def test_times_that_spark_wrote_by_the_old_calendar_are_refused(tmp_path):
    of = replace(metadata(), schemas=(Schema(N(1, "t", TimestamptzType())),))
    for unit in ("ms", "us", "int96"):
        for year, refused in ((1899, True), (1900, False)):
            moments = pa.array(
                [dt.datetime(year, 1, 1), None],
                pa.timestamp("us" if unit == "int96" else unit, "UTC"),
            )
            table = pa.table({"t": moments}).replace_schema_metadata(
                {"org.apache.spark.legacyINT96": "", "org.apache.spark.version": "3.5.1"}
            )
            path = tmp_path / f"{unit}{year}.parquet"
            pq.write_table(table, path, use_deprecated_int96_timestamps=unit == "int96")
            if refused:
                with pytest.raises(Unsupported, match="times before 1900"):
                    data_files_of([str(path)], of, STORAGE)
            else:
                assert len(data_files_of([str(path)], of, STORAGE)) == 1


def test_files_that_hold_views_are_filtered_and_changed(tmp_path):
    """pyarrow reads what it wrote as views, and can neither filter nor take from them."""
    rows = [
        {"id": n, "s": f"v{n % 3}", "b": bytes([n]), "l": ["x", None], "m": [("k", b"1")]}
        for n in range(6)
    ]
    view = {
        "s": pa.string_view(),
        "b": pa.binary_view(),
        "l": pa.list_(pa.string_view()),
        "m": pa.map_(pa.string_view(), pa.binary_view()),
    }
    path = parquet(
        tmp_path / "in", pa.Table.from_pylist(rows, pa.schema([("id", pa.int64()), *view.items()]))
    )
    catalog = load_catalog("views", type="path", warehouse=str(tmp_path / "wh"))
    catalog.create_namespace("db")
    t = catalog.create_table(
        "db.t", "id bigint, s string, b binary, l array<string>, m map<string, binary>"
    )
    t.add_files([path])
    assert t.scan("s = 'v1'").to_arrow().to_pylist() == [r for r in rows if r["s"] == "v1"]
    for mode, gone in (("merge-on-read", 0), ("copy-on-write", 1)):
        t.delete(f"id = {gone}", mode=mode, runner=InProcess())
        assert t.scan().to_arrow().to_pylist() == rows[gone + 1 :]
    t.update(set={"s": "concat(s, '!')"}, where="id = 5", runner=InProcess())
    assert t.scan("s = 'v2!'").count() == 1
