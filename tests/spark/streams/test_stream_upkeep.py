"""Maintenance in a stream that writes: due tasks run after the commit, and the stream goes on
whatever happens to them.
"""

import logging

import pyarrow.compute as pc
import pytest

import frazil
from frazil.errors import InvalidInput
from frazil.maintain.stream_upkeep.stream_tasks import upkeep
from frazil.maintain.stream_upkeep.triggers import upkeep_options
from frazil.spark.streams.sink.writer import with_usual_rewrite
from frazil.stream.sink.options import sink_options
from tests.spark.streams.test_stream_sink import drained, folder, held, stream

pytestmark = pytest.mark.spark
UPSERT = {"mode": "upsert", "key_columns": "id"}


@pytest.fixture
def table(catalog):
    catalog.create_namespace("db") if not catalog.namespace_exists("db") else None
    return catalog.create_table("db.kept", "id bigint, p string, v bigint", format_version=3)


def write(spark, table, tmp_path, batches, **options):
    where = folder(tmp_path, *batches)
    writer = table.write_stream(stream(spark, where), **UPSERT, **options).option(
        "checkpointLocation", str(tmp_path / "check")
    )
    return drained(writer.trigger(availableNow=True))


@pytest.mark.versions
def test_a_stream_compacts_and_expires_what_it_has_written(spark, table, tmp_path):
    batches = [[(n % 4, "a", n), (100 + n, "b", n)] for n in range(6)]
    options = {
        "maintenance.rewrite.every-commits": 3,
        "maintenance.rewrite.min-input-files": 2,
        "maintenance.rewrite.delete-file-threshold": 1,
        "maintenance.expire.every-commits": 6,
        "maintenance.expire.max-snapshot-age": "0 s",
    }
    write(spark, table, tmp_path, batches, **options)
    rows = {}
    for batch in batches:
        rows |= {row[0]: row for row in batch}
    assert held(table) == sorted(rows.values(), key=repr)
    files = table.inspect.files()
    assert files.num_rows == 1 and set(files["content"].to_pylist()) == {0}
    # the compaction of the last batches may be as young as the moment of expiry
    assert len(table.snapshots()) <= 2 < len(batches)
    assert "frazil.maintenance.lease" not in table.metadata.properties


def test_a_task_that_fails_does_not_stop_the_stream(spark, table, tmp_path, caplog, monkeypatch):
    def fails(*_, **__):
        raise OSError("no room left")

    monkeypatch.setattr("frazil.maintain.stream_upkeep.stream_tasks.rewrite_data_files", fails)
    with caplog.at_level(logging.WARNING, "frazil.maintain"):
        write(
            spark,
            table,
            tmp_path,
            [[(1, "a", 1)], [(2, "a", 2)]],
            **{"maintenance.rewrite.every-commits": 1},
        )
    assert held(table) == [(1, "a", 1), (2, "a", 2)]
    assert "no room left" in caplog.text and "the stream goes on" in caplog.text


def test_a_stream_that_looks_up_its_keys_compacts_its_small_files_by_itself_unless_told_otherwise(
    spark, table, tmp_path, monkeypatch
):
    monkeypatch.setattr("frazil.spark.streams.sink.writer._COMMITS", 5)
    write(spark, table, tmp_path, [[(n, "a", n), (0, "b", n)] for n in range(6)])
    assert [s.operation for s in table.refresh().snapshots()].count("replace") == 1
    # the compacted one, and that of the last batch
    assert table.inspect.files().filter(pc.field("content") == 0).num_rows == 2
    assert held(table) == [(0, "b", 5), *((n, "a", n) for n in range(1, 6))]


@pytest.mark.parametrize(
    ("mode", "given", "found"),
    [
        ({"mode": "upsert"}, {}, [("rewrite", {"commits": 10})]),
        (
            {"mode": "cdc"},
            {"maintenance.expire.every-commits": 7, "maintenance.convert.every-commits": 9},
            [("convert", {"commits": 9}), ("rewrite", {"commits": 10}), ("expire", {"commits": 7})],
        ),
        (
            {"mode": "upsert"},
            {"maintenance.rewrite.every-commits": 3},
            [("rewrite", {"commits": 3})],
        ),
        ({"mode": "upsert"}, {"maintenance.rewrite.enabled": "false"}, []),
        ({"mode": "upsert", "upsert-strategy": "equality-deletes"}, {}, []),
        ({"mode": "append"}, {}, []),
    ],
)
def test_which_streams_compact_by_themselves(mode, given, found, catalog):
    metadata = catalog.create_table(
        "db.m", "id bigint", properties={"write.target-file-size-bytes": "1000"}
    ).metadata
    chosen = with_usual_rewrite(upkeep_options(given)[0], given, sink_options(mode), metadata)
    assert [(t.task, t.limits) for t in (chosen.tasks if chosen else ())] == found
    if chosen:
        # the arguments are those of a compaction, also of a table whose files are small
        upkeep(chosen, metadata)


def test_options_of_maintenance_are_checked_before_the_query_starts(spark, table, tmp_path):
    for options in (
        {"maintenance.rewrite.every-moons": 1},
        {"maintenance.rewrite.every-commits": 1, "maintenance.rewrite.no-such": 1},
    ):
        with pytest.raises(InvalidInput, match=r"every-moons|no-such"):
            write(spark, table, tmp_path, [[(1, "a", 1)]], **options)
    assert held(table) == [] and frazil.load_table(table.location()).current_snapshot() is None
