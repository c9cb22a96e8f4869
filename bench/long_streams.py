"""Measure streams over many batches: python long_streams.py [--only sink,upserts,pages,first]
[--parts N] [--data DIR]

What the workloads of `run.py` are too short for: whether the time of a batch and the driver's
memory stay flat over a thousand batches, what a table costs to read that a hundred batches of
upserts have changed, an initial scan in pages, and how long the first batch takes. Inputs are made
here, in a few seconds. Every figure is printed beside its bar; nothing else should run on the
machine.
"""

import argparse
import json
import os
import shutil
import statistics
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from engines.session import session
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

import frazil


class Place:
    """Hold the folder where inputs, tables and checkpoints of one run lie, and the sessions: a
    prepared one and a plain one beside it.
    """

    def __init__(self, folder):
        self.folder = Path(folder).resolve()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.plain = session(**{"spark.sql.streaming.numRecentProgressUpdates": "100000"})
        self.spark = frazil.install(self.plain.newSession())
        self.catalog = frazil.load_catalog(
            "long",
            type="sql",
            uri=f"sqlite:///{self.folder}/catalog.db",
            warehouse=str(self.folder / "tables"),
        )
        self.catalog.create_namespace("db")

    def checkpoint(self, name):
        return str(self.folder / "checkpoints" / name)


def drain(writer, place, name):
    """Run a stream over all that is there; return the seconds of its batches that had rows, and
    their progress.
    """
    query = (
        writer.trigger(availableNow=True)
        .option("checkpointLocation", place.checkpoint(name))
        .start()
    )
    query.awaitTermination()
    progress = [p for p in query.recentProgress if p["numInputRows"]]
    return [p["durationMs"]["triggerExecution"] / 1000 for p in progress], progress


def memory(spark):
    """Return what the driver holds in MB: its Python process, and the heap of its JVM after a
    collection.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    resident = int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) // 1024
    spark._jvm.System.gc()
    runtime = spark._jvm.Runtime.getRuntime()
    return resident, (runtime.totalMemory() - runtime.freeMemory()) >> 20


def told(name, bar="", **figures):
    print(json.dumps({"work": name, **figures, **({"bar": bar} if bar else {})}), flush=True)


def copies(folder, table, count):
    """Make a folder of `count` Parquet files of the same rows, most of which are hard links: ext4
    gives a file 65,000 names at most.
    """
    folder.mkdir(parents=True)
    for number in range(count):
        path = folder / f"part-{number:06d}.parquet"
        if number % 50_000 == 0:
            original = path
            pq.write_table(table, original)
        else:
            os.link(original, path)
    return folder


def ends(seconds, count=10):
    """Return the medians of the first and of the last batches; the very first batch of a query
    starts it, and does not count.
    """
    return statistics.median(seconds[1 : count + 1]), statistics.median(seconds[-count:])


def sink(place, batches):
    """Append small batches to a table, beside Spark's own Parquet sink: flat time, flat memory.
    Then read the snapshots as a stream.
    """
    rows = pa.table(
        {
            "id": np.arange(1000),
            "price": np.random.default_rng(1).random(1000),
            "kind": ["a", "b"] * 500,
        }
    )
    source = copies(place.folder / "in", rows, batches)
    schema = place.plain.read.parquet(str(source)).schema
    target = place.catalog.create_table("db.sink", schema)

    def batches_of(count):
        """Stream the first files; a stream of its own shows the memory at that point."""
        some = place.folder / f"in-{count}"
        some.mkdir()
        for file in sorted(source.iterdir())[:count]:
            os.link(file, some / file.name)
        return (
            place.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(some))
        )

    def planned(snapshots, run):
        """Read the last snapshots of the history as a stream, 10 files a batch: seconds of a batch,
        and of `latestOffset` in it.
        """
        table = place.catalog.load_table("db.sink")
        start = table.history()[-snapshots].snapshot_id
        stream = table.read_stream(
            place.spark,
            starting_strategy="INCREMENTAL_FROM_SNAPSHOT_ID",
            start_snapshot_id=start,
            streaming_max_files_per_micro_batch=10,
        )
        seconds, progress = drain(stream.writeStream.format("noop"), place, f"source-{run}")
        offsets = [p["durationMs"].get("latestOffset", 0) / 1000 for p in progress]
        return len(table.history()), statistics.median(seconds), statistics.median(offsets)

    some = batches // 10
    drain(target.write_stream(batches_of(some)), place, "sink-warm")
    planned(some, "warm")
    planning = [planned(some, "short")]
    sizes = []

    def measure(batch, _):
        """Measure at each tenth of the batches, not at the end, when the progress of a thousand
        batches is read here.
        """
        if (batch + 1) % some == 0:
            sizes.append(memory(place.spark))

    seconds, _ = drain(target.write_stream(batches_of(batches), on_commit=measure), place, "sink")
    planning.append(planned(some, "long"))
    first, last = ends(seconds, len(seconds) // 10)
    told(
        "sink: seconds of a batch",
        "flat",
        batches=len(seconds),
        first_tenth=first,
        last_tenth=last,
        ratio=last / first,
    )
    told("sink: driver's MB (Python, JVM's heap) at each tenth of the batches", "flat", sizes=sizes)
    for history, batch, offset in planning:
        told(
            "source: 10 files a batch",
            "independent of the history",
            snapshots=history,
            batch=batch,
            latest_offset=offset,
        )
    frame = (
        place.plain.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(source))
    )
    floor, _ = drain(
        frame.writeStream.format("parquet").option("path", str(place.folder / "parquet")),
        place,
        "parquet",
    )
    first, last = ends(floor, len(floor) // 10)
    told("sink: Spark's Parquet sink", first_tenth=first, last_tenth=last, ratio=last / first)


STRATEGIES = {"lookup": {}, "lookup_unmaintained": {"maintenance.rewrite.enabled": "false"}}


def upserts(place, batches, keys=1_000_000):
    """Change a million keys in batches of random keys; read before and after a compaction."""
    generator = np.random.default_rng(2)
    table = pa.table(
        {"id": np.arange(keys), "price": generator.random(keys), "kind": pa.array(["a"] * keys)}
    )
    for name, options in STRATEGIES.items():
        made = place.catalog.create_table(
            f"db.upserts_{name}", table.schema, properties={"format-version": "3"}
        )
        made.append(table)
        source = place.folder / f"changes-{name}"
        source.mkdir()
        for number in range(batches):
            ids = generator.choice(keys, keys // batches, replace=False)
            rows = pa.table(
                {
                    "id": ids,
                    "price": generator.random(len(ids)),
                    "kind": pa.array([f"b{number}"] * len(ids)),
                }
            )
            pq.write_table(rows, source / f"part-{number:05d}.parquet")
        schema = place.plain.read.parquet(str(source)).schema
        frame = (
            place.spark.readStream.schema(schema)
            .option("maxFilesPerTrigger", 1)
            .parquet(str(source))
        )
        writer = made.write_stream(
            frame, mode="upsert", key_columns="id", upsert_strategy="lookup", **options
        )
        before = memory(place.spark)
        seconds, _ = drain(writer, place, f"upserts-{name}")
        after = memory(place.spark)
        first, last = ends(seconds)
        told(
            f"upserts, {name}: seconds of a batch",
            "ratio 1.5",
            batches=len(seconds),
            first_ten=first,
            last_ten=last,
            ratio=last / first,
            mean=statistics.mean(seconds[1:]),
            longest=max(seconds[1:]),
        )
        told(
            f"upserts, {name}: driver's MB (Python, JVM's heap)",
            "bounded",
            before=before,
            after=after,
        )

        def read(snapshot_id, table_name=made.name()):
            frazil.clear_caches()
            started = time.perf_counter()
            frame = (
                place.catalog.load_table(table_name)
                .scan(snapshot_id=snapshot_id)
                .to_spark(place.spark)
            )
            row = frame.agg(F.count("*"), F.sum("price"), F.max("kind")).collect()[0]
            assert row[0] == keys, row
            return time.perf_counter() - started

        files = [
            task.file.file_path
            for task in place.catalog.load_table(made.name()).scan().plan_files()
        ]

        def plain(files=files, schema=schema):
            """Read the same data files by Spark alone, rows that were replaced among them: what so
            many files cost.
            """
            started = time.perf_counter()
            frame = place.plain.read.schema(schema).parquet(*files)
            frame.agg(F.count("*"), F.sum("price"), F.max("kind")).collect()
            return time.perf_counter() - started

        plain()
        floor = statistics.median(plain() for _ in range(7))
        of_stream = place.catalog.load_table(made.name()).current_snapshot().snapshot_id
        place.catalog.load_table(made.name()).maintenance.rewrite_data_files(
            options={"rewrite-all": "true"}
        )
        of_compaction = place.catalog.load_table(made.name()).current_snapshot().snapshot_id
        # in turns, and once the JVM has compiled what it runs
        turns = [(read(of_stream), read(of_compaction)) for _ in range(25)][10:]
        changed, compacted = (statistics.median(seconds) for seconds in zip(*turns, strict=True))
        told(
            f"upserts, {name}: a read after",
            "ratio 1.5",
            changed=changed,
            compacted=compacted,
            ratio=changed / compacted,
            files=len(files),
            same_files_by_spark=floor,
        )


def pages(place, files, limit=5000):
    """Read a table of many files from its start, in pages: offsets, limits, planning."""
    source = copies(place.folder / "many", pa.table({"id": [1, 2], "kind": ["a", "b"]}), files)
    table = place.catalog.create_table("db.pages", "id bigint, kind string")
    table.add_files([str(file) for file in sorted(source.iterdir())])
    stream = table.read_stream(
        place.spark,
        starting_strategy="TABLE_SCAN_THEN_INCREMENTAL",
        streaming_max_files_per_micro_batch=limit,
    )
    _, progress = drain(stream.writeStream.format("noop"), place, "pages")
    # the first lines are Spark's: its version, watermark and settings
    logs = [
        file for file in Path(place.checkpoint("pages"), "offsets").iterdir() if file.name.isdigit()
    ]
    offsets = [len(file.read_text().splitlines()[-1]) for file in logs]
    planning = [
        sum(p["durationMs"].get(step, 0) for step in ("latestOffset", "getBatch", "queryPlanning"))
        / 1000
        for p in progress
    ]
    told(
        "pages: rows",
        f"{limit * 2} a batch",
        files=files,
        batches=len(progress),
        most=max(p["numInputRows"] for p in progress),
    )
    told("pages: bytes of the largest offset", "1 kB", largest=max(offsets))
    told(
        "pages: seconds of planning a page",
        "1 s",
        first=planning[0],
        median=statistics.median(planning),
        most=max(planning),
    )


class EmptyReader(SimpleDataSourceStreamReader):
    """Give one row and then none: what any Python source costs at least."""

    def initialOffset(self):
        return {"rows": 0}

    def read(self, start):
        return (iter([(1,)]), {"rows": 1}) if start["rows"] == 0 else (iter([]), start)

    def readBetweenOffsets(self, start, end):
        return iter([(1,)] * (end["rows"] - start["rows"]))

    def commit(self, end):
        pass


class EmptySource(DataSource):
    """Be the source of `EmptyReader`."""

    @classmethod
    def name(cls):
        return "empty_python_source"

    def schema(self):
        return "id bigint"

    def simpleStreamReader(self, schema):
        return EmptyReader()


def first(place, repeats):
    """Compare the first batch of a stream with that of an empty Python source in the same session,
    in turns.
    """
    place.spark.dataSource.register(EmptySource)
    table = place.catalog.create_table("db.first", "id bigint")
    table.append(pa.table({"id": [1]}))
    streams = {
        "empty Python source": lambda: place.spark.readStream.format("empty_python_source").load(),
        "Frazil": lambda: table.read_stream(
            place.spark, starting_strategy="TABLE_SCAN_THEN_INCREMENTAL"
        ),
    }
    seconds = {name: [] for name in streams}
    for turn in range(repeats + 1):
        for name, stream in streams.items():
            started = time.perf_counter()
            query = (
                stream()
                .writeStream.format("noop")
                .option("checkpointLocation", place.checkpoint(f"{name}-{turn}"))
                .start()
            )
            while not any(p["numInputRows"] for p in query.recentProgress):
                time.sleep(0.01)
            seconds[name].append(time.perf_counter() - started)
            query.stop()
    medians = {name: statistics.median(s[1:]) for name, s in seconds.items()}
    told(
        "first batch, from the call to its progress",
        "0.7 s later",
        **medians,
        later=medians["Frazil"] - medians["empty Python source"],
    )


WORK = {
    "sink": (sink, 1000),
    "upserts": (upserts, 100),
    "pages": (pages, 100_000),
    "first": (first, 5),
}


def main():
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--only", default=",".join(WORK), help="which works, comma separated")
    arguments.add_argument(
        "--parts", type=int, help="batches, files or repeats in place of the full number"
    )
    arguments.add_argument(
        "--data", default=os.environ.get("BENCH_DATA", "bench-data") + "/long_streams"
    )
    arguments = arguments.parse_args()
    place = Place(arguments.data)
    for name in arguments.only.split(","):
        work, parts = WORK[name]
        work(place, arguments.parts or parts)


if __name__ == "__main__":
    main()
