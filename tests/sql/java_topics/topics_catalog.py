"""What a catalog tells beyond single statements: tables of its namespaces, functions, queries that
make tables, views of a session.
"""

from tests.sql.java_topics.harness import Place, case, not_sql

MOCKED = "calls Java's classes with catalogs that stand for others"


def two_columns(p: Place) -> None:
    p.sql("CREATE TABLE $t (id bigint NOT NULL, data string) USING iceberg")


@case("TestSparkCatalogOperations.testInvalidateTable")
def a_table_that_others_made_anew_is_refreshed(p: Place) -> None:
    two_columns(p)
    p.sql("INSERT INTO $t VALUES (1, 'a')")
    p.rows("SELECT count(*) FROM $t", (1,))
    known = p.metadata()
    p.register([{"id": 1, "name": "id", "type": "long", "required": True}])
    assert p.metadata()["table-uuid"] != known["table-uuid"]
    p.sql("REFRESH TABLE $t")
    p.rows("SELECT * FROM $t")


def of_queries(p: Place, use_nullable: str, required: str) -> None:
    """Make a table of a query, and replace one by it, in a catalog that says so."""
    with p.another(use_nullable_query_schema=use_nullable) as catalog:
        names = [f"{catalog}.$db.{name}" for name in ("t", "c", "r")]
        for name in (names[0], names[2]):
            p.sql(f"CREATE TABLE {name} (id bigint NOT NULL, data string) USING iceberg")
        p.sql(f"INSERT INTO {names[0]} VALUES (1, 'abc'), (2, null)")
        p.sql(f"CREATE TABLE {names[1]} USING iceberg AS SELECT * FROM {names[0]}")
        p.sql(f"REPLACE TABLE {names[2]} USING iceberg AS SELECT * FROM {names[0]}")
        for name in names[1:]:
            p.rows(f"SELECT * FROM {name} ORDER BY id", (1, "abc"), (2, None))
            assert p.columns(name) == [f"1 id long{required}", "2 data string"]


QUERIES = (
    "TestSparkCatalogOperations.testCTASUseNullableQuerySchema",
    "TestSparkCatalogOperations.testRTASUseNullableQuerySchema",
)


@case(*QUERIES)
def columns_of_a_query_are_optional(p: Place) -> None:
    of_queries(p, "true", "")


@case(*QUERIES, differs="Spark's own scan of files says of no column that it takes no nulls")
def columns_of_a_query_stay_required_where_the_catalog_says_so(p: Place) -> None:
    of_queries(p, "false", " not null")


not_sql(
    "TestSparkSessionCatalog", "is about functions of Hive, which Spark serves", "testLoadFunction"
)
not_sql(
    "TestSparkSessionCatalog",
    "asks how Java's class is initialised with the addresses of two metastores",
    "testValidateHmsUri",
)
not_sql(
    "TestSparkCatalogOperations",
    "asks for a property of Java's table that no statement shows",
    "testTableTypeIsExternal",
)
not_sql("TestSparkSessionCatalog", MOCKED, "listViewsReturnsSessionCatalogViews")
not_sql(
    "TestRestDropPurgeTable",
    MOCKED,
    "purgeTableDelegatesToCatalogWhenEnabled",
    "purgeNotDelegatedToCatalogWhenDisabled",
    "initializationFailsWhenPurgeEnabledWithNonRestCatalog",
    "purgeTableDelegatesToCatalogWhenEnabledViaSessionCatalog",
)
not_sql(
    "TestSparkFunctions",
    "asks for Java's classes of functions by their names",
    *(
        f"testBuild{name}FunctionFromClass"
        for name in ("Years", "Months", "Days", "Hours", "Bucket", "Truncate")
    ),
)
not_sql(
    "TestSparkAggregates", "converts Spark's aggregates to Java's expressions", "testAggregates"
)
