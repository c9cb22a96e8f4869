"""DELETE and UPDATE by Spark SQL that Frazil's own grammar lacks: positions found by Spark, rows
written by its tasks.
"""

import datetime as dt
import decimal
import os
import uuid

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import frazil
from frazil.errors import EvaluationError, InvalidInput, ValidationError
from frazil.expressions import EqualTo, Literal
from frazil.spark.host.settings import temporarily
from tests.builders.examples import sampled
from tests.builders.files_on_disk import leftovers
from tests.builders.frames import ids

pytestmark = pytest.mark.spark

MODES = [
    (1, "copy-on-write"),
    (2, "copy-on-write"),
    (2, "merge-on-read"),
    (3, "merge-on-read"),
    (3, "copy-on-write"),
]
SCHEMA = "id bigint not null, name string, v double, s struct<a: int, b: string>, day date"


@pytest.fixture
def table(catalog, session):
    def make(version=2, rows=20, **more):
        catalog.create_namespace_if_not_exists("db")
        t = catalog.create_table("db.t", SCHEMA, format_version=version, **more)
        for first in (0, rows // 2):
            t.append(frame(first, first + rows // 2))
        return t

    return make


def frame(first, last):
    ids = range(first, last)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "name": [None if i % 7 == 3 else f"n{i}" for i in ids],
            "v": [i / 2 for i in ids],
            "s": [None if i % 5 == 4 else {"a": i, "b": f"b{i}"} for i in ids],
            "day": pa.array([18000 + i % 3 for i in ids], pa.int32()).cast(pa.date32()),
        }
    )


def by_id(t):
    return {r["id"]: r for r in t.refresh().scan().to_arrow().to_pylist()}


@pytest.fixture
def t(table):
    return table()


@pytest.mark.parametrize(("version", "mode"), MODES)
def test_a_delete_by_any_function_of_spark_takes_just_the_rows_for_which_it_is_true(
    table, session, version, mode
):
    t = table(version)
    result = t.delete("levenshtein(name, 'n1') <= 1", mode=mode, spark=session)
    gone = {1, *range(11, 20), 0, 2, 4, 5, 6, 7, 8, 9}
    expected = [i for i in range(20) if i % 7 == 3 or i not in gone]
    assert ids(t.refresh()) == expected
    assert result.rows_deleted == 20 - len(expected) and len(t.snapshots()) == 3
    assert leftovers(t) == []


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_conditions_and_values_may_name_metadata_columns(table, session, mode):
    t = table(3)

    def places():
        columns = ("id", "v", "_file", "_pos", "_row_id")
        return t.refresh().scan(selected_fields=columns).to_arrow().to_pylist()

    path = places()[0]["_file"]
    t.delete(f"_file = '{path}' AND _pos < 5", mode=mode, spark=session)
    assert len(places()) == 15 and all(r["_file"] != path or r["_pos"] >= 5 for r in places())
    expected = {r["id"]: r["_pos"] if r["_pos"] > 2 else r["v"] for r in places()}
    t.update({"v": "_pos"}, F.col("_pos") > 2, mode=mode, spark=session)
    assert {r["id"]: r["v"] for r in places()} == expected
    at = places()[0]
    source = pa.table({"path": [at["_file"]], "place": [at["_pos"]]})
    kept = {r["id"]: r["v"] for r in places() if r["_row_id"] >= 12} | {at["id"]: -at["_pos"]}
    (
        t.merge(source, "_file = path AND _pos = place", spark=session)
        .when_matched_update({"v": "-target._pos"})
        .when_not_matched_by_source_delete("target._row_id < 12")
        .execute(mode=mode)
    )
    assert {r["id"]: r["v"] for r in places()} == kept


def test_files_that_a_condition_does_not_name_are_not_read(table, session):
    t = table(2, rows=40)
    paths = sorted({r["_file"] for r in t.scan(selected_fields=("_file",)).to_arrow().to_pylist()})
    for path in paths[1:]:
        os.remove(path)
    t.delete(f"_file = '{paths[0]}' AND _pos < 3", mode="merge-on-read", spark=session)
    t.update(
        {"v": "-1"},
        f"_file LIKE '%{os.path.basename(paths[0])}' AND _pos < 5",
        mode="merge-on-read",
        spark=session,
    )
    source = pa.table({"path": [paths[0]], "place": [7]})
    merge = t.merge(source, "_file = path AND _pos = place", spark=session)
    assert merge.when_matched_delete().execute(mode="merge-on-read").rows_deleted == 1
    result = t.delete("_spec_id = 4 AND _pos < 3", mode="merge-on-read", spark=session)
    assert result.rows_deleted == 0 and len(t.snapshots()) == 5


def test_a_delete_by_a_column_may_use_a_function_of_the_user_and_a_sub_query(t, session):
    odd = F.udf(lambda x: x % 2 == 1, "boolean")
    t.delete(odd("id") & (F.col("id") < 10), spark=session)
    assert ids(t.refresh()) == [0, 2, 4, 6, 8, *range(10, 20)]
    session.range(12, 15).createOrReplaceTempView("gone")
    t.delete("id in (select id from gone)", spark=session)
    assert ids(t.refresh()) == [0, 2, 4, 6, 8, 10, 11, 15, 16, 17, 18, 19]


def test_a_condition_that_is_never_the_same_is_evaluated_once(table, session):
    t = table(3, rows=2000)
    result = t.delete("rand() < 0.5", mode="merge-on-read", spark=session)
    left = ids(t.refresh())
    assert 700 < len(left) < 1300 and result.rows_deleted == 2000 - len(left)


def test_a_delete_that_finds_nothing_commits_nothing(t, session):
    result = t.delete("levenshtein(name, 'x') > 100", spark=session)
    assert result.snapshot_id is None and len(t.snapshots()) == 2 and leftovers(t) == []


def test_whole_files_go_without_deletes_for_their_rows(table, session):
    t = table(2)
    result = t.delete(
        "levenshtein(cast(id as string), 'xxxxxxx') > 0 and id < 10",
        mode="merge-on-read",
        spark=session,
    )
    assert (
        ids(t.refresh()) == list(range(10, 20))
        and result.delete_files_added == 0
        and result.files_removed == 1
    )


@pytest.mark.parametrize(("version", "mode"), MODES)
def test_an_update_sets_columns_and_members_of_structs(table, session, version, mode):
    t = table(version)
    before = (
        t.scan(selected_fields=("id", "_row_id")).to_arrow().to_pylist() if version == 3 else []
    )
    result = t.update(
        {
            "name": "format_string('%s!', name)",
            "s.a": "crc32(encode(cast(id as string), 'utf-8')) % 10",
            "v": F.lit(1),
        },
        where="levenshtein(name, 'n1') <= 1",
        mode=mode,
        spark=session,
    )
    rows = by_id(t)
    assert len(rows) == 20
    hit = [i for i in range(20) if i % 7 != 3]
    for i in range(20):
        if i in hit:
            assert (
                rows[i]["name"] == f"n{i}!" and rows[i]["v"] == 1.0 and 0 <= rows[i]["s"]["a"] < 10
            )
            assert rows[i]["s"]["b"] == (None if i % 5 == 4 else f"b{i}")
        else:
            assert rows[i]["name"] is None and rows[i]["v"] == i / 2
    assert result.rows_updated == len(hit) and result.rows_deleted == 0 and len(t.snapshots()) == 3
    if version == 3:
        after = (
            t.scan(selected_fields=("id", "_row_id", "_last_updated_sequence_number"))
            .to_arrow()
            .to_pylist()
        )
        assert {r["id"]: r["_row_id"] for r in after} == {r["id"]: r["_row_id"] for r in before}
        assert {r["id"] for r in after if r["_last_updated_sequence_number"] == 3} == set(hit)
    assert leftovers(t) == []


def test_an_update_may_move_rows_to_other_partitions(table, session):
    t = table(2, partition_by=["day"])
    t.update(
        {"day": "last_day(day)"}, where="dayofweek(day) = 2", mode="merge-on-read", spark=session
    )
    moved = [r for r in by_id(t).values() if r["day"].day == 30]
    assert moved and len(by_id(t)) == 20
    shown = t.inspect.partitions().to_pylist()
    assert sum(p["record_count"] for p in shown if p["partition"]["day"].day == 30) == len(moved)


REFUSALS = [
    ("update", [{"s.a": "pow(10, 12) + levenshtein('a', 'b')"}, "id = 3"], EvaluationError, "s.a"),
    ("update", [{"v": "soundex(name)"}], InvalidInput, "v: string"),
    ("update", [{"id": "nullif(id, levenshtein('ab', 'cde'))"}], ValidationError, "id is required"),
    ("delete", ["soundex(nosuch) = 'x'"], InvalidInput, "nosuch"),
    ("update", [{"nosuch": "soundex(name)"}], InvalidInput, "nosuch"),
    (
        "update",
        [{"s": "named_struct('a', 1, 'b', soundex(name))", "s.a": "1"}],
        InvalidInput,
        "more than once|together",
    ),
]


@pytest.mark.parametrize("verb, arguments, error, message", REFUSALS)
def test_what_cannot_be_computed_or_resolved_is_told_and_leaves_nothing(
    t, session, verb, arguments, error, message
):
    with pytest.raises(error, match=message):
        getattr(t, verb)(*arguments, spark=session)
    assert len(t.refresh().snapshots()) == 2 and leftovers(t) == []


def test_values_are_cast_as_store_assignment_casts_them(t, session):
    values = {"s.a": "cast(id as double) + levenshtein('a', 'b')", "name": "id"}
    t.update(values, where="id = 3", spark=session)
    assert by_id(t)[3]["s"]["a"] == 4 and by_id(t)[3]["name"] == "3"


def test_files_are_pruned_by_what_the_grammar_knows_of_the_condition(t, session):
    first = t.inspect.files().to_pylist()[0]["file_path"]
    for path in t.inspect.files().column("file_path").to_pylist():
        bounds = {
            r["file_path"]: r["readable_metrics"]["id"]["lower_bound"]
            for r in t.inspect.files().to_pylist()
        }
        if bounds[path] == 0:
            first = path
    os.rename(first.removeprefix("file://"), first.removeprefix("file://") + ".away")
    t.delete((F.col("id") >= 15) & (F.soundex("name") == F.lit("N000")), spark=session)
    os.rename(first.removeprefix("file://") + ".away", first.removeprefix("file://"))
    assert ids(t.refresh()) == [*range(15), 17]


def test_rows_deleted_before_stay_deleted(table, session):
    t = table(3)
    t.delete("id in (2, 3, 12)", mode="merge-on-read", spark=session)
    t.delete("levenshtein(cast(id as string), '1') = 0", mode="merge-on-read", spark=session)
    t.update(
        {"name": "repeat('x', 2)"},
        where="levenshtein(cast(id as string), '0') = 0",
        mode="merge-on-read",
        spark=session,
    )
    assert ids(t.refresh()) == [0, *range(4, 12), *range(13, 20)] and by_id(t)[0]["name"] == "xx"


def test_a_transaction_sees_what_its_earlier_steps_staged(table, session):
    t = table(3)
    with t.transaction() as tx:
        tx.append(frame(20, 25))
        tx.delete("levenshtein(cast(id as string), '21') = 0", spark=session, mode="merge-on-read")
        tx.update(
            {"name": "repeat('y', 2)"},
            where="levenshtein(cast(id as string), '22') = 0",
            spark=session,
            mode="merge-on-read",
        )
    assert ids(t.refresh()) == [*range(21), 22, 23, 24] and by_id(t)[22]["name"] == "yy"
    row_ids = t.scan(selected_fields=("_row_id",)).to_arrow().column("_row_id").to_pylist()
    assert len(set(row_ids)) == len(row_ids) and None not in row_ids


@pytest.mark.parametrize(
    "modes",
    [
        ("copy-on-write", "copy-on-write"),
        ("merge-on-read", "copy-on-write"),
        ("merge-on-read", "merge-on-read"),
    ],
)
def test_row_ids_stay_through_several_steps_of_a_transaction(table, session, modes):
    """Rows that a step has copied or changed lie in files whose own row ids the commit is still to
    give.
    """
    t, lineage = table(3), ("id", "_row_id", "_last_updated_sequence_number")

    def lines():
        return {
            r["id"]: (r["_row_id"], r["_last_updated_sequence_number"])
            for r in t.scan(selected_fields=lineage).to_arrow().to_pylist()
        }

    before = lines()
    first, second = modes
    with t.transaction() as tx:
        tx.update(
            {"name": "repeat('x', 2)"},
            where="soundex(name) is not null and id < 5",
            spark=session,
            mode=first,
        )
        tx.delete("levenshtein(cast(id as string), '1') = 0", spark=session, mode=second)
        tx.update(
            {"name": "repeat('y', 3)"},
            where="soundex(name) is not null and id < 3",
            spark=session,
            mode=second,
        )
    after = lines()
    assert set(after) == set(before) - {1} and {k: r for k, (r, _) in after.items()} == {
        k: r for k, (r, _) in before.items() if k != 1
    }
    assert all(after[k][1] == before[k][1] for k in range(5, 20)) and all(
        after[k][1] > before[k][1] for k in (0, 2, 4)
    )


@pytest.mark.parametrize("data_format", ["orc", "avro"])
def test_other_formats_are_changed_alike(table, session, data_format):
    t = table(2, properties={"write.format.default": data_format})
    t.delete("levenshtein(cast(id as string), '1') = 0", mode="merge-on-read", spark=session)
    t.update(
        {"name": "repeat('z', 2)"},
        where="levenshtein(cast(id as string), '2') = 0",
        mode="copy-on-write",
        spark=session,
    )
    assert ids(t.refresh()) == [0, *range(2, 20)] and by_id(t)[2]["name"] == "zz"


def test_a_prepared_session_is_not_needed_nor_harmed(table, session):
    before = dict(session.conf.getAll() if callable(session.conf.getAll) else session.conf.getAll)
    table().delete("soundex(name) = 'x'", spark=session)
    after = dict(session.conf.getAll() if callable(session.conf.getAll) else session.conf.getAll)
    assert after == before
    assert frazil is not None


def written(t):
    """Data files that the last change added, by partition."""
    newest = t.refresh().current_snapshot().snapshot_id
    entries = t.inspect.entries().to_pylist()
    added = [
        r["data_file"]
        for r in entries
        if r["snapshot_id"] == newest and r["status"] == 1 and r["data_file"]["content"] == 0
    ]
    return sorted(next(iter(f["partition"].values()), None) for f in added)


def spread_table(catalog, session, number, version, mode, properties):
    """Four files a partition, each in a task of its own."""
    catalog.create_namespace_if_not_exists("db")
    properties = {
        "write.update.mode": mode,
        "write.merge.mode": mode,
        "read.split.target-size": "1",
        **properties,
    }
    t = catalog.create_table(
        f"db.s{number}",
        "id bigint, p int, v int",
        partition_by=["p"],
        format_version=version,
        properties=properties,
    )
    for first in range(0, 80, 20):
        t.append(
            pa.table(
                {
                    "id": range(first, first + 20),
                    "p": pa.array([i % 2 for i in range(20)], pa.int32()),
                    "v": pa.array([0] * 20, pa.int32()),
                }
            )
        )
    return t


@pytest.mark.parametrize(
    ("version", "mode"),
    sampled([(3, "merge-on-read"), (2, "merge-on-read"), (2, "copy-on-write")], 2),
)
def test_new_rows_of_an_update_are_spread_as_the_table_or_an_option_says(
    catalog, session, version, mode
):
    def updated(number, properties, **options):
        t = spread_table(catalog, session, number, version, mode, properties)
        result = t.update({"v": "v + 1", "p": "1 - p"}, "id % 5 <> 4", spark=session, **options)
        rows = {r["id"]: (r["p"], r["v"]) for r in t.refresh().to_arrow().to_pylist()}
        assert (
            rows == {i: (i % 2, 0) if i % 5 == 4 else (1 - i % 2, 1) for i in range(80)}
            and result.rows_updated == 64
        )
        return written(t)

    by_finder = updated(0, {})
    assert len(by_finder) >= 8  # each task writes what it found
    assert updated(1, {"write.update.distribution-mode": "none"}) == by_finder
    assert updated(2, {"write.merge.distribution-mode": "hash"}) == by_finder
    kept = [0, 0, 0, 0, 1, 1, 1, 1] if mode == "copy-on-write" else []
    for number, given in enumerate(("hash", "range"), 3):
        assert updated(number, {"write.update.distribution-mode": given}) == sorted([0, 1, *kept])
        assert updated(number + 2, {}, distribution_mode=given) == sorted([0, 1, *kept])
        assert (
            updated(number + 4, {"write.update.distribution-mode": given}, distribution_mode="none")
            == by_finder
        )
    assert updated(9, {}, advisory_partition_size=10 << 20) == sorted([0, 1, *kept])


@pytest.mark.parametrize("mode", sampled(["merge-on-read", "copy-on-write"], 2))
def test_new_rows_of_a_merge_are_spread_as_the_table_or_an_option_says(catalog, session, mode):
    source = session.range(40, 120, 1, 4).selectExpr("id", "cast(id % 2 as int) p", "7 v")

    def merged(number, properties, **options):
        t = spread_table(catalog, session, number, 2, mode, properties)
        builder = (
            t.merge(source, "target.id = source.id", **options)
            .when_matched_update_all()
            .when_not_matched_insert_all()
        )
        result = builder.execute()
        assert {r["id"]: r["v"] for r in t.refresh().to_arrow().to_pylist()} == {
            i: 7 if i >= 40 else 0 for i in range(120)
        }
        assert (result.rows_updated, result.rows_inserted) == (40, 40)
        return written(t)

    assert len(merged(0, {})) > 4
    for number, given in enumerate(("hash", "range"), 1):
        # changed rows and new ones, a file a partition
        assert len(merged(number, {"write.merge.distribution-mode": given})) <= 4
        assert (
            len(
                merged(
                    number + 2, {"write.merge.distribution-mode": "none"}, distribution_mode=given
                )
            )
            <= 4
        )
    assert (
        len(
            merged(
                5,
                {"write.merge.distribution-mode": "hash"},
                use_table_distribution_and_ordering=False,
            )
        )
        > 4
    )


def test_modes_of_spreading_that_mean_nothing_are_refused_by_name(t, session):
    for option in ({"distribution_mode": "hash"}, {"advisory_partition_size": 1 << 20}):
        name = next(iter(option)).replace("_", "-")
        with pytest.raises(InvalidInput, match=f"{name}.*means nothing to delete"):
            t.delete("id = 1", spark=session, **option)
        with pytest.raises(InvalidInput, match=f"{name}.*means nothing to an upsert"):
            t.upsert(frame(0, 3), ["id"], spark=session, **option)


def test_the_size_of_partitions_is_honoured_by_the_engine_that_shuffles_and_refused_by_any_other(
    catalog, session
):
    t = spread_table(catalog, session, 60, 2, "copy-on-write", {})
    rows = pa.table(
        {
            "id": range(40, 160),
            "p": pa.array([n % 2 for n in range(40, 160)], pa.int32()),
            "v": [7] * 120,
        }
    )
    size = {"advisory_partition_size": 10 << 20}
    t.merge(
        rows, "target.id = source.id", **size
    ).when_matched_update_all().when_not_matched_insert_all().execute()
    assert {r["id"]: r["v"] for r in t.refresh().to_arrow().to_pylist()} == {
        i: 7 if i >= 40 else 0 for i in range(160)
    }
    # changed rows and new ones, a file a partition; tasks that find rows would write one for each
    # file
    assert written(t) == [0, 0, 1, 1]
    with pytest.raises(InvalidInput, match="advisory-partition-size.*means nothing to an upsert"):
        t.upsert(rows, ["id"], **size)
    with pytest.raises(
        InvalidInput, match="advisory-partition-size.*means nothing to a merge that only deletes"
    ):
        t.merge(rows, "target.id = source.id", **size).when_matched_delete().execute()
    for frame in (rows, session.createDataFrame(rows)):
        here = t.merge(
            frame, "target.id = source.id", runner="in-process", **size
        ).when_matched_update_all()
        with pytest.raises(InvalidInput, match="advisory-partition-size.*without Spark"):
            here.execute()
    transaction = t.transaction()
    transaction.delete("id = 1", spark=session)
    with pytest.raises(InvalidInput, match="advisory-partition-size.*without Spark"):
        transaction.append(rows, **size)


NAIVE = dt.datetime(2021, 2, 3, 4, 5, 6, 7)
ALIKE = {  # columns, a row, new values (and a condition)
    "local times": (
        {"ts": "timestamptz", "tn": "timestamp_ntz"},
        {"ts": None, "tn": None},
        {"ts": "TIMESTAMP '2021-02-03 04:05:06'", "tn": NAIVE},
    ),
    "instants": ({"ts": "timestamptz"}, {"ts": None}, {"ts": NAIVE.replace(tzinfo=dt.UTC)}),
    "dots": ({"x.y": "int"}, {"x.y": 1}, {"id": "id + 1"}),
    "case": ({"a": "int", "A": "int"}, {"a": 1, "A": 2}, {"id": "id + 1"}),
    "uuids": ({"u": "uuid"}, {"u": str(uuid.UUID(int=3))}, {"u": uuid.UUID(int=7)}),
    "uuid terms": (
        {"u": "uuid"},
        {"u": str(uuid.UUID(int=3))},
        {"u": Literal(uuid.UUID(int=7))},
        EqualTo("u", uuid.UUID(int=3)),
    ),
    "bytes": ({"b": "binary"}, {"b": b"x"}, {"b": b"\x00y"}),
    "nulls": ({"s": "string"}, {"s": "x"}, {"s": None}),
    "decimals": ({"d": "decimal(10,2)"}, {"d": None}, {"d": decimal.Decimal("1.25")}),
    "texts of uuids": (
        {"s": "string"},
        {"s": "x"},
        {"s": Literal("CAST('00000000-0000-0000-0000-000000000003' AS uuid)")},
    ),
    "types that Spark lacks": ({"n": "timestamp_ns"}, {"n": None}, {"id": "id + 1"}),
}


@pytest.mark.parametrize("what", sampled(sorted(ALIKE), 2))
def test_shuffled_rows_are_the_same_as_others(catalog, session, what):
    columns, row, given, *where = ALIKE[what]
    catalog.create_namespace_if_not_exists("db")
    with temporarily(session, {"spark.sql.session.timeZone": "America/New_York"}):
        found = []
        for number, more in enumerate(
            (
                {},
                {"write.update.distribution-mode": "hash", "write.merge.distribution-mode": "hash"},
            )
        ):
            t = catalog.create_table(
                f"db.alike{number}", {"id": "long", **columns}, format_version=3, properties=more
            )
            small = {name: pa.int32() for name, type_ in columns.items() if type_ == "int"}
            rows = {n: pa.array([v, v], small.get(n)) for n, v in row.items()}
            t.append(pa.table({"id": [1, 2], **rows}))
            t.update(given, *where, spark=session)
            t.refresh().merge(
                pa.table({"id": [2, 9]}), "target.id = source.id", spark=session
            ).when_matched_delete().execute()
            found.append(sorted(t.refresh().to_arrow().to_pylist(), key=str))
    assert found[0] == found[1] and found[0]


def test_values_that_cannot_be_computed_are_the_same_kind_of_error_when_rows_are_shuffled(
    catalog, session
):
    catalog.create_namespace_if_not_exists("db")
    t = catalog.create_table(
        "db.bad", {"id": "long", "i": "int"}, properties={"write.update.distribution-mode": "hash"}
    )
    t.append(pa.table({"id": [1], "i": pa.array([2**31 - 1], pa.int32())}))
    for given in ({"i": "i + 1"}, {"id": "1 / (id - 1)"}, {"id": 2**63}):
        with pytest.raises(EvaluationError):
            t.update(given, spark=session)
    with pytest.raises(InvalidInput, match="dict"):
        t.update({"id": {"a": 1}}, spark=session)
    assert leftovers(t) == [] and t.refresh().to_arrow().to_pylist() == [{"id": 1, "i": 2**31 - 1}]


def test_an_option_that_no_shuffle_can_follow_is_refused(catalog, session):
    catalog.create_namespace_if_not_exists("db")
    t = catalog.create_table("db.odd", {"id": "long", "n": "timestamp_ns"}, format_version=3)
    t.append(pa.table({"id": [1]}))
    for options in ({"distribution_mode": "hash"}, {"advisory_partition_size": 1 << 20}):
        with pytest.raises(
            InvalidInput, match=next(iter(options)).replace("_", "-") + ".*column n"
        ):
            t.update({"id": "id + 1"}, spark=session, **options)
    with pytest.raises(InvalidInput, match="advisory-partition-size.*not shuffled"):
        t.update(
            {"id": "id + 1"},
            spark=session,
            distribution_mode="none",
            advisory_partition_size=1 << 20,
        )


def test_hash_shuffles_without_adaptive_execution_too(catalog, session):
    with temporarily(session, {"spark.sql.adaptive.enabled": "false"}):
        t = spread_table(catalog, session, 50, 2, "merge-on-read", {})
        t.update({"v": "v + 1"}, spark=session, distribution_mode="hash")
        assert written(t) == [0, 1]
