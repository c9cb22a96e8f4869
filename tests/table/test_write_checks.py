"""What stands between a frame and a table that changes meanwhile: ids, specs, required columns,
names.
"""

import pyarrow as pa
import pytest

import frazil
from frazil.errors import (
    InvalidInput,
    SchemaMismatch,
    Unsupported,
    ValidationError,
    ValidationException,
)


def files_below(catalog):
    return sum(
        1 for p in __import__("pathlib").Path(catalog.properties["warehouse"]).rglob("*.parquet")
    )


def test_two_writers_that_merge_new_columns_never_share_a_field_id(catalog):
    first = catalog.create_table("db.t", "id bigint")
    late = catalog.load_table("db.t")
    first.append(pa.table({"id": [1], "a": ["x"]}), merge_schema=True)
    with pytest.raises(ValidationException, match="field 2, which another writer took"):
        late.append(pa.table({"id": [2], "b": ["y"]}), merge_schema=True)
    assert (
        catalog.load_table("db.t").scan().to_arrow().to_pylist() == [{"id": 1, "a": "x"}]
        and files_below(catalog) == 1
    )
    late.refresh().append(pa.table({"id": [2], "b": ["y"]}), merge_schema=True)
    assert sorted(late.scan().to_arrow().to_pylist(), key=lambda r: r["id"])[1] == {
        "id": 2,
        "a": None,
        "b": "y",
    }


def test_a_transaction_whose_new_column_lost_its_id_is_refused(catalog):
    first = catalog.create_table("db.t", "id bigint")
    late = catalog.load_table("db.t")
    with pytest.raises(ValidationException, match="column b"), late.transaction() as tx:
        with tx.update_schema() as update:
            update.add_column("b", frazil.StringType())
        tx.append(pa.table({"id": [2], "b": ["y"]}))
        with first.update_schema() as update:
            update.add_column("a", frazil.StringType())
    assert files_below(catalog) == 0


def test_a_transaction_whose_new_spec_lost_its_id_is_refused(catalog):
    first = catalog.create_table("db.t", "id bigint, s string")
    late = catalog.load_table("db.t")
    with pytest.raises(ValidationException, match="partition spec 1"), late.transaction() as tx:
        with tx.update_spec() as update:
            update.add_identity("s")
        tx.append(pa.table({"id": [2], "s": ["y"]}))
        with first.update_spec() as update:
            update.add_identity("id")
    assert files_below(catalog) == 0


def test_rows_written_for_a_table_that_was_replaced_by_another_type_are_refused(catalog):
    late = catalog.create_table("db.t", "id bigint, s string")
    with catalog.replace_table_transaction("db.t", "n int, id string"):
        pass
    with pytest.raises(ValidationException, match="written as long and is string"):
        late.append(pa.table({"id": [5], "s": ["late"]}))
    assert catalog.load_table("db.t").scan().to_arrow().num_rows == 0


def test_columns_renamed_dropped_or_widened_meanwhile_do_not_hurt_an_append(catalog):
    first = catalog.create_table("db.t", "id int, s string, gone string")
    late = catalog.load_table("db.t")
    with first.update_schema() as update:
        update.rename_column("s", "text").delete_column("gone").update_column(
            "id", frazil.LongType()
        )
    late.append(pa.table({"id": pa.array([1], pa.int32()), "s": ["x"], "gone": ["y"]}))
    assert catalog.load_table("db.t").scan().to_arrow().to_pylist() == [{"id": 1, "text": "x"}]


def test_merging_a_frame_loosens_no_required_column(catalog):
    t = catalog.create_table(
        "db.t", "id bigint not null, s struct<x:int not null>", identifier_fields=["id"]
    )
    t.append(pa.table({"id": [1], "s": [{"x": 1, "y": "a"}], "new": [1.5]}), merge_schema=True)
    assert (
        t.schema().find_field("id").required
        and t.schema().find_field("s.x").required
        and t.schema().find_field("s.y").optional
    )
    assert t.scan().to_arrow().to_pylist() == [{"id": 1, "s": {"x": 1, "y": "a"}, "new": 1.5}]
    with pytest.raises((SchemaMismatch, ValidationError)):
        t.append(pa.table({"id": pa.array([None], pa.int64()), "newer": [1]}), merge_schema=True)


def test_every_write_verb_takes_case_sensitive(catalog):
    t = catalog.create_table("db.t", "id bigint, p string", partition_by=["p"])
    frame = pa.table({"ID": [1], "P": ["a"]})
    with pytest.raises(SchemaMismatch):
        t.append(frame)
    t.append(frame, case_sensitive=False)
    t.append(pa.table({"ID": [1], "P": ["a"], "N": [1]}), case_sensitive=False, merge_schema=True)
    assert [f.name for f in t.schema().fields] == ["id", "p", "N"]
    t.dynamic_partition_overwrite(frame, case_sensitive=False)
    t.overwrite(frame, "P = 'a'", case_sensitive=False)
    assert t.scan().to_arrow().num_rows == 1
    t.delete("P = 'a'", case_sensitive=False)
    assert t.scan().to_arrow().num_rows == 0


@pytest.mark.parametrize("given", [{"branch": ""}, {"BRANCH": ""}])
def test_a_branch_without_a_name_is_refused_and_not_taken_for_main(catalog, given):
    t = catalog.create_table("db.t", "id bigint")
    with pytest.raises(InvalidInput, match="branch is empty"):
        t.append(pa.table({"id": [1]}), **given)
    with pytest.raises(InvalidInput, match="branch is empty"):
        t.delete("id = 1", **given)
    assert not t.snapshots()


def test_delete_takes_a_mode_and_whole_files_go_in_either(catalog):
    t = catalog.create_table("db.t", "id bigint, p string", partition_by=["p"])
    t.append(pa.table({"id": [1, 2], "p": ["a", "b"]}))
    assert (
        t.delete("p = 'a'", mode="merge-on-read").rows_deleted == 1
        and t.delete("p = 'b'", mode="copy-on-write").rows_deleted == 1
    )
    with pytest.raises(InvalidInput, match="sideways"):
        t.delete("p = 'a'", mode="sideways")


def test_rows_that_were_deleted_before_do_not_count_again_when_their_file_is_overwritten(catalog):
    t = catalog.create_table("db.t", "id bigint, p string", partition_by=["p"], format_version=2)
    frame = pa.table({"id": list(range(10)), "p": ["a", "b"] * 5})
    t.append(frame)
    t.delete("id in (0, 1, 2)", mode="merge-on-read")
    assert t.overwrite(frame.slice(0, 1), "p = 'a'").rows_deleted == 3
    assert t.overwrite(frame).rows_deleted == 5


def test_a_transactions_counts_are_those_of_all_its_snapshots(catalog):
    t = catalog.create_table("db.t", "id bigint, p string", partition_by=["p"])
    t.append(pa.table({"id": [1, 2, 3], "p": ["a", "b", "b"]}))
    with t.transaction() as tx:
        tx.delete("p = 'a'")
        tx.overwrite(pa.table({"id": [4], "p": ["c"]}), "p = 'b'")
        tx.append(pa.table({"id": [5, 6], "p": ["c", "d"]}))
        tx.dynamic_partition_overwrite(pa.table({"id": [7], "p": ["d"]}))
        tx.append(pa.table({"id": [8], "p": ["e"]}))
    counts = tx.result
    assert (
        counts.rows_deleted,
        counts.rows_inserted,
        counts.files_removed,
        counts.files_added,
    ) == (4, 5, 3, 5)
    assert counts.snapshot_id == t.current_snapshot().snapshot_id and counts.operation == "append"


def test_schema_changes_that_ignore_case_keep_doing_so_when_they_are_committed(catalog):
    t = catalog.create_table("db.t", "id int, name string")
    with t.update_schema(case_sensitive=False) as update:
        update.rename_column("NAME", "title").update_column("ID", frazil.LongType())
    assert [(f.name, str(f.field_type)) for f in t.schema().fields] == [
        ("id", "long"),
        ("title", "string"),
    ]


def test_nothing_is_written_into_a_table_that_is_to_be_encrypted(catalog):
    t = catalog.create_table("db.t", "id bigint", properties={"encryption.key-id": "k1"})
    with pytest.raises(Unsupported, match="encrypt"):
        t.append(pa.table({"id": [1]}))
    with pytest.raises(Unsupported, match="encrypt"):
        t.add_files(["/nowhere.parquet"])
    assert files_below(catalog) == 0 and t.current_snapshot() is None
