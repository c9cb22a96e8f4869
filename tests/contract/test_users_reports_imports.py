"""What users of other engines reported of files that other writers made and a table takes as they
are: names used again, odd encodings.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from frazil.catalog import Catalog
from frazil.errors import CorruptData, SchemaMismatch, ValidationException
from frazil.spec.ddl import parse_schema
from frazil.spec.name_mapping import mapping_of, name_mapping_to_json
from frazil.spec.types import LongType, StringType
from frazil.table import Table
from tests.builders.catalogs import catalog_of
from tests.builders.data_files import taken_as_it_is

D = decimal.Decimal


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return catalog_of("path", tmp_path)


def imported(catalog: Catalog, tmp_path: Path, schema: str, rows: pa.Table) -> Table:
    """A table of one file without field ids."""
    pq.write_table(rows, tmp_path / "plain.parquet")
    t = catalog.create_table("db.t", schema)
    t.add_files([str(tmp_path / "plain.parquet")])
    return t


def rows_of(t: Table) -> list[dict[str, Any]]:
    return list(t.refresh().scan().to_arrow().to_pylist())


WORDS = pa.table({"first": ["aaa"], "second": ["bbb"]})


def renamed(t: Table, *pairs: tuple[str, str]) -> None:
    for old, new in pairs:
        with t.update_schema() as update:
            update.rename_column(old, new)


@pytest.fixture
def t(catalog: Catalog, tmp_path: Path) -> Table:
    return imported(catalog, tmp_path, "first string, second string", WORDS)


def test_a_new_column_with_the_old_name_of_a_renamed_one_takes_no_values_from_files_without_ids(
    t: Table,
) -> None:
    renamed(t, ("second", "renamed"))
    with t.update_schema() as update:
        update.add_column("second", StringType())
    old = {"first": "aaa", "renamed": "bbb", "second": None}
    assert rows_of(t) == [old]
    assert (
        t.scan("second is null and renamed = 'bbb'").count(),
        t.scan("second = 'bbb'").count(),
    ) == (1, 0)
    new = {"first": "f", "renamed": "r", "second": "s"}
    t.append([new])
    assert sorted(rows_of(t), key=str) == [old, new]
    t.maintenance.rewrite_data_files(options={"rewrite-all": True})
    assert sorted(rows_of(t), key=str) == [old, new]


@pytest.mark.parametrize("at_once", [False, True])
def test_values_of_files_without_ids_follow_columns_that_swap_names(
    t: Table, at_once: bool
) -> None:
    if at_once:
        with t.update_schema() as update:
            update.rename_column("first", "second")
            update.rename_column("second", "first")
    else:
        renamed(t, ("first", "other"), ("second", "first"), ("other", "second"))
    assert rows_of(t) == [{"second": "aaa", "first": "bbb"}]


def test_a_name_that_was_dropped_and_added_again_shows_no_values_of_the_dropped_column(
    t: Table,
) -> None:
    with t.update_schema() as update:
        update.delete_column("second")
    with t.update_schema() as update:
        update.add_column("second", LongType())
    assert rows_of(t) == [{"first": "aaa", "second": None}]


def test_members_of_structs_in_lists_and_maps_keep_their_names_in_files_without_ids(
    catalog: Catalog, tmp_path: Path
) -> None:
    point = pa.struct([("x", pa.int64()), ("y", pa.int64())])
    columns = {"s": point, "l": pa.list_(point), "m": pa.map_(pa.string(), point)}
    one = {"x": 1, "y": 2}
    rows = pa.table(
        {
            "s": pa.array([one], columns["s"]),
            "l": pa.array([[one]], columns["l"]),
            "m": pa.array([[("k", one)]], columns["m"]),
        }
    )
    inner = "struct<x: bigint, y: bigint>"
    t = imported(catalog, tmp_path, f"s {inner}, l array<{inner}>, m map<string, {inner}>", rows)
    renamed(t, ("s.x", "was"), ("l.element.x", "was"), ("m.value.x", "was"))
    with t.update_schema() as update:
        for parent in ("s", "l", "m"):
            update.add_column((parent, "x"), LongType())
    now = {"was": 1, "y": 2, "x": None}
    assert rows_of(t) == [{"s": now, "l": [now], "m": [("k", now)]}]


def test_a_later_file_without_ids_in_which_a_name_would_mean_the_older_column_is_refused(
    t: Table, tmp_path: Path
) -> None:
    renamed(t, ("second", "renamed"))
    late = str(tmp_path / "late.parquet")
    pq.write_table(WORDS, late)
    t.add_files([late])
    both = str(tmp_path / "both.parquet")
    pq.write_table(WORDS.append_column("renamed", pa.array(["r"])), both)
    with pytest.raises(SchemaMismatch, match="both second and renamed are names of one column"):
        t.add_files([both])
    with t.update_schema() as update:
        update.add_column("second", StringType())
    again = str(tmp_path / "again.parquet")
    pq.write_table(WORDS, again)
    with pytest.raises(
        SchemaMismatch, match="the name second means the older column, which is renamed now"
    ):
        t.add_files([again])
    assert rows_of(t) == [{"first": "aaa", "renamed": "bbb", "second": None}] * 2


def test_a_file_is_added_a_second_time_only_where_that_is_allowed(t: Table, tmp_path: Path) -> None:
    path = str(tmp_path / "plain.parquet")
    folder = f"parquet.`{tmp_path}/only`"
    (tmp_path / "only").mkdir()
    pq.write_table(WORDS, tmp_path / "only" / "x.parquet")
    t.add_files([str(tmp_path / "only" / "x.parquet")])
    adds: list[Callable[[bool], Any]] = [
        lambda check: t.add_files([path], check_duplicate_files=check),
        lambda check: t.maintenance.add_files(folder, check_duplicate_files=check, dry_run=True),
        lambda check: t.maintenance.add_files(folder, check_duplicate_files=check),
    ]
    for add, rows in zip(adds, (3, 3, 4), strict=True):
        with pytest.raises(ValidationException, match="already referenced by table"):
            add(True)
        add(False)
        assert len(rows_of(t)) == t.count() == rows
    late = str(tmp_path / "late.parquet")
    pq.write_table(WORDS, late)
    with t.transaction() as transaction:
        transaction.add_files([late], check_duplicate_files=False)
        transaction.add_files([late], check_duplicate_files=False)
    assert len(rows_of(t)) == 6


def test_a_replaced_table_takes_files_without_ids_with_its_new_columns(tmp_path: Path) -> None:
    catalog = catalog_of("sql", tmp_path)
    t = imported(catalog, tmp_path, "first string, second string", WORDS)
    before = t.current_snapshot()
    assert before is not None
    renamed(t, ("second", "renamed"))
    with catalog.replace_table_transaction("db.t", parse_schema("first string, third string")):
        pass
    t.refresh()
    pq.write_table(pa.table({"first": ["a"], "third": ["c"]}), tmp_path / "third.parquet")
    t.add_files([str(tmp_path / "third.parquet")])
    assert rows_of(t) == [{"first": "a", "third": "c"}]
    assert t.scan(snapshot_id=before.snapshot_id).to_arrow().to_pylist() == [
        {"first": "aaa", "second": "bbb"}
    ]


@pytest.mark.spark
def test_spark_reads_names_that_were_used_again_as_arrow_does(
    plain_spark: Any, catalog: Catalog, tmp_path: Path
) -> None:
    t = imported(
        catalog,
        tmp_path,
        "first string, second string, third string",
        WORDS.append_column("third", pa.array(["ccc"])),
    )
    renamed(t, ("first", "other"), ("second", "first"), ("other", "second"), ("third", "last"))
    with t.update_schema() as update:
        update.add_column("third", StringType())
    t.append([{"second": "s", "first": "f", "last": "l", "third": "t"}])
    wanted = sorted(rows_of(t), key=str)
    assert wanted[0] == {"second": "aaa", "first": "bbb", "last": "ccc", "third": None}
    assert sorted((r.asDict() for r in t.scan().to_spark(plain_spark).collect()), key=str) == wanted
    assert t.scan().to_spark(plain_spark).where("third is null and first = 'bbb'").count() == 1


def with_mapping(t: Table) -> None:
    t.set_properties({"schema.name-mapping.default": name_mapping_to_json(mapping_of(t.schema()))})


@pytest.mark.parametrize(
    ("written", "declared"),
    [("timestamp", "timestamp"), ("instant", "timestamp_ntz")],
)
def test_orc_times_of_a_clock_are_no_instants_and_instants_no_times_of_a_clock(
    catalog: Catalog, tmp_path: Path, written: str, declared: str
) -> None:
    """ORC keeps what a clock showed in a zone of the writer's own (Hive, Spark), so that no reader
    knows which instant it was. Java refuses such columns, too."""
    moments = pa.array([0, 1], pa.timestamp("us", "UTC" if written == "instant" else None))
    orc.write_table(pa.table({"id": [1, 2], "at": moments}), tmp_path / "x.orc")
    t = catalog.create_table("db.t", f"id bigint, at {declared}")
    with_mapping(t)
    taken_as_it_is(t, tmp_path / "x.orc", 2)
    with pytest.raises(CorruptData, match="at .* cannot be read as the table's timestamp"):
        t.refresh().scan().to_arrow()
    assert t.scan(selected_fields=("id",)).to_arrow()["id"].to_pylist() == [1, 2]


def test_columns_that_were_written_without_a_type_are_null(
    catalog: Catalog, tmp_path: Path
) -> None:
    """Writers that saw nothing but nulls leave columns of Arrow's null type, of v3's `unknown`."""
    nothing = pa.nulls(2)
    rows = pa.table(
        {
            "id": [1, 2],
            "s": nothing,
            "d": nothing,
            "l": pa.array([[None], []], pa.list_(pa.null())),
            "p": pa.StructArray.from_arrays([nothing, pa.array([1, None])], ["x", "y"]),
        }
    )
    pq.write_table(rows, tmp_path / "x.parquet")
    t = catalog.create_table(
        "db.t",
        "id bigint, s string, d decimal(9, 2), l array<int>, p struct<x: double, y: bigint>",
    )
    with_mapping(t)
    taken_as_it_is(t, tmp_path / "x.parquet", 2)
    assert rows_of(t) == rows.to_pylist()
    assert (t.scan("s is null").count(), t.scan("d > 0 or p.x = 1").count()) == (2, 0)


@pytest.mark.spark
def test_spark_reads_decimals_in_bytes_of_any_length_as_arrow_does(
    plain_spark: Any, catalog: Catalog, tmp_path: Path
) -> None:
    """Avro's Parquet writer keeps decimals so; Spark fails at their nulls."""
    parquet, file = plain_spark._jvm.org.apache.parquet, tmp_path / "x.parquet"
    schema = parquet.schema.MessageTypeParser.parseMessageType(
        "message m { required int32 id; optional binary d (DECIMAL(9, 2)); }"
    )
    path = plain_spark._jvm.org.apache.hadoop.fs.Path(f"file://{file}")
    writer = parquet.hadoop.example.ExampleParquetWriter.builder(path).withType(schema).build()
    for number, amount in enumerate((b"\x7f", b"\xff\x00", None)):
        row = parquet.example.data.simple.SimpleGroup(schema)
        row.add("id", number)
        if amount is not None:
            row.add("d", parquet.io.api.Binary.fromConstantByteArray(amount))
        writer.write(row)
    writer.close()
    t = catalog.create_table("db.t", "id int, d decimal(9, 2)")
    with_mapping(t)
    taken_as_it_is(t, file, 3)
    assert sorted(tuple(r) for r in t.refresh().scan().to_spark(plain_spark).collect()) == [
        (0, D("1.27")),
        (1, D("-2.56")),
        (2, None),
    ]
    assert t.scan("d < 0").to_spark(plain_spark).count() == 1
