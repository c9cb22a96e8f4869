"""Namespaces: creating, listing, describing, changing and dropping them."""

from tests.sql.java_topics.harness import Place, case

WITH_PROPERTIES = ("sql", "session")  # Hadoop catalogs keep none


def described(p: Place, name: str) -> dict[str, str]:
    return {row[0]: row[1] for row in p.sql(f"DESCRIBE NAMESPACE EXTENDED {name}")}


def properties(p: Place, name: str) -> str:
    return described(p, name).get("Properties", "")


@case(
    "TestNamespaceSQL.testCreateNamespace",
    "TestNamespaceSQL.testDropEmptyNamespace",
    on=("sql", "path", "session"),
)
def a_namespace_is_listed_until_it_is_dropped(p: Place) -> None:
    name = f"{p.namespace}_x"
    assert (name,) not in p.sql("SHOW NAMESPACES IN $c")
    p.sql("CREATE NAMESPACE $c.${db}_x")
    assert (name,) in p.sql("SHOW NAMESPACES IN $c")
    p.fails("CREATE NAMESPACE $c.${db}_x", "already exists|SCHEMA_ALREADY_EXISTS")
    p.sql("CREATE NAMESPACE IF NOT EXISTS $c.${db}_x")
    p.sql("DROP NAMESPACE $c.${db}_x")
    assert (name,) not in p.sql("SHOW NAMESPACES IN $c")


@case("TestNamespaceSQL.testDefaultNamespace")
def a_catalog_is_used_with_its_default_namespace(p: Place) -> None:
    settings = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "hadoop",
        ".warehouse": f"{p.directory}/wh",
        ".default-namespace": "home",
    }
    catalog = f"with_default_{p.namespace}"
    with p.conf({f"spark.sql.catalog.{catalog}{key}": v for key, v in settings.items()}):
        p.sql(f"CREATE NAMESPACE {catalog}.home", f"USE {catalog}")
        p.rows("SHOW CURRENT NAMESPACE", (catalog, "home"))
        p.sql("CREATE TABLE t (id int) USING iceberg", "INSERT INTO t VALUES (1)")
        p.rows(f"SELECT id FROM {catalog}.home.t", (1,))
        p.sql("USE spark_catalog")
    p.rows("SHOW CURRENT NAMESPACE", ("spark_catalog", "default"))


@case("TestNamespaceSQL.testListNamespace", on=("sql", "path", "session"))
def namespaces_are_listed_by_their_parent(p: Place) -> None:
    assert (p.namespace,) in p.sql("SHOW NAMESPACES IN $c")
    if p.catalog == "spark_catalog":
        assert ("default",) in p.sql("SHOW NAMESPACES IN $c")
    p.rows("SHOW NAMESPACES IN $ns")


@case("TestNamespaceSQL.testCreateNamespaceWithMetadata", on=WITH_PROPERTIES)
def a_namespace_keeps_its_properties(p: Place) -> None:
    p.sql("CREATE NAMESPACE $c.${db}_x WITH PROPERTIES ('prop' = 'value')")
    assert "(prop,value)" in properties(p, "$c.${db}_x")


@case("TestNamespaceSQL.testCreateNamespaceWithComment", on=WITH_PROPERTIES)
def a_namespace_keeps_its_comment(p: Place) -> None:
    p.sql("CREATE NAMESPACE $c.${db}_x COMMENT 'what it is for'")
    assert described(p, "$c.${db}_x")["Comment"] == "what it is for"


@case("TestNamespaceSQL.testCreateNamespaceWithLocation", on=WITH_PROPERTIES)
def a_namespace_keeps_its_location(p: Place) -> None:
    p.sql("CREATE NAMESPACE $c.${db}_x LOCATION '$dir/there'")
    assert described(p, "$c.${db}_x")["Location"] == f"file:{p.directory}/there"


@case("TestNamespaceSQL.testSetProperties", on=WITH_PROPERTIES)
def properties_of_a_namespace_are_set_later(p: Place) -> None:
    assert "prop" not in properties(p, "$ns")
    p.sql("ALTER NAMESPACE $ns SET PROPERTIES ('prop' = 'value')")
    assert "(prop,value)" in properties(p, "$ns")
