"""Views: SQL that creates, changes, shows and reads them."""

from tests.sql.java_topics.harness import Place, case

VIEWS = "TestViews"
MISSING = "cannot be found|not exist|NOT_FOUND|cannot resolve"


def begin(p: Place, rows: int = 10) -> None:
    """Make the table `t` (n, 2 n as text), in the current namespace."""
    p.sql("USE $ns", "CREATE TABLE t (id INT, data STRING) USING iceberg")
    if rows:
        fill(p, rows)


def fill(p: Place, rows: int) -> None:
    p.sql(f"INSERT INTO t SELECT int(id), string(id * 2) FROM range(1, {rows + 1})")


def ids(*numbers: int) -> list[tuple[int]]:
    return [(n,) for n in numbers]


def other_dialect(p: Place, name: str, **queries: str) -> None:
    """Make a view with queries in several dialects, which SQL cannot."""
    p.outside().create_view(
        f"{p.namespace}.{name}", "id int", sql=queries, default_namespace=p.namespace
    )


# Reading
# --------------------------------------------------------------------------------------------------------------------------------------


@case(f"{VIEWS}.readFromView", each=("trino",))
def sparks_query_of_several_is_read(p: Place) -> None:
    begin(p)
    other_dialect(p, "v", spark="SELECT id FROM t", trino="SELECT non_existing FROM t")
    p.rows("SELECT * FROM v", *ids(*range(1, 11)))


@case(
    f"{VIEWS}.readFromTrinoView",
    differs="a decision: a query in another engine's dialect is not run as Spark's",
)
def another_dialect_is_read_where_there_is_none_for_spark(p: Place) -> None:
    begin(p)
    other_dialect(p, "v", trino="SELECT id FROM t")
    p.rows("SELECT * FROM v", *ids(*range(1, 11)))


def broken(method: str, query: str, pattern: str) -> None:
    @case(f"{VIEWS}.{method}")
    def a_query_that_cannot_run_fails_when_it_is_read(p: Place) -> None:
        begin(p)
        other_dialect(p, "v", spark=query)
        p.fails("SELECT * FROM v", pattern)


broken("readFromViewUsingNonExistingTable", "SELECT id FROM non_existing", "non_existing")
broken("readFromViewUsingNonExistingTableColumn", "SELECT non_existing FROM t", "non_existing")
broken("readFromViewUsingInvalidSQL", "invalid SQL", "invalid|syntax|v\\b")


@case(
    f"{VIEWS}.readFromViewReferencingTempView",
    each=("CREATE TEMPORARY VIEW other_$db",),
)
@case(
    f"{VIEWS}.readFromViewReferencingGlobalTempView",
    each=("CREATE GLOBAL TEMPORARY VIEW other_$db",),
)
def a_view_does_not_read_temporary_views(p: Place) -> None:
    begin(p)
    name = "global_temp.other_$db" if "GLOBAL" in p.each else "other_$db"
    p.sql(f"{p.each} AS SELECT id FROM t WHERE id <= 5")
    other_dialect(p, "v", spark=p.text(f"SELECT id FROM {name}"))
    p.rows(f"SELECT * FROM {name}", *ids(1, 2, 3, 4, 5))
    p.fails("SELECT * FROM v", "other_", MISSING)


FUNCTION = "CREATE TEMPORARY FUNCTION f_$db(x INT) RETURNS INT RETURN x + 1"


@case(f"{VIEWS}.readFromViewReferencingTempFunction")
def a_view_does_not_call_temporary_functions(p: Place) -> None:
    begin(p, 1)
    p.sql(FUNCTION)
    other_dialect(p, "v", spark=p.text("SELECT f_$db(id) AS id FROM t"))
    p.rows("SELECT f_$db(id) FROM t", (2,))
    p.fails("SELECT * FROM v", "f_", MISSING)
    p.sql("DROP TEMPORARY FUNCTION f_$db")


UNNAMED = dict.fromkeys(
    ("4.2", "4.3"), "known gap: as for Spark's own views, a column of a view needs a name"
)


@case(f"{VIEWS}.createViewWithGroupByOrdinal", differs=UNNAMED)
def columns_of_a_view_are_named_by_spark(p: Place) -> None:
    begin(p, 3)
    fill(p, 2)
    p.sql("CREATE VIEW v AS SELECT id, count(1) FROM t GROUP BY 1")
    p.rows("SELECT * FROM v", (1, 2), (2, 2), (3, 1))


# Functions
# --------------------------------------------------------------------------------------------------------------------------------------


@case(f"{VIEWS}.rewriteFunctionIdentifier")
def a_function_is_found_in_the_namespace_of_the_view(p: Place) -> None:
    begin(p, 0)
    text = "SELECT iceberg_version() AS version"
    p.fails(text, "iceberg_version")
    p.outside().create_view(
        f"{p.namespace}.v", "version string", sql=text, default_namespace="system"
    )
    assert isinstance(p.one("SELECT * FROM v"), str)


@case(f"{VIEWS}.builtinFunctionIdentifierNotRewritten")
def functions_of_sparks_stay_sparks(p: Place) -> None:
    begin(p, 0)
    p.outside().create_view(
        f"{p.namespace}.v",
        "result string",
        sql="SELECT trim('  abc   ') AS result",
        default_namespace="system",
    )
    p.rows("SELECT * FROM v", ("abc",))


BUCKET = "SELECT {}system.bucket(100, 'a') AS bucket_result, 'a' AS value"


@case(f"{VIEWS}.fullFunctionIdentifierNotRewrittenLoadFailure")
def a_function_of_another_catalog_is_not_looked_for_here(p: Place) -> None:
    begin(p, 0)
    p.sql("CREATE NAMESPACE IF NOT EXISTS spark_catalog.system")
    p.outside().create_view(
        f"{p.namespace}.v",
        "bucket_result int, value string",
        sql=BUCKET.format("spark_catalog."),
        default_namespace="system",
    )
    p.fails("SELECT * FROM v", "bucket")
    p.sql("DROP NAMESPACE spark_catalog.system")


# Creation
# --------------------------------------------------------------------------------------------------------------------------------------


@case(f"{VIEWS}.createViewWithColumnAliases")
@case(f"{VIEWS}.createOrReplaceViewWithColumnAliases")
def columns_of_a_view_have_names_of_their_own(p: Place) -> None:
    begin(p, 6)
    p.sql(
        "CREATE VIEW v (new_id COMMENT 'ID', new_data COMMENT 'DATA') AS SELECT id, data FROM t WHERE id <= 3"
    )
    assert p.view("v")["properties"]["spark.query-column-names"] == "id,data"
    described = [row for row in p.sql("DESCRIBE v") if row[0].startswith("new")]
    assert described == [("new_id", "int", "ID"), ("new_data", "string", "DATA")]
    p.rows("SELECT new_id FROM v", *ids(1, 2, 3))
    p.sql(
        "CREATE OR REPLACE VIEW v (data2 COMMENT 'new data', id2 COMMENT 'new ID')"
        " AS SELECT data, id FROM t WHERE id <= 3"
    )
    assert p.view("v")["properties"]["spark.query-column-names"] == "data,id"
    p.rows("SELECT data2, id2 FROM v", ("2", 1), ("4", 2), ("6", 3))
    p.sql("DROP VIEW v")
    p.sql("CREATE VIEW v (new_data, new_id) AS SELECT data, id FROM t WHERE id <= 3")
    p.rows("SELECT new_id FROM v", *ids(1, 2, 3))


# Description
# --------------------------------------------------------------------------------------------------------------------------------------


NO_PROVIDER = dict.fromkeys(
    ("4.2", "4.3"),
    "known gap: SHOW TBLPROPERTIES of a view, which Spark shows itself, lacks provider and location",
)


def extended(p: Place, name: str) -> tuple[dict[str, str], str]:
    """Return the columns, and what else is told as one text."""
    rows = p.sql(f"DESCRIBE EXTENDED {name}")
    return {row[0]: row[1] for row in rows}, str(rows).replace("`", "")


@case(f"{VIEWS}.describeExtendedView")
def a_view_is_described_in_full(p: Place) -> None:
    begin(p, 0)
    p.sql(
        "CREATE VIEW v (new_id COMMENT 'ID', new_data COMMENT 'DATA') COMMENT 'view comment'"
        " AS SELECT id, data FROM t WHERE id <= 3"
    )
    columns, told = extended(p, "v")
    assert (columns["new_id"], columns["new_data"]) == ("int", "string")
    for part in ("view comment", p.text("$db"), "[id, data]"):
        assert part in told, told


@case(f"{VIEWS}.createAndDescribeViewInDefaultNamespace", each=("$ns",))
@case(f"{VIEWS}.createAndDescribeViewWithoutCurrentNamespace", each=("$c.other_$db",))
def a_view_remembers_the_current_namespace(p: Place) -> None:
    begin(p, 0)
    if p.each != "$ns":
        p.sql(f"CREATE NAMESPACE {p.each}")
    p.sql(f"CREATE VIEW {p.each}.v (id, data) AS SELECT id, data FROM t WHERE id <= 3")
    columns, told = extended(p, f"{p.each}.v")
    assert (columns["id"], columns["data"]) == ("int", "string")
    assert "[id, data]" in told
    p.sql("USE spark_catalog.default")
    p.rows(f"SELECT * FROM {p.each}.v")


@case(f"{VIEWS}.showViewPropertiesByKey", differs=NO_PROVIDER)
def a_property_of_a_view_is_shown(p: Place) -> None:
    begin(p, 0)
    p.sql("CREATE VIEW v AS SELECT id, data FROM t")
    assert ("provider", "iceberg") in p.sql("SHOW TBLPROPERTIES v")
    assert ("provider", "iceberg") in p.sql("SHOW TBLPROPERTIES v (provider)")
    ((key, told),) = p.sql("SHOW TBLPROPERTIES v (non.existing)")
    assert key == "non.existing" and "does not have property" in told


NO_TEMPORARY = dict.fromkeys(
    ("4.2", "4.3"),
    "known gap: SHOW VIEWS, where Spark shows views itself, lists no temporary views",
)


@case(f"{VIEWS}.showViews", differs=NO_TEMPORARY)
def views_are_listed(p: Place) -> None:
    begin(p, 6)
    for name in ("v1", "prefix_v2", "prefix_v3"):
        p.sql(f"CREATE VIEW {name} AS SELECT * FROM t")
    p.sql("CREATE GLOBAL TEMPORARY VIEW global_$db AS SELECT * FROM t")
    p.sql("CREATE TEMPORARY VIEW tmp_$db AS SELECT * FROM t")
    one, two, three = ((p.namespace, n, False) for n in ("v1", "prefix_v2", "prefix_v3"))
    temporary, everywhere = (
        ("", p.text("tmp_$db"), True),
        ("global_temp", p.text("global_$db"), True),
    )
    assert {one, two, three, temporary} <= set(p.sql("SHOW VIEWS"))
    assert {one, two, three, temporary} <= set(p.sql("SHOW VIEWS IN $ns"))
    assert set(p.sql("SHOW VIEWS LIKE 'pref*'")) == {two, three}
    assert p.sql("SHOW VIEWS LIKE 'non-existing'") == []
    listed = set(p.sql("SHOW VIEWS IN global_temp"))
    assert {everywhere, temporary} <= listed and one not in listed
    p.sql("USE spark_catalog.default")
    assert temporary in p.sql("SHOW VIEWS")
    p.sql("DROP VIEW tmp_$db", "DROP VIEW global_temp.global_$db")


# Properties and history
# --------------------------------------------------------------------------------------------------------------------------------------


@case(f"{VIEWS}.alterViewSetProperties")
@case(f"{VIEWS}.alterViewUnsetProperties")
def properties_of_a_view_are_set_and_unset(p: Place) -> None:
    begin(p, 0)
    p.sql("CREATE VIEW v AS SELECT id FROM t WHERE id <= 3")
    p.sql("ALTER VIEW v SET TBLPROPERTIES ('key1' = 'val1', 'comment' = 'view comment')")
    properties = p.view("v")["properties"]
    assert (properties["key1"], properties["comment"]) == ("val1", "view comment")
    p.sql("ALTER VIEW v SET TBLPROPERTIES ('key1' = 'new_val1')")
    properties = p.view("v")["properties"]
    assert (properties["key1"], properties["comment"]) == ("new_val1", "view comment")
    p.sql("ALTER VIEW v UNSET TBLPROPERTIES ('key1')")
    properties = p.view("v")["properties"]
    assert "key1" not in properties and properties["comment"] == "view comment"


RESERVED = ("provider", "location", "format-version", "spark.query-column-names")


UNSET = dict.fromkeys(
    ("4.2", "4.3"), "known gap: UNSET of a property that is not set, by Spark itself, is no error"
)


@case(f"{VIEWS}.alterViewUnsetReservedProperties", differs=UNSET)
def reserved_properties_of_a_view_are_not_unset(p: Place) -> None:
    begin(p, 0)
    p.sql("CREATE VIEW v AS SELECT id FROM t WHERE id <= 3")
    for key in RESERVED:
        p.fails(f"ALTER VIEW v UNSET TBLPROPERTIES ('{key}')", f"{key}|reserved")
    p.fails(
        "ALTER VIEW v UNSET TBLPROPERTIES IF EXISTS ('spark.query-column-names')", "reserved|spark"
    )


@case(f"{VIEWS}.alterViewUnsetUnknownProperty", differs=UNSET)
def a_property_of_a_view_that_is_unset_must_be_set(p: Place) -> None:
    begin(p, 0)
    p.sql("CREATE VIEW v AS SELECT id FROM t WHERE id <= 3")
    p.sql("ALTER VIEW v UNSET TBLPROPERTIES IF EXISTS ('unknown-key')")
    p.fails("ALTER VIEW v UNSET TBLPROPERTIES ('unknown-key')", "unknown-key")


@case(
    f"{VIEWS}.alterViewIsNotSupported",
    differs="a decision: ALTER VIEW … AS adds a version, as CREATE OR REPLACE VIEW does",
)
def the_query_of_a_view_is_not_altered(p: Place) -> None:
    begin(p, 6)
    p.sql("CREATE VIEW v AS SELECT id, data FROM t WHERE id <= 3")
    p.rows("SELECT id FROM v", *ids(1, 2, 3))
    p.fails("ALTER VIEW v AS SELECT id FROM t WHERE id > 3", "not supported|replace")


@case(f"{VIEWS}.createOrReplaceViewKeepsViewHistory")
def a_replaced_view_keeps_its_history(p: Place) -> None:
    begin(p, 0)
    first, second = "SELECT id, data FROM t WHERE id <= 3", "SELECT id FROM t WHERE id > 3"
    p.sql(f"CREATE VIEW v (new_id COMMENT 'some ID', new_data COMMENT 'some data') AS {first}")
    made = p.view("v")
    assert (made["current-version-id"], len(made["versions"]), len(made["schemas"])) == (1, 1, 1)
    assert [f["name"] for f in made["schemas"][0]["fields"]] == ["new_id", "new_data"]
    p.sql(f"CREATE OR REPLACE VIEW v (updated_id COMMENT 'updated ID') AS {second}")
    made = p.view("v")
    assert (made["current-version-id"], len(made["version-log"]), len(made["schemas"])) == (2, 2, 2)
    (version,) = [v for v in made["versions"] if v["version-id"] == 2]
    assert version["representations"][0]["sql"] == second
    (schema,) = [s for s in made["schemas"] if s["schema-id"] == version["schema-id"]]
    assert [(f["name"], f["doc"]) for f in schema["fields"]] == [("updated_id", "updated ID")]


@case(f"{VIEWS}.replacingTrinoViewShouldFail", each=(("trino",),))
@case(f"{VIEWS}.replacingTrinoAndSparkViewShouldFail", each=(("trino", "spark"),))
def queries_in_other_dialects_are_not_lost(p: Place) -> None:
    begin(p, 0)
    other_dialect(p, "v", **dict.fromkeys(p.each, "SELECT id FROM t"))
    p.fails("CREATE OR REPLACE VIEW v AS SELECT id FROM t", "dialect", "trino")


@case(f"{VIEWS}.replacingViewWithDialectDropAllowed")
def queries_in_other_dialects_are_dropped_if_that_is_allowed(p: Place) -> None:
    begin(p, 0)
    other_dialect(p, "v", trino="SELECT id FROM t")
    p.sql(
        "CREATE OR REPLACE VIEW v TBLPROPERTIES ('replace.drop-dialect.allowed' = 'true')"
        " AS SELECT id FROM t"
    )
    versions = {v["version-id"]: v["representations"] for v in p.view("v")["versions"]}
    dialects = {n: [r["dialect"] for r in queries] for n, queries in versions.items()}
    assert dialects == {1: ["trino"], 2: ["spark"]}


# Cycles
# --------------------------------------------------------------------------------------------------------------------------------------


def cycle(method: str, query: str, differs: str | dict[str, str] = "") -> None:
    @case(f"{VIEWS}.{method}", differs=differs)
    def a_view_does_not_read_itself(p: Place) -> None:
        begin(p, 0)
        p.sql("CREATE VIEW v1 AS SELECT * FROM t", "CREATE VIEW v2 AS SELECT * FROM v1")
        p.fails(f"CREATE OR REPLACE VIEW v1 AS {query}", "recursive|cycl")


cycle(
    "createViewWithRecursiveCycleInSubqueryExpression",
    "SELECT * FROM t WHERE id = (SELECT max(id) FROM v2)",
    {"4.2": "known gap: Spark looks for cycles itself, and not in sub-queries of expressions"},
)


@case(
    f"{VIEWS}.createViewWithRecursiveCycleToV1View",
    differs={"4.1": "known gap: cycles by way of views of Spark's own are not found"},
)
def a_view_does_not_read_itself_by_a_view_of_sparks(p: Place) -> None:
    begin(p, 0)
    p.sql("CREATE VIEW v1 AS SELECT * FROM t", "CREATE NAMESPACE IF NOT EXISTS spark_catalog.$db")
    p.sql("CREATE VIEW spark_catalog.$db.v2 AS SELECT * FROM $ns.v1")
    p.fails("CREATE OR REPLACE VIEW v1 AS SELECT * FROM spark_catalog.$db.v2", "recursive|cycl")


# Places
# --------------------------------------------------------------------------------------------------------------------------------------


@case(f"{VIEWS}.createViewWithCustomMetadataLocation", each=("write.metadata.path",))
@case(f"{VIEWS}.createViewWithCustomMetadataLocationWithLocation", each=("location",))
def metadata_of_a_view_lies_where_it_is_told(p: Place) -> None:
    begin(p, 0)
    p.sql(f"CREATE VIEW v TBLPROPERTIES ('{p.each}' = '$dir/custom') AS SELECT * FROM t")
    folder = p.directory / "custom"
    assert list(folder.glob("**/*.metadata.json"))
    p.rows("SELECT * FROM v")
