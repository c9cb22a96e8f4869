"""Encrypted tables."""

from tests.sql.java_topics.harness import Place, case, not_sql

GAP = "encrypted tables are a gap: they are neither written nor read"
ROWS = "(1, 'a', 1.0), (2, 'b', 2.0), (3, 'c', 4.0)"
KEY = "'encryption.key-id' = 'key1', 'format-version' = '3'"


def encrypted(p: Place) -> None:
    p.sql(
        f"CREATE TABLE $t (id bigint, data string, float float) USING iceberg TBLPROPERTIES ({KEY})"
    )


@case(
    "TestTableEncryption.testSelect",
    "TestTableEncryption.testInsertAndDelete",
    "TestTableEncryption.testDirectDataFileRead",
    "TestTableEncryption.testManifestEncryption",
    "TestTableEncryption.testDropTableWithPurge",
    differs=GAP,
)
def an_encrypted_table_takes_rows_and_gives_them_back(p: Place) -> None:
    encrypted(p)
    p.sql(f"INSERT INTO $t VALUES {ROWS}")
    p.sql("DELETE FROM $t WHERE id < 3")
    p.rows("SELECT * FROM $t", (3, "c", 4.0))


@case("TestCTASEncryption.testSelect", "TestCTASEncryption.testDirectDataFileRead", differs=GAP)
def a_querys_rows_are_encrypted(p: Place) -> None:
    p.sql(f"CREATE TABLE $t USING iceberg TBLPROPERTIES ({KEY}) AS SELECT 1 AS id")
    p.rows("SELECT * FROM $t", (1,))


@case(
    "TestTableEncryption.testKeyDelete",
    "TestTableEncryption.testKeyAlter",
    "TestTableEncryption.testReplaceKeyChange",
)
def the_key_of_an_encrypted_table_stays(p: Place) -> None:
    key, column = "encryption.key-id", {"id": 1, "name": "id", "type": "long", "required": False}
    p.register([column], version=3, **{key: "key1"})
    keys = [{"key-id": "1", "encrypted-by-id": "key1", "encrypted-key-metadata": "AAAA"}]
    p.register_metadata(p.metadata() | {"encryption-keys": keys})
    for statement, verb in (
        (f"ALTER TABLE $t UNSET TBLPROPERTIES ('{key}')", "remove"),
        (f"ALTER TABLE $t SET TBLPROPERTIES ('{key}' = 'abcd')", "modify"),
        (f"REPLACE TABLE $t (id bigint) USING iceberg TBLPROPERTIES ('{key}' = 'k2')", "modify"),
    ):
        p.fails(statement, f"cannot {verb} key id.* encrypted table")
    assert p.properties()[key] == "key1"


not_sql(
    "TestTableEncryption",
    "calls Java's API of an encrypted table (a gap), not a statement",
    "testRefresh",
    "testAppendTransaction",
    "testConcurrentAppendTransactions",
    "testConcurrentReplaceTransactions",
    "testMetadataTamperproofing",
)
