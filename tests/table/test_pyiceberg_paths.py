"""Scripts written for PyIceberg: imports with `pyiceberg` replaced by `frazil`, and the calls that
go with them.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import frazil
from frazil.catalog import Catalog, load_catalog
from frazil.errors import (
    InvalidInput,
    NoSuchFileError,
    SchemaMismatch,
    Unsupported,
    ValidationError,
    ValidationException,
)
from frazil.io.pyarrow import parquet_files_to_data_files, pyarrow_to_schema, schema_to_pyarrow
from frazil.partitioning import PartitionField, PartitionSpec
from frazil.schema import Schema
from frazil.spec.properties import TABLE_PROPERTIES
from frazil.table import Table, TableProperties
from frazil.table.refs import SnapshotRefType
from frazil.table.snapshots import Operation
from frazil.table.sorting import SortField, SortOrder
from frazil.table.statistics import BlobMetadata, PartitionStatisticsFile, StatisticsFile
from frazil.types import (
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
from frazil.view import SQLViewRepresentation, ViewVersion
from tests.builders.frames import ids

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "s": ["a", None, "c"]})


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    found = load_catalog(
        "own", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=str(tmp_path / "w")
    )
    found.create_namespace("d")
    return found


@pytest.fixture
def table(catalog: Catalog) -> Table:
    made = catalog.create_table("d.t", ROWS.schema)
    made.append(ROWS)
    return made


# --- imports

MODULES = (
    "catalog", "exceptions", "expressions", "io", "io.pyarrow", "partitioning", "schema", "table", "table.sorting", "table.snapshots",
    "table.refs", "table.statistics", "transforms", "types", "view", "typedef", "manifest", "table.metadata", "table.update",
)  # fmt: skip


@pytest.mark.parametrize("module", MODULES)
def test_each_module_can_be_the_first_import_and_gives_all_that_it_names(module: str) -> None:
    code = f"from frazil.{module} import *; import frazil.{module} as m; print([n for n in m.__all__ if n not in globals()])"
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert (run.stdout.strip(), run.stderr) == ("[]", "")


@pytest.mark.parametrize(
    "module, name",
    [
        ("catalog", "load_catalog"),
        ("catalog", "Catalog"),
        ("schema", "Schema"),
        ("types", "NestedField"),
        ("partitioning", "PartitionSpec"),
        ("transforms", "BucketTransform"),
        ("table", "Table"),
        ("table", "StaticTable"),
        ("table.sorting", "SortOrder"),
    ],
)
def test_what_a_module_gives_is_what_the_package_gives(module: str, name: str) -> None:
    assert getattr(importlib.import_module(f"frazil.{module}"), name) is getattr(frazil, name)


def test_a_name_that_is_in_neither_is_missed_as_python_does() -> None:
    with pytest.raises(ImportError, match="load_catalogue"):
        exec("from frazil.catalog import load_catalogue")


# --- schemas

BIDS = Schema(
    NestedField(1, "at", TimestampType(), required=True),
    NestedField(2, "symbol", "string", required=True),
    NestedField(4, "ask", "double"),
    NestedField(5, "details", StructType(NestedField(4, "by", StringType()))),
)


def test_a_schema_with_an_id_twice_makes_a_table_with_ids_of_its_own(catalog: Catalog) -> None:
    t = catalog.create_table(
        "d.bids",
        BIDS,
        partition_spec=PartitionSpec(PartitionField(1, 1000, "day", "at_day")),
        sort_order=SortOrder(SortField(2, "identity")),
    )
    schema = t.schema()
    assert [f.field_id for f in schema.by_id.values()] == [1, 2, 3, 4, 5] and schema.find_field(
        "details.by"
    ).field_id == 5
    assert [str(f) for f in t.spec().fields] == ["1000: at_day: day(1)"] and t.sort_order().fields[
        0
    ].source_id == 2
    with catalog.create_table_transaction(
        "d.other", BIDS, partition_by=["details.by", "symbol"]
    ) as tx:
        tx.set_properties(a="b")
    assert [f.source_id for f in catalog.load_table("d.other").spec().fields] == [5, 2]


@pytest.mark.parametrize(
    "named",
    [
        {"partition_spec": PartitionSpec(PartitionField(4, 1000, "identity", "x"))},
        {"sort_order": SortOrder(SortField(4))},
    ],
)
def test_an_id_of_two_columns_is_refused_where_it_names_one(
    catalog: Catalog, named: dict[str, Any]
) -> None:
    with pytest.raises(
        ValidationError, match=r"Field id 4 is of several columns: ask, details\.by"
    ):
        catalog.create_table("d.bids", BIDS, **named)
    assert not catalog.table_exists("d.bids")


@pytest.mark.parametrize(
    "schema",
    [
        Schema(NestedField(1, "a", LongType()), NestedField(2, "e", StructType())),
        Schema(NestedField(1, "l", ListType(2, StructType()))),
        pa.schema([("a", pa.int64()), ("m", pa.map_(pa.string(), pa.struct([])))]),
    ],
)
def test_a_struct_without_members_is_refused_before_there_is_a_table(
    catalog: Catalog, schema: Any
) -> None:
    with pytest.raises(ValidationError, match="struct without members"):
        catalog.create_table("d.e", schema)
    assert not catalog.table_exists("d.e")
    with pytest.raises(ValidationError, match="struct without members"):
        catalog.replace_table_transaction("d.e", schema, create=True)


def test_a_struct_is_added_together_with_its_first_member(table: Table) -> None:
    before = table.metadata_location
    with (
        pytest.raises(ValidationError, match="Column s1 is a struct without members"),
        table.update_schema() as update,
    ):
        update.add_column("s1", StructType())
    with pytest.raises(ValidationError, match="struct without members"):
        table.append(pa.table({"id": [4], "e": pa.array([{}], pa.struct([]))}), merge_schema=True)
    assert table.metadata_location == before
    with table.update_schema() as update:
        update.add_column("s1", StructType())
        update.add_column(("s1", "x"), IntegerType())
    assert table.to_arrow().schema.field("s1").type == pa.struct([pa.field("x", pa.int32())])


def test_the_last_member_of_a_struct_is_dropped_and_its_rows_stay(catalog: Catalog) -> None:
    t = catalog.create_table("d.last", "a bigint, e struct<x: int>, l array<struct<y: int>>")
    t.append([{"a": 1, "e": {"x": 1}, "l": [{"y": 1}]}, {"a": 2, "e": None, "l": []}])
    with t.update_schema() as update:
        update.delete_column("e.x").delete_column("l.element.y")
    rows = [{"a": 1, "e": {}, "l": [{}]}, {"a": 2, "e": None, "l": []}]
    assert sorted(t.to_arrow().to_pylist(), key=lambda row: row["a"]) == rows
    with pytest.raises(Unsupported, match="struct without fields"):
        t.append([{"a": 3}])
    with t.update_schema() as update:
        update.add_column("e.z", IntegerType())
        update.delete_column("l")
    t.append([{"a": 3, "e": {"z": 3}}])
    assert [row["e"] for row in sorted(t.to_arrow().to_pylist(), key=lambda row: row["a"])] == [
        {"z": None},
        None,
        {"z": 3},
    ]


def test_a_table_that_has_a_struct_without_members_evolves_elsewhere(
    catalog: Catalog, tmp_path: Path
) -> None:
    t = catalog.create_table("d.old", "a bigint, e struct<x: int>")
    metadata = json.loads(Path(t.metadata_location.removeprefix("file://")).read_text())
    metadata["schemas"][0]["fields"][1]["type"]["fields"] = []
    (file := tmp_path / "00001-x.metadata.json").write_text(json.dumps(metadata))
    t = catalog.register_table("d.new", str(file))
    with t.update_schema() as update:
        update.add_column("b", "int")
    assert t.schema().column_names == ["a", "e", "b"]


def test_as_arrow_is_the_schema_of_the_rows_and_fits_a_frame(table: Table) -> None:
    schema = table.schema().as_arrow()
    assert schema == table.to_arrow().schema and schema.field("id").metadata == {
        b"PARQUET:field_id": b"1"
    }
    table.append(pa.Table.from_pylist([{"id": 4, "s": "d"}], schema=schema))
    assert table.count() == 4


NESTED = Schema(
    NestedField(3, "id", LongType(), required=True, doc="the key"),
    NestedField(
        7,
        "l",
        ListType(8, StructType(NestedField(9, "x", "int", doc="deep")), element_required=False),
    ),
    NestedField(10, "m", MapType(11, "string", 12, "double", value_required=False)),
)


def test_a_schema_comes_back_from_arrow_with_ids_and_comments() -> None:
    assert pyarrow_to_schema(schema_to_pyarrow(NESTED)) == NESTED
    assert schema_to_pyarrow(NESTED, metadata={b"k": b"v"}).metadata == {b"k": b"v"}
    assert schema_to_pyarrow(NESTED, include_field_ids=False).field("l").metadata is None
    assert (
        pyarrow_to_schema(schema_to_pyarrow(NESTED, include_field_ids=False))
        .find_field("id")
        .field_id
        == 1
    )


def test_an_arrow_schema_without_ids_takes_those_of_a_name_mapping() -> None:
    mapping = [
        {"field-id": 3, "names": ["id", "key"]},
        {
            "field-id": 7,
            "names": ["l"],
            "fields": [
                {"field-id": 8, "names": ["element"], "fields": [{"field-id": 9, "names": ["x"]}]}
            ],
        },
        {
            "field-id": 10,
            "names": ["m"],
            "fields": [{"field-id": 11, "names": ["key"]}, {"field-id": 12, "names": ["value"]}],
        },
    ]
    bare = schema_to_pyarrow(NESTED, include_field_ids=False)
    assert pyarrow_to_schema(bare, json.dumps(mapping)) == NESTED
    with pytest.raises(ValidationError, match=r"no column l\.element\.x"):
        pyarrow_to_schema(
            bare,
            json.dumps(
                [
                    mapping[0],
                    {**mapping[1], "fields": [{"field-id": 8, "names": ["element"]}]},
                    mapping[2],
                ]
            ),
        )


def test_nanoseconds_need_format_version_3_or_to_be_cut() -> None:
    schema = pa.schema([("t", pa.timestamp("ns")), ("l", pa.list_(pa.timestamp("ns", "UTC")))])
    with pytest.raises(ValidationError, match="not supported until v3"):
        pyarrow_to_schema(schema)
    assert pyarrow_to_schema(schema, format_version=3).find_type("t") == TimestampNanoType()
    found = pyarrow_to_schema(schema, downcast_ns_timestamp_to_us=True)
    assert (
        found.find_type("t") == TimestampType() and str(found.find_type("l")) == "list<timestamptz>"
    )


# --- tables


def test_snapshots_and_refs_answer_to_pyicebergs_names(table: Table) -> None:
    summary = table.snapshots()[-1].summary
    assert (
        summary.operation is Operation.APPEND
        and summary.additional_properties["added-records"] == "3"
    )
    assert (
        table.refs()["main"].snapshot_ref_type is SnapshotRefType.BRANCH
        and table.spec().is_unpartitioned()
    )


def test_a_type_that_cannot_be_promoted_is_a_resolve_error(table: Table) -> None:
    with (
        pytest.raises(
            frazil.errors.ResolveError, match="Cannot change column type: s: string -> int"
        ),
        table.update_schema() as update,
    ):
        update.update_column("s", IntegerType())


def test_table_properties_are_spelt_as_in_the_format(catalog: Catalog) -> None:
    t = catalog.create_table("d.v3", "id bigint", properties={TableProperties.FORMAT_VERSION: "3"})
    assert (
        t.format_version == 3
        and TableProperties.MANIFEST_MIN_MERGE_COUNT == "commit.manifest.min-count-to-merge"
    )
    known = {*TABLE_PROPERTIES, "format-version"}
    names = {
        v
        for k, v in vars(TableProperties).items()
        if k.isupper()
        and isinstance(v, str)
        and "." in v
        and not k.endswith(("_DEFAULT", "_PREFIX"))
    }
    assert len(names) > 20 and names <= known


def test_a_tables_files_are_opened_by_its_io(table: Table) -> None:
    path = next(iter(table.scan().plan_files())).file.file_path
    with table.io.new_input(path).open() as source:
        assert pq.read_table(source).num_rows == 3
    with table.io.new_output(f"{table.location()}/notes.txt").create() as out:
        out.write(b"x")
    assert table.io.read(f"{table.location()}/notes.txt") == b"x"


def test_statistics_files_are_set_as_objects(table: Table) -> None:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    blob = BlobMetadata(
        type="t",
        snapshot_id=snapshot.snapshot_id,
        sequence_number=1,
        fields=[1],
        properties={"a": "b"},
    )
    file = StatisticsFile(
        snapshot_id=snapshot.snapshot_id,
        statistics_path="/x/s.puffin",
        file_size_in_bytes=9,
        file_footer_size_in_bytes=4,
        blob_metadata=[blob],
    )
    parts = PartitionStatisticsFile(
        snapshot_id=snapshot.snapshot_id, statistics_path="/x/p.parquet", file_size_in_bytes=8
    )
    with table.update_statistics() as update:
        update.set_statistics(statistics_file=file).set_partition_statistics(parts)
    (found,), (of_partitions,) = table.metadata.statistics, table.metadata.partition_statistics
    assert found["file-footer-size-in-bytes"] == 4 and found["blob-metadata"][0]["properties"] == {
        "a": "b"
    }
    assert of_partitions == {
        "snapshot-id": snapshot.snapshot_id,
        "statistics-path": "/x/p.parquet",
        "file-size-in-bytes": 8,
    }


def test_update_spec_has_identity_as_the_documentation_of_pyiceberg_writes_it(table: Table) -> None:
    with table.update_spec() as update:
        update.identity("s")
    assert [f.name for f in table.spec().fields] == ["s"]


def test_a_tag_or_branch_that_is_there_is_refused_with_the_call_that_moves_it(table: Table) -> None:
    snapshot_id = table.snapshots()[0].snapshot_id
    for kind in ("tag", "branch"):
        getattr(table.manage_snapshots(), f"create_{kind}")(snapshot_id, f"my-{kind}").commit()
        with pytest.raises(ValidationError, match=rf"already exists\. replace_{kind}"):
            getattr(table.manage_snapshots(), f"create_{kind}")(snapshot_id, f"my-{kind}").commit()
        getattr(table.manage_snapshots(), f"replace_{kind}")(f"my-{kind}", snapshot_id).commit()
    with pytest.raises(ValidationError, match=r"already exists\.$"):
        table.manage_snapshots().create_tag(snapshot_id, "my-branch").commit()


# --- views


def test_a_view_is_made_of_a_version_as_pyiceberg_writes_it(catalog: Catalog) -> None:
    query = SQLViewRepresentation(type="sql", sql="SELECT 1 AS n", dialect="spark")
    version = ViewVersion(
        schema_id=1,
        summary={"engine-name": "own"},
        representations=[query],
        default_namespace=["d"],
    )
    before = catalog.create_view("d.v", Schema(NestedField(1, "n", IntegerType())), version)
    view = catalog.load_view(("d", "v"))
    assert view.sql_for("spark") == query and view.current_version() == before.current_version()
    assert (
        view.current_version().default_namespace == ("d",)
        and view.current_version().timestamp_ms == version.timestamp_ms > 1_600_000_000_000
    )
    assert catalog.register_view("d.w", view.metadata_location).sql_for("SPARK") == query
    with pytest.raises(ValidationError, match="must be sql, not 'text'"):
        SQLViewRepresentation("SELECT 1", "spark", type="text")
    with pytest.raises(ValidationError, match=r"Write \('d', 'e'\)"):
        ViewVersion(representations=[query], default_namespace="d.e")
    with pytest.raises(ValidationError, match="needs a query"):
        catalog.create_view(
            "d.x", Schema(NestedField(1, "n", IntegerType())), ViewVersion(default_namespace=["d"])
        )


# --- update_snapshot


def data_files(t: Table, folder: Path, *ids: int) -> list[Any]:
    paths = []
    for i in ids:
        pq.write_table(
            pa.table({"id": pa.array([i], pa.int64()), "s": ["x"]}, schema=t.schema().as_arrow()),
            path := folder / f"{i}.parquet",
        )
        paths.append(str(path))
    return list(parquet_files_to_data_files(t.io, t.metadata, paths))


def test_a_fast_append_adds_chosen_files_as_one_snapshot(table: Table, tmp_path: Path) -> None:
    with table.transaction() as tx:
        assert tx.table_metadata == tx.metadata
        with tx.update_snapshot(snapshot_properties={"why": "test"}).fast_append() as update:
            for f in data_files(table, tmp_path, 10, 11):
                update.append_data_file(f)
    assert ids(table) == [1, 2, 3, 10, 11] and len(table.snapshots()) == 2
    assert (
        table.snapshots()[-1].summary["why"] == "test"
        and table.snapshots()[-1].summary["added-records"] == "2"
    )


def test_a_merge_append_and_a_branch_are_asked_for_by_name(table: Table, tmp_path: Path) -> None:
    table.manage_snapshots().create_branch(table.snapshots()[0].snapshot_id, "dev").commit()
    tx = table.transaction()
    tx.update_snapshot(branch="dev").merge_append().append_data_file(
        data_files(table, tmp_path, 10)[0]
    ).commit()
    tx.commit_transaction()
    assert ids(table) == [1, 2, 3] and table.scan(branch="dev").count() == 4


def test_a_file_is_entered_once_and_stays_when_the_commit_fails(
    table: Table, tmp_path: Path
) -> None:
    files = data_files(table, tmp_path, 10)
    for again in (False, True):
        if again:
            with pytest.raises(ValidationException, match="already referenced"):
                append(table, files)
        else:
            append(table, files)
    with pytest.raises(InvalidInput, match="given twice"):
        append(table, data_files(table, tmp_path, 12) * 2)
    with (
        pytest.raises(ZeroDivisionError),
        table.transaction() as tx,
        tx.update_snapshot().fast_append() as update,
    ):
        update.append_data_file(data_files(table, tmp_path, 13)[0])
        raise ZeroDivisionError
    assert ids(table) == [1, 2, 3, 10] and {p.name for p in tmp_path.glob("*.parquet")} == {
        "10.parquet",
        "12.parquet",
        "13.parquet",
    }


def append(t: Table, files: list[Any]) -> None:
    with t.transaction() as tx, tx.update_snapshot().fast_append() as update:
        for f in files:
            update.append_data_file(f)


def test_a_relative_path_is_stored_as_the_absolute_one_and_is_the_same_file_in_every_spelling(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file,) = data_files(table, tmp_path, 10)
    monkeypatch.chdir(tmp_path)
    (relative,) = parquet_files_to_data_files(table.io, table.metadata, ["./10.parquet"])
    assert relative.file_path == file.file_path == str(tmp_path / "10.parquet")
    spellings = [
        "10.parquet",
        "./10.parquet",
        f"file:{file.file_path}",
        f"file://{tmp_path}/./10.parquet",
        "file:10.parquet",
    ]
    for spelling in spellings:
        with pytest.raises(InvalidInput, match="given twice"):
            append(table, [file, replace(file, file_path=spelling)])
    append(table, [replace(file, file_path="10.parquet")])
    for spelling in spellings:
        with pytest.raises(ValidationException, match="already referenced"):
            append(table, [replace(file, file_path=spelling)])
    monkeypatch.chdir("/")
    assert ids(table) == [1, 2, 3, 10]


def test_a_dot_between_slashes_is_no_other_file_and_no_other_place(
    table: Table, catalog: Catalog, tmp_path: Path
) -> None:
    (file,) = data_files(table, tmp_path, 10)
    dotted = f"file://{tmp_path}/./10.parquet"
    with pytest.raises(InvalidInput, match="given twice"):
        table.add_files([file.file_path, dotted])
    table.add_files([dotted])
    with pytest.raises(ValidationException, match="already referenced"):
        table.add_files([file.file_path])
    assert ids(table) == [1, 2, 3, 10]
    own = catalog.create_table(
        "d.dotted",
        "id bigint",
        location=f"file://{tmp_path}/./at/.",
        properties={"write.data.path": f"{tmp_path}/./data"},
    )
    own.append(pa.table({"id": pa.array([1], pa.int64())}))
    assert own.location() == f"file://{tmp_path}/at"
    assert all(
        task.file.file_path.startswith(f"{tmp_path}/data/") for task in own.scan().plan_files()
    )


def test_a_file_without_field_ids_is_read_by_names_and_one_that_does_not_fit_is_refused(
    table: Table, tmp_path: Path
) -> None:
    (entry,) = data_files(table, tmp_path, 10)
    pq.write_table(
        pa.table({"id": pa.array([11], pa.int64()), "s": ["x"]}), tmp_path / "10.parquet"
    )
    for n, columns in enumerate(
        ({"id": ["text"]}, {"id": pa.array([1], pa.int64()), "more": ["x"]})
    ):
        pq.write_table(pa.table(columns), tmp_path / f"odd{n}.parquet")
        with pytest.raises(SchemaMismatch, match=f"odd{n}"):
            append(table, [replace(entry, file_path=str(tmp_path / f"odd{n}.parquet"))])
    with pytest.raises(NoSuchFileError):
        append(table, [replace(entry, file_path=str(tmp_path / "none.parquet"))])
    append(table, [entry])
    assert ids(table) == [1, 2, 3, 11]
    before_the_rename = data_files(table, tmp_path, 12)
    with table.update_schema() as update:
        update.rename_column("id", "number")
    append(table, before_the_rename)
    assert sorted(table.scan().to_arrow().column("number").to_pylist()) == [1, 2, 3, 11, 12]


def test_an_overwrite_and_a_delete_take_files_out_by_name(table: Table, tmp_path: Path) -> None:
    first = [task.file for task in table.scan().plan_files()]
    with table.transaction() as tx, tx.update_snapshot().overwrite() as update:
        update.delete_data_file(first[0]).append_data_file(data_files(table, tmp_path, 10)[0])
    assert ids(table) == [10] and table.snapshots()[-1].summary.operation is Operation.OVERWRITE
    with table.transaction() as tx, tx.update_snapshot().delete() as update:
        update.delete_data_file(next(iter(table.scan().plan_files())).file)
    assert ids(table) == [] and table.snapshots()[-1].summary.operation is Operation.DELETE
    with (
        pytest.raises(ValidationException),
        table.transaction() as tx,
        tx.update_snapshot().delete() as update,
    ):
        update.delete_data_file(first[0])  # it is gone


def test_deletes_that_others_put_on_a_file_meanwhile_are_not_lost(
    table: Table, tmp_path: Path
) -> None:
    other = frazil.load_catalog("own", **catalog_of(tmp_path)).load_table("d.t")
    old = next(iter(table.scan().plan_files())).file
    other.delete("id = 2", mode="merge-on-read")
    with (
        pytest.raises(ValidationException),
        table.transaction() as tx,
        tx.update_snapshot().overwrite() as update,
    ):
        update.delete_data_file(old).append_data_file(data_files(table, tmp_path, 10)[0])
    assert ids(other) == [1, 3]


def catalog_of(tmp_path: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": str(tmp_path / "w")}


def test_a_chosen_kind_of_snapshot_refuses_what_is_not_its_own(
    table: Table, tmp_path: Path
) -> None:
    tx, (f,) = table.transaction(), data_files(table, tmp_path, 10)
    with pytest.raises(InvalidInput, match="only removes"):
        tx.update_snapshot().delete().append_data_file(f)
    with pytest.raises(InvalidInput, match="only adds"):
        tx.update_snapshot().fast_append().delete_data_file(f)
    with pytest.raises(Unsupported, match=r"transaction\.delete"):
        tx.update_snapshot().delete().delete_by_predicate("id = 1")
    with (
        pytest.raises(InvalidInput, match="is not a data file"),
        tx.update_snapshot().fast_append() as update,
    ):
        update.append_data_file("x.parquet")  # type: ignore[arg-type]
