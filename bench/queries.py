"""TPC-H and TPC-DS as their kits and LST-Bench run them: each query through Spark's own Parquet, Frazil
and Java Iceberg over tables of one layout, with the clock and the processor's seconds.

    python queries.py make DIR --suite tpch|tpcds --scale 1      Parquet and queries, by DuckDB (its extensions of the package index)
    python queries.py run DIR --suite tpch --engine spark|frazil|java [--queries 1,17] [--rounds 3] [--out results.jsonl]
    python queries.py report results.jsonl                       a table for docs/benchmarks.md

Each engine loads its tables once, in processes of its own; facts of TPC-DS are partitioned by their
date, as LST-Bench has them. A round runs every query once, as an engine finds its caches; the best
of the rounds counts. Rows are compared by a digest of their values, floats to four digits.
"""

import argparse
import glob
import hashlib
import json
import math
import os
import site
import time
from decimal import Decimal
from pathlib import Path

from kit import cpu_seconds

PARTITIONED = {
    "tpch": {},
    "tpcds": {
        "store_sales": "ss_sold_date_sk",
        "catalog_sales": "cs_sold_date_sk",
        "web_sales": "ws_sold_date_sk",
        "store_returns": "sr_returned_date_sk",
        "catalog_returns": "cr_returned_date_sk",
        "web_returns": "wr_returned_date_sk",
        "inventory": "inv_date_sk",
    },
}
GENERATORS = {"tpch": "dbgen", "tpcds": "dsdgen"}

ENGINES = ("spark", "frazil", "java")


def make(folder, suite, scale):
    """The tables as Parquet, and the queries, a file each."""
    import duckdb

    pattern = f"duckdb_extension_{suite}/**/*.duckdb_extension"
    roots = [*site.getsitepackages(), site.getusersitepackages()]
    extension = next(f for r in roots for f in glob.glob(f"{r}/{pattern}", recursive=True))
    db = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    db.execute(f"LOAD '{extension}'")
    db.execute(f"CALL {GENERATORS[suite]}(sf={scale})")
    for (table,) in db.execute("SHOW TABLES").fetchall():
        (folder / "in").mkdir(parents=True, exist_ok=True)
        db.execute(
            f"COPY {table} TO '{folder}/in/{table}.parquet' (FORMAT parquet, COMPRESSION zstd)"
        )
    (folder / "queries").mkdir(exist_ok=True)
    for number, text in db.execute(f"SELECT query_nr, query FROM {suite}_queries()").fetchall():
        spelled = text.strip().rstrip(";").replace('"', "`")  # names in quotes, as Spark has them
        (folder / "queries" / f"{number:02}.sql").write_text(spelled)


def opened(engine, folder, suite):
    """The engine's session, whose current namespace holds the tables; they are loaded first if
    they are not there yet."""
    from engines import session as s

    places = {"spark": "spark_catalog", "frazil": "lake", "java": "j"}
    catalog, place = places[engine], folder / engine
    if engine == "java":
        conf = {
            "spark.jars": s.java_jar(),
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.sql.catalog.j": "org.apache.iceberg.spark.SparkCatalog",
        }
    else:
        conf = {"spark.sql.warehouse.dir": str(place)}
    if engine != "spark":
        conf |= {
            f"spark.sql.catalog.{catalog}.type": "hadoop",
            f"spark.sql.catalog.{catalog}.warehouse": str(place),
        }
    spark = s.session(**conf)
    if engine == "frazil":
        import frazil

        frazil.install(spark)
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {catalog}.q")
    spark.sql(f"USE {catalog}.q")
    for file in sorted((folder / "in").glob("*.parquet")):
        table, key = file.stem, PARTITIONED[suite].get(file.stem)
        data = place / "q" / table if engine != "spark" else place / table
        frame = spark.read.parquet(str(file))
        if key is not None:
            frame = frame.repartition(4, key).sortWithinPartitions(key)
        by = "" if key is None else f"PARTITIONED BY ({key})"
        if engine == "spark":
            if not data.exists():
                writer = frame.write if key is None else frame.write.partitionBy(key)
                writer.parquet(str(data))
            columns = ", ".join(f"{c.name} {c.dataType.simpleString()}" for c in frame.schema)
            spark.sql(f"CREATE TABLE {table} ({columns}) USING parquet {by} LOCATION '{data}'")
            if key is not None:
                spark.sql(f"MSCK REPAIR TABLE {table}")
            spark.sql(f"ANALYZE TABLE {table} COMPUTE STATISTICS NOSCAN")
        elif not data.exists():
            frame.createOrReplaceTempView("input")
            # with an open writer for each of 1,800 days the jar needs more than the heap
            options = "TBLPROPERTIES ('write.spark.fanout.enabled' = 'false')"
            spark.sql(f"CREATE TABLE {table} USING iceberg {by} {options} AS SELECT * FROM input")
    return spark


def text_of(value):
    if isinstance(value, float | Decimal):
        return "null" if math.isnan(value) else f"{float(value):.4g}"
    return str(value)


def run(folder, suite, engine, wanted, rounds, out):
    spark = opened(engine, folder, suite)
    for _ in range(rounds):
        for file in sorted((folder / "queries").glob("*.sql")):
            if wanted and int(file.stem) not in wanted:
                continue
            line = {
                "suite": suite,
                "engine": engine,
                "spark": spark.version,
                "query": int(file.stem),
            }
            cpu, begun = cpu_seconds(), time.perf_counter()
            try:
                rows = spark.sql(file.read_text()).collect()
                line |= {"seconds": time.perf_counter() - begun, "cpu": cpu_seconds() - cpu}
                texts = sorted("\t".join(map(text_of, row)) for row in rows)
                line |= {
                    "rows": len(rows),
                    "digest": hashlib.sha256("\n".join(texts).encode()).hexdigest()[:12],
                }
            except Exception as error:
                line["error"] = str(error).strip().splitlines()[0][:200]
            line |= {"load": round(os.getloadavg()[0], 1), "at": int(time.time())}
            with out.open("a") as lines:
                lines.write(json.dumps(line) + "\n")
            print(
                *(f"{k}={v:.3g}" if isinstance(v, float) else f"{k}={v}" for k, v in line.items()),
                flush=True,
            )
    spark.stop()


def report(lines):
    """Sums over the queries that all engines answered, and those whose rows differ."""
    best = {}
    for line in map(json.loads, lines.read_text().splitlines()):
        key = (line["suite"], line["query"], line["engine"])
        if "seconds" in line and line["seconds"] < best.get(key, line)["seconds"] + 1e-9:
            best[key] = line
    print(
        "| suite | engine | queries | seconds | processor | of the floor: seconds, processor (geometric means) | rows differ in |"
    )
    print("|---|---|---|---|---|---|---|")
    for suite in sorted({s for s, _, _ in best}):
        engines = [e for e in ENGINES if any(k[0] == suite and k[2] == e for k in best)]
        queries = [n for n in range(1, 100) if all((suite, n, e) in best for e in engines)]
        for e in engines:
            mine, floor = ([best[suite, n, x] for n in queries] for x in (e, engines[0]))
            sums = [sum(line[k] for line in mine) for k in ("seconds", "cpu")]
            means = [
                math.exp(
                    sum(
                        math.log(max(a[k], 0.01) / max(b[k], 0.01))
                        for a, b in zip(mine, floor, strict=True)
                    )
                    / max(1, len(mine))
                )
                for k in ("seconds", "cpu")
            ]
            differ = [
                n
                for n, a, b in zip(queries, mine, floor, strict=True)
                if a["digest"] != b["digest"]
            ]
            print(
                f"| {suite} | {e} on {mine[0]['spark']} | {len(queries)} | {sums[0]:.1f} | {sums[1]:.1f} "
                f"| {means[0]:.2f}, {means[1]:.2f} | {', '.join(map(str, differ)) or 'none'} |"
            )


if __name__ == "__main__":
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("what", choices=("make", "run", "report"))
    args.add_argument("place", type=Path)
    args.add_argument("--suite", choices=GENERATORS, default="tpch")
    args.add_argument("--scale", type=float, default=1)
    args.add_argument("--engine", choices=ENGINES, default="frazil")
    args.add_argument("--queries", default="")
    args.add_argument("--rounds", type=int, default=3)
    args.add_argument("--out", type=Path, default=Path("queries.jsonl"))
    given = args.parse_args()
    folder = given.place.resolve() / given.suite
    if given.what == "make":
        make(folder, given.suite, given.scale)
    elif given.what == "run":
        wanted = {int(n) for n in given.queries.split(",") if n}
        run(folder, given.suite, given.engine, wanted, given.rounds, given.out)
    else:
        report(given.place)
