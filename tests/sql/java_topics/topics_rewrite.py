"""CALL rewrite_data_files."""

from tests.sql.java_topics.harness import Place, case, not_sql

REWRITE = "TestRewriteDataFilesProcedure"
NONE = "TBLPROPERTIES ('write.distribution-mode' = 'none')"
ALL = "SELECT * FROM {} ORDER BY c1, c2, c3"


def table(p: Place, name: str = "$t", partitioned: str = "") -> None:
    clause = f"PARTITIONED BY ({partitioned}) {NONE}" if partitioned else ""
    p.sql(f"CREATE TABLE {name} (c1 int, c2 string, c3 string) USING iceberg {clause}")


def fill(p: Place, number: int = 10, name: str = "$t") -> None:
    """Write rows of two kinds into that many files."""
    rows = [(1, "foo", None), (2, "bar", None)] * (number // 2)
    # a file for each partition of the frame
    frame = p.spark.createDataFrame(
        p.spark.sparkContext.parallelize(rows, number), "c1 int, c2 string, c3 string"
    )
    frame.writeTo(p.text(name)).append()


def rewritten(
    p: Place, removed: int, added: int, arguments: str = "", name: str = "$t", ref: str = "main"
) -> None:
    """Call the procedure, and check the counts, the bytes and that the rows are the same."""
    where = name if ref == "main" else f"{name}.branch_{ref}"
    rows = p.sql(ALL.format(where))
    (row,) = p.sql(f"CALL $c.system.rewrite_data_files(table => '{name}'{arguments})")
    assert (len(row), row[:2]) == (5, (removed, added))
    if removed:
        assert row[2] == int(p.snapshot(name, ref)["summary"]["removed-files-size"])
    assert p.sql(ALL.format(where)) == rows


def compacts(
    method: str, removed: int, added: int, arguments: str = "", partitioned: str = "", **where: str
) -> None:
    differs = where.get("differs", "")

    @case(f"{REWRITE}.{method}", differs=differs)
    def files_are_joined(p: Place) -> None:
        table(p, partitioned=partitioned)
        fill(p)
        rewritten(p, removed, added, arguments.replace("$c", p.catalog))


compacts("testFilterCaseSensitivity", 10, 1, ", where => 'C1 > 0'")
compacts("testRewriteDataFilesOnPartitionTable", 10, 2, partitioned="c2")
compacts("testRewriteDataFilesOnNonPartitionTable", 10, 1)
compacts("testRewriteDataFilesWithOptions", 0, 0, ", options => map('min-input-files', '12')")
compacts(
    "testRewriteDataFilesWithSortStrategy",
    *(10, 1, ", strategy => 'sort', sort_order => 'c1 DESC NULLS LAST'"),
)
compacts("testRewriteDataFilesWithFilter", 5, 1, ", where => 'c1 = 1 and c2 is not null'")
compacts("testRewriteDataFilesWithDeterministicTrueFilter", 10, 1, ", where => '1=1'")
compacts("testRewriteDataFilesWithDeterministicFalseFilter", 0, 0, ", where => '0=1'")
compacts("testRewriteDataFilesWithFilterOnPartitionTable", 5, 1, ", where => 'c2 = \"bar\"'", "c2")
compacts(
    "testRewriteDataFilesWithInFilterOnPartitionTable", 5, 1, ", where => 'c2 in (\"bar\")'", "c2"
)
compacts(
    "testRewriteDataFilesWithFilterOnOnBucketExpression",
    *(5, 1, ", where => '$c.system.bucket(2, c2) = 0'", "bucket(2, c2)"),
)


def sorts(method: str, columns: str, arguments: str, *first: str, differs: str = "") -> None:
    @case(f"{REWRITE}.{method}", differs=differs)
    def the_new_file_is_sorted(p: Place) -> None:
        p.sql(f"CREATE TABLE $t ({columns}) USING iceberg")
        for _ in range(5):
            p.sql("INSERT INTO $t SELECT 1, 'foo', null", "INSERT INTO $t SELECT 2, 'bar', null")
        (row,) = p.sql(
            f"CALL $c.system.rewrite_data_files(table => '$t', strategy => 'sort', {arguments})"
        )
        assert row[:2] == (10, 1)
        assert [r[1] for r in p.sql("SELECT * FROM $t")] == [s for s in first for _ in range(5)]


STRINGS, BINARY = "c1 int, c2 string, c3 string", "c1 int, c2 string, c3 binary"
TWO = ", options => map('shuffle-partitions-per-file', '2')"
RANKS = "a decision: curves are laid over the ranks of values, whose bytes Java Iceberg mixes"
sorts(
    "testRewriteDataFilesWithZOrder",
    *(STRINGS, "sort_order => 'zorder(c1,c2)'", "bar", "foo"),
    differs=RANKS,
)
sorts(
    "testRewriteDataFilesWithZOrderAndMultipleShufflePartitionsPerFile",
    *(STRINGS, f"sort_order => 'zorder(c1, c2)'{TWO}", "bar", "foo"),
    differs=RANKS,
)

not_sql(REWRITE, "the tree of Java's parser of sort orders", "testZOrderSortExpression")
not_sql(REWRITE, "a null argument of Java's API", "testRewriteDataFilesToNullBranchFails")


@case(f"{REWRITE}.testPartitionStatsIncrementalCompute")
def partition_statistics_count_the_new_files(p: Place) -> None:
    table(p, partitioned="c2")
    fill(p)

    def counted() -> list[tuple[object, ...]]:
        frame = p.spark.read.parquet(p.one("CALL $c.system.compute_partition_stats('$db.t')"))
        rows = frame.selectExpr("partition.c2", "data_record_count", "data_file_count")
        return sorted(tuple(r) for r in rows.collect())

    assert counted() == [("bar", 5, 5), ("foo", 5, 5)]
    p.sql("CALL $c.system.rewrite_data_files(table => '$t')")
    assert counted() == [("bar", 5, 1), ("foo", 5, 1)]


@case(f"{REWRITE}.testRewriteDataFilesWithAllPossibleFilters")
def comparisons_are_taken_as_filters(p: Place) -> None:
    table(p, partitioned="c2")
    fill(p)
    for where in (
        "c1 = 3", "c1 > 3", "c1 >= 3", "c1 < 0", "c1 <= 0", "c1 in (3,4,5)", "c1 is null",
        "c3 is not null", 'c1 = 3 and c2 = "bar"', "c1 = 3 or c1 = 5", "c1 not in (1,2)",
        'c2 like "car%"',
    ):  # fmt: skip
        (row,) = p.sql("CALL $c.system.rewrite_data_files(table => '$t', where => '$w')", w=where)
        assert row[:2] == (0, 0), where


@case(f"{REWRITE}.testRewriteDataFilesWithInvalidInputs")
def wrong_arguments_of_a_rewrite(p: Place) -> None:
    table(p)
    fill(p, 2)
    for arguments, pattern in (
        ("options => map('min-input-files', '2'), strategy => 'temp'", "temp"),
        ("strategy => 'binpack', sort_order => 'c1 ASC NULLS FIRST'", "binpack|bin-pack|mode"),
        ("strategy => 'sort'", "sort order"),
        ("strategy => 'sort', sort_order => 'c1 ASC none'", "c1 ASC none|none"),
        ("strategy => 'sort', sort_order => 'c1 none NULLS FIRST'", "none"),
        ("strategy => 'sort', sort_order => 'col1 DESC NULLS FIRST'", "col1"),
        ("where => 'col1 = 3'", "col1"),
        ("strategy => 'sort', sort_order => 'zorder(col1)'", "col1"),
        ("strategy => 'sort', sort_order => 'c1,zorder(c2,c3)'", "zorder"),
    ):
        p.fails(f"CALL $c.system.rewrite_data_files(table => '$t', {arguments})", pattern)


for _method, _arguments in (
    ("testBinPackTableWithSpecialChars", ""),
    ("testSortTableWithSpecialChars", ", strategy => 'sort', sort_order => 'c1'"),
    ("testZOrderTableWithSpecialChars", ", strategy => 'sort', sort_order => 'zorder(c1, c2)'"),
):

    @case(f"{REWRITE}.{_method}", on=("path", "sql"), each=(_arguments,))
    def names_of_tables_may_have_colons_and_dots(p: Place) -> None:
        name = "$ns.`table:with.special:chars`"
        table(p, name)
        fill(p, 10, name)
        rewritten(p, 10, 1, f", where => 'c2 is not null'{p.each}", name)


@case(f"{REWRITE}.testDefaultSortOrder")
def files_are_sorted_as_the_table_says(p: Place) -> None:
    table(p)
    p.sql("ALTER TABLE $t WRITE ORDERED BY c2")
    fill(p)
    files = p.one("SELECT count(*) FROM $t.files")
    p.sql("INSERT INTO $t VALUES (3, 'x', null)")
    rewritten(p, files + 1, 1, ", strategy => 'sort', options => map('min-input-files', '2')")
    assert p.order()[0][0] == "c2"


@case(
    f"{REWRITE}.testRewriteWithUntranslatedOrUnconvertedFilter",
    differs="a decision: a filter of a rewrite may be any expression that Frazil knows",
)
def filters_are_comparisons(p: Place) -> None:
    table(p)
    for where in ('substr(encode(c2, "utf-8"), 2) = "fo"', 'substr(c2, 2) = "fo"'):
        p.fails(
            f"CALL $c.system.rewrite_data_files(table => '$t', where => '{where}')",
            "substr|translate|convert",
        )


@case(f"{REWRITE}.testRewriteDataFilesSummary")
def a_rewrite_tells_the_engine(p: Place) -> None:
    table(p)
    fill(p)
    p.sql("CALL $c.system.rewrite_data_files(table => '$t')")
    summary = p.snapshot()["summary"]
    assert summary["engine-name"] == "spark"
    assert summary["engine-version"].startswith(p.spark.version[:3])
    assert {"app-id", "app-name"} <= summary.keys()


@case(f"{REWRITE}.testRewriteDataFilesPreservesLineage")
def rows_keep_their_ids(p: Place) -> None:
    p.sql("CREATE TABLE $t (c1 int) USING iceberg TBLPROPERTIES ('format-version' = '3')")
    frame = p.spark.createDataFrame(
        p.spark.sparkContext.parallelize([(n,) for n in range(10)], 10), "c1 int"
    )
    frame.writeTo(p.text("$t")).append()
    query = "SELECT c1, _row_id, _last_updated_sequence_number FROM $t ORDER BY _row_id"
    rows = p.sql(query)
    assert [r[1:] for r in rows] == [(n, 1) for n in range(10)]
    (row,) = p.sql("CALL $c.system.rewrite_data_files(table => '$t')")
    assert row[:2] == (10, 1)
    assert p.sql(query) == rows


def branch(p: Place, number: int, arguments: str = "") -> None:
    p.sql("ALTER TABLE $t CREATE BRANCH testBranch")
    before = p.refs()
    rewritten(p, number, 1, f", branch => 'testBranch'{arguments}", ref="testBranch")
    assert p.refs()["main"] == before["main"]
    assert p.snapshot(ref="testBranch")["parent-snapshot-id"] == before["testBranch"]["snapshot-id"]


@case(f"{REWRITE}.testRewriteDataFilesOnBranch")
def files_of_a_branch_are_joined(p: Place) -> None:
    table(p)
    fill(p)
    branch(p, 10)


@case(f"{REWRITE}.testRewriteDataFilesOnBranchWithFilter")
def files_of_a_branch_are_chosen_by_a_filter(p: Place) -> None:
    table(p, partitioned="c2")
    fill(p)
    branch(p, 5, ", where => 'c2 = \"bar\"'")


@case(f"{REWRITE}.testBranchCompactionDoesNotAffectMain")
def main_stays_while_a_branch_is_compacted(p: Place) -> None:
    table(p)
    fill(p)
    p.sql("ALTER TABLE $t CREATE BRANCH testBranch")
    fill(p)
    before, rows = p.refs(), p.sql(ALL.format("$t"))
    rewritten(p, 10, 1, ", branch => 'testBranch'", ref="testBranch")
    assert p.refs()["main"] == before["main"]
    assert p.sql(ALL.format("$t")) == rows
    assert p.snapshot(ref="testBranch")["parent-snapshot-id"] == before["testBranch"]["snapshot-id"]
