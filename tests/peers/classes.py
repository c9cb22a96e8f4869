"""Write the archive of Spark's classes for the environment whose Python runs this, unless it has
one: PYTHON tests/peers/classes.py

The JVM writes it at its end (`-XX:ArchiveClassesAtExit`), with all classes that it has loaded by
then: so one session does what most tests do.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# run as a script, in environments that do not have the tests
sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from tests.jvm_options import QUICK, class_archive


def train(folder: str) -> None:
    """Run what most tests run: reads, writes, row-level changes and streams of Iceberg tables, SQL,
    Arrow in both directions.
    """
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    import frazil

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
        .config(
            "spark.driver.extraJavaOptions", f"-Dderby.system.home={folder} -Duser.timezone=UTC"
        )
        .getOrCreate()
    )
    frazil.install(spark)
    rows = spark.range(1000).select(
        "id",
        F.expr("cast(id % 3 as int)").alias("k"),
        F.expr("struct(cast(id as string) as s, id as n)").alias("d"),
    )
    rows.write.mode("overwrite").partitionBy("k").json(f"{folder}/json")
    with frazil.load_catalog(
        "train", type="sql", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"{folder}/tables"
    ) as catalog:
        catalog.create_namespace("db")
        table = catalog.create_table("db.t", rows.schema)
        table.append(rows)
        table.delete("id = 3")
        table.update({"k": "k + 1"}, "id % 5 = 0")
        table.upsert(rows.where("id < 10"), ["id"])
        table.scan(row_filter="id > 5").to_spark(spark).groupBy("k").agg(
            F.count("*"), F.max("id")
        ).orderBy("k").collect()
        table.scan().to_spark(spark).join(rows, "id").toArrow()
        stream = spark.readStream.schema("id long").json(f"{folder}/json")
        writer = catalog.create_table("db.u", stream.schema).write_stream(stream)
        writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(
            availableNow=True
        ).start().awaitTermination()
    spark.createDataFrame(rows.toArrow()).createOrReplaceTempView("v")
    spark.sql(
        "SELECT k, sum(id), percentile_approx(id, 0.5) FROM v WHERE d.s LIKE '1%' GROUP BY k ORDER BY 2"
    ).collect()
    jvm = spark.sparkContext._gateway.proc
    spark.stop()
    jvm.stdin.close()  # the JVM ends, and writes the archive
    jvm.wait(timeout=120)


def write(archive: Path) -> None:
    """Start a Python that trains, whose JVM writes the archive; move it to its place once it is
    whole.
    """
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / archive.name
        environment = {
            **os.environ,
            "JDK_JAVA_OPTIONS": f"{QUICK} -XX:ArchiveClassesAtExit={made} -Xlog:cds*=off",
        }
        run = subprocess.run(
            [sys.executable, __file__, "train", folder],
            env=environment,
            capture_output=True,
            text=True,
        )
        if made.exists() and run.returncode == 0:
            shutil.move(made, archive)
        else:
            print(
                f"no archive of Spark's classes was written, so sessions start as usual:\n{run.stderr[-2000:]}",
                file=sys.stderr,
            )


if __name__ == "__main__":
    if sys.argv[1:2] == ["train"]:
        train(sys.argv[2])
    elif not class_archive().exists():
        write(class_archive())
