"""The table as users hold it, without Spark: write, read, travel, evolve, inspect; each verb is one
snapshot.
"""

import dataclasses
import datetime as dt
import pathlib
import pickle
import re
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import frazil
from frazil.errors import (
    CommitFailedException,
    CorruptData,
    InvalidInput,
    NoSuchRefError,
    NoSuchSnapshotError,
    NoSuchTableError,
    ParseError,
    SchemaMismatch,
    TableAlreadyExistsError,
    Unsupported,
    ValidationError,
    ValidationException,
)
from frazil.expressions import EqualTo, GreaterThan, IsNull
from frazil.spec.snapshot import Snapshots
from tests.builders.data_files import listed_again
from tests.builders.files_on_disk import data_files_below
from tests.builders.frames import ids


@pytest.fixture
def events(catalog):
    return catalog.create_table("db.events", "id bigint, day date, s string", partition_by=["day"])


def rows(ids, day="2026-01-01", s="x"):
    when = dt.date.fromisoformat(day)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "day": pa.array([when] * len(ids), pa.date32()),
            "s": [s] * len(ids),
        }
    )


def test_an_append_is_one_snapshot_with_its_metrics(events):
    result = events.append(rows([1, 2, 3]), snapshot_properties={"job": "nightly"})
    assert (result.operation, result.rows_inserted, result.files_added, result.attempts) == (
        "append",
        3,
        1,
        1,
    )
    assert result.summary["job"] == "nightly" and result.summary["engine-name"] == "frazil"
    assert events.current_snapshot().snapshot_id == result.snapshot_id
    assert len(events.snapshots()) == 1 and ids(events) == [1, 2, 3]
    assert "rows_inserted=3" in repr(result)


def test_reads_see_columns_filters_limits_and_counts(events):
    events.append(rows([1, 2, 3]))
    events.append(rows([4, 5], "2026-01-02", None))
    assert events.scan("id >= 2", ("id",)).to_arrow().column_names == ["id"]
    assert ids(events.scan(GreaterThan("id", 1) & IsNull("s"))) == [4, 5]
    assert (
        events.scan("day = DATE '2026-01-02'").count() == 2
        and events.scan("id % 2 = 0").count() == 2
    )
    assert len(events.scan(limit=2).to_arrow()) == 2 and events.scan(limit=2).count() == 2
    assert [t.file.record_count for t in events.scan("day = DATE '2026-01-02'").plan_files()] == [2]
    assert "1 of 2" in str(events.scan("day = DATE '2026-01-02'").explain())
    narrow = events.scan().filter("id > 1").filter("id < 3").select("id")
    assert narrow.to_arrow().to_pydict() == {"id": [2]}
    with pytest.raises(ParseError):
        events.scan("id >").count()
    with pytest.raises(ValidationError, match="nope"):
        events.scan("nope = 1").count()


def test_names_are_matched_with_case_unless_told_otherwise(events):
    events.append(rows([1]))
    with pytest.raises(ValidationError):
        events.scan("ID = 1").count()
    assert events.scan("ID = 1", ("Id",), case_sensitive=False).to_arrow().num_rows == 1


def test_time_travel_by_id_time_branch_and_tag(events):
    first = events.append(rows([1])).snapshot_id
    with events.manage_snapshots() as manage:
        manage.create_tag(first, "v1").create_branch(first, "audit")
    events.append(rows([2]))
    events.append(rows([9]), branch="audit")
    assert ids(events) == [1, 2]
    assert ids(events.scan(snapshot_id=first)) == [1] and ids(events.scan(tag="v1")) == [1]
    assert ids(events.scan(branch="audit")) == [1, 9] and ids(events.scan().use_ref("audit")) == [
        1,
        9,
    ]
    when = events.snapshot_by_id(first).timestamp_ms
    assert ids(events.scan(as_of=when)) == [1]
    assert ids(events.scan(as_of=dt.datetime.fromtimestamp(when / 1000, dt.UTC))) == [1]
    for bad, error in (
        ({"snapshot_id": 7}, NoSuchSnapshotError),
        ({"tag": "nope"}, NoSuchRefError),
        ({"as_of": 5}, ValidationError),
    ):
        with pytest.raises((error, frazil.errors.NotFound)):
            events.scan(**bad).to_arrow()
    with pytest.raises(frazil.errors.FrazilError):
        events.append(rows([3]), branch="v1")


def test_a_snapshot_is_read_with_its_own_schema(events):
    first = events.append(rows([1])).snapshot_id
    with events.update_schema() as update:
        update.rename_column("s", "text").add_column("n", frazil.LongType())
    assert events.to_arrow().column_names == ["id", "day", "text", "n"]
    assert events.scan(snapshot_id=first).to_arrow().column_names == ["id", "day", "s"]


def test_overwrite_by_filter_replaces_the_rows_that_match(events):
    events.append(rows([1, 2]))
    events.append(rows([3], "2026-01-02"))
    result = events.overwrite(rows([10]), overwrite_filter="day = DATE '2026-01-01'")
    assert (result.operation, result.files_removed, result.rows_deleted) == ("overwrite", 1, 2)
    assert ids(events) == [3, 10]
    events.append(rows([11, 12]))
    assert events.overwrite(rows([0]), overwrite_filter=EqualTo("id", 11)).rows_copied == 1
    assert ids(events) == [0, 3, 10, 12]
    events.overwrite(rows([7]))
    assert ids(events) == [7]


def test_dynamic_overwrite_replaces_the_partitions_of_the_frame(events):
    events.append(rows([1, 2]))
    events.append(rows([3], "2026-01-02"))
    result = events.dynamic_partition_overwrite(rows([4], "2026-01-02"))
    assert result.summary["replace-partitions"] == "true" and ids(events) == [1, 2, 4]
    assert (
        events.overwrite(rows([5], "2026-01-02"), **{"overwrite-mode": "dynamic"}).files_removed
        == 1
    )
    assert events.dynamic_partition_overwrite(rows([])).snapshot_id is None


def test_delete_of_whole_files_reads_no_data(events):
    events.append(rows([1, 2]))
    events.append(rows([3], "2026-01-02"))
    result = events.delete("day = DATE '2026-01-01'")
    assert (result.operation, result.rows_deleted) == ("delete", 2) and ids(events) == [3]


def test_frames_of_every_kind_are_taken_and_checked(events):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    events.append(rows([1]).to_reader())
    events.append(pandas.DataFrame({"s": ["p"], "id": [2], "day": [dt.date(2026, 1, 1)]}))
    events.append(polars.DataFrame({"id": [3], "day": [dt.date(2026, 1, 1)]}))
    assert ids(events) == [1, 2, 3]
    with pytest.raises(SchemaMismatch, match="nope"):
        events.append(pa.table({"id": [1], "nope": [1]}))
    with pytest.raises(SchemaMismatch):
        events.append(pa.table({"id": ["text"]}))
    assert len(events.snapshots()) == 3


def test_merge_schema_adds_the_new_columns_in_the_same_commit(events):
    events.append(rows([1]))
    events.append(rows([2]).append_column("extra", pa.array([5.0])), merge_schema=True)
    assert events.to_arrow().sort_by("id")["extra"].to_pylist() == [None, 5.0]
    assert len(events.snapshots()) == 2


def test_options_are_honoured_or_refused_by_name(events):
    for name, value, error in (
        ("no-such-option", "1", InvalidInput),
        ("distribution-mode", "sideways", InvalidInput),
        ("shred-variants", "true", Unsupported),
    ):
        with pytest.raises(error, match=name):
            events.append(rows([1]), **{name: value})
    assert len(events.snapshots()) == 0
    events.append(rows([1]), **{"snapshot-property.k": "v", "write-format": "avro"})
    assert events.current_snapshot().summary["k"] == "v"
    assert [t.file.file_format for t in events.scan().plan_files()] == ["avro"]


def test_a_transaction_is_one_commit_or_none(events, tmp_path):
    with events.transaction() as tx:
        tx.append(rows([1]))
        tx.append(rows([2]))
        tx.set_properties(k="v")
        with tx.update_schema() as update:
            update.add_column("n", frazil.LongType())
    assert (
        ids(events) == [1, 2]
        and events.properties["k"] == "v"
        and events.metadata_location.rsplit("/", 1)[-1].startswith("00001-")
    )
    files = sorted(p for p in tmp_path.rglob("*") if p.is_file() and "catalog.db" not in p.name)
    with pytest.raises(RuntimeError, match="on purpose"), events.transaction() as tx:
        tx.append(rows([3]).append_column("n", pa.array([1])))
        raise RuntimeError("on purpose")
    assert (
        sorted(p for p in tmp_path.rglob("*") if p.is_file() and "catalog.db" not in p.name)
        == files
    )
    with pytest.raises(InvalidInput, match="committed or has failed"):
        tx.append(rows([4]))
    assert ids(events) == [1, 2]


def test_a_write_staged_for_audit_is_published_by_cherry_pick(events):
    events.append(rows([1]))
    events.set_properties(**{"write.wap.enabled": True})
    staged = events.append(rows([2]), wap_id="w1")
    assert ids(events) == [1] and staged.summary["wap.id"] == "w1"
    with events.manage_snapshots() as manage:
        manage.cherrypick_snapshot(staged.snapshot_id)
    assert ids(events) == [1, 2]
    with pytest.raises(ValidationException):
        events.transaction().cherrypick_snapshot(staged.snapshot_id).commit_transaction()


def test_rollback_and_properties_and_upgrade(events):
    first = events.append(rows([1])).snapshot_id
    events.append(rows([2]))
    events.manage_snapshots().rollback_to_snapshot(first).commit()
    assert ids(events) == [1] and len(events.history()) == 3
    events.set_properties({"a": 1}, b=True)
    assert (events.properties["a"], events.properties["b"]) == ("1", "true")
    events.remove_properties("a")
    assert "a" not in events.properties
    events.upgrade(3)
    result = events.append(rows([3]))
    assert events.format_version == 3 and events.metadata.next_row_id == 2
    assert (
        events.scan(selected_fields=("id", "_row_id")).to_arrow().num_rows == 2
        and result.rows_inserted == 1
    )
    with pytest.raises(ValidationError):
        events.upgrade(2)


def test_spec_and_order_evolve_and_old_files_stay_readable(events):
    events.append(rows([1, 2]))
    with events.update_spec() as update:
        update.add_field("bucket(4, id)").remove_field("day")
    with events.update_sort_order() as update:
        update.desc("id")
    events.append(rows([3, 4]))
    assert ids(events) == [1, 2, 3, 4] and events.spec().spec_id == 1 and len(events.specs()) == 2
    assert ids(events.scan("day = DATE '2026-01-01' and id = 3")) == [3]


def test_two_handles_both_append_and_the_second_rebases(catalog, events):
    other = catalog.load_table("db.events")
    events.append(rows([1]))
    result = other.append(rows([2]))
    assert result.attempts == 2 and ids(other) == [1, 2]
    assert ids(events) == [1] and ids(events.refresh()) == [1, 2]


def test_a_lost_race_without_retries_leaves_no_file(catalog, events, tmp_path):
    events.set_properties(**{"commit.retry.num-retries": 0})
    other = catalog.load_table("db.events")
    events.append(rows([1]))
    files = data_files_below(events)
    with pytest.raises(CommitFailedException) as caught:
        other.append(rows([2]))
    assert caught.value.retryable and data_files_below(events) == files


def test_metadata_columns_say_where_a_row_lies(events):
    events.append(rows([5, 6]))
    got = events.scan(
        selected_fields=("id", "_file", "_pos", "_spec_id", "_partition", "_deleted")
    ).to_arrow()
    assert got["_pos"].to_pylist() == [0, 1] and got["_file"].to_pylist()[0].endswith(".parquet")
    assert got["_partition"].to_pylist()[0] == {"day": dt.date(2026, 1, 1)} and got[
        "_deleted"
    ].to_pylist() == [False, False]


def test_inspect_and_incremental_append(events):
    one = events.append(rows([1])).snapshot_id
    two = events.append(rows([2])).snapshot_id
    assert events.inspect.snapshots().num_rows == 2 and events.inspect.files()[
        "record_count"
    ].to_pylist() == [1, 1]
    assert ids(events.incremental_append_scan(from_snapshot_id_exclusive=one)) == [2]
    assert ids(events.incremental_append_scan(to_snapshot_id_inclusive=one)) == [1]
    assert ids(
        events.incremental_append_scan(from_snapshot_id_exclusive=one, to_snapshot_id_inclusive=two)
    ) == [2]
    with pytest.raises(AttributeError, match="snapshots"):
        events.inspect.nothing()


def test_add_files_takes_over_what_lies_there(catalog, tmp_path):
    import pyarrow.parquet as pq

    t = catalog.create_table("db.added", "id bigint, s string")
    path = tmp_path / "outside.parquet"
    pq.write_table(pa.table({"id": [1, 2], "s": ["a", None]}), path)
    assert t.add_files([str(path)]).rows_inserted == 2 and ids(t) == [1, 2]
    with pytest.raises(ValidationError, match="already referenced"):
        t.add_files([str(path)])
    with pytest.raises(frazil.errors.FrazilError):
        t.add_files([str(tmp_path / "missing.parquet")])


def test_tables_are_created_in_every_form_and_refused_with_reasons(catalog):
    keyed = catalog.create_table(
        "db.keyed",
        pa.schema([("id", pa.int64()), ("v", pa.string())]),
        identifier_fields=["id"],
        sort_by=["id desc nulls last"],
        format_version=3,
    )
    assert (
        keyed.schema().identifier_field_names() == {"id"}
        and keyed.schema().find_field("id").required
    )
    assert keyed.sort_order().fields[0].direction.value == "desc" and keyed.format_version == 3
    assert catalog.create_table_if_not_exists("db.keyed", "id int").format_version == 3
    for name, schema, version, error, message in (
        ("db.keyed", "id int", 3, TableAlreadyExistsError, "keyed"),
        ("db.v4", "id int", 4, ValidationError, "v4"),
        ("justaname", "id int", 3, InvalidInput, "justaname"),
        ("db.ns", "t timestamp_ns", 2, ValidationError, "timestamp_ns"),
    ):
        with pytest.raises(error, match=message):
            catalog.create_table(name, schema, format_version=version)


def test_create_and_replace_transactions_show_the_table_with_its_rows(catalog):
    with catalog.create_table_transaction("db.fresh", "id bigint") as tx:
        tx.append(pa.table({"id": [1]}))
        assert not catalog.table_exists("db.fresh")
    assert ids(tx.table) == [1] and len(catalog.load_table("db.fresh").snapshots()) == 1
    with catalog.replace_table_transaction(
        "db.fresh", "id bigint, more string", partition_by=["more"]
    ) as tx:
        tx.append(pa.table({"id": [2], "more": ["m"]}))
    replaced = catalog.load_table("db.fresh")
    assert (
        ids(replaced) == [2]
        and len(replaced.snapshots()) == 2
        and not replaced.spec().is_unpartitioned
    )
    assert ids(replaced.scan(snapshot_id=replaced.snapshots()[0].snapshot_id)) == [1]


def test_tables_are_renamed_registered_dropped_and_listed(catalog, events):
    events.append(rows([1]))
    moved = catalog.rename_table("db.events", "db.moved")
    assert ids(moved) == [1] and catalog.list_tables("db") == [("db", "moved")]
    catalog.drop_table("db.moved")
    with pytest.raises(NoSuchTableError):
        catalog.load_table("db.moved")
    again = catalog.register_table("db.again", moved.metadata_location)
    assert ids(again) == [1]
    catalog.purge_table("db.again")
    assert not catalog.table_exists("db.again")


def test_a_table_by_location_and_by_metadata_file(tmp_path):
    path_catalog = frazil.load_catalog("files", type="path", warehouse=str(tmp_path / "wh"))
    t = path_catalog.create_table("db.t", "id bigint")
    t.append(pa.table({"id": [1]}))
    by_location = frazil.load_table(t.location())
    by_location.append(pa.table({"id": [2]}))
    assert ids(frazil.load_table("file://" + t.location())) == [1, 2]
    static = frazil.StaticTable.from_metadata(by_location.metadata_location)
    assert ids(static) == [1, 2]
    with pytest.raises(ValidationError, match="read-only"):
        static.append(pa.table({"id": [3]}))
    with pytest.raises(ValidationError, match="read-only"):
        frazil.load_table(by_location.metadata_location).append(pa.table({"id": [3]}))
    with pytest.raises(NoSuchTableError):
        frazil.load_table(str(tmp_path / "nothing" / "here"))


def test_the_directory_of_a_catalogs_table_opens_read_only_at_its_newest_metadata(events):
    events.append(rows([1]))
    by_place = frazil.load_table(events.location())
    assert ids(by_place) == [1] and by_place.metadata_location.endswith(
        events.metadata_location.rsplit("/", 1)[-1]
    )
    with pytest.raises(ValidationError, match="read-only"):
        by_place.append(rows([2]))
    rival = pathlib.Path(events.metadata_location)
    rival.with_name(rival.name.split("-")[0] + "-rival.metadata.json").write_bytes(
        rival.read_bytes()
    )
    with pytest.raises(NoSuchTableError, match="Only its catalog knows"):
        frazil.load_table(events.location())


def test_with_nothing_configured_tables_live_in_the_warehouse_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FRAZIL_HOME", raising=False)
    catalog = frazil.load_catalog()
    catalog.create_namespace("db")
    catalog.create_table("db.t", "id bigint").append(pa.table({"id": [1]}))
    assert ids(frazil.load_table("db.t")) == [1] and ids(frazil.load_table("default.db.t")) == [1]
    assert (tmp_path / "warehouse").is_dir()


def test_a_table_looks_like_one_in_text_and_html(events):
    events.append(rows([1]))
    text = repr(events)
    assert (
        "test.db.events" in text and "partitioned by  day" in text and "rows  1 in 1 files" in text
    )
    assert "<table>" in events._repr_html_()


def test_tasks_travel_to_workers(events):
    events.append(rows([1, 2]))
    task = events.scan().plan_files()[0]
    assert pickle.loads(pickle.dumps(task)).file == task.file
    assert len(pickle.dumps(task)) < 20_000


def test_racing_adds_of_one_file_land_once(catalog, tmp_path):
    import pyarrow.parquet as pq

    first = catalog.create_table("db.raced", "id bigint")
    path = tmp_path / "outside.parquet"
    pq.write_table(pa.table({"id": [1, 2]}), path)
    second = catalog.load_table("db.raced")
    first.add_files([str(path)])
    with pytest.raises(ValidationError, match="already referenced"):
        second.add_files([str(path)])
    assert ids(second.refresh()) == [1, 2] and path.exists()


def test_totals_that_a_parent_lacks_are_counted(catalog, events):
    events.append(rows([1, 2]))
    bare = {
        k: v for k, v in events.current_snapshot().summary.items() if not k.startswith("total-")
    }
    metadata = events.metadata
    stripped = dataclasses.replace(events.current_snapshot(), summary=bare)
    forged = dataclasses.replace(metadata, snapshots=Snapshots.of([stripped]))
    outcome = events._backend.swap(events._loaded, forged)
    assert type(outcome).__name__ == "Committed"
    events.refresh()
    summary = events.append(rows([3])).summary
    assert (
        summary["total-records"],
        summary["total-data-files"],
        summary["total-delete-files"],
    ) == ("3", "2", "0")
    assert int(summary["total-files-size"]) == sum(
        events.inspect.files()["file_size_in_bytes"].to_pylist()
    )


def test_changes_by_an_old_handle_reach_rows_that_others_wrote_since(catalog, events):
    """There is nothing to commit when a handle holds no such rows, so no conflict would tell that
    it is old.
    """
    old = [catalog.load_table("db.events") for _ in range(5)]
    events.append(rows([1, 2, 3]))
    assert old[0].delete("id = 1").rows_deleted == 1
    assert old[1].update({"s": "'y'"}, where="id = 2").rows_updated == 1
    frame = pa.table({"id": pa.array([3], pa.int64())})
    assert (
        old[2].merge(frame, "target.id = source.id").when_matched_delete().execute().rows_deleted
        == 1
    )
    with pytest.raises(ValidationException, match="has changed since it was loaded"):
        old[3].merge(
            pa.table({"id": pa.array([2], pa.int64())}).to_reader(), "target.id = source.id"
        ).when_matched_delete().execute()
    assert [r["id"] for r in old[3].scan().to_arrow().to_pylist()] == [2]
    assert repr(old[4].delete("id = 77")) == "CommitResult(nothing changed)"
    assert ids(events.refresh()) == [2]


def test_files_are_added_by_their_whole_paths_and_results_tell_of_metadata(
    catalog, events, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    pq.write_table(rows([5]), "outside.parquet")
    events.add_files(["outside.parquet"])
    assert events.inspect.files().column("file_path").to_pylist() == [
        str(tmp_path / "outside.parquet")
    ]
    monkeypatch.chdir("/")
    assert ids(events) == [5]
    assert repr(events.set_properties(owner="me")) == "CommitResult(metadata only, no new snapshot)"


WRONG = {
    "Did you mean 'day'": (
        lambda t: t.scan("dya = date'2026-01-01'").to_arrow(),
        lambda t: (
            t.scan(selected_fields=("dya",)).plan_files()
            and t.scan(selected_fields=("dya",)).projection()
        ),
        lambda t: t.delete("dya is null"),
        lambda t: t.update(set={"dya": "null"}),
        lambda t: t.changes(row_filter="dya is null").to_arrow(),
        lambda t: t.incremental_append_scan(row_filter="dya is null").to_arrow(),
        lambda t: t.update_schema().delete_column("dya"),
        lambda t: t.update_spec().add_field("dya"),
    ),
    "does not fit": (lambda t: t.append(pa.table({"id": ["x"]})),),
    "expected a column": (lambda t: t.scan("id == = 1").to_arrow(),),
    "must be one of": (lambda t: t.set_properties({"write.format.default": "parket"}),),
    "join_cols": (lambda t: t.upsert(rows([1])),),
}


@pytest.mark.parametrize(
    ("text", "do"), [(text, do) for text, all_of_it in WRONG.items() for do in all_of_it]
)
def test_refusals_name_the_table_once_and_what_may_be_meant(events, text, do):
    events.append(rows([1, 2]))
    with pytest.raises(InvalidInput, match=text) as told:
        do(events)
    assert (
        str(told.value).count("test.db.events") == 1
        and told.value.facts["table"] == "test.db.events"
    )
    assert str(pickle.loads(pickle.dumps(told.value))) == str(told.value)


def test_a_block_that_fails_names_the_table(events):
    with pytest.raises(
        ValidationError,
        match=r"^Table test\.db\.events: Cannot find column 'ID'.* Did you mean 'id'\?$",
    ):
        with events.update_schema() as update:
            update.delete_column("ID")
    assert events.schema().column_names == ["id", "day", "s"]


def test_schemas_are_taken_in_every_form_also_by_union(catalog, events):
    made = catalog.create_table("db.named", {"id": "bigint not null", "a`b": "array<int>"}).schema()
    assert [str(f) for f in made.fields] == [
        "1: id: required long",
        "2: a`b: optional list<int>",
    ] and repr(made) == str(made)
    with events.update_schema() as update:
        update.union_by_name(pa.schema([("id", pa.int64()), ("more", pa.string())])).union_by_name(
            "yet int"
        )
    assert events.schema().column_names == ["id", "day", "s", "more", "yet"]
    with pytest.raises(InvalidInput, match="format_version must be the number 1, 2 or 3, not '2'"):
        catalog.create_table("db.v", "id int", format_version="2")


def test_a_name_whose_catalog_is_unknown_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("FRAZIL_HOME", str(tmp_path))
    with pytest.raises(NoSuchTableError, match=r"No catalog is named 'prod2'"):
        frazil.load_table("prod2.a.b")
    with pytest.raises(InvalidInput, match=r"werehouse .* Did you mean warehouse\?"):
        frazil.load_catalog("p", type="path", werehouse=str(tmp_path))


def test_a_file_that_a_snapshot_lists_twice_is_read_twice_and_its_rows_are_not_changed(
    catalog, tmp_path
):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"id": list(range(10))}), path)
    for version in (1, 2, 3):
        table = catalog.create_table(f"db.twice{version}", "id bigint", format_version=version)
        table.add_files([path])
        for name in (f"file:{path}", f"file://{path}", f"{path.parent}//{path.name}"):
            with pytest.raises(ValidationException, match="already referenced"):
                table.add_files([name])
        with pytest.raises(InvalidInput, match="twice"):
            table.add_files([f"file:{path}", str(path)], check_duplicate_files=False)
        once = table.current_snapshot().snapshot_id
        again = listed_again(table)
        table.refresh()
        told = rf"{re.escape(str(path))} 2 times \(added by {again}, {once}\).*set_current_snapshot.{once}"
        frame = table.scan(snapshot_id=once).to_arrow()
        assert ids(table) == sorted([*range(10)] * 2) and table.scan().count() == 20
        assert table.scan("id = 3").to_arrow().num_rows == 2
        uses = [
            partial(table.delete, "id = 3"),
            partial(table.update, {"id": "1"}),
            partial(table.maintenance.rewrite_data_files, options={"rewrite-all": "true"}),
            partial(table.upsert, frame, ["id"]),
            partial(table.overwrite, frame, "id < 3"),
        ]
        for use in uses:
            with pytest.raises(CorruptData, match=told) as refused:
                use()
            assert refused.value.facts["snapshot_id"] == again
        assert ids(table.scan(snapshot_id=once)) == list(range(10))
        assert table.inspect.files().num_rows == 2, "metadata tables show what is there"
        table.manage_snapshots().set_current_snapshot(once).commit()
        assert ids(table) == list(range(10))
        listed_again(table)
        table.refresh().overwrite(frame)
        assert ids(table) == list(range(10)), "whole files go, however often they are there"
        listed_again(table)
        table.refresh().overwrite(table.to_arrow())
        assert table.delete("id = 3").rows_deleted == 2


def test_a_stream_behind_nothing_but_its_capsule_is_not_read_twice(catalog, events):
    class Capsule:
        def __init__(self, table):
            self.reader = table.to_reader()

        def __arrow_c_stream__(self, requested_schema=None):
            return self.reader.__arrow_c_stream__(requested_schema)

    old = catalog.load_table("db.events")
    events.append(rows([1]))
    with pytest.raises(ValidationException, match="pass the rows again"):
        old.upsert(Capsule(rows([1], s="new")), ["id"], when_not_matched_insert_all=False)
    assert old.upsert(Capsule(rows([1], s="new")), ["id"]).rows_updated == 1


def test_an_error_names_the_table_it_is_about_and_no_other(catalog, events):
    other = catalog.create_table("db.other", "id bigint")
    with (
        pytest.raises(
            ValidationError, match=r"^Table test\.db\.events: Cannot find column 'nosuch'"
        ),
        other.transaction() as tx,
    ):
        tx.append(events.scan("nosuch = 1").to_arrow())


def test_nothing_given_is_nothing_asked(catalog):
    table = catalog.create_table(
        "db.none", "id bigint", partition_by=None, sort_by=None, properties=None
    )
    table.append(pa.table({"id": [1]}), snapshot_properties={})
    odd = dataclasses.replace(
        table.current_snapshot(),
        summary={"operation": "append", "total-records": "1", "total-data-files": "x"},
    )
    table._loaded = dataclasses.replace(
        table._loaded, metadata=dataclasses.replace(table.metadata, snapshots=Snapshots.of([odd]))
    )
    assert "db.none" in repr(table) and "db.none" in table._repr_html_()


def test_a_delete_takes_its_filter_as_where_too_and_only_one(catalog):
    t = catalog.create_table("db.where", "id bigint, v string")
    t.append(pa.table({"id": range(10), "v": ["x"] * 10}))
    assert t.delete(where="id < 3").rows_deleted == 3 and t.delete("id = 5").rows_deleted == 1
    with pytest.raises(InvalidInput, match="one filter"):
        t.delete("id = 7", where="id = 8")
    with t.transaction() as tx:
        tx.delete(where="id = 9")
    assert sorted(t.to_arrow().column("id").to_pylist()) == [3, 4, 6, 7, 8]


def test_a_table_tells_its_columns_its_first_rows_and_how_many_there_are(catalog):
    t = catalog.create_table("db.first", "id bigint, `a.b` string")
    assert (t.count(), t.columns, t.head().num_rows) == (0, ["id", "a.b"], 0)
    t.append(pa.table({"id": range(10), "a.b": ["x"] * 10}))
    assert t.count() == 10 and t.head(3).num_rows == 3 and t.head().column_names == t.columns
