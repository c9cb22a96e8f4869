"""Structs that lack a member of the column's: refused where a value is assigned, filled where a
frame is written.
"""

import pyarrow as pa
import pytest

from frazil.errors import InvalidInput, SchemaMismatch
from tests.builders.catalogs import catalog_of

PAIR = "struct<a: int, b: string>"
PARTIAL = pa.struct([("a", pa.int32())])
WHOLE = pa.struct([("a", pa.int32()), ("b", pa.string())])


@pytest.fixture
def table(tmp_path):
    with catalog_of("memory", tmp_path) as catalog:
        t = catalog.create_table(
            "db.t",
            f"id bigint, s {PAIR}, l array<{PAIR}>, m map<string, {PAIR}>, other struct<a: int>",
        )
        t.append(
            source(1, WHOLE, {"a": 1, "b": "x"}).append_column(
                "other", pa.array([{"a": 9}], PARTIAL)
            )
        )
        yield t


def source(id_=1, kind=PARTIAL, one=None):
    one = one or {"a": 5}
    return pa.table(
        {
            "id": pa.array([id_], pa.int64()),
            "s": pa.array([one], kind),
            "l": pa.array([[one]], pa.list_(kind)),
            "m": pa.array([[("k", one)]], pa.map_(pa.string(), kind)),
        }
    )


def merging(t, frame, **options):
    return t.merge(frame, "target.id = source.id", runner="in-process", **options)


@pytest.mark.parametrize(
    ("column", "lacking"), [("s", "s.b"), ("l", "l.element.b"), ("m", "m.value.b")]
)
def test_an_assigned_struct_must_be_whole(table, column, lacking):
    for change in (
        lambda: (
            merging(table, source()).when_matched_update({column: f"source.{column}"}).execute()
        ),
        lambda: (
            merging(table, source(7)).when_matched_update({column: f"source.{column}"}).execute()
        ),
        lambda: (
            merging(table, source(7))
            .when_not_matched_insert({"id": "source.id", column: f"source.{column}"})
            .execute()
        ),
        lambda: (
            merging(table, source().select(["id", column]))
            .with_schema_evolution()
            .when_matched_update({column: f"source.{column}"})
            .execute()
        ),
    ):
        with pytest.raises(
            SchemaMismatch, match=f"cannot find data for the output column {lacking}"
        ):
            change()
    assert len(table.snapshots()) == 1


def test_a_struct_of_another_column_must_be_whole(table):
    with pytest.raises(SchemaMismatch, match=r"cannot find data for the output column s\.b"):
        table.update({"s": "other"}, runner="in-process")
    with pytest.raises(SchemaMismatch, match=r"cannot find data for the output column s\.b"):
        table.update({"s": "other"}, where="id = 99", runner="in-process")
    table.update({"s": "null", "other.a": "s.a"}, runner="in-process")
    assert table.to_arrow().select(["s", "other"]).to_pylist() == [{"s": None, "other": {"a": 1}}]


def test_merges_and_upserts_of_whole_rows_want_whole_structs_at_any_depth(table):
    for column, lacking in (("s", r"s\.b"), ("l", r"l\.element\.b"), ("m", r"m\.value\.b")):
        frame = source(7).select(["id", column])
        whole = {
            "s": table.to_arrow()["s"],
            "l": table.to_arrow()["l"],
            "m": table.to_arrow()["m"],
            "other": table.to_arrow()["other"],
        }
        for name, values in whole.items():
            frame = frame if name == column else frame.append_column(name, values)
        for change in (
            merging(table, frame).when_matched_update_all().execute,
            merging(table, frame).when_not_matched_insert_all().execute,
            lambda: table.upsert(frame, ["id"], runner="in-process"),  # noqa: B023
        ):
            with pytest.raises(InvalidInput, match=lacking):
                change()
    assert len(table.snapshots()) == 1


def test_with_evolution_members_stay_but_not_inside_lists(table):
    merging(
        table, source().select(["id", "s"])
    ).with_schema_evolution().when_matched_update_all().execute()
    assert table.to_arrow()["s"].to_pylist() == [{"a": 5, "b": "x"}]
    with pytest.raises(SchemaMismatch, match=r"l\.element\.b"):
        merging(table, source()).with_schema_evolution().when_matched_update_all().execute()
    merging(table, source(2)).with_schema_evolution().when_not_matched_insert_all().execute()
    assert table.scan("id = 2").to_arrow()["l"].to_pylist() == [[{"a": 5, "b": None}]]


@pytest.mark.parametrize("write", ["append", "overwrite"])
def test_a_frame_that_is_written_may_lack_optional_columns_and_members(table, write):
    getattr(table, write)(source(2))
    (row,) = table.scan("id = 2").to_arrow().to_pylist()
    assert row == {
        "id": 2,
        "s": {"a": 5, "b": None},
        "l": [{"a": 5, "b": None}],
        "m": [("k", {"a": 5, "b": None})],
        "other": None,
    }


@pytest.mark.parametrize("name", ["l[0]", "m['k']", "l[0].a", "target.l[0]"])
def test_elements_of_lists_and_maps_cannot_be_assigned(table, name):
    with pytest.raises(InvalidInput, match="elements of lists and maps cannot be assigned"):
        merging(table, source(7)).when_matched_update({name: "null"}).execute()
