"""ALTER TABLE: columns, names, properties; default values."""

from tests.sql.java_topics.harness import Place, case

KEY = "1 id long not null"


def two_columns(p: Place) -> None:
    p.sql("CREATE TABLE $t (id bigint NOT NULL, data string) USING iceberg")


@case("TestAlterTable.testAddColumnNotNull")
def a_new_column_is_not_required(p: Place) -> None:
    two_columns(p)
    p.fails(
        "ALTER TABLE $t ADD COLUMN c3 INT NOT NULL",
        "incompatible change: cannot add required column.*c3",
    )
    assert p.columns() == [KEY, "2 data string"]


@case("TestAlterTable.testAddColumn", on=("sql", "path", "session"))
def a_column_is_added_at_its_place_structs_and_their_fields_too(p: Place) -> None:
    two_columns(p)
    p.sql("ALTER TABLE $t ADD COLUMN point struct<x: double NOT NULL, y: double NOT NULL> AFTER id")
    x_and_y = "4 x double not null, 5 y double not null"
    assert p.columns() == [KEY, f"3 point struct<{x_and_y}>", "2 data string"]
    p.sql("ALTER TABLE $t ADD COLUMN point.z double COMMENT 'may be null' FIRST")
    assert p.columns() == [
        KEY,
        f"3 point struct<6 z double 'may be null', {x_and_y}>",
        "2 data string",
    ]


@case("TestAlterTable.testAddColumnWithArray")
def a_field_is_added_to_the_structs_of_a_list(p: Place) -> None:
    two_columns(p)
    p.sql("ALTER TABLE $t ADD COLUMN data2 array<struct<a: int, b: int, c: int>>")
    p.sql("ALTER TABLE $t ADD COLUMN data2.element.d int")
    assert p.columns()[2] == "3 data2 list<4 struct<5 a int, 6 b int, 7 c int, 8 d int>>"


@case("TestAlterTable.testAddColumnWithMap")
def a_field_is_added_to_the_values_of_a_map_not_to_its_keys(p: Place) -> None:
    two_columns(p)
    p.sql("ALTER TABLE $t ADD COLUMN data2 map<struct<x: int>, struct<a: int, b: int>>")
    p.sql("ALTER TABLE $t ADD COLUMN data2.value.c int")
    assert p.columns()[2] == "3 data2 map<4 struct<6 x int>, 5 struct<7 a int, 8 b int, 9 c int>>"
    p.fails("ALTER TABLE $t ADD COLUMN data2.key.y int", "map keys")


@case("TestAlterTable.testAddColumnWithDefaultValuesUnsupported")
def a_table_of_version_2_has_no_default_values(p: Place) -> None:
    two_columns(p)
    p.fails("ALTER TABLE $t ADD COLUMN with_default int DEFAULT 123", "with_default.* default")
    assert p.columns() == [KEY, "2 data string"]


@case("TestAlterTable.testDropColumn")
def a_column_is_dropped(p: Place) -> None:
    two_columns(p)
    p.sql("ALTER TABLE $t DROP COLUMN data")
    assert p.columns() == [KEY]


@case("TestAlterTable.testRenameColumn")
def a_renamed_column_keeps_its_id(p: Place) -> None:
    two_columns(p)
    p.sql("ALTER TABLE $t RENAME COLUMN id TO row_id")
    assert p.columns() == ["1 row_id long not null", "2 data string"]


@case("TestAlterTable.testAlterColumnComment")
def a_column_gets_a_comment(p: Place) -> None:
    two_columns(p)
    p.sql("ALTER TABLE $t ALTER COLUMN id COMMENT 'the key'")
    assert p.columns() == [f"{KEY} 'the key'", "2 data string"]


@case("TestAlterTable.testAlterColumnType")
def a_column_gets_a_wider_type(p: Place) -> None:
    two_columns(p)
    p.sql("ALTER TABLE $t ADD COLUMN n int", "ALTER TABLE $t ALTER COLUMN n TYPE bigint")
    assert p.columns() == [KEY, "2 data string", "3 n long"]


@case("TestAlterTable.testAlterColumnDropNotNull")
def a_required_column_becomes_optional(p: Place) -> None:
    two_columns(p)
    p.sql("ALTER TABLE $t ALTER COLUMN id DROP NOT NULL")
    assert p.columns() == ["1 id long", "2 data string"]


@case("TestAlterTable.testAlterColumnSetNotNull")
def an_optional_column_does_not_become_required(p: Place) -> None:
    two_columns(p)
    p.sql("ALTER TABLE $t ALTER COLUMN id SET NOT NULL")
    p.fails(
        "ALTER TABLE $t ALTER COLUMN data SET NOT NULL",
        "cannot change nullable column to non-nullable: data",
    )
    assert p.columns() == [KEY, "2 data string"]


@case("TestAlterTable.testAlterColumnPositionAfter", "TestAlterTable.testAlterColumnPositionFirst")
def a_column_moves(p: Place) -> None:
    two_columns(p)
    p.sql("ALTER TABLE $t ADD COLUMN n int", "ALTER TABLE $t ALTER COLUMN n AFTER id")
    assert p.columns() == [KEY, "3 n int", "2 data string"]
    p.sql("ALTER TABLE $t ALTER COLUMN n FIRST")
    assert p.columns() == ["3 n int", KEY, "2 data string"]


@case("TestAlterTable.testTableRename")
def a_table_is_renamed(p: Place) -> None:
    two_columns(p)
    p.sql("ALTER TABLE $t RENAME TO $db.t2")
    p.rows("SHOW TABLES IN $ns", (p.namespace, "t2", False))


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


@case("TestSparkDefaultValues.testCreateTableWithDefaultsUnsupported")
def a_table_of_version_2_is_not_created_with_default_values(p: Place) -> None:
    p.fails("CREATE TABLE $t (id INT, data STRING DEFAULT 'given') USING iceberg", "default")
    p.rows("SHOW TABLES IN $ns")


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
