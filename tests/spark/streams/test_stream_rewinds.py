"""Checkpoints that were restored one batch back: the next batch has a number that is committed, and
more rows.
"""

import shutil

import pytest

import frazil
from tests.spark.streams.test_stream_sink import KEYS, SCHEMA, drained, folder, held

pytestmark = [pytest.mark.spark, pytest.mark.versions]


class Restored:
    """A query whose checkpoint is put back to before its second batch, when its source holds more.
    `write`: starts the writer of a frame with more options; `rows`: reads what is written."""

    def __init__(self, spark, place, write, rows, table=None):
        self.spark, self.place, self.write, self.rows, self.table = spark, place, write, rows, table
        self.checkpoint, self.count = place / "c", 0
        self.more(1)
        self.run()
        shutil.copytree(self.checkpoint, place / "backup")
        self.more(1)
        self.run()
        self.restore()
        self.more(2)

    def more(self, rows):
        for _ in range(rows):
            n, self.count = self.count, self.count + 1
            if self.table is None:
                folder(self.place, [(n, "a", n)])
            else:
                self.table.append([{"id": n, "p": "a", "v": n}])

    def restore(self):
        shutil.rmtree(self.checkpoint)
        shutil.copytree(self.place / "backup", self.checkpoint)

    def frame(self):
        if self.table is None:
            # one batch for all files that are new
            return self.spark.readStream.schema(SCHEMA).parquet(str(self.place / "in"))
        return self.table.read_stream(starting_strategy="INCREMENTAL_FROM_EARLIEST_SNAPSHOT")

    def run(self, **options):
        writer = (
            self.write(self.frame(), **options)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
        )
        drained(writer)


def to_table(table, **more):
    return lambda frame, **options: table.write_stream(frame, **more, **options)


@pytest.mark.parametrize(
    "options",
    [{}, KEYS, {**KEYS, "upsert_strategy": "equality-deletes"}],
    ids=["append", "look-up", "equality-deletes"],
)
def test_another_batch_under_the_number_of_the_last_one_is_a_rewind_and_the_option_decides(
    spark, catalog, tmp_path, options
):
    table = catalog.create_table("db.t", SCHEMA, format_version=2)
    restored = Restored(spark, tmp_path, to_table(table, **options), lambda: held(table))
    rows = [(n, "a", n) for n in range(5)]
    with pytest.raises(
        Exception, match="Batch 1 of the streaming query .* is not the batch 1 that is committed"
    ):
        restored.run()
    assert held(table) == rows[:2]
    restored.run(on_rewind="skip")
    restored.more(1)
    restored.run(on_rewind="skip")
    assert held(table) == [*rows[:2], rows[4]], (
        "rows of the batch that was passed over are lost, as the option says"
    )
    restored.restore()
    restored.run(on_rewind="rewrite")
    assert held(table) == (rows if options else sorted([*rows, rows[1], rows[4]]))
    restored.run()
    assert len(held(table)) == (5 if options else 7)


def test_a_rewind_is_noticed_by_the_offsets_of_a_table_that_is_read(spark, catalog, tmp_path):
    table, incoming = (
        catalog.create_table("db.t", SCHEMA),
        catalog.create_table("db.incoming", SCHEMA),
    )
    restored = Restored(spark, tmp_path, to_table(table), lambda: held(table), incoming)
    with pytest.raises(Exception, match="is not the batch 1 that is committed"):
        restored.run()
    assert held(table) == [(0, "a", 0), (1, "a", 1)]


def test_a_batch_that_is_sent_again_and_one_after_a_mark_without_digest_are_no_rewinds(
    spark, catalog, tmp_path
):
    table = catalog.create_table("db.t", SCHEMA)
    restored = Restored(spark, tmp_path, to_table(table), lambda: held(table))
    name, mark = next(
        (k, v) for k, v in table.refresh().properties.items() if k.startswith("frazil.txn.")
    )
    assert '"digest"' in mark
    table.set_properties(**{name: mark[: mark.index(', "digest"')] + "}"})
    restored.run()  # of an older version: the number alone decides
    assert held(table) == [(0, "a", 0), (1, "a", 1)]
    for at in ("1", ".1.crc"):
        (tmp_path / "c" / "commits" / at).unlink()
    restored.more(1)
    restored.run()
    assert held(table) == [(0, "a", 0), (1, "a", 1), (4, "a", 4)]


@pytest.mark.parametrize(
    "options", [{}, {"write-mode": "upsert", "key-columns": "id"}], ids=["append", "upsert"]
)
def test_a_session_that_was_not_prepared_notices_it_too(session, catalog, tmp_path, options):
    table = catalog.create_table("db.t", SCHEMA, format_version=2)

    class Writer:
        def __init__(self, frame, **more):
            self._own = (
                frame.writeStream.format("iceberg").outputMode("append").options(**options, **more)
            )

        def option(self, *setting):
            self._own = self._own.option(*setting)
            return self

        def trigger(self, **when):
            self._own = self._own.trigger(**when)
            return self

        def start(self):
            return self._own.start(table.location())

    restored = Restored(session, tmp_path, Writer, lambda: held(table))
    with pytest.raises(Exception, match="is not the batch 1 that is committed"):
        restored.run()
    assert held(table) == [(0, "a", 0), (1, "a", 1)]
    restored.run(**{"on-rewind": "rewrite"})
    assert len(held(table)) == (4 if options else 5)


def test_a_stream_into_many_tables_writes_to_none_of_them(spark, catalog, tmp_path):
    def write(frame, **options):
        return catalog.write_stream(
            frame.selectExpr("if(id % 2 = 0, 'db.even', 'db.odd') t", "id", "v"), "t", **options
        )

    rows = lambda: [
        sorted(r["id"] for r in catalog.load_table(f"db.{n}").scan().to_arrow().to_pylist())
        for n in ("even", "odd")
    ]
    restored = Restored(spark, tmp_path, write, rows)
    with pytest.raises(Exception, match="is not the batch 1 that is committed"):
        restored.run()
    assert rows() == [[0], [1]]
    restored.run(on_rewind="skip")
    assert rows() == [[0, 2], [1]]


def test_a_stream_into_folders_fails_or_passes_it_over(spark, tmp_path):
    def write(frame, **options):
        return frazil.write_stream_files(
            frame, str(tmp_path / "out"), partition_by=["p"], **options
        )

    rows = lambda: sorted(r.id for r in spark.read.parquet(str(tmp_path / "out")).collect())
    restored = Restored(spark, tmp_path, write, rows)
    with pytest.raises(Exception, match="Batch 1 of query .* is not the one that was published"):
        restored.run()
    assert rows() == [0, 1]
    restored.run(on_rewind="skip")
    restored.more(1)
    restored.run()
    assert rows() == [0, 1, 4]
