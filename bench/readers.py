"""Compare reads without Spark, and the files that are read: the rows of `events`, written by
Frazil, pyarrow and DuckDB, are read by DuckDB, polars, pyarrow and Frazil in turns.

    PYTHONPATH=src .venv/bin/python bench/readers.py DIR [--rows 16000000] [--rounds 9]

Prints a line of JSON for each writer (bytes, processor seconds) and for each read: medians of the
clock's and the processor's seconds, and the median of a round's processor seconds over DuckDB's.
The read `two` sums price and qty, `all` takes the maximum of all eight columns. DuckDB answers a
maximum by statistics where a query reads one file, so rows lie in several files, and the filter,
true for all rows, keeps it from doing so.
"""

import argparse
import gc
import json
import shutil
import statistics
import time
from pathlib import Path

import data
import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from kit import COLUMNS

import frazil

FILES = 8
READS = {"two": (("price", "qty"), "sum"), "all": (tuple(COLUMNS), "max")}
DUCK = duckdb.connect(config={"threads": 2})


def shown(**facts):
    print(
        json.dumps({k: round(v, 4) if isinstance(v, float) else v for k, v in facts.items()}),
        flush=True,
    )


def written(parts, folder):
    """Write the parts of the rows by each writer; returns the files, and Frazil's table."""
    catalog = frazil.load_catalog("readers", type="path", warehouse=str(folder))
    plain = pa.schema([f.remove_metadata() for f in data.SCHEMA])
    table = catalog.create_table("made.frazil", plain)
    for name in ("pyarrow", "duckdb"):
        (folder / name).mkdir()
    ways = {
        "frazil": lambda _, rows: table.append(rows.to_reader(131_072)),
        "pyarrow": lambda path, rows: pq.write_table(rows, path, compression="zstd"),
        "duckdb": lambda path, rows: DUCK.sql(
            f"copy (from rows) to '{path}' (format parquet, compression zstd)"
        ),
    }
    places = {n: folder / ("made/frazil/data" if n == "frazil" else n) for n in ways}
    for name, way in ways.items():
        start = time.process_time()
        for n, part in enumerate(parts):
            way(places[name] / f"{n}.parquet", pq.read_table(part))
        cpu = time.process_time() - start
        size = sum(f.stat().st_size for f in places[name].iterdir())
        shown(writer=name, cpu=cpu, bytes=size)
    return {n: sorted(map(str, p.glob("*.parquet"))) for n, p in places.items()}, table.location()


def over_batches(batches, columns, kind):
    best = {}
    for batch in batches:
        for c in columns if batch.num_rows else ():
            value = (pc.sum if kind == "sum" else pc.max)(batch[c]).as_py()
            both = (best.get(c, value), value)
            best[c] = (max(both) if kind == "max" else sum(both)) if c in best else value
    return best


def in_frazil(location, columns, kind):
    frazil.clear_caches()
    scan = frazil.load_table(location).scan(selected_fields=columns)
    return (
        scan.to_arrow()
        if kind == "arrow"
        else over_batches(scan.to_arrow_batch_reader(), columns, kind)
    )


def in_pyarrow(files, columns, kind):
    scanner = ds.dataset(files).scanner(columns=list(columns))
    return (
        scanner.to_table() if kind == "arrow" else over_batches(scanner.to_batches(), columns, kind)
    )


def in_duckdb(files, columns, kind):
    if kind == "arrow":
        return DUCK.sql(f"select {', '.join(columns)} from read_parquet({files})").to_arrow_table()
    wanted = ", ".join(f"{kind}({c})" for c in columns)
    return DUCK.sql(f"select {wanted} from read_parquet({files}) where qty >= 0").fetchall()


def in_polars(files, columns, kind):
    frame = pl.scan_parquet(files, glob=False).select(columns)
    return (frame if kind == "arrow" else getattr(frame, kind)()).collect()


def main():
    args = argparse.ArgumentParser()
    args.add_argument("dir", type=Path)
    args.add_argument("--rows", type=int, default=16_000_000)
    args.add_argument("--rounds", type=int, default=9)
    args = args.parse_args()
    folder = args.dir / "readers"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    each, parts = args.rows // FILES, []
    for n in range(FILES):
        parts.append(folder / f"rows-{n}.parquet")
        data.write(data.events(np.arange(n * each, (n + 1) * each), args.rows, n), parts[-1])
    files, location = written(parts, folder)
    ways = {"duckdb": in_duckdb, "polars": in_polars, "pyarrow": in_pyarrow, "frazil": in_frazil}
    for name, (columns, kind) in READS.items():
        for result in (kind, "arrow"):
            turns = [(w, r) for w in files for r in ways if r != "frazil" or w == "frazil"]
            times = {turn: [] for turn in turns}
            for n in range(args.rounds + 1):
                for writer, reader in turns:
                    source = location if reader == "frazil" else files[writer]
                    gc.collect()
                    clock, cpu = time.perf_counter(), time.process_time()
                    ways[reader](source, columns, result)
                    if n:  # the first round warms up
                        times[writer, reader].append(
                            (time.perf_counter() - clock, time.process_time() - cpu)
                        )
            for (writer, reader), took in times.items():
                pairs = zip(took, times[writer, "duckdb"], strict=True)
                shown(
                    read=name,
                    to=result,
                    files_of=writer,
                    reader=reader,
                    clock=statistics.median(t for t, _ in took),
                    cpu=statistics.median(t for _, t in took),
                    of_duckdb=statistics.median(mine[1] / its[1] for mine, its in pairs),
                )


if __name__ == "__main__":
    main()
