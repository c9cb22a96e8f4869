"""Joins and aggregates over tables with partitions, with Spark's storage-partitioned joins on and
off.

Java's scan tells Spark how its rows are partitioned, so that a plan needs fewer shuffles; the
plans are each engine's own. These cases say that the rows are those of the same join without it.
"""

from tests.sql.java_topics.harness import Place, case

ON = {
    "spark.sql.sources.v2.bucketing.enabled": "true",
    "spark.sql.sources.v2.bucketing.pushPartValues.enabled": "true",
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.iceberg.planning.preserve-data-grouping": "true",
    "spark.sql.sources.v2.bucketing.allowJoinKeysSubsetOfPartitionKeys.enabled": "true",
    "spark.sql.sources.v2.bucketing.allowCompatibleTransforms.enabled": "true",
}
SPLITS = "'read.split.target-size' = '16777216', 'read.split.open-file-cost' = '16777216'"
KEYS = {  # from the number of a row, of which every fifth is null
    "TINYINT": "CAST(k AS TINYINT)",
    "SMALLINT": "CAST(k * 100 AS SMALLINT)",
    "INT": "CAST(k * 100003 AS INT)",
    "BIGINT": "k * 10000000019",
    "TIMESTAMP": "timestamp_micros(k * 1234567890123)",
    "TIMESTAMP_NTZ": "CAST(timestamp_micros(k * 1234567890123) AS TIMESTAMP_NTZ)",
    "DATE": "date_add(date '1969-11-20', CAST(k * 17 AS INT))",
    "DECIMAL(20, 2)": "CAST(k * 12345.67 AS DECIMAL(20, 2))",
    "BINARY": "CAST(concat('key ', k) AS BINARY)",
}


def same(p: Place, query: str, least: int = 1) -> None:
    """Check that a query gives the same rows, of which there are some, whatever Spark plans."""
    with p.conf(ON):
        joined = p.sql(query)
    with p.conf(ON | {"spark.sql.sources.v2.bucketing.enabled": "false"}):
        plain = p.sql(query)
    assert joined == plain
    assert len(joined) >= least


def joined(kind: str, transform: str, method: str) -> None:
    @case(f"TestStoragePartitionedJoins.{method}")
    def rows_are_joined_by_the_column_of_their_partition(p: Place) -> None:
        for table in ("$t", "$ns.other"):
            p.sql(f"""CREATE TABLE {table} (id BIGINT, salary INT, k {kind}) USING iceberg
                      PARTITIONED BY ({transform}) TBLPROPERTIES ({SPLITS})""")
            p.sql(f"""INSERT INTO {table} SELECT id, CAST(id % 7 AS INT), {KEYS[kind]} FROM
                      (SELECT id, IF(id % 5 = 0, NULL, id % 12 - 6) AS k FROM range(60))""")
        query = "SELECT a.id, a.salary, a.k FROM $t a JOIN $ns.other b ON a.id = b.id AND a.k = b.k"
        same(p, f"{query} ORDER BY a.id, a.k, a.salary", 48)


COLUMNS = "id BIGINT, int_col INT, dep STRING"


def table(p: Place, name: str, partitions: str, *rows: tuple[object, ...]) -> None:
    by = f"PARTITIONED BY ({partitions})" if partitions else ""
    p.sql(f"CREATE TABLE {name} ({COLUMNS}) USING iceberg {by} TBLPROPERTIES ({SPLITS})")
    for row in rows:
        p.sql(f"INSERT INTO {name} VALUES {row}")
