"""MERGE by Spark SQL that Frazil's own grammar lacks, and from sources that Spark joins."""

import os

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from frazil.errors import InvalidInput, SchemaMismatch
from frazil.spark.dml import merge_by_sql as row_changes_merge
from frazil.spark.host.settings import temporarily
from tests.builders.files_on_disk import leftovers

pytestmark = pytest.mark.spark

MODES = [(1, "copy-on-write"), (2, "merge-on-read"), (3, "merge-on-read"), (3, "copy-on-write")]


@pytest.fixture
def table(catalog):
    def make(version=2, rows=20, **more):
        catalog.create_namespace_if_not_exists("db")
        t = catalog.create_table(
            "db.t", "id bigint, name string, v int", format_version=version, **more
        )
        for first in (0, rows // 2):
            ids = range(first, first + rows // 2)
            t.append(
                pa.table(
                    {
                        "id": pa.array(ids, pa.int64()),
                        "name": [f"n{i}" for i in ids],
                        "v": pa.array([i * 10 for i in ids], pa.int32()),
                    }
                )
            )
        return t

    return make


@pytest.fixture
def source(session):
    """Ids 15 to 24, of which 20 to 24 are new."""
    return session.range(15, 25).selectExpr(
        "id", "concat('s', id) as name", "cast(id * 100 as int) as v"
    )


@pytest.fixture(params=["small", "large"])
def size(request, monkeypatch):
    if request.param == "large":
        monkeypatch.setattr(row_changes_merge, "_SMALL", 0)
    return request.param


ON = "target.id = source.id and levenshtein('a', 'b') = 1"  # no function of Frazil's grammar


def state(t):
    return {r["id"]: (r["name"], r["v"]) for r in t.refresh().scan().to_arrow().to_pylist()}


def start(rows=20):
    return {i: (f"n{i}", i * 10) for i in range(rows)}


@pytest.fixture
def t(table):
    return table()


@pytest.mark.parametrize(("version", "mode"), MODES)
def test_an_upsert_updates_what_matches_and_inserts_the_rest(
    table, source, session, version, mode, size
):
    t = table(version)
    ids = (
        {
            r["id"]: r["_row_id"]
            for r in t.scan(selected_fields=("id", "_row_id")).to_arrow().to_pylist()
        }
        if version == 3
        else {}
    )
    result = (
        t.merge(source, ON)
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute(mode=mode)
    )
    assert state(t) == {
        **{i: (f"n{i}", i * 10) for i in range(15)},
        **{i: (f"s{i}", i * 100) for i in range(15, 25)},
    }
    assert (result.rows_updated, result.rows_inserted, result.rows_deleted) == (5, 5, 0) and len(
        t.snapshots()
    ) == 3
    prefix = "spark.merge-into.num-target-rows-"
    assert {
        k.removeprefix(prefix): v
        for k, v in result.summary.items()
        if k.startswith(prefix) and v != "0" and "copied" not in k
    } == {
        "updated": "5",
        "inserted": "5",
        "matched-updated": "5",
    }
    if version == 3:
        after = {
            r["id"]: r["_row_id"]
            for r in t.scan(selected_fields=("id", "_row_id")).to_arrow().to_pylist()
        }
        assert {i: after[i] for i in ids} == ids and len(set(after.values())) == 25
    assert leftovers(t) == []


@pytest.mark.parametrize("acts", ["source.name = 's17'", "source.name = 'none'"])
def test_several_source_rows_for_one_row_are_refused_where_they_are_in_several_tasks(
    table, source, session, monkeypatch, acts
):
    t = table(partition_by=["v"])
    # A row on which no clause acts has no new values: its place is another than that of a new row.
    monkeypatch.setattr(row_changes_merge, "_SMALL", 0)
    twice = source.union(session.sql("select 17L, 'again', 1")).repartition(3, "name")
    settings = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "7"}
    with temporarily(session, settings), pytest.raises(InvalidInput, match="ambiguous.*id = 17"):
        t.merge(twice, ON).when_matched_update_all(condition=acts).execute(mode="copy-on-write")
    assert state(t) == start() and leftovers(t) == []


SOURCE = "SELECT id, concat('s', id) AS name, CAST(id * 100 AS int) AS v FROM range(15, 25)"
TWICE = f"{SOURCE} UNION ALL SELECT 17L, 'again', 1"
EMPTY = f"{SOURCE} WHERE false"
UPDATE_ALL, INSERT_ALL = ("when_matched_update_all",), ("when_not_matched_insert_all",)
DELETE, BY_SOURCE = ("when_matched_delete",), "when_not_matched_by_source_delete"
MERGES = {  # the source, ON, clauses, what the result counts, and the rows that change (None: gone)
    "the first clause of a kind whose condition holds acts": (
        SOURCE, ON,
        [
            ("when_matched_delete", "source.id = 15"),
            ("when_matched_update", {"v": "target.v + source.v"}, "soundex(target.name) = 'N000' and source.id < 18"),
            ("when_matched_update", {"name": "concat(source.name, '/', target.name)"}, "source.id = 18"),
            ("when_not_matched_insert", {"id": "id", "v": "v + 1"}, "id < 22 and soundex(name) is not null"),
            ("when_not_matched_insert", {"id": "source.id", "name": "'last'"}, "source.id = 24"),
            (BY_SOURCE, "id = 0"),
            ("when_not_matched_by_source_update", {"name": "upper(name)"}, "target.id = 1"),
        ],
        {},
        {
            15: None, 0: None, 16: ("n16", 1760), 17: ("n17", 1870), 18: ("s18/n18", 180), 1: ("N1", 10),
            20: (None, 2001), 21: (None, 2101), 24: ("last", None),
        },
    ),
    "any condition may join": (
        "SELECT 3L AS low, 5L AS high",
        "target.id between source.low and source.high and levenshtein('a', 'b') = 1",
        [DELETE], {"rows_deleted": 3}, dict.fromkeys((3, 4, 5)),
    ),
    "a condition that no row meets commits nothing": (
        SOURCE, ON, [("when_matched_update_all", "soundex(source.name) = 'no'")], {"snapshot_id": None}, {},
    ),
    "a source without rows commits nothing": (EMPTY, ON, [DELETE, INSERT_ALL], {"snapshot_id": None}, {}),
    "a source without rows matches none of the table's": (
        EMPTY, ON, [(BY_SOURCE, "soundex(name) is not null and id > 3")], {"rows_deleted": 16},
        dict.fromkeys(range(4, 20)),
    ),
    "inserts alone add only what is new": (
        SOURCE, ON, [INSERT_ALL], {"rows_inserted": 5, "files_removed": 0},
        {i: (f"s{i}", i * 100) for i in range(20, 25)},
    ),
    "a lone delete may match several source rows": (
        TWICE, ON, [DELETE], {"rows_deleted": 5}, dict.fromkeys(range(15, 20)),
    ),
}  # fmt: skip
AMBIGUOUS = "ambiguous.*id = 17"
REFUSED_MERGES = [
    (TWICE, [UPDATE_ALL], InvalidInput, AMBIGUOUS),
    *(
        (TWICE, [INSERT_ALL, clause], InvalidInput, AMBIGUOUS)
        for condition in ("source.name <> 'again'", "source.name = 'never'")
        for clause in (("when_matched_update", {"v": "source.v"}, condition), (*DELETE, condition))
    ),
    (SOURCE, [("when_matched_update", {"v": "source.nosuch"})], InvalidInput, "nosuch"),
    (SOURCE, [("when_matched_update", {"v": "soundex(source.name)"})], SchemaMismatch, "v: string"),
    ("SELECT 1L AS id, 'x' AS name", [UPDATE_ALL], InvalidInput, "lacks columns of the target: v"),
    (SOURCE, [("when_not_matched_insert", {"id": "soundex(target.name)"})], InvalidInput, "target"),
]  # fmt: skip


def told(t, source, on, clauses):
    """A merge with clauses, each a method with its arguments."""
    merge = t.merge(source, on)
    for clause, *arguments in clauses:
        merge = getattr(merge, clause)(*arguments)
    return merge


@pytest.mark.parametrize("name", MERGES)
def test_a_merge_counts_and_leaves_rows_as_its_clauses_say(table, session, size, name):
    text, on, clauses, counts, changed = MERGES[name]
    t = table()
    result = told(t, session.sql(text), on, clauses).execute(mode="merge-on-read")
    assert {key: getattr(result, key) for key in counts} == counts
    assert state(t) == {i: row for i, row in (start() | changed).items() if row is not None}
    assert leftovers(t) == []


@pytest.mark.parametrize("text, clauses, error, message", REFUSED_MERGES)
def test_what_does_not_fit_is_refused_and_nothing_is_written(
    t, session, size, text, clauses, error, message
):
    with pytest.raises(error, match=message):
        told(t, session.sql(text), ON, clauses).execute(mode="merge-on-read")
    assert state(t) == start() and leftovers(t) == []


def test_matches_that_no_clause_acts_on_stay_in_batches_of_any_rows(t, source, session, size):
    with temporarily(session, {"spark.sql.execution.arrow.maxRecordsPerBatch": "1"}):
        t.merge(source, ON).when_matched_update(
            {"v": "source.v"}, condition="source.id IN (15, 18)"
        ).when_not_matched_insert_all("id = 24").execute(mode="merge-on-read")
    expected = start() | {15: ("n15", 1500), 18: ("n18", 1800), 24: ("s24", 2400)}
    assert state(t) == expected


def test_a_source_that_is_never_the_same_is_evaluated_once(table, session, size):
    t = table(rows=200)
    calls = session.sparkContext.accumulator(0)

    @F.udf("bigint")
    def seen(x):
        calls.add(1)
        return x

    source = session.range(100, 300).select(
        seen("id").alias("id"), F.expr("cast(rand() * 1000 as int)").alias("v")
    )
    (
        t.merge(source, ON)
        .when_matched_update({"v": "source.v", "name": "cast(source.v as string)"})
        .when_not_matched_insert({"id": "source.id", "v": "source.v", "name": "source.v"})
        .execute()
    )
    rows = state(t)
    assert len(rows) == 300 and calls.value == 200
    assert all(str(v) == name for i, (name, v) in rows.items() if i >= 100)


def test_columns_and_python_functions_are_expressions_as_well(t, source, session, size):
    twice = F.udf(lambda x: x * 2, "int")
    (
        t.merge(source, F.col("target.id") == F.col("source.id"))
        .when_matched_update({"v": twice("source.v")})
        .when_not_matched_insert(
            {"id": F.col("id"), "v": twice(F.col("v")), "name": "fixed" and F.lit("fixed")}
        )
        .execute()
    )
    assert state(t) == {
        **start(15),
        **{i: (f"n{i}", i * 200) for i in range(15, 20)},
        **{i: ("fixed", i * 200) for i in range(20, 25)},
    }


def test_nulls_match_only_where_they_are_told_to(t, session, size):
    t.append(
        pa.table(
            {"id": pa.array([None], pa.int64()), "name": ["none"], "v": pa.array([1], pa.int32())}
        )
    )
    source = session.sql("select cast(null as bigint) as id, 'x' as name, 2 as v")
    t.merge(source, ON).when_matched_update_all().when_not_matched_insert_all(
        condition="levenshtein('a', 'a') = 1"
    ).execute()
    assert state(t)[None] == ("none", 1)
    t.merge(
        source, "target.id <=> source.id and levenshtein('a', 'b') = 1"
    ).when_matched_update_all().execute()
    assert state(t)[None] == ("x", 2) and len(state(t)) == 21


def test_files_beyond_the_keys_of_the_source_are_not_read(t, source, session):
    for row in t.inspect.files().to_pylist():
        if row["readable_metrics"]["id"]["lower_bound"] == 0:
            first = row["file_path"].removeprefix("file://")
    os.rename(first, first + ".away")
    t.merge(source, ON).when_matched_update_all().when_not_matched_insert_all().execute(
        mode="merge-on-read"
    )
    os.rename(first + ".away", first)
    assert len(state(t)) == 25 and state(t)[15] == ("s15", 1500)


def test_new_rows_of_a_partitioned_table_lie_in_their_partitions(table, source, size):
    t = table(3, partition_by=["truncate(5, id)"])
    t.merge(source, ON).when_matched_update(
        {"id": "source.id + 5", "v": "source.v"}
    ).when_not_matched_insert_all().execute(mode="merge-on-read")
    found = t.scan().to_arrow().to_pylist()
    assert sorted(r["id"] for r in found) == sorted([*range(15), *range(20, 25), *range(20, 25)])
    for p in t.inspect.partitions().to_pylist():
        assert p["partition"]["id_trunc"] % 5 == 0


def test_a_frame_in_memory_may_be_the_source_too(t, session):
    source = pa.table(
        {
            "id": pa.array([19, 20], pa.int64()),
            "name": ["a", "b"],
            "v": pa.array([1, 2], pa.int32()),
        }
    )
    t.merge(
        source, ON, spark=session
    ).when_matched_update_all().when_not_matched_insert_all().execute()
    assert state(t) == {**start(19), 19: ("a", 1), 20: ("b", 2)}


def test_the_batch_of_a_stream_may_be_merged(t, source, session, tmp_path):
    source.coalesce(1).write.parquet(str(tmp_path / "in"))
    stream = session.readStream.schema(source.schema).parquet(str(tmp_path / "in"))

    def merged(batch, number):
        t.merge(batch, ON).when_matched_update_all().when_not_matched_insert_all().execute()

    stream.writeStream.foreachBatch(merged).option(
        "checkpointLocation", str(tmp_path / "mark")
    ).trigger(availableNow=True).start().awaitTermination()
    assert state(t) == {**start(15), **{i: (f"s{i}", i * 100) for i in range(15, 25)}}


def test_text_with_a_collation_is_compared_as_spark_does_or_refused_and_never_byte_by_byte_in_silence(
    t, session
):
    # Spark refuses to compare text of two collations; a comparison by bytes would call 'N15' and
    # 'n15' two names.
    source = session.sql("SELECT 15L AS id, collate('N15', 'UTF8_LCASE') AS name, 7 AS v")
    with pytest.raises(InvalidInput, match="(?i)collation"):
        t.merge(source, "target.name = source.name").when_matched_update(
            {"v": "source.v"}
        ).execute()
    with pytest.raises(
        InvalidInput,
        match=r"Column name of the source has a collation.*|.*CAST\(`name` AS STRING COLLATE UTF8_BINARY\)",
    ):
        t.upsert(source, join_cols=["name"])
    with pytest.raises(InvalidInput, match="Column name of the source has a collation"):
        t.merge(source, "target.name = source.name", runner="in-process").when_matched_update(
            {"v": "source.v"}
        ).execute()
    assert state(t) == start()
    # as a value a collated text is text
    assert t.upsert(source, join_cols=["id"]).rows_updated == 1
    explicit = source.selectExpr("id", "cast(name as string collate UTF8_LCASE) as name", "v")
    t.merge(explicit, "lower(target.name) = 'n3' and target.id = 3").when_matched_update(
        {"name": "source.name"}
    ).execute()
    assert state(t) == {**start(), 15: ("N15", 7), 3: ("N15", 30)}
