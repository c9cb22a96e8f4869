"""upsert: by identifier fields or columns given, one pass, one snapshot; what would not change is
left alone.
"""

import math

import numpy as np
import pyarrow as pa
import pytest

from frazil.errors import InvalidInput, SchemaMismatch


@pytest.fixture(params=["copy-on-write", "merge-on-read"])
def table(catalog, request):
    schema = "id bigint not null, city string not null, n int, x double"
    made = catalog.create_table(
        "db.t",
        schema,
        identifier_fields=["id", "city"],
        properties={"write.merge.mode": request.param},
    )
    made.append(frame([(1, "a", 1, 1.0), (1, "b", 2, math.nan), (2, "a", None, None)]))
    return made


SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), False),
        pa.field("city", pa.string(), False),
        ("n", pa.int32()),
        ("x", pa.float64()),
    ]
)


def frame(rows, schema=SCHEMA):
    return pa.Table.from_pylist([dict(zip(schema.names, r, strict=True)) for r in rows], schema)


def rows(t):
    return sorted(
        t.to_arrow().to_pylist(), key=lambda r: (r["id"] is None, r["id"] or 0, r.get("city") or "")
    )


def upsert(t, df, *arguments, **options):
    return t.upsert(df, *arguments, runner="in-process", **options)


def test_identifier_fields_are_the_key_and_it_is_one_snapshot(table):
    before = len(table.snapshots())
    result = upsert(table, frame([(1, "a", 10, 1.0), (3, "c", 3, 3.0)]))
    assert (result.rows_updated, result.rows_inserted, len(table.snapshots())) == (1, 1, before + 1)
    assert [(r["id"], r["city"], r["n"]) for r in rows(table)] == [
        (1, "a", 10),
        (1, "b", 2),
        (2, "a", None),
        (3, "c", 3),
    ]


def test_rows_that_are_equal_already_are_not_rewritten(table):
    before = table.current_snapshot().snapshot_id
    result = upsert(table, frame([(1, "a", 1, 1.0), (1, "b", 2, math.nan), (2, "a", None, None)]))
    assert result.snapshot_id is None and table.refresh().current_snapshot().snapshot_id == before
    assert (
        upsert(table, frame([(1, "a", 1, 1.0), (1, "b", 2, 0.5), (2, "a", 0, None)])).rows_updated
        == 2
    )


def test_lists_maps_and_structs_are_compared_too(catalog):
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("l", pa.list_(pa.int32())),
            ("m", pa.map_(pa.string(), pa.int32())),
            ("s", pa.struct([("a", pa.list_(pa.float64()))])),
        ]
    )
    t = catalog.create_table("db.n", schema)
    old = [
        (1, [1, 2], [("k", 1)], {"a": [1.0]}),
        (2, None, None, None),
        (3, [], [], {"a": None}),
        (4, [None], [("k", None)], {"a": [math.nan]}),
    ]
    t.append(frame(old, schema))
    assert upsert(t, frame(old, schema), ["id"]).snapshot_id is None
    new = [
        (1, [1, 3], [("k", 1)], {"a": [1.0]}),
        (2, None, None, {"a": None}),
        (3, [], [("k", 1)], {"a": None}),
        (4, [None], [("k", None)], {"a": [None]}),
    ]
    assert upsert(t, frame(new, schema), ["id"]).rows_updated == 4
    assert rows(t) == [dict(zip(schema.names, r, strict=True)) for r in new]


def test_a_key_that_repeats_is_refused_by_name(table):
    with pytest.raises(InvalidInput, match=r"2 keys more than once: .*id = 7, city = 'x', 2 rows"):
        upsert(
            table,
            frame(
                [
                    (7, "x", 1, 1.0),
                    (7, "x", 1, 1.0),
                    (7, "y", 1, 1.0),
                    (8, "x", 1, 1.0),
                    (8, "x", 2, 1.0),
                ]
            ),
        )
    assert table.scan().count() == 3


def test_only_updates_or_only_inserts_on_demand(table):
    df = frame([(1, "a", 10, 1.0), (9, "a", 9, 9.0)])
    assert upsert(table, df, None, False, True).rows_inserted == 1
    df = frame([(1, "a", 10, 1.0), (10, "a", 9, 9.0)])
    result = upsert(table, df, when_not_matched_insert_all=False)
    assert (result.rows_updated, result.rows_inserted) == (1, 0)
    with pytest.raises(InvalidInput, match="nothing to do"):
        upsert(table, df, None, False, False)


def test_the_key_may_be_given_and_must_be_known(table, catalog):
    assert upsert(table, frame([(5, "a", 10, 1.0)]), ["id"]).rows_inserted == 1
    with pytest.raises(InvalidInput, match="nix"):
        upsert(table, frame([(5, "a", 10, 1.0)]), ["nix"])
    plain = catalog.create_table("db.plain", "id bigint")
    with pytest.raises(InvalidInput, match="join_cols"):
        upsert(plain, pa.table({"id": [1]}))


def test_null_keys_meet_nothing(catalog):
    t = catalog.create_table("db.nulls", "id bigint, n int")
    t.append(pa.table({"id": pa.array([None, 1], pa.int64()), "n": pa.array([1, 1], pa.int32())}))
    result = upsert(
        t,
        pa.table(
            {"id": pa.array([None, None, 1], pa.int64()), "n": pa.array([2, 2, 2], pa.int32())}
        ),
        ["id"],
    )
    assert (result.rows_inserted, result.rows_updated) == (2, 1)


def test_what_does_not_fit_is_refused(table):
    with pytest.raises(InvalidInput, match="city"):
        upsert(table, frame([(1, "a", 1, 1.0)]).drop_columns(["city"]))
    with pytest.raises(SchemaMismatch, match="extra"):
        upsert(table, frame([(1, "a", 1, 1.0)]).append_column("extra", pa.array([1])))
    result = upsert(
        table,
        frame([(1, "a", 1, 1.0)]).append_column("extra", pa.array([1])).drop_columns(["n"]),
        merge_schema=True,
    )
    assert result.rows_updated == 1 and rows(table)[0] == {
        "id": 1,
        "city": "a",
        "n": 1,
        "x": 1.0,
        "extra": 1,
    }


def test_optional_columns_that_a_frame_lacks_become_null_as_in_an_append(table):
    result = upsert(table, frame([(1, "a", 1, 0.0), (9, "z", 4, 0.0)]).drop_columns(["x"]))
    assert (result.rows_updated, result.rows_inserted) == (1, 1)
    found = {(r["id"], r["city"]): (r["n"], r["x"]) for r in rows(table)}
    assert (
        found[1, "a"] == (1, None) and found[9, "z"] == (4, None) and found[2, "a"] == (None, None)
    )


def test_wide_keys_in_numbers_stay_linear(catalog):
    t = catalog.create_table("db.many", "a bigint, b string, v int", format_version=3)
    i = np.arange(50_000)
    make = lambda n, v: pa.table(
        {
            "a": n // 10,
            "b": pa.array([f"k{x}" for x in (n % 10).tolist()]),
            "v": pa.array(np.full(len(n), v), pa.int32()),
        }
    )
    t.append(make(i, 1))
    result = upsert(t, make(np.arange(45_000, 60_000), 2), ["a", "b"])
    assert (result.rows_updated, result.rows_inserted) == (
        5_000,
        10_000,
    ) and t.scan().count() == 60_000
    assert t.scan("v = 2").count() == 15_000


def test_members_of_structs_match_without_regard_to_case_where_asked(catalog):
    t = catalog.create_table(
        "db.mixed", "Id bigint, S struct<A: int, B: string>, L array<struct<Q: int>>"
    )
    t.append([{"Id": 1, "S": {"A": 1, "B": "b"}, "L": [{"Q": 1}]}, {"Id": 2}])
    source = [{"id": 1, "s": {"a": 5, "b": "c"}, "l": [{"q": 7}]}, {"id": 3, "s": None, "l": []}]
    assert upsert(t, source, ["ID"], case_sensitive=False).rows_updated == 1
    assert min(t.to_arrow().to_pylist(), key=lambda r: r["Id"]) == {
        "Id": 1,
        "S": {"A": 5, "B": "c"},
        "L": [{"Q": 7}],
    }
    with pytest.raises(InvalidInput):
        upsert(t, source, ["id"])
