"""MERGE as users write it: clauses, names, refusals, evolution, pruning, transactions, conflicts;
without Spark.
"""

import datetime as dt
import os
import uuid
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import frazil
from frazil.errors import (
    EvaluationError,
    InvalidInput,
    ParseError,
    SchemaMismatch,
    Unsupported,
    ValidationError,
    ValidationException,
)
from frazil.expressions import EqualTo, Reference
from frazil.rows import source as rows_source
from frazil.spec.types import IntegerType

MODES = ["copy-on-write", "merge-on-read"]
REFUSED = {"commit.retry.plan-anew.enabled": "false"}


@pytest.fixture(params=MODES)
def mode(request):
    return request.param


@pytest.fixture
def table(catalog, mode):
    made = catalog.create_table(
        "db.t", "id bigint, v int, name string", properties={"write.merge.mode": mode}
    )
    made.append(frame([1, 2, 3, 4]))
    return made


def frame(ids, v=None, name="t"):
    values = [i * 10 if i is not None else None for i in ids] if v is None else v
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "v": pa.array(values, pa.int32()),
            "name": pa.array([name] * len(ids), pa.string()),
        }
    )


def rows(t):
    return sorted(
        (tuple(r.values()) for r in t.to_arrow().to_pylist()),
        key=lambda r: (r[0] is None, r[0] or 0),
    )


def merging(t, df, on="target.id = source.id", **options):
    return t.merge(df, on, runner="in-process", **options)


# --- clauses


UPDATE_ALL, INSERT_ALL = ("when_matched_update_all",), ("when_not_matched_insert_all",)
DELETE, BY_SOURCE = ("when_matched_delete",), "when_not_matched_by_source_delete"
TWICE = frame([2, 2], [1, 2])
STARTS = [(1, 10, "t"), (2, 20, "t"), (3, 30, "t"), (4, 40, "t")]
ALIASES = {"target_alias": "t", "source_alias": "S", "case_sensitive": False}
"""The rows of the table, and names of a merge; a row of the tables below is the source, what is told
of the merge, its clauses (methods with their arguments), what the result counts, and the rows then.
"""
MERGES = {
    "the first clause whose condition is true acts, and null is not true": (
        frame([1, 2, 3], [None, 5, 7]), {},
        [("when_matched_update", {"name": "'small'"}, "source.v < 6"), ("when_matched_delete", "source.v > 1")],
        {}, [(1, 10, "t"), (2, 20, "small"), (4, 40, "t")],
    ),
    "nothing to do commits nothing": (frame([77]), {}, [UPDATE_ALL], {"snapshot_id": None}, STARTS),
    "a source without rows commits nothing": (
        frame([]), {}, [UPDATE_ALL, INSERT_ALL], {"snapshot_id": None}, STARTS,
    ),
    "only inserts are an append": (
        frame([3, 5]), {}, [INSERT_ALL],
        {"operation": "append", "rows_inserted": 1, "files_removed": 0}, [*STARTS, (5, 50, "t")],
    ),
    "a source without rows leaves all target rows unmatched": (
        frame([]), {}, [(BY_SOURCE, "v > 20")], {"rows_deleted": 2}, STARTS[:2],
    ),
    "a source without rows meets nothing on false": (
        frame([]), {"on": "false"}, [(BY_SOURCE,)], {"rows_deleted": 4}, [],
    ),
    "on false replaces everything": (
        frame([8, 9]), {"on": "false"}, [INSERT_ALL, (BY_SOURCE,)], {}, [(8, 80, "t"), (9, 90, "t")],
    ),
    "the on condition makes several source rows clear": (
        TWICE, {"on": "target.id = source.id AND source.v = 2"}, [UPDATE_ALL], {},
        [STARTS[0], (2, 2, "t"), *STARTS[2:]],
    ),
    **{
        f"a lone delete without condition may match several: {on}": (
            frame([2, 2, 3, 7, 7]), {"on": on},
            [DELETE, INSERT_ALL, ("when_not_matched_by_source_update", {"name": "'u'"}, "target.id = 1")],
            {"rows_deleted": 2, "rows_inserted": 2, "rows_updated": 1},
            [(1, 10, "u"), (4, 40, "t"), (7, 70, "t"), (7, 70, "t")],
        )
        for on in ("target.id = source.id", "target.id IN (source.id, source.id)")
    },
    "source rows that only insert may repeat": (
        frame([7, 7]), {}, [UPDATE_ALL, INSERT_ALL], {"rows_inserted": 2}, [*STARTS, *[(7, 70, "t")] * 2],
    ),
    "keys of text meet numbers as Spark compares them": (
        pa.table({"id": ["2", "3"], "when": ["x", "y"]}), {},
        [("when_matched_update", {"name": "source.when"})], {"rows_updated": 2},
        [STARTS[0], (2, 20, "x"), (3, 30, "y"), STARTS[3]],
    ),
    "narrower keys meet, and values are cast": (
        pa.table({"id": pa.array([1, 4], pa.int8()), "v": [1.9, -2.2]}), {},
        [("when_matched_update", {"v": "source.v"})], {}, [(1, 1, "t"), *STARTS[1:3], (4, -2, "t")],
    ),
    "keys may be computed on either side": (
        frame([11, 13]), {"on": "target.id + 10 = source.id and target.v < 30"}, [DELETE], {}, STARTS[1:],
    ),
    "keys may be expressions of PyIceberg's": (
        frame([4, 6]), {"on": EqualTo(Reference("target.id"), Reference("source.id"))}, [DELETE], {}, STARTS[:3],
    ),
    "without an equality every row meets every other": (
        pa.table({"low": pa.array([0, 30], pa.int32()), "high": pa.array([15, 99], pa.int32())}),
        {"on": "v between low and high"}, [DELETE], {}, STARTS[1:2],
    ),
    "names may have other aliases and case": (
        frame([2]), {"on": "T.ID = s.Id", **ALIASES},
        [("when_matched_update", {"NAME": "'it'", "t.V": "s.v + T.v"})], {},
        [STARTS[0], (2, 40, "it"), *STARTS[2:]],
    ),
    "errors of values count only for rows that need them": (
        frame([1, 2], [0, 5]), {},
        [("when_matched_update", {"v": "target.v div source.v"}, "source.v <> 0")], {},
        [STARTS[0], (2, 4, "t"), *STARTS[2:]],
    ),
    "errors of conditions count only for rows that need them": (
        frame([1]), {}, [(BY_SOURCE, "100 / (id - 1) > 40")], {}, [STARTS[0], STARTS[3]],
    ),
    "extra columns of the source are no matter without evolution": (
        frame([2]).append_column("extra", pa.array(["e"])), {}, [UPDATE_ALL], {"rows_updated": 1}, STARTS,
    ),
    "evolution adds only columns that are set": (
        pa.table({"id": [2], "a": ["x"], "b": ["y"], "c": ["z"]}), {},
        [("with_schema_evolution",), ("when_matched_update", {"a": "source.a", "name": "source.b"})], {},
        [(*STARTS[0], None), (2, 20, "y", "x"), *((*row, None) for row in STARTS[2:])],
    ),
}  # fmt: skip
ONE = frame([1])
AMBIGUOUS = [
    [("when_matched_update_all", "source.v = 2")],
    [("when_matched_update_all", "source.v > 2")],
    [("when_matched_delete", "source.v = 1"), INSERT_ALL],
    [("when_matched_delete", "source.v = 1"), DELETE],
    [("when_matched_delete", "true")],
]
REFUSED_MERGES = [
    (ONE, {}, [], "at least one"),
    (ONE, {}, [DELETE, UPDATE_ALL], "only the last"),
    (ONE, {}, [INSERT_ALL, (*INSERT_ALL, "source.v > 1")], "only the last"),
    (ONE, {}, [("when_matched_update", {})], "at least one column"),
    (ONE, {}, [("when_matched_update", {"nix": "1"})], "nix"),
    (ONE, {}, [("when_matched_update", {"v": "1", "target.v": "2"})], "more than once"),
    (ONE, {}, [("when_matched_update", {"v": "source.nix"})], "nix"),
    (ONE, {}, [("when_matched_update", {"v": "v"})], "both the target and the source"),
    (ONE, {}, [("when_matched_update", {"v": "source.name"})], "Cannot assign"),
    (ONE, {}, [("when_not_matched_insert", {"v": "target.v"})], "cannot be used here"),
    (ONE, {}, [("when_not_matched_by_source_update", {"v": "source.v"})], "cannot be used here"),
    (ONE, {}, [("when_matched_delete", "source.v")], "not boolean"),
    (ONE, {"on": "soundex(target.name) = source.name"}, [DELETE], "soundex"),
    (frame([2]), {"on": "x.id = x.id", "target_alias": "x", "source_alias": "X"}, [DELETE], "have the same alias"),
    (
        frame([1, 2, 3, 2, 3, 2]), {}, [UPDATE_ALL, INSERT_ALL],
        r"MERGE_CARDINALITY_VIOLATION.*ambiguous.*id = 2 \(3 source rows\); id = 3 \(2 source rows\)",
    ),
    *(
        (TWICE, {"on": on}, clauses, r"ambiguous.*id = 2 \(2 source rows\)")
        for on in ("target.id = source.id", "target.id >= source.id")
        for clauses in AMBIGUOUS
    ),
]  # fmt: skip


def told(table, source, options, clauses):
    """A merge with clauses, each a method with its arguments."""
    merge = merging(table, source, **options)
    for clause, *arguments in clauses:
        merge = getattr(merge, clause)(*arguments)
    return merge


@pytest.mark.parametrize("name", MERGES)
def test_a_merge_counts_and_leaves_rows_as_its_clauses_say(table, name):
    source, options, clauses, counts, after = MERGES[name]
    result = told(table, source, options, clauses).execute()
    assert {key: getattr(result, key) for key in counts} == counts
    assert rows(table) == after
    assert len(table.refresh().snapshots()) == (1 if "snapshot_id" in counts else 2)


@pytest.mark.parametrize("source, options, clauses, message", REFUSED_MERGES)
def test_what_makes_no_sense_is_refused_and_nothing_is_written(
    table, source, options, clauses, message
):
    before = sorted(Path(table.location()).rglob("*"))
    refusals = (InvalidInput, ValidationError, Unsupported, ParseError)
    with pytest.raises(refusals, match=message):
        told(table, source, options, clauses).execute()
    assert sorted(Path(table.location()).rglob("*")) == before and rows(table) == STARTS


def test_all_kinds_of_clauses_are_one_snapshot_with_its_counts(table, mode):
    before = len(table.snapshots())
    result = (
        merging(table, frame([2, 3, 9], [1, 2, 3], "s"))
        .when_matched_delete("source.v = 2")
        .when_matched_update(
            {"v": "target.v + source.v", "target.name": "concat(source.name, '!')"}
        )
        .when_not_matched_insert({"id": "source.id", "name": "upper(name)"})
        .when_not_matched_by_source_update({"v": 0}, condition="id = 4")
        .execute()
    )
    assert rows(table) == [(1, 10, "t"), (2, 21, "s!"), (4, 0, "t"), (9, None, "S")]
    assert (result.rows_inserted, result.rows_updated, result.rows_deleted, result.operation) == (
        1,
        2,
        1,
        "overwrite",
    )
    assert result.rows_copied == (1 if mode == "copy-on-write" else 0)
    assert len(table.snapshots()) == before + 1
    told = {
        k.removeprefix("spark.merge-into.num-target-rows-"): v
        for k, v in result.summary.items()
        if k.startswith("spark.merge-into.")
    }
    assert told == {
        "copied": str(result.rows_copied),
        "deleted": "1",
        "updated": "2",
        "inserted": "1",
        "matched-updated": "1",
        "matched-deleted": "1",
        "not-matched-by-source-updated": "1",
        "not-matched-by-source-deleted": "0",
    }


def test_a_merge_into_a_table_without_snapshots_inserts(catalog, mode):
    t = catalog.create_table("db.empty", "id bigint, v int, name string")
    assert (
        merging(t, frame([1, 1]))
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute(mode)
        .rows_inserted
        == 2
    )
    assert len(rows(t)) == 2


# --- conditions and keys


def test_nulls_meet_only_null_safely(catalog, mode):
    for on, updated in (("target.id = source.id", 1), ("target.id <=> source.id", 2)):
        t = catalog.create_table(f"db.n{updated}", "id bigint, v int, name string")
        t.append(frame([None, 1], [1, 1]))
        result = (
            merging(t, frame([None, 1], [5, 5]), on)
            .when_matched_update_all()
            .when_not_matched_insert_all()
            .execute(mode)
        )
        assert (result.rows_updated, result.rows_inserted) == (updated, 2 - updated)


@pytest.mark.parametrize(
    "ddl, values, other",
    [
        ("double", [float("nan"), 0.0, 1.0], [float("nan"), -0.0, 2.0]),
        (
            "decimal(10,2)",
            [Decimal("1.50"), Decimal("2.00"), Decimal("3.00")],
            [Decimal("1.5"), Decimal("2"), Decimal("9")],
        ),
        ("string", ["a", "", "b"], ["a", "", "x"]),
        (
            "date",
            [dt.date(2020, 1, 1), dt.date(1969, 1, 1), dt.date(2021, 1, 1)],
            [dt.date(2020, 1, 1), dt.date(1969, 1, 1), dt.date(1, 1, 1)],
        ),
        (
            "timestamp",
            [dt.datetime(2020, 1, d, tzinfo=dt.UTC) for d in (1, 2, 3)],
            [dt.datetime(2020, 1, d, tzinfo=dt.UTC) for d in (1, 2, 9)],
        ),
        ("binary", [b"a", b"\xff", b"c"], [b"a", b"\xff", b"x"]),
        (
            "uuid",
            [str(uuid.UUID(int=i)) for i in (1, 2, 3)],
            [str(uuid.UUID(int=i)) for i in (1, 2, 9)],
        ),
        ("boolean", [True, False, None], [True, False, None]),
        ("int", [1, 2, 3], [1, 2, 9]),
    ],
)
def test_keys_of_every_type_meet(catalog, ddl, values, other):
    t = catalog.create_table("db.k", f"k {ddl}, v int")
    t.append(pa.table({"k": values, "v": pa.array([1, 1, 1], pa.int32())}))
    source = pa.table({"k": other, "v": pa.array([5, 5, 5], pa.int32())})
    result = (
        merging(t, source, "target.k = source.k")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute("merge-on-read")
    )
    assert (result.rows_updated, result.rows_inserted) == (2, 1)


def test_names_with_dots_and_blanks_are_quoted(catalog, mode):
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("a.b", pa.int64()),
            ("a", pa.struct([("c.d", pa.int64()), ("x y", pa.int64())])),
        ]
    )
    t = catalog.create_table("db.q", schema)
    t.append(pa.Table.from_pylist([{"id": 1, "a.b": 2, "a": {"c.d": 3, "x y": 4}}], schema))
    source = pa.table({"id": [1], "n.n": [10]})
    merge = merging(t, source).when_matched_update(
        {"`a.b`": "source.`n.n`", "a.`c.d`": 11, "target.a.`x y`": "`n.n` + target.`a.b`"}
    )
    merge.execute(mode)
    assert t.to_arrow().to_pylist() == [{"id": 1, "a.b": 10, "a": {"c.d": 11, "x y": 12}}]
    assert merging(t, t.to_arrow()).when_matched_update_all().execute(mode).rows_updated == 1
    assert t.to_arrow().to_pylist() == [{"id": 1, "a.b": 10, "a": {"c.d": 11, "x y": 12}}]


def test_frames_of_any_kind_are_sources(table):
    pandas = pytest.importorskip("pandas")
    merging(table, pandas.DataFrame({"id": [1]})).when_matched_delete().execute()
    merging(table, [{"id": 2}]).when_matched_delete().execute()
    merging(table, {"id": [3]}).when_matched_delete().execute()
    polars = pytest.importorskip("polars")
    merging(table, polars.DataFrame({"id": [4]})).when_matched_delete().execute()
    assert rows(table) == []


def test_a_stream_is_taken_once_and_may_be_larger_than_memory(table, monkeypatch, tmp_path):
    taken = []

    def batches():
        for i in range(20):
            taken.append(i)
            yield frame([i * 10 + j for j in range(10)], name="s").to_batches()[0]

    monkeypatch.setattr(
        rows_source.stage, "__kwdefaults__", {"memory": 1000, "folder": str(tmp_path)}
    )
    reader = pa.RecordBatchReader.from_batches(frame([1]).schema, batches())
    result = (
        merging(table, reader).when_matched_update_all().when_not_matched_insert_all().execute()
    )
    assert (result.rows_updated, result.rows_inserted) == (4, 196) and taken == list(range(20))
    assert [r[0] for r in rows(table)] == list(range(200)) and {r[2] for r in rows(table)} == {"s"}
    assert not [p for p in os.listdir(tmp_path) if p.startswith("frazil-source")]


def test_a_source_beyond_memory_has_its_index_on_disk(table, monkeypatch):
    monkeypatch.setattr("frazil.rows.pairing.IN_MEMORY", 3)
    result = (
        merging(table, frame([1, 3, 4, 8, 9]), "target.id = source.id and source.v < 90")
        .when_matched_delete()
        .when_not_matched_insert_all()
        .execute()
    )
    assert (result.rows_deleted, result.rows_inserted) == (3, 2)


# --- values


def test_columns_that_are_not_set_stay_and_nested_ones_are_set_one_by_one(catalog, mode):
    t = catalog.create_table(
        "db.s", "id bigint, s struct<a: int, b: string>, l array<int>, m map<string,int>"
    )
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("s", pa.struct([("a", pa.int32()), ("b", pa.string())])),
            ("l", pa.list_(pa.int32())),
            ("m", pa.map_(pa.string(), pa.int32())),
        ]
    )
    t.append(
        pa.Table.from_pylist(
            [
                {"id": 1, "s": {"a": 1, "b": "x"}, "l": [1], "m": [("k", 1)]},
                {"id": 2, "s": None, "l": None, "m": None},
            ],
            schema,
        )
    )
    source = pa.table({"id": [1, 2, 3], "x": [7, 8, 9], "s": [{"b": "n", "a": 0}] * 3})
    merge = (
        merging(t, source)
        .when_matched_update({"s.a": "source.x", "l": None})
        .when_not_matched_insert({"id": "source.id", "s": "source.s"})
    )
    merge.execute(mode)
    found = sorted(t.to_arrow().to_pylist(), key=lambda r: r["id"])
    assert found[0] == {"id": 1, "s": {"a": 7, "b": "x"}, "l": None, "m": [("k", 1)]}
    assert found[1]["s"] == {"a": 8, "b": None} and found[2]["s"] == {"a": 0, "b": "n"}


def test_overflow_and_null_in_a_required_column_are_named(catalog, mode):
    t = catalog.create_table("db.r", "id bigint not null, v int")
    t.append(
        pa.table(
            pa.table({"id": [1], "v": pa.array([1], pa.int32())}),
            schema=pa.schema([pa.field("id", pa.int64(), False), ("v", pa.int32())]),
        )
    )
    source = pa.table({"id": [1], "big": [2**40], "none": pa.array([None], pa.int64())})
    with pytest.raises(EvaluationError, match="Column v"):
        merging(t, source).when_matched_update({"v": "source.big"}).execute(mode)
    with pytest.raises(SchemaMismatch, match="id is required"):
        merging(t, source).when_matched_update({"id": "source.none"}).execute(mode)
    with pytest.raises(InvalidInput, match="id is required"):
        merging(t, source, "false").when_not_matched_insert({"v": "1"}).execute(mode)
    assert t.refresh().to_arrow().to_pylist() == [{"id": 1, "v": 1}]


def test_defaults_are_taken_by_inserts(catalog, mode):
    t = catalog.create_table("db.d", "id bigint", format_version=3)
    with t.update_schema() as update:
        update.add_column("w", IntegerType(), default_value=7)
    t.append(pa.table({"id": [1], "w": pa.array([1], pa.int32())}))
    source = pa.table({"id": [1, 2]})
    merging(t, source).when_matched_update({"w": "DEFAULT"}).when_not_matched_insert(
        {"id": "source.id"}
    ).execute(mode)
    assert sorted(map(tuple, (r.values() for r in t.to_arrow().to_pylist()))) == [(1, 7), (2, 7)]


# --- all columns, and columns that only one side has


def test_all_columns_must_be_there_unless_the_schema_may_evolve(table, mode):
    source = pa.table({"id": [2, 9], "v": pa.array([5, 6], pa.int32()), "extra": ["e", "f"]})
    with pytest.raises(InvalidInput, match=r"lacks columns of the target: name"):
        merging(table, source).when_matched_update_all().execute()
    result = (
        merging(table, source, merge_schema=True)
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    )
    assert result.rows_updated == 1 and len(table.schemas()) == 2
    assert rows(table) == [
        (1, 10, "t", None),
        (2, 5, "t", "e"),
        (3, 30, "t", None),
        (4, 40, "t", None),
        (9, 6, None, "f"),
    ]


def test_members_of_structs_that_the_source_lacks_stay_with_evolution(catalog, mode):
    t = catalog.create_table("db.s", "id bigint, s struct<a: int, b: string>")
    t.append(
        pa.table(
            {"id": [1], "s": [{"a": 1, "b": "x"}]},
            pa.schema(
                [("id", pa.int64()), ("s", pa.struct([("a", pa.int32()), ("b", pa.string())]))]
            ),
        )
    )
    source = pa.table(
        {
            "id": [1],
            "s": pa.array([{"a": 5, "c": True}], pa.struct([("a", pa.int32()), ("c", pa.bool_())])),
        }
    )
    with pytest.raises(InvalidInput, match=r"s\.b"):
        merging(t, source).when_matched_update_all().execute(mode)
    merging(t, source, merge_schema=True).when_matched_update_all().execute(mode)
    assert t.to_arrow().to_pylist() == [{"id": 1, "s": {"a": 5, "b": "x", "c": True}}]


# --- where rows go, and what is read


@pytest.mark.parametrize("format_", ["parquet", "orc", "avro"])
def test_rows_move_to_the_partition_of_their_new_value(catalog, mode, format_):
    t = catalog.create_table(
        "db.p",
        "id bigint, v int, name string",
        partition_by=["name"],
        properties={"write.format.default": format_},
    )
    t.append(frame([1, 2, 3], name="a"))
    merging(t, frame([2, 3, 4], name="b")).when_matched_update_all(
        "source.id = 2"
    ).when_not_matched_insert_all().execute(mode)
    assert rows(t) == [(1, 10, "a"), (2, 20, "b"), (3, 30, "a"), (4, 40, "b")]
    assert {f["partition"]["name"] for f in t.inspect.files().to_pylist() if f["content"] == 0} == {
        "a",
        "b",
    }
    assert sorted(t.scan("name = 'b'").to_arrow()["id"].to_pylist()) == [2, 4]


def test_files_beyond_the_reach_of_the_source_are_not_opened(catalog, mode):
    t = catalog.create_table("db.far", "id bigint, v int, name string", partition_by=["name"])
    for part in range(4):
        t.append(frame(range(part * 100, part * 100 + 100), name=str(part)))
    paths = {f["partition"]["name"]: Path(f["file_path"]) for f in t.inspect.files().to_pylist()}
    for gone in ("0", "2", "3"):
        paths[gone].rename(f"{paths[gone]}.away")
    result = merging(t, frame([150, 160, 170])).when_matched_update({"v": 1}).execute(mode)
    assert result.rows_updated == 3  # by the bounds of the key
    source = frame([250]).append_column("p", pa.array(["1"]))
    assert (
        merging(t, source, "target.name = source.p and target.id = source.id")
        .when_matched_delete()
        .execute(mode)
        .snapshot_id
        is None
    )
    assert (
        merging(t, frame([5, 6, 300]), "target.id = source.id and target.name = '1'")
        .when_matched_delete()
        .execute(mode)
        .snapshot_id
        is None
    )


def test_rows_that_are_deleted_already_match_nothing(table):
    table.delete("id = 2", mode="merge-on-read", runner="in-process")
    result = (
        merging(table, frame([2, 3])).when_matched_delete().when_not_matched_insert_all().execute()
    )
    assert (result.rows_deleted, result.rows_inserted) == (1, 1) and [
        r[0] for r in rows(table)
    ] == [1, 2, 4]


@pytest.mark.parametrize(
    "name",
    [
        "eq_basic",
        "eq_multi_null",
        "eq_pos_dv_mix",
        "upsert_v3",
        "spec_evolution_v2",
        "schema_evolution",
    ],
)
def test_tables_of_others_with_deletes_and_a_past_are_merged_into(writable_copy, mode, name):
    t = frazil.load_table(writable_copy(name))
    before, key = t.to_arrow(), next(f.name for f in t.schema().fields if f.field_type.is_primitive)
    first = before.slice(0, 1)
    gone = sum(v == first[key][0].as_py() for v in before[key].to_pylist())
    deleted = (
        merging(t, first, f"target.{key} <=> source.{key}").when_matched_delete().execute(mode)
    )
    assert deleted.rows_deleted == gone and t.to_arrow().num_rows == before.num_rows - gone
    merging(
        t, first, f"target.{key} <=> source.{key}"
    ).when_matched_update_all().when_not_matched_insert_all().execute(mode)
    assert t.to_arrow().num_rows == before.num_rows - gone + 1


# --- rows keep their ids (v3)


def test_rows_keep_their_ids_and_only_changed_ones_get_a_new_number(catalog, mode):
    t = catalog.create_table("db.v3", "id bigint, v int, name string", format_version=3)
    t.append(frame([1, 2, 3]))
    merging(t, frame([2, 9], [5, 5])).when_matched_update(
        {"v": "source.v"}
    ).when_not_matched_insert_all().execute(mode)
    found = (
        t.scan(selected_fields=("id", "_row_id", "_last_updated_sequence_number"))
        .to_arrow()
        .to_pylist()
    )
    told = {r["id"]: (r["_row_id"], r["_last_updated_sequence_number"]) for r in found}
    assert (
        {i: told[i] for i in (1, 2, 3)} == {1: (0, 1), 2: (1, 2), 3: (2, 1)}
        and told[9][0] >= 3
        and told[9][1] == 2
    )


# --- what fails leaves nothing


def test_a_merge_that_fails_late_leaves_no_file(table):
    files = sorted(p for p in Path(table.location(), "data").rglob("*"))
    source = pa.table({"id": [1, 9], "v": [5, 2**40]})
    with pytest.raises(EvaluationError, match="Column v"):
        # after the files of the update were written
        merging(table, source).when_matched_update({"v": "source.v"}).when_not_matched_insert(
            {"id": "source.id", "v": "source.v"}
        ).execute()

    def broken():
        yield frame([1]).to_batches()[0]
        raise OSError("the source broke off")

    with pytest.raises(OSError, match="broke off"):
        merging(
            table, pa.RecordBatchReader.from_batches(frame([1]).schema, broken())
        ).when_matched_update_all().execute()
    assert sorted(p for p in Path(table.location(), "data").rglob("*")) == files
    assert len(rows(table)) == 4


# --- transactions, branches, conflicts


def test_a_merge_sees_what_its_transaction_staged_before(table):
    before = len(table.snapshots())
    with table.transaction() as tx:
        tx.append(frame([8]))
        tx.merge(
            frame([8, 1], name="m"), "target.id = source.id", runner="in-process"
        ).when_matched_update_all().execute()
        tx.upsert(frame([1, 5], name="u"), ["id"], runner="in-process")
    assert rows(table) == [
        (1, 10, "u"),
        (2, 20, "t"),
        (3, 30, "t"),
        (4, 40, "t"),
        (5, 50, "u"),
        (8, 80, "m"),
    ]
    assert len({s.timestamp_ms for s in table.snapshots()[before:]}) >= 1


def test_a_branch_and_properties_of_the_snapshot(table):
    with table.manage_snapshots() as refs:
        refs.create_branch(table.current_snapshot().snapshot_id, "audit")
    result = (
        merging(table, frame([1]), branch="audit", snapshot_properties={"job": "x"})
        .when_matched_delete()
        .execute()
    )
    assert result.summary["job"] == "x"
    assert len(rows(table)) == 4 and table.scan(branch="audit").count() == 3


def test_writers_on_the_same_keys_conflict_and_on_others_do_not(catalog, mode):
    t = catalog.create_table(
        "db.c",
        "id bigint, v int, name string",
        partition_by=["truncate(100, id)"],
        properties=REFUSED,
    )
    t.append(frame(range(0, 300, 10)))

    def another(ids):
        other = catalog.load_table("db.c")
        return lambda: (
            merging(other, frame(ids, name="o"))
            .when_matched_update_all()
            .when_not_matched_insert_all()
            .execute(mode)
        )

    mine = (
        merging(t, frame([10, 15], name="m"))
        .when_matched_update_all()
        .when_not_matched_insert_all()
    )
    far, near = another([210, 215]), another([10, 16])
    far()
    assert mine.execute(mode).attempts == 2
    with pytest.raises(ValidationException):
        near()
    assert t.refresh().scan("id = 16").count() == 0 and t.scan("name = 'm'").count() == 2


def test_two_inserts_of_one_key_conflict_when_serializable(catalog, mode):
    t = catalog.create_table("db.ins", "id bigint, v int, name string", properties=REFUSED)
    other = catalog.load_table("db.ins")
    merging(t, frame([1])).when_not_matched_insert_all().execute(mode)
    with pytest.raises(ValidationException, match="conflicting files"):
        merging(other, frame([1])).when_not_matched_insert_all().execute(mode)
    relaxed = merging(catalog.load_table("db.ins"), frame([2]), isolation_level="snapshot")
    merging(t, frame([2])).when_not_matched_insert_all().execute(mode)
    assert relaxed.when_not_matched_insert_all().execute(mode).rows_inserted == 1
    t.set_properties({"commit.retry.plan-anew.enabled": "true"})
    other = catalog.load_table("db.ins")
    merging(t, frame([3])).when_not_matched_insert_all().execute(mode)
    assert merging(other, frame([3, 4])).when_not_matched_insert_all().execute().rows_inserted == 1


@pytest.mark.parametrize("deleting", ["copy-on-write", "merge-on-read", None])
def test_an_insert_of_what_was_not_found_relies_on_the_rows_that_were_found(
    catalog, mode, deleting
):
    """T1: insert 9 unless it is there, 5 is there. T2: delete all of name a. Neither order of the
    two leaves 9 alone.
    """
    t = catalog.create_table(
        "db.ins", "id bigint, v int, name string", format_version=2, properties=REFUSED
    )
    # None: the file goes as a whole
    t.append(frame([5] if deleting is None else [5, 15], name="a"))
    for isolation, conflicts in (("serializable", True), ("snapshot", False)):
        one, other = catalog.load_table("db.ins"), catalog.load_table("db.ins")
        other.delete("name = 'a' and id < 15" if deleting else "name = 'a'", mode=deleting)
        merge = merging(
            one, frame([5, 9], name="a"), isolation_level=isolation
        ).when_not_matched_insert_all()
        if conflicts:
            with pytest.raises(ValidationException, match="conflicting del"):
                merge.execute(mode)
            left = catalog.load_table("db.ins")
            assert sorted(left.to_arrow()["id"].to_pylist()) == ([] if deleting is None else [15])
            left.append(frame([5], name="a"))
        else:
            assert merge.execute(mode).rows_inserted == 1


def test_a_large_merge_agrees_with_numpy(catalog, mode):
    t = catalog.create_table(
        "db.big", "id bigint, v int, name string", partition_by=["bucket(4, id)"]
    )
    ids = np.arange(200_000)
    t.append(frame(ids.tolist(), (ids % 7).tolist()))
    rng = np.random.default_rng(3)
    chosen = np.concatenate([rng.choice(ids, 5000, replace=False), np.arange(200_000, 203_000)])
    source = frame(chosen.tolist(), [100] * len(chosen), "s")
    result = (
        merging(t, source)
        .when_matched_update({"v": "source.v"})
        .when_not_matched_insert_all()
        .execute(mode)
    )
    assert (result.rows_updated, result.rows_inserted) == (5000, 3000)
    found = t.to_arrow()
    assert found.num_rows == 203_000 and len(set(found["id"].to_pylist())) == 203_000
    assert int(np.sum(found["v"].to_numpy())) == int(
        (ids % 7).sum() - (chosen[:5000] % 7).sum() + 100 * 8000
    )


def test_a_key_that_fills_the_source_is_refused_or_deleted_in_portions(table, monkeypatch):
    monkeypatch.setattr("frazil.rows.key_index.PAIRS", 100)
    with pytest.raises(InvalidInput, match=r"id = 3 \(\d+ source rows\)"):
        merging(table, frame([3] * 1000)).when_matched_update_all().execute()
    assert merging(table, frame([3] * 1000)).when_matched_delete().execute().rows_deleted == 1
