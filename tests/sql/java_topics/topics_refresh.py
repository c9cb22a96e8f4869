"""What queries, cached tables, temporary views and DataFrames show after others, or the session
itself, changed the table. As with Java's catalogs without a cache of tables.
"""

from collections.abc import Callable

from tests.sql.java_topics.harness import Place, case, not_sql

ROWS = "SELECT * FROM {} ORDER BY id"
FIRST, SECOND, TENTH = (1, 100), (2, 200), (10, 1000)


def salaries(p: Place, values: str = "(1, 100)", columns: str = "id INT, salary INT") -> None:
    p.sql(f"CREATE TABLE $t ({columns}) USING iceberg", f"INSERT INTO $t VALUES {values}")


def appended(p: Place, **columns: object) -> None:
    """Append a row, as a writer of which the session knows nothing."""
    import pyarrow as pa

    table = p.outside().load_table(f"{p.namespace}.t")
    table.append(pa.Table.from_pylist([columns], schema=table.schema().as_arrow()))


def changed(p: Place, change: Callable[..., object]) -> None:
    """Change the columns, as a writer of which the session knows nothing."""
    with p.outside().load_table(f"{p.namespace}.t").update_schema() as update:
        change(update)


def made_again(p: Place, columns: str = "id int, salary int") -> None:
    """Drop the table and make another of its name, outside of the session."""
    outside = p.outside()
    outside.drop_table(f"{p.namespace}.t")
    outside.create_table(f"{p.namespace}.t", columns)


def added(update: object) -> None:
    update.add_column("new_column", "int")  # type: ignore[attr-defined]


def dropped(name: str) -> Callable[..., object]:
    return lambda update: update.delete_column(name)


# Cached tables
# --------------------------------------------------------------------------------------------------------------------------------------

CACHED = "TestCachedTableRefresh.testCachedTable"


READ_ANEW = "a decision: queries read the newest snapshot, whatever Spark has cached"


def cached(p: Place) -> None:
    salaries(p)
    p.sql("CACHE TABLE $t")
    p.rows(ROWS.format("$t"), FIRST)


@case(f"{CACHED}WithExternalWrite", differs=READ_ANEW)
@case(f"{CACHED}MultipleQueriesReturnCachedData", differs=READ_ANEW)
def a_cached_table_does_not_show_what_others_wrote(p: Place) -> None:
    cached(p)
    for number in (2, 3):
        appended(p, id=number, salary=100 * number)
        p.rows(ROWS.format("$t"), FIRST)
    p.sql("UNCACHE TABLE $t")


@case(f"{CACHED}WithSessionWriteAndExternalWrite", differs=READ_ANEW)
def a_cached_table_shows_the_last_write_of_the_session(p: Place) -> None:
    cached(p)
    p.sql("INSERT INTO $t VALUES (2, 200)")
    appended(p, id=3, salary=300)
    p.rows(ROWS.format("$t"), FIRST, SECOND)
    p.sql("UNCACHE TABLE $t")


@case(f"{CACHED}WithExternalSchemaChangeAddColumn", differs=READ_ANEW)
def a_cached_table_keeps_its_columns(p: Place) -> None:
    cached(p)
    changed(p, added)
    appended(p, id=2, salary=200, new_column=-1)
    p.rows(ROWS.format("$t"), FIRST)
    p.sql("UNCACHE TABLE $t")


not_sql(
    "TestCachedTableRefresh",
    "Java has it disabled, for a bug of Spark's",
    "testCachedTableWithSessionSchemaChangeAndExternalWrite",
)


@case(f"{CACHED}WithExternalDropAndRecreateTable")
def another_table_of_the_name_is_not_cached(p: Place) -> None:
    cached(p)
    made_again(p)
    p.rows(ROWS.format("$t"))


@case(f"{CACHED}UncacheReflectsExternalChanges", each=("UNCACHE",))
@case(f"{CACHED}RefreshReflectsExternalChanges", each=("REFRESH",))
def a_table_that_is_no_more_cached_shows_all(p: Place) -> None:
    cached(p)
    appended(p, id=2, salary=200)
    p.sql(f"{p.each} TABLE $t")
    p.rows(ROWS.format("$t"), FIRST, SECOND)


# Temporary views
# --------------------------------------------------------------------------------------------------------------------------------------

VIEW = "TestTempViewRefresh.test"
STAYS = "a decision: a view stays as it was, with a warning, where its table or a column is gone or changes its type"


def viewed(
    p: Place, values: str = "(1, 100), (10, 1000)", columns: str = "id INT, salary INT"
) -> None:
    salaries(p, values, columns)
    frame = p.spark.table(p.text("$t"))
    (frame.filter("salary < 999") if "1000" in values else frame).createOrReplaceTempView("tmp")


@case(f"{VIEW}SessionWrite", each=("session",))
@case(f"{VIEW}ExternalWrite", each=("outside",))
@case(f"{VIEW}MultipleQueriesReflectLatestData", each=("session",))
def a_view_shows_what_was_written(p: Place) -> None:
    viewed(p)
    p.rows(ROWS.format("tmp"), FIRST)
    for number in (2, 3):
        if p.each == "session":
            p.sql(f"INSERT INTO $t VALUES ({number}, {100 * number})")
        else:
            appended(p, id=number, salary=100 * number)
        p.rows(ROWS.format("tmp"), *((n, 100 * n) for n in range(1, number + 1)))


@case(f"{VIEW}SessionSchemaEvolutionAddColumn", each=("session",))
@case(f"{VIEW}ExternalSchemaEvolutionAddColumn", each=("outside",))
def a_view_keeps_its_columns(p: Place) -> None:
    viewed(p)
    p.rows(ROWS.format("tmp"), FIRST)
    if p.each == "session":
        p.sql("ALTER TABLE $t ADD COLUMN new_column INT", "INSERT INTO $t VALUES (2, 200, -1)")
    else:
        changed(p, added)
        appended(p, id=2, salary=200, new_column=-1)
    p.rows(ROWS.format("tmp"), FIRST, SECOND)


@case(f"{VIEW}SessionSchemaEvolutionDropColumn", each=("session",), differs=STAYS)
@case(f"{VIEW}ExternalSchemaEvolutionDropColumn", each=("outside",), differs=STAYS)
def a_view_of_a_column_that_is_gone_fails(p: Place) -> None:
    viewed(p, "(1, 100, 10)", "id INT, salary INT, new_column INT")
    p.rows(ROWS.format("tmp"), (1, 100, 10))
    if p.each == "session":
        p.sql("ALTER TABLE $t DROP COLUMN new_column")
    else:
        changed(p, dropped("new_column"))
    p.fails("SELECT * FROM tmp", "new_column")


@case(f"{VIEW}SessionDropAndRecreateTable", each=("session",), differs=STAYS)
@case(f"{VIEW}ExternalDropAndRecreateTable", each=("outside",), differs=STAYS)
def a_view_shows_another_table_of_the_name(p: Place) -> None:
    viewed(p, "(1, 100)")
    p.rows(ROWS.format("tmp"), FIRST)
    if p.each == "session":
        p.sql("DROP TABLE $t")
        salaries(p, "(2, 200)")
        p.rows(ROWS.format("tmp"), SECOND)
    else:
        made_again(p)
        p.rows(ROWS.format("tmp"))


@case(f"{VIEW}SessionDropAndAddColumnSameNameSameType", each=("session",))
@case(f"{VIEW}ExternalDropAndAddColumnSameNameSameType", each=("outside",))
def a_view_finds_columns_by_name(p: Place) -> None:
    viewed(p, "(1, 100)")
    p.rows(ROWS.format("tmp"), FIRST)
    if p.each == "session":
        p.sql("ALTER TABLE $t DROP COLUMN salary", "ALTER TABLE $t ADD COLUMN salary INT")
        p.sql("INSERT INTO $t VALUES (2, 200)")
    else:
        changed(p, dropped("salary"))
        changed(p, lambda update: update.add_column("salary", "int"))
        appended(p, id=2, salary=200)
    p.rows(ROWS.format("tmp"), (1, None), SECOND)


@case(f"{VIEW}SessionDropAndAddColumnSameNameDifferentType", each=("session",), differs=STAYS)
@case(f"{VIEW}ExternalDropAndAddColumnSameNameDifferentType", each=("outside",), differs=STAYS)
def a_view_of_a_column_of_another_type_fails(p: Place) -> None:
    viewed(p, "(1, 100)")
    p.rows(ROWS.format("tmp"), FIRST)
    if p.each == "session":
        p.sql("ALTER TABLE $t DROP COLUMN salary", "ALTER TABLE $t ADD COLUMN salary STRING")
    else:
        made_again(p, "id int, salary string")
    p.fails("SELECT * FROM tmp", "salary")


@case(f"{VIEW}TypeWidening", differs=STAYS)
def a_view_of_a_column_that_was_widened_fails(p: Place) -> None:
    viewed(p, "(1, 100)")
    p.sql("ALTER TABLE $t ALTER COLUMN salary TYPE BIGINT")
    p.fails("SELECT * FROM tmp", "salary|type")


# DataFrames
# --------------------------------------------------------------------------------------------------------------------------------------

FRAMES = "TestIncrementallyConstructedQueries.testIncrementalQuery"
KEEPS = "known gap: a DataFrame keeps the state of the table from which it was made"


def queried(
    method: str,
    *,
    differs: str = KEEPS,
    values: str = "(1, 100)",
    columns: str = "id INT, salary INT",
):  # type: ignore[no-untyped-def]
    """Register a case whose DataFrames were made before and after somebody else's write."""

    def register(play: Callable[..., None]) -> Callable[..., None]:
        @case(f"{FRAMES}{method}", differs=differs)
        def frames_show_one_state(p: Place) -> None:
            salaries(p, values, columns)
            play(p, lambda: p.spark.table(p.text("$t")))

        return play

    return register


def joined(first: object, second: object) -> list[tuple[object, ...]]:
    frame = first.join(second, first["id"] == second["id"])  # type: ignore[attr-defined,index]
    return sorted((tuple(r) for r in frame.collect()), key=repr)


def raises(pattern: str, first: object, second: object) -> None:
    try:
        rows = joined(first, second)
    except Exception as error:
        assert pattern in str(error), str(error)[:500]
    else:
        raise AssertionError(f"no error, but {rows}")


@queried("WithExternalWrite")
def frames_are_of_one_snapshot(p: Place, table: Callable[[], object]) -> None:
    first = table()
    appended(p, id=2, salary=200)
    assert joined(first, table()) == [FIRST * 2, SECOND * 2]


@queried("WithExternalSchemaChangeAddColumn")
def frames_keep_their_columns(p: Place, table: Callable[[], object]) -> None:
    first = table()
    changed(p, added)
    appended(p, id=2, salary=200, new_column=-1)
    assert joined(first, table()) == [(1, 100, 1, 100, None), (2, 200, 2, 200, -1)]


@queried(
    "WithExternalSchemaChangeDropColumn",
    values="(1, 100, 10)",
    columns="id INT, salary INT, extra INT",
)
def frames_of_a_column_that_is_gone_fail(p: Place, table: Callable[[], object]) -> None:
    first = table()
    changed(p, dropped("extra"))
    appended(p, id=2, salary=200)
    raises("extra", first, table())


@queried("WithExternalDropAndRecreateTable")
def frames_of_another_table_of_the_name_fail(p: Place, table: Callable[[], object]) -> None:
    first = table()
    made_again(p)
    raises("changed", first, table())


@queried("WithExternalDropAndAddColumnSameNameSameType")
def frames_find_columns_by_name(p: Place, table: Callable[[], object]) -> None:
    first = table()
    changed(p, dropped("salary"))
    changed(p, lambda update: update.add_column("salary", "int"))
    appended(p, id=2, salary=200)
    assert joined(first, table()) == [(1, None, 1, None), SECOND * 2]


@queried("WithExternalDropAndAddColumnSameNameDifferentType")
def frames_of_a_column_of_another_type_fail(p: Place, table: Callable[[], object]) -> None:
    first = table()
    changed(p, dropped("salary"))
    changed(p, lambda update: update.add_column("salary", "string"))
    appended(p, id=2, salary="BBB")
    raises("salary", first, table())


@queried("MultipleReferencesConsistentVersions", values="(1, 100), (2, 200)")
def three_frames_are_of_one_snapshot(p: Place, table: Callable[[], object]) -> None:
    first = table()
    appended(p, id=3, salary=300)
    second = table()
    appended(p, id=4, salary=400)
    third = table()
    frame = first.join(second, first["id"] == second["id"])  # type: ignore[attr-defined,index]
    frame = frame.join(third, first["id"] == third["id"])  # type: ignore[index]
    assert sorted(tuple(r) for r in frame.collect()) == [(n, 100 * n) * 3 for n in range(1, 5)]


@queried("WithFilterAndExternalWrite", values="(1, 100), (10, 1000)")
def filtered_frames_are_of_one_snapshot(p: Place, table: Callable[[], object]) -> None:
    first = table().filter("salary < 999")  # type: ignore[attr-defined]
    appended(p, id=2, salary=200)
    assert joined(first, table().filter("salary > 150")) == [SECOND * 2]  # type: ignore[attr-defined]


@queried("WithAggregationAndExternalWrite", values="(1, 100), (2, 200)")
def grouped_frames_are_of_one_snapshot(p: Place, table: Callable[[], object]) -> None:
    first = table()
    appended(p, id=3, salary=300)
    counts = table().groupBy("id").count()  # type: ignore[attr-defined]
    assert joined(first, counts) == [(n, 100 * n, n, 1) for n in (1, 2, 3)]


@queried("SelfJoinWithExternalWrite", values="(1, 100), (2, 200)")
def a_frame_joined_with_itself_is_of_one_snapshot(p: Place, table: Callable[[], object]) -> None:
    first = table()
    appended(p, id=3, salary=300)
    left, right = first.alias("t1"), first.alias("t2")  # type: ignore[attr-defined]
    frame = left.join(right, p.spark.sql("SELECT 1").sparkSession and left["id"] == right["id"])
    assert sorted(tuple(r) for r in frame.collect()) == [(n, 100 * n) * 2 for n in (1, 2, 3)]


# Queries
# --------------------------------------------------------------------------------------------------------------------------------------

AGAIN = "TestRepeatedTableAccess.testRepeatedAccessWithExternal"


@case(f"{AGAIN}Write")
@case(f"{AGAIN}SchemaChangeAddColumn")
def queries_show_what_others_changed(p: Place) -> None:
    salaries(p)
    p.rows(ROWS.format("$t"), FIRST)
    appended(p, id=2, salary=200)
    p.rows(ROWS.format("$t"), FIRST, SECOND)
    changed(p, added)
    appended(p, id=3, salary=300, new_column=-1)
    p.rows(ROWS.format("$t"), (1, 100, None), (2, 200, None), (3, 300, -1))


@case(f"{AGAIN}SchemaChangeDropColumn")
def queries_show_columns_that_are_left(p: Place) -> None:
    salaries(p, "(1, 100, 10)", "id INT, salary INT, extra INT")
    p.rows(ROWS.format("$t"), (1, 100, 10))
    changed(p, dropped("extra"))
    appended(p, id=2, salary=200)
    p.rows(ROWS.format("$t"), FIRST, SECOND)


@case(f"{AGAIN}DropAndRecreateTable")
def queries_show_another_table_of_the_name(p: Place) -> None:
    salaries(p)
    p.rows(ROWS.format("$t"), FIRST)
    made_again(p)
    p.rows(ROWS.format("$t"))
