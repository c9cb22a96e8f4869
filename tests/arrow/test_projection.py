"""Columns are found by field id at any depth; what a file lacks is filled in as the spec says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from frazil.arrow.read.read_tasks import ReadContext, ReadOptions, read
from frazil.errors import CorruptData, NoSuchFileError, Unsupported
from frazil.expr.bind import bind
from frazil.expr.parse import parse
from frazil.spec.manifest import DataFile
from frazil.spec.name_mapping import mapping_of, name_mapping_to_json
from frazil.spec.partitioning import PartitionSpec, build_spec
from frazil.spec.schema import LAST_UPDATED_SEQUENCE_NUMBER_ID, PARTITION_ID, Schema
from frazil.spec.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
)
from tests.arrow.support import STORAGE, arrow_table, rows_of, task_of, written

N = NestedField
POINT = StructType(N(3, "x", IntegerType()), N(4, "y", FloatType(), True))
OLD = Schema(
    N(1, "id", IntegerType(), True),
    N(2, "p", POINT),
    N(5, "l", ListType(6, POINT.__class__(N(7, "a", IntegerType())), False)),
    N(8, "m", MapType(9, StringType(), 10, StructType(N(11, "k", DecimalType(5, 2))), False)),
    N(12, "d", DateType()),
)
ROWS = [
    {1: 1, 2: {3: 5, 4: 1.5}, 5: [{7: 1}, None], 8: [("q", {11: None})], 12: -1},
    {1: 2, 2: None, 5: None, 8: None, 12: None},
    {1: 3, 2: {3: None, 4: -0.0}, 5: [], 8: [], 12: 3},
]


@pytest.mark.parametrize("format_", ["parquet", "orc", "avro"])
def test_renamed_reordered_widened_and_added_fields_at_any_depth(tmp_path, format_):
    files = written(arrow_table(OLD, ROWS), OLD, tmp_path, format=format_)
    new = Schema(
        N(12, "when", TimestampType()),
        N(
            5,
            "things",
            ListType(
                6,
                StructType(N(21, "new", LongType(), initial_default=9), N(7, "alpha", LongType())),
                False,
            ),
        ),
        N(
            2,
            "point",
            StructType(
                N(4, "yy", DoubleType(), True),
                N(20, "z", StringType(), initial_default="?"),
                N(3, "x", LongType()),
            ),
        ),
        N(
            8,
            "m",
            MapType(
                9,
                StringType(),
                10,
                StructType(N(11, "k", DecimalType(9, 2)), N(22, "u", BooleanType())),
                False,
            ),
        ),
        N(1, "id", LongType(), True),
        N(30, "fresh", IntegerType()),
    )
    found = rows_of(files, new)
    found.validate(full=True)
    day = 86_400_000_000
    assert found["when"].cast(pa.int64()).to_pylist() == [-day, None, 3 * day]
    assert found["things"].to_pylist() == [[{"new": 9, "alpha": 1}, None], None, []]
    assert found["point"].to_pylist() == [
        {"yy": 1.5, "z": "?", "x": 5},
        None,
        {"yy": -0.0, "z": "?", "x": None},
    ]
    assert found["m"].to_pylist() == [[("q", {"k": None, "u": None})], None, []]
    assert found["fresh"].to_pylist() == [None] * 3


@pytest.mark.parametrize("format_", ["parquet", "orc", "avro"])
def test_a_struct_of_which_only_new_fields_are_wanted_keeps_its_nulls(tmp_path, format_):
    files = written(arrow_table(OLD, ROWS), OLD, tmp_path, format=format_)
    new = Schema(
        N(2, "p", StructType(N(20, "z", IntegerType(), initial_default=7))),
        N(5, "l", ListType(6, StructType(N(21, "n", StringType())), False)),
        N(8, "m", MapType(9, StringType(), 10, StructType(N(23, "n", StringType())), False)),
    )
    found = rows_of(files, new)
    assert found["p"].to_pylist() == [{"z": 7}, None, {"z": 7}]
    assert found["l"].to_pylist() == [[{"n": None}, None], None, []]
    assert found["m"].to_pylist() == [[("q", {"n": None})], None, []]


def test_a_default_of_a_whole_struct_fills_its_members_with_theirs(tmp_path):
    files = written(arrow_table(OLD, ROWS), OLD, tmp_path)
    inner = StructType(
        N(41, "a", IntegerType(), initial_default=1), N(42, "b", TimestampNanoType())
    )
    found = rows_of(
        files, Schema(N(40, "s", inner, initial_default={}), N(43, "t", replace_ids(inner, 50)))
    )
    assert found["s"].to_pylist()[0] == {"a": 1, "b": None}
    assert found["t"].to_pylist() == [None] * 3


def replace_ids(struct: StructType, first: int) -> StructType:
    return StructType(*(replace(f, field_id=first + i) for i, f in enumerate(struct.fields)))


def test_a_required_column_that_the_file_lacks_is_an_error_that_names_both(tmp_path):
    files = written(arrow_table(OLD, ROWS), OLD, tmp_path)
    with pytest.raises(CorruptData, match=r"needed.*required.*parquet"):
        rows_of(files, Schema(N(99, "needed", IntegerType(), True)))


def test_a_type_that_cannot_be_read_as_the_tables_is_an_error(tmp_path):
    files = written(arrow_table(OLD, ROWS), OLD, tmp_path)
    with pytest.raises(CorruptData, match="id"):
        rows_of(files, Schema(N(1, "id", StringType())))


def foreign(tmp_path, table) -> DataFile:
    path = tmp_path / "foreign.parquet"
    pq.write_table(table, path)
    return DataFile(
        file_path=str(path),
        file_format="parquet",
        record_count=table.num_rows,
        file_size_in_bytes=path.stat().st_size,
    )


def test_a_file_without_ids_is_read_by_the_name_mapping_and_by_position_without_one(tmp_path):
    schema = Schema(
        N(1, "a.b", LongType()),
        N(2, "s", StructType(N(3, "x", StringType()))),
        N(4, "l", ListType(5, IntegerType(), False)),
        N(6, "gone", LongType()),
    )
    file = foreign(
        tmp_path,
        pa.table({"s": [{"x": "q", "more": 1}], "a.b": [7], "l": [[1, None]], "other": [1]}),
    )
    with pytest.raises(CorruptData, match=r"s \(id 1\) is struct.*schema\.name-mapping\.default"):
        rows_of([file], schema)
    found = rows_of(
        [file], replace_type(schema, 4), name_mapping=name_mapping_to_json(mapping_of(schema))
    )
    assert found.to_pylist() == [{"a.b": 7, "s": {"x": "q"}, "l": [1, None], "gone": None}]


def replace_type(schema: Schema, field_id: int) -> Schema:
    return Schema(
        *(
            replace(f, field_type=ListType(5, LongType(), False)) if f.field_id == field_id else f
            for f in schema.fields
        )
    )


def test_identity_partition_values_stand_in_for_columns_the_file_lacks(tmp_path):
    schema = Schema(N(1, "a", LongType()), N(2, "p", StringType()), N(3, "d", DateType()))
    spec = build_spec(schema, ["p", "days(d)"])
    file = replace(foreign(tmp_path, pa.table({"a": [1, 2]})), partition=("x", 5))
    found = rows_of(
        [file], schema, spec=spec, name_mapping=name_mapping_to_json(mapping_of(schema))
    )
    assert found.to_pylist() == [{"a": 1, "p": "x", "d": None}, {"a": 2, "p": "x", "d": None}]


def test_metadata_columns_tell_where_rows_come_from(tmp_path):
    schema = Schema(N(1, "id", IntegerType(), True))
    spec = build_spec(schema, ["bucket(4, id)"])
    (file,) = written(arrow_table(schema, [{1: 7}] * 5), schema, tmp_path, spec=spec)
    partition = N(
        PARTITION_ID,
        "_partition",
        StructType(N(999, "old", StringType()), N(1000, "id_bucket", IntegerType())),
    )
    names = [
        ("_file", 2147483646, StringType()),
        ("_pos", 2147483645, LongType()),
        ("_spec_id", 2147483643, IntegerType()),
        ("_deleted", 2147483644, BooleanType()),
        ("_row_id", 2147483540, LongType()),
        ("_last_updated_sequence_number", LAST_UPDATED_SEQUENCE_NUMBER_ID, LongType()),
    ]
    wanted = Schema(*(N(i, n, t) for n, i, t in names), partition)
    context = ReadContext(wanted, STORAGE, schema)
    found = (
        read([task_of(replace(file, first_row_id=100), spec, sequence_number=9)], context)
        .read_all()
        .to_pylist()
    )
    assert [r["_pos"] for r in found] == [0, 1, 2, 3, 4]
    assert [r["_row_id"] for r in found] == [100, 101, 102, 103, 104]
    assert {r["_last_updated_sequence_number"] for r in found} == {9}
    assert found[0]["_file"] == file.file_path
    assert found[0]["_partition"] == {"old": None, "id_bucket": file.partition[0]}
    without = read([task_of(file, spec)], context).read_all().to_pylist()
    assert without[0]["_row_id"] is None
    assert without[0]["_last_updated_sequence_number"] is None


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize(
    "predicate",
    [
        "id > 2000",
        "s = 'x7'",
        "p.x < 10 or id = 4000",
        "id between 2500 and 2510 and s <> 'x3'",
        "id < 0",
        "id >= 0",
    ],
)
def test_a_filter_keeps_exactly_its_rows_and_their_positions(
    tmp_path, monkeypatch, later, predicate
):
    if later:
        monkeypatch.setattr("frazil.arrow.read.read_tasks.LATER", 0)
    schema = Schema(
        N(1, "id", LongType()),
        N(2, "s", StringType()),
        N(3, "p", StructType(N(4, "x", LongType()), N(5, "y", StringType()))),
    )
    rows = [
        {1: i, 2: f"x{i % 10}", 3: None if i % 7 == 0 else {4: i % 100, 5: "y"}}
        for i in range(5000)
    ]
    files = written(
        arrow_table(schema, rows),
        schema,
        tmp_path,
        properties={"write.parquet.row-group-size-bytes": "20000"},
    )
    keep = {
        "id > 2000": lambda r: r[1] > 2000,
        "s = 'x7'": lambda r: r[2] == "x7",
        "p.x < 10 or id = 4000": lambda r: bool(r[3] and r[3][4] < 10) or r[1] == 4000,
        "id between 2500 and 2510 and s <> 'x3'": lambda r: 2500 <= r[1] <= 2510 and r[2] != "x3",
        "id < 0": lambda r: False,
        "id >= 0": lambda r: True,
    }[predicate]
    bound = bind(parse(predicate), schema)
    wanted = Schema(
        N(3, "p", StructType(N(5, "y", StringType()))), N(2147483645, "_pos", LongType())
    )
    context = ReadContext(wanted, STORAGE, schema, bound, options=ReadOptions(batch_size=700))
    found = read([task_of(f, row_filter=bound) for f in files], context).read_all()
    assert found["_pos"].to_pylist() == [r[1] for r in rows if keep(r)]
    assert found["p"].to_pylist() == [None if r[3] is None else {"y": "y"} for r in rows if keep(r)]


def test_a_limit_stops_early_and_the_empty_projection_still_counts(tmp_path):
    schema = Schema(N(1, "id", LongType()))
    files = [
        written(arrow_table(schema, [{1: i} for i in range(100)]), schema, tmp_path)[0]
        for _ in range(3)
    ]
    tasks = [task_of(f) for f in files]
    assert read(tasks, ReadContext(schema, STORAGE, schema), limit=150).read_all().num_rows == 150
    assert read(tasks, ReadContext(schema, STORAGE, schema), limit=0).read_all().num_rows == 0
    assert sum(b.num_rows for b in read(tasks, ReadContext(Schema(), STORAGE, schema))) == 300


@pytest.mark.parametrize("workers", [1, 3])
def test_rows_come_in_the_order_of_tasks_however_many_threads_read(tmp_path, workers):
    schema = Schema(N(1, "id", LongType()))
    files = [
        written(arrow_table(schema, [{1: 100 * n + i} for i in range(100)]), schema, tmp_path)[0]
        for n in range(40)
    ]
    context = ReadContext(
        schema, STORAGE, schema, options=ReadOptions(workers=workers, memory=1000, batch_size=7)
    )
    assert read([task_of(f) for f in files], context).read_all()["id"].to_pylist() == list(
        range(4000)
    )


@pytest.mark.parametrize("format_", ["parquet", "orc", "avro"])
def test_damaged_files_are_named_whatever_is_wrong_with_them(tmp_path, format_):
    (file,) = written(arrow_table(OLD, ROWS * 50), OLD, tmp_path, format=format_)
    data = Path(file.file_path).read_bytes()
    errors = 0
    for cut in {0, 1, len(data) // 3, len(data) - 1, *range(5, len(data), max(1, len(data) // 40))}:
        for broken in (
            data[:cut],
            data[:cut] + bytes([data[cut] ^ 0xFF]) + data[cut + 1 :] if cut < len(data) else data,
        ):
            with open(file.file_path, "wb") as f:
                f.write(broken)
            try:
                rows_of([file], OLD)
            except (CorruptData, Unsupported) as e:
                errors += 1
                assert (
                    isinstance(e, Unsupported)
                    or file.file_path in str(e)
                    or e.facts.get("file") == file.file_path
                )
    assert errors > 20


def test_a_missing_file_and_an_encrypted_one_are_told_apart(tmp_path):
    gone = DataFile(
        file_path=str(tmp_path / "gone.parquet"),
        file_format="parquet",
        record_count=1,
        file_size_in_bytes=10,
    )
    schema = Schema(N(1, "id", LongType()))
    with pytest.raises(NoSuchFileError, match=r"gone\.parquet"):
        rows_of([gone], schema)
    with pytest.raises(Unsupported, match="encrypted"):
        read(
            [task_of(replace(gone, key_metadata=b"k"))], ReadContext(schema, STORAGE, schema)
        ).read_all()


def test_parts_of_a_file_cover_its_row_groups_once_each(tmp_path):
    schema = Schema(N(1, "id", LongType()))
    (file,) = written(
        arrow_table(schema, [{1: i} for i in range(5000)]),
        schema,
        tmp_path,
        properties={"write.parquet.row-group-size-bytes": "8000"},
    )
    whole, size = task_of(file, PartitionSpec()), file.file_size_in_bytes
    cuts = [0, size // 3, size // 2, size]
    parts = [whole.part(a, b - a) for a, b in zip(cuts, cuts[1:], strict=False)]
    assert read(parts, ReadContext(schema, STORAGE, schema)).read_all()["id"].to_pylist() == list(
        range(5000)
    )
