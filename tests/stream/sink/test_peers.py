"""Real Java Iceberg and PyIceberg read what streams wrote, row for row."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.golden import read_metadata
from tests.peers.checks import JavaCheck, PyIcebergCheck
from tests.peers.rowsum import rowsum
from tests.stream.sink.streams import make_table, rows_of, sink_of

pytestmark = pytest.mark.java
KINDS = {
    "append": {"mode": "append"}, "complete": {"mode": "complete"}, "lookup": {"mode": "cdc", "key_columns": ["id"]},
    "equality": {"mode": "cdc", "key_columns": ["id"], "upsert_strategy": "equality-deletes"},
    "partitioned": {"mode": "cdc", "key_columns": ["id", "p"], "upsert_strategy": "equality-deletes"},
}  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], Any]:
    found: dict[tuple[str, int], Any] = {}
    for kind, options in KINDS.items():
        for version in (2, 3):
            rand = random.Random(version)
            place = tmp_path_factory.mktemp("streams")
            table = make_table(
                place,
                format_version=version,
                partition_by=["p"] if kind in ("lookup", "partitioned") else [],
            )
            sink = sink_of(table, **options)
            for number in range(4):
                given = [
                    (rand.choice((None, *range(9))), rand.choice("ab"), n, rand.choice("cud"))
                    for n in range(12)
                ]
                names = ("id", "p", "v", "op")[: 4 if options["mode"] == "cdc" else 3]
                sink.commit(number, rows_of(*(g[: len(names)] for g in given), names=names))
            found[kind, version] = table.refresh()
    return found


def want(table: Any) -> tuple[int, str]:
    schema = next(
        s
        for s in read_metadata(table.metadata_location)["schemas"]
        if s["schema-id"] == table.schema().schema_id
    )
    mine = rowsum(table.to_arrow(), schema)
    return mine["rows"], mine["sum"]


def paths_of(made: Any) -> dict[Any, Path]:
    return {k: Path(t.metadata_location.removeprefix("file://")) for k, t in made.items()}


def test_java_reads_the_same_rows(made: Any, java_check: JavaCheck) -> None:
    paths = paths_of(made)
    results = java_check(list(paths.values()), timeout=900)
    for k, path in paths.items():
        result = results[str(path)]
        assert result["problems"] == [], (k, result)
        assert (result["rows"], result["sum"]) == want(made[k]), k


def test_pyiceberg_reads_the_same_rows_but_for_deletes_that_it_does_not_know(
    made: Any, pyiceberg_check: PyIcebergCheck
) -> None:
    paths = paths_of(made)
    results = pyiceberg_check(list(paths.values()))
    for k, path in paths.items():
        result = results[str(path)]
        if k[0] in ("equality", "partitioned"):
            assert "quality" in str(result), (k, result)
            continue
        assert result["problems"] == [], (k, result)
        assert (result["rows"], result["sum"]) == want(made[k]), k
