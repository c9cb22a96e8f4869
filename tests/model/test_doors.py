"""The model test through other doors: changes made by Spark's tasks, and real Java Iceberg and
PyIceberg reading what came of scripts.
"""

import json
import random

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from frazil.codec.metadata_json import encode_metadata
from tests.model import generate
from tests.model.play import CATALOG, Mismatch, Player, play, told
from tests.model.values import shown
from tests.peers.rowsum import rowsum

PATH = CATALOG.replace('"memory"', '"path", warehouse="{}"')


def played(seed, steps, folder, player=Player):
    """A script on path tables, where other engines and Spark's workers see the files."""
    rng = random.Random(seed)
    try:
        return play(generate.opening(rng, PATH.format(folder)), generate.steps(rng, steps), player)
    except Mismatch as failure:
        pytest.fail(f"seed {seed}, {told(failure)}", pytrace=False)


def in_spark(spark, table):
    return spark.createDataFrame(table, from_arrow_schema(table.schema, prefer_timestamp_ntz=True))


class SparkPlayer(Player):
    """The session is active, so deletes, updates, upserts and merges run as its tasks; frames come
    from it as well.
    """

    spark = None

    def __init__(self, script):
        super().__init__(script)
        rows, parquet = self.names["rows"], self.names["parquet"]
        self.names["rows"] = lambda *arguments, **named: in_spark(
            self.spark, rows(*arguments, **named)
        )
        self.names["parquet"] = lambda frame, *arguments: parquet(frame.toArrow(), *arguments)

    def finish(self):
        super().finish()
        rows = [r.asDict(recursive=True) for r in self.table.to_spark(self.spark).collect()]
        self.same(
            rows,
            [shown(r, self.state.columns) for r in self.state.head().rows.values()],
            "rows on Spark",
        )


@pytest.mark.spark
@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(n, marks=pytest.mark.soak) for n in range(3, 103))]
)
def test_random_scripts_on_spark_agree_with_a_model(spark, tmp_path, seed):
    SparkPlayer.spark = spark
    assert played(seed, 6, tmp_path, SparkPlayer).state.snaps


@pytest.mark.java
def test_java_and_pyiceberg_read_what_random_scripts_leave(java_check, pyiceberg_check, tmp_path):
    tables, with_null_lists = {}, set()
    for seed in range(500, 524):
        player = played(seed, 8, tmp_path / str(seed))
        schema = json.loads(encode_metadata(player.table.metadata))["schemas"]
        current = next(s for s in schema if s["schema-id"] == player.table.schema().schema_id)
        rows = player.table.scan().to_arrow()
        tables[player.table.location()] = (rowsum(rows, current), player.script)
        if any(pa.types.is_list(c.type) and c.null_count for c in rows.columns):
            with_null_lists.add(player.table.location())
    java, pyiceberg = java_check(list(tables), light=True), pyiceberg_check(list(tables))
    for location, (want, script) in tables.items():
        for found in (java[location], pyiceberg[location]):
            if found is java[location] or "cannot" not in found:
                assert found["ok"], (found["problems"], script.code())
                if (
                    found is pyiceberg[location]
                    and found["rows"] == want["rows"]
                    and location in with_null_lists
                ):
                    # PyIceberg makes empty lists of null ones, where a file's structs lack members
                    # of the table's
                    continue
                assert {"rows": found["rows"], "sum": found["sum"]} == want, script.code()
