"""What changed between two snapshots, without Spark: histories made by hand and at random, ranges,
keys, filters, memory.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from frazil.arrow.deletes.write_deletes import write_equality_deletes
from frazil.arrow.read.read_tasks import ReadContext, read
from frazil.arrow.write.conform import conform
from frazil.arrow.write.write_options import write_options
from frazil.arrow.write.write_rows import WriteContext, write
from frazil.commit.actions import MetadataChange, RewriteFiles, RowDelta
from frazil.commit.table_commit import commit
from frazil.errors import (
    CorruptData,
    InvalidInput,
    NoSuchRefError,
    NoSuchSnapshotError,
    ValidationError,
)
from frazil.scan.changelog import CHANGELOG_FIELDS
from frazil.scan.plan import plan
from frazil.spec.types import IntegerType
from frazil.spec.updates import RemoveSnapshots
from tests.builders.catalogs import catalog_of
from tests.builders.frames import ids

CHANGES = [f.name for f in CHANGELOG_FIELDS]
_names = itertools.count()
NAN = math.nan


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return catalog_of("path", tmp_path_factory.mktemp("changes"), "changes")


def new(catalog: Any, schema: str = "id bigint, s string", **arguments: Any) -> Any:
    return catalog.create_table(f"db.t{next(_names)}", schema, **arguments)


def rows(*of: tuple[Any, ...]) -> pa.Table:
    return pa.table(
        {
            "id": pa.array([r[0] for r in of], pa.int64()),
            "s": pa.array([r[1] for r in of], pa.string()),
        }
    )


def log(scan: Any) -> list[tuple[Any, ...]]:
    """(ordinal, type, columns…), sorted."""
    found = [
        (
            r.pop("_change_ordinal"),
            r.pop("_change_type"),
            r.pop("_commit_snapshot_id") and None,
            *r.values(),
        )
        for r in scan.to_arrow().to_pylist()
    ]
    return sorted(((o, k, *v) for o, k, _, *v in found), key=repr)


def delete_keys(table: Any, *ids: int) -> None:
    """An equality delete file for these ids, as a stream would write it."""
    base = table._loaded
    context = WriteContext.of(base.metadata, base.storage, write_options({}))
    key = table.schema().find_field(1)
    # whole rows: they tell the partitions
    found = table.scan(f"{key.name} in ({', '.join(map(str, ids))})").to_arrow()
    if found.num_rows:
        files = write_equality_deletes(found.to_batches(), context, [1])
        commit(table._backend, base, [RowDelta(added_deletes=files)])
        table.refresh()


def compact(table: Any) -> None:
    base = table._loaded
    context = WriteContext.of(base.metadata, base.storage, write_options({}))
    old = [t.file for t in table.scan().plan_files()]
    added = write(conform(table.scan().to_arrow(), context.schema), context)
    rewrite = RewriteFiles(
        removed=old, added=added, starting_snapshot_id=table.current_snapshot().snapshot_id
    )
    commit(table._backend, base, [rewrite])
    table.refresh()


def state(table: Any, snapshot: Any) -> Counter[str]:
    found = plan(table.metadata, table.io, snapshot=snapshot, schema=table.schema())
    return counted(
        read(found.tasks(), ReadContext.of(found, table.schema(), table.io)).read_all().to_pylist()
    )


def counted(found: list[dict[str, Any]]) -> Counter[str]:
    return Counter(repr({k: v for k, v in r.items() if k not in CHANGES}) for r in found)


# Histories
# -----------------------------------------------------------------------------------------------------------------------------

values = st.tuples(
    st.sampled_from([1, 2, 3, None]),
    st.sampled_from(["a", "b", None]),
    st.sampled_from([0.0, -0.0, NAN, None]),
)
where = st.sampled_from(["id = 1", "id >= 2", "s = 'a'", "id IS NULL", "id = 2 AND s = 'b'"])
steps = st.one_of(
    st.tuples(st.just("append"), st.lists(values, min_size=1, max_size=5)),
    st.tuples(st.just("delete"), where, st.sampled_from(["copy-on-write", "merge-on-read"])),
    st.tuples(st.just("update"), where, st.sampled_from(["copy-on-write", "merge-on-read"])),
    st.tuples(st.just("overwrite"), st.lists(values, min_size=1, max_size=3)),
    st.tuples(st.just("keys"), st.sampled_from([1, 2])),
    st.tuples(st.sampled_from(["compact", "column", "spec", "upgrade"])),
)


def step(table: Any, kind: str, *of: Any) -> None:
    version = table.format_version
    if kind in ("append", "overwrite"):
        columns = list(zip(*of[0], strict=True))
        frame = pa.table(
            {
                "id": pa.array(columns[0], pa.int64()),
                "s": pa.array(columns[1], pa.string()),
                "d": pa.array(columns[2], pa.float64()),
            }
        )
        getattr(table, kind)(frame)
    elif kind == "delete":
        table.delete(of[0], mode=of[1] if version > 1 else "copy-on-write")
    elif kind == "update":
        table.update({"s": "'u'"}, of[0], mode=of[1] if version > 1 else "copy-on-write")
    elif kind == "keys" and version > 1:
        delete_keys(table, of[0])
    elif kind == "compact" and table.current_snapshot() and len(table.scan().plan_files()):
        compact(table)
    elif kind == "column":
        with table.update_schema() as update:
            update.add_column(f"c{len(table.schema().fields)}", IntegerType())
    elif kind == "spec" and not table.spec().fields:
        with table.update_spec() as update:
            update.add_identity("s")
    elif kind == "upgrade" and version < 3:
        table.upgrade(format_version=version + 1)


@pytest.fixture
def table(catalog: Any) -> Any:
    return new(catalog)


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    history=st.lists(steps, min_size=2, max_size=7),
    version=st.sampled_from([1, 2, 3]),
    by=st.sampled_from([[], ["bucket(2, id)"]]),
)
def test_a_snapshots_changes_are_the_difference_it_made(
    catalog: Any, history: list[Any], version: int, by: list[str]
) -> None:
    table = new(catalog, "id bigint, s string, d double", format_version=version, partition_by=by)
    for one in history:
        step(table, *one)
    snapshots = (
        list(table.metadata.ancestors(table.current_snapshot()))[::-1]
        if table.current_snapshot()
        else []
    )
    states = [Counter[str](), *(state(table, s) for s in snapshots)]
    scan = table.changes()
    found = scan.to_arrow().to_pylist()
    assert scan.count() == len(found)
    counts = [s.snapshot_id for s in snapshots if s.operation != "replace"]
    for n, snapshot in enumerate(snapshots):
        mine = [r for r in found if r["_commit_snapshot_id"] == snapshot.snapshot_id]
        assert {r["_change_ordinal"] for r in mine} <= (
            {counts.index(snapshot.snapshot_id)} if snapshot.snapshot_id in counts else set()
        )
        gone, come = (
            counted([r for r in mine if r["_change_type"] == kind]) for kind in ("DELETE", "INSERT")
        )
        assert (gone, come) == (states[n] - states[n + 1], states[n + 1] - states[n])
    net = table.changes(net=True).to_arrow().to_pylist()
    assert counted(net) == states[-1] and {r["_change_type"] for r in net} <= {"INSERT"}
    keyed = table.changes(identifier_columns=["id"]).to_arrow().to_pylist()
    for gone, come in (("UPDATE_BEFORE", "UPDATE_AFTER"),):
        pairs = [
            Counter((r["_change_ordinal"], r["id"]) for r in keyed if r["_change_type"] == k)
            for k in (gone, come)
        ]
        assert pairs[0] == pairs[1]
    assert counted(keyed) == counted(found)


def test_all_kinds_of_deletes_are_rows_that_went(catalog: Any) -> None:
    for version in (2, 3):
        table = new(catalog, format_version=version)
        table.append(rows((1, "a"), (2, "b"), (3, "c"), (4, "d")))
        table.delete("id = 1", mode="merge-on-read")
        delete_keys(table, 2, 9)
        table.delete("id = 3", mode="copy-on-write")
        assert log(table.changes())[4:] == [
            (1, "DELETE", 1, "a"),
            (2, "DELETE", 2, "b"),
            (3, "DELETE", 3, "c"),
        ]
        # as in Java: by the last snapshot that wrote the row
        assert log(table.changes(net=True)) == [(3, "INSERT", 4, "d")]


def test_duplicates_count_and_nulls_and_nan_are_values(catalog: Any) -> None:
    table = new(catalog, "id bigint, d double")
    frame = pa.table(
        {"id": pa.array([1, 1, 1, None, None], pa.int64()), "d": [NAN, NAN, 0.0, None, NAN]}
    )
    table.append(frame)
    table.overwrite(
        pa.table({"id": pa.array([1, 1, None, None], pa.int64()), "d": [NAN, -0.0, None, NAN]})
    )
    found = list(map(repr, log(table.changes())[5:]))
    assert found == ["(1, 'DELETE', 1, 0.0)", "(1, 'DELETE', 1, nan)", "(1, 'INSERT', 1, -0.0)"]


def test_compaction_gives_nothing_and_counts_for_no_ordinal(table: Any) -> None:
    table.append(rows((1, "a")))
    table.append(rows((2, "b")))
    compact(table)
    table.append(rows((3, "c")))
    assert log(table.changes()) == [
        (0, "INSERT", 1, "a"),
        (1, "INSERT", 2, "b"),
        (2, "INSERT", 3, "c"),
    ]


def test_rows_are_told_with_the_current_schema(table: Any) -> None:
    table.append(rows((1, "a"), (2, "b")))
    with table.update_schema() as update:
        update.rename_column("s", "t")
        update.add_column("n", IntegerType())
    table.delete("id = 1", mode="copy-on-write")
    assert log(table.changes()) == [
        (0, "INSERT", 1, "a", None),
        (0, "INSERT", 2, "b", None),
        (1, "DELETE", 1, "a", None),
    ]
    assert table.changes().to_arrow().column_names == ["id", "t", "n", *CHANGES]
    assert table.changes().to_arrow().schema.types[3:] == [pa.string(), pa.int32(), pa.int64()]


# Keys
# ----------------------------------------------------------------------------------------------------------------------------------


def test_updates_are_pairs_by_key_and_what_is_left_is_plain(table: Any) -> None:
    table.append(rows((1, "a"), (1, "b"), (2, "c"), (None, "n")))
    table.overwrite(rows((1, "x"), (2, "c"), (3, "new"), (None, "m")))
    got = log(table.changes(identifier_columns=["id"]))[4:]
    assert [r[1] for r in got if r[2] == 1] in (["DELETE", "UPDATE_AFTER", "UPDATE_BEFORE"],)
    assert [r for r in got if r[2] != 1] == [
        (1, "INSERT", 3, "new"),
        (1, "UPDATE_AFTER", None, "m"),
        (1, "UPDATE_BEFORE", None, "n"),
    ]


def test_the_tables_identifier_fields_serve_when_updates_are_asked_for(catalog: Any) -> None:
    table = new(catalog, "id bigint not null, s string", identifier_fields=["id"])
    frame = rows((1, "a"), (2, "b"))
    required = pa.schema([pa.field("id", pa.int64(), False), pa.field("s", pa.string())])
    table.append(frame.cast(required))
    table.update({"s": "'z'"}, "id = 2", mode="copy-on-write")
    assert log(table.changes(compute_updates=True))[2:] == [
        (1, "UPDATE_AFTER", 2, "z"),
        (1, "UPDATE_BEFORE", 2, "b"),
    ]
    assert log(table.changes(identifier_columns=["id"], compute_updates=False))[2:] == [
        (1, "DELETE", 2, "b"),
        (1, "INSERT", 2, "z"),
    ]
    with pytest.raises(InvalidInput, match="identifier columns are not set"):
        new(catalog).changes(compute_updates=True).to_arrow()
    assert (
        len(table.changes(net=True, identifier_columns=["id"], compute_updates=False).to_arrow())
        == 2
    )
    with pytest.raises(ValidationError, match="Cannot find column 'nope'"):
        table.changes(identifier_columns=["nope"]).to_arrow()
    nested = new(catalog, "id bigint, l array<int>")
    with pytest.raises(InvalidInput, match="Identifier column l must be a primitive"):
        nested.changes(identifier_columns=["l"]).to_arrow()


def test_net_changes_of_a_key_are_the_rows_before_and_after_the_range(catalog: Any) -> None:
    for version in (2, 3):
        table = new(catalog, format_version=version)
        table.append(rows((1, "a"), (2, "b"), (3, "c"), (5, "e"), (5, "f")))
        asked = {"start_snapshot_id": table.current_snapshot().snapshot_id, "net": True}
        for value in ("x", "y"):
            table.update({"s": f"'{value}'"}, "id = 2", mode="merge-on-read")
        table.delete("id = 3", mode="copy-on-write")
        table.append(rows((4, "d")))
        table.update({"s": "'z'"}, "id = 4 OR s = 'f'", mode="copy-on-write")
        table.delete("id = 1")
        table.append(rows((1, "a")))
        changes = table.changes(**asked, identifier_columns=["id"])
        assert sorted(row[1:] for row in log(changes)) == [
            ("DELETE", 3, "c"),
            ("INSERT", 4, "z"),
            ("UPDATE_AFTER", 2, "y"),
            ("UPDATE_AFTER", 5, "z"),
            ("UPDATE_BEFORE", 2, "b"),
            ("UPDATE_BEFORE", 5, "f"),
        ]
        after = table.changes(**asked, identifier_columns=["id"], row_filter="s = 'y'")
        assert [row[1:] for row in log(after)] == [("UPDATE_AFTER", 2, "y")]
        catalog.drop_table(table.name())


# Filters, columns
# ----------------------------------------------------------------------------------------------------------------------


def test_filters_are_decided_after_updates_are_told(table: Any) -> None:
    table.append(rows((1, "a"), (2, "b"), (3, "c")))
    table.update({"s": "'z'"}, "id = 2", mode="copy-on-write")
    keyed = {"identifier_columns": ["id"]}
    assert log(table.changes(**keyed, row_filter="s = 'b'")) == [
        (0, "INSERT", 2, "b"),
        (1, "UPDATE_BEFORE", 2, "b"),
    ]
    assert log(table.changes(**keyed, row_filter="id = 2 AND s = 'z'")) == [
        (1, "UPDATE_AFTER", 2, "z")
    ]
    assert log(table.changes(row_filter="s = 'b'")) == [
        (0, "INSERT", 2, "b"),
        (1, "DELETE", 2, "b"),
    ]
    assert log(
        table.changes(row_filter="_change_ordinal = 1 OR id = 3", selected_fields=("s",))
    ) == [
        (0, "INSERT", "c"),
        (1, "DELETE", "b"),
        (1, "INSERT", "z"),
    ]
    assert table.changes(row_filter="_change_type = 'INSERT'").count() == 4
    assert log(table.changes().select("id").filter("id = 3")) == [(0, "INSERT", 3)]
    assert len(table.changes(limit=2).to_arrow()) == table.changes(limit=2).count() == 2
    assert len(table.changes(row_filter="id = 99").plan_files()) == 0


def test_a_filter_sees_more_of_a_struct_than_comes_out(catalog: Any) -> None:
    table = new(catalog, "id bigint, st struct<a: int, b: string>")
    frame = pa.table(
        {
            "id": pa.array([1, 2], pa.int64()),
            "st": pa.array(
                [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}],
                pa.struct([("a", pa.int32()), ("b", pa.string())]),
            ),
        }
    )
    table.append(frame)
    scan = table.changes(row_filter="st.b = 'y' AND _change_ordinal = 0", selected_fields=("st.a",))
    assert log(scan) == [(0, "INSERT", {"a": 2})]


def test_names_of_the_changelog_are_reserved(catalog: Any) -> None:
    with pytest.raises(ValidationError, match="reserved for changelogs: _change_type"):
        new(catalog, "id bigint, _change_type string").changes().to_arrow()


# Ranges
# --------------------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def four(catalog: Any) -> Any:
    table = new(catalog)
    for n in range(4):
        table.append(rows((n, "a")))
    return table


def test_the_start_is_left_out_and_the_end_comes(four: Any) -> None:
    s = [x.snapshot_id for x in four.snapshots()]
    assert ids(four.changes()) == [0, 1, 2, 3]
    assert ids(four.changes(start_snapshot_id=s[0])) == [1, 2, 3]
    assert ids(four.changes(end_snapshot_id=s[1])) == [0, 1]
    assert ids(four.changes(start_snapshot_id=s[0], end_snapshot_id=s[2])) == [1, 2]
    assert ids(four.changes(start_snapshot_id=s[3])) == []
    with pytest.raises(InvalidInput, match="is not a parent ancestor of end snapshot"):
        four.changes(start_snapshot_id=s[2], end_snapshot_id=s[1]).to_arrow()
    with pytest.raises(NoSuchSnapshotError):
        four.changes(end_snapshot_id=1).to_arrow()
    with pytest.raises(InvalidInput):
        four.changes(start_snapshot_id=1).to_arrow()


def test_times_mean_after_the_start_and_up_to_the_end(four: Any) -> None:
    t = [x.timestamp_ms for x in four.snapshots()]
    assert ids(four.changes(start_timestamp=t[0] - 1)) == [0, 1, 2, 3]
    assert ids(four.changes(start_timestamp=t[1])) == [n for n in range(4) if t[n] > t[1]]
    assert ids(four.changes(end_timestamp=t[2])) == [n for n in range(4) if t[n] <= t[2]]
    assert ids(four.changes(end_timestamp=t[0] - 1)) == []
    assert ids(four.changes(start_timestamp=t[3])) == []
    for asked in (
        {"start_snapshot_id": 1, "start_timestamp": 1},
        {"end_snapshot_id": 1, "end_timestamp": 1},
    ):
        with pytest.raises(InvalidInput, match="Cannot set both"):
            four.changes(**asked)
    with pytest.raises(InvalidInput, match="to be greater than"):
        four.changes(start_timestamp=5, end_timestamp=5)


def test_a_branch_has_changes_of_its_own(four: Any) -> None:
    s = [x.snapshot_id for x in four.snapshots()]
    with four.manage_snapshots() as manage:
        manage.create_branch(s[1], "audit").create_tag(s[0], "first")
    four.append(rows((10, "b")), branch="audit")
    assert ids(four.changes(branch="audit")) == [0, 1, 10]
    assert ids(four.changes(branch="audit", start_snapshot_id=s[1])) == [10]
    assert ids(four.changes()) == [0, 1, 2, 3]
    with pytest.raises(InvalidInput, match="is not on branch audit"):
        four.changes(branch="audit", end_snapshot_id=s[3]).to_arrow()
    with pytest.raises(InvalidInput, match="is a tag"):
        four.changes(branch="first").to_arrow()
    with pytest.raises(NoSuchRefError):
        four.changes(branch="nope").to_arrow()


def test_a_snapshot_whose_parent_expired_tells_its_changes_itself(table: Any) -> None:
    table.append(rows((1, "a"), (2, "b")))
    table.append(rows((3, "c"), (4, "d")))
    table.delete("id = 3", mode="merge-on-read")
    table.overwrite(rows((2, "b"), (9, "z")), "id <= 2")
    first, second, third, last = (s.snapshot_id for s in table.snapshots())
    gone = next(t.file.file_path for t in table.scan(snapshot_id=first).plan_files())

    def expire(*some: int) -> None:
        commit(table._backend, table._loaded, [MetadataChange(lambda _: [RemoveSnapshots(some)])])
        table.refresh()

    expire(first, second)
    want = [(0, "DELETE", 3, "c"), (1, "DELETE", 1, "a"), (1, "INSERT", 9, "z")]
    assert log(table.changes()) == want
    assert log(table.changes(start_snapshot_id=second)) == want
    with pytest.raises(InvalidInput, match="is not a parent ancestor"):
        table.changes(start_snapshot_id=first).to_arrow()
    with pytest.raises(InvalidInput, match="history before snapshot"):
        table.changes(start_timestamp=1).to_arrow()
    expire(third)
    assert log(table.changes()) == [(0, "DELETE", 1, "a"), (0, "INSERT", 9, "z")]
    Path(gone.removeprefix("file://")).unlink()
    with pytest.raises(
        InvalidInput, match=f"Cannot tell what snapshot {last} .* has expired"
    ) as told:
        table.changes().to_arrow()
    assert told.value.facts["file"] == gone


def test_a_file_with_more_rows_than_its_manifest_says_is_corrupt(table: Any) -> None:
    table.append(rows((1, "a")))
    base, (old,) = table._loaded, [t.file for t in table.scan().plan_files()]
    context = WriteContext.of(base.metadata, base.storage, write_options({}))
    (file,) = write(conform(rows((1, "a"), (2, "b"), (3, "c")), context.schema), context)
    commit(table._backend, base, [RowDelta(added=[replace(file, record_count=2)], removed=[old])])
    with pytest.raises(
        CorruptData, match=r"holds more rows than its manifest entry says \(2\)"
    ) as told:
        table.refresh().changes().to_arrow()
    assert told.value.facts["file"] == file.file_path


def test_a_table_without_snapshots_has_no_changes(table: Any) -> None:
    assert table.changes().to_arrow().num_rows == table.changes().count() == 0
    assert table.changes().to_arrow().column_names == ["id", "s", *CHANGES]
    with pytest.raises(InvalidInput, match="a start and an end"):
        table.changes().update(snapshot_id=3)


def test_all_doors_open(four: Any) -> None:
    assert len(four.changes().to_pandas()) == 4
    assert sum(b.num_rows for b in four.changes().to_arrow_batch_reader()) == 4
    assert four.changes().to_duckdb("c").sql("select count(*) from c").fetchall() == [(4,)]
    assert len(four.changes().to_polars()) == 4


def test_digests_beyond_the_budget_go_to_disk(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    table.append(pa.table({"id": pa.array(range(5000), pa.int64()), "s": ["x"] * 5000}))
    table.delete("id % 1000 = 7", mode="copy-on-write")
    monkeypatch.setattr("frazil.arrow.changelog.changelog_match.BUDGET", 1)
    from frazil.arrow.changelog.read_changelog import ChangelogOptions

    monkeypatch.setattr(
        "frazil.ops.reading.ChangelogOptions",
        lambda *a: ChangelogOptions(*a, budget=10_000),
    )
    assert log(table.changes())[5000:] == [
        (1, "DELETE", n, "x") for n in (1007, 2007, 3007, 4007, 7)
    ]
