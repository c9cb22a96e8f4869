"""ALTER TABLE: columns, names, properties; default values."""

from tests.sql.java_topics.harness import Place, case


def two_columns(p: Place) -> None:
    p.sql("CREATE TABLE $t (id bigint NOT NULL, data string) USING iceberg")


@case("TestAlterTable.testSetTableProperties", on=("sql", "path", "session"))
def properties_are_set_and_unset_but_for_reserved_ones(p: Place) -> None:
    two_columns(p)
    p.sql("ALTER TABLE $t SET TBLPROPERTIES ('prop' = 'value')")
    assert p.properties()["prop"] == "value"
    p.sql("ALTER TABLE $t UNSET TBLPROPERTIES ('prop')")
    assert "prop" not in p.properties()
    for name in ("sort-order", "identifier-fields"):
        p.fails(
            f"ALTER TABLE $t SET TBLPROPERTIES ('{name}' = 'value')",
            f"cannot specify the '{name}' because it's a reserved table property",
        )


def defaults(p: Place, **values: tuple[str, object]) -> None:
    """Make a table of version 3 with a key and columns with a default for writes."""
    key = {"id": 1, "name": "id", "type": "int", "required": True}
    others = [
        {"id": n, "name": name, "type": kind, "required": False, "write-default": value}
        for n, (name, (kind, value)) in enumerate(values.items(), 2)
    ]
    p.register([key, *others], version=3)


@case("TestSparkDefaultValues.testWriteDefaultWithSparkDefaultKeyword")
def the_word_default_gives_a_columns_default(p: Place) -> None:
    defaults(p, flag=("boolean", True), n=("int", 42), big=("long", 100))
    p.sql("INSERT INTO $t VALUES (1, DEFAULT, DEFAULT, DEFAULT)")
    p.rows("SELECT * FROM $t", (1, True, 42, 100))


@case("TestSparkDefaultValues.testWriteDefaultWithDefaultKeywordAndReorderedSchema")
def defaults_follow_the_names_of_a_column_list(p: Place) -> None:
    defaults(p, n=("int", 123), s=("string", "doom"))
    p.sql("INSERT INTO $t (n, id, s) VALUES (DEFAULT, 1, DEFAULT)")
    p.rows("SELECT * FROM $t", (1, 123, "doom"))


@case("TestSparkDefaultValues.testBulkInsertWithDefaults")
def every_row_gets_the_default(p: Place) -> None:
    defaults(p, s=("string", "given"))
    p.sql("INSERT INTO $t VALUES (1, DEFAULT), (2, DEFAULT), (3, DEFAULT)")
    p.rows("SELECT * FROM $t ORDER BY id", (1, "given"), (2, "given"), (3, "given"))


@case(
    "TestSparkDefaultValues.testAlterTableAddColumnWithDefaultUnsupported",
    differs="a table of version 3 takes default values in SQL, which Java refuses",
)
def a_table_of_version_3_gets_no_default_values_by_sql(p: Place) -> None:
    p.sql("CREATE TABLE $t (id int) USING iceberg TBLPROPERTIES ('format-version' = '3')")
    p.fails("ALTER TABLE $t ADD COLUMN data STRING DEFAULT 'given'", "default")


@case("TestSparkDefaultValues.testSchemaEvolutionWithDefaultValueChanges")
def rows_from_before_a_column_show_its_default(p: Place) -> None:
    p.sql("CREATE TABLE $t (id int) USING iceberg TBLPROPERTIES ('format-version' = '3')")
    p.sql("INSERT INTO $t VALUES (1), (2)")
    p.add_column("data", "string", default="given")
    p.sql("REFRESH TABLE $t", "INSERT INTO $t VALUES (3, DEFAULT)")
    p.rows("SELECT * FROM $t ORDER BY id", (1, "given"), (2, "given"), (3, "given"))
