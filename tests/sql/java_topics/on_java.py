"""Run the cases on Java Iceberg itself, which tells whether they state facts; prints those that
fail.

    .cache/peers/java/bin/python -m tests.sql.java_topics.on_java [PATTERN]

PATTERN is searched in the names of cases and of Java's methods. It needs the jars of
Java Iceberg and of SQLite's driver below `.cache`.
"""

import os
import re
import sys
import tempfile
import traceback
from pathlib import Path

from pyspark.sql import SparkSession

from tests.peers.checks import JAR
from tests.sql.java_topics import harness

CACHE = Path(os.environ.get("FRAZIL_TEST_CACHE", ".cache"))
SETTINGS = {
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
}


def session(folder: Path) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    driver = next(CACHE.glob("m2/org/xerial/sqlite-jdbc/*/*.jar"))
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", f"{CACHE / 'peers' / 'jars' / JAR}")
        .config("spark.driver.extraClassPath", str(driver))
        .config("spark.sql.warehouse.dir", f"{folder}/own")
        .config(
            "spark.driver.extraJavaOptions", f"-Dderby.system.home={folder} -Duser.timezone=UTC"
        )
    )
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def main(pattern: str) -> None:
    folder = Path(tempfile.mkdtemp())
    tried, left_out, failed = 0, 0, []
    with harness.catalogs(session(folder), folder, java=True) as sessions:
        for case in harness.load_cases():
            name = f"{case.play.__name__} {' '.join(case.java)}"
            if not re.search(pattern, name):
                continue
            for kind in case.on:
                for each in case.each:
                    tried += 1
                    try:
                        with harness.place(sessions, kind, folder, each) as place:
                            case.play(place)
                    except ModuleNotFoundError:  # a case that asks Frazil itself
                        left_out += 1
                    except Exception as error:
                        failed.append(name)
                        at = traceback.extract_tb(error.__traceback__)[1]
                        told = str(error).partition("JVM stacktrace")[0].strip()[:900]
                        print(
                            f"\n== {name} {kind} {each or ''} (line {at.lineno})\n{told}",
                            flush=True,
                        )
    print(f"\n{tried} runs, {len(failed)} failed, {left_out} left out")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
