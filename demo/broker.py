"""Start a real Kafka broker for the demo (tests/services/kafka.sh), fill a topic with changes, and
read them as a stream.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

SERVICES = Path(__file__).resolve().parent.parent / "tests" / "services"
TOPIC = "changes"
_PYTHON = {"PYTHON": sys.executable}


@contextmanager
def broker(folder: Path) -> Iterator[str]:
    """Run a broker, whose data lies in a folder; yield its address. The first time it is fetched
    through Maven.
    """
    script = str(SERVICES / "kafka.sh")
    started = subprocess.run(
        [script, "start", str(folder)], env=os.environ | _PYTHON, stdout=subprocess.PIPE, text=True
    )
    if started.returncode:
        raise SystemExit(
            "The Kafka broker did not start: see above. `make demo-stream` without KAFKA=1 needs none."
        )
    try:
        yield (folder / "endpoint").read_text().strip()
    finally:
        subprocess.run(
            [script, "stop", str(folder)],
            env=os.environ | _PYTHON,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


def connector(folder: Path) -> str:
    """Return the jars of Spark's connector for Kafka, as `spark.jars` takes them. The first time
    they are fetched through Maven.
    """
    command = [str(SERVICES / "spark_jars.sh"), "kafka", str(folder)]
    found = subprocess.run(command, env=os.environ | _PYTHON, stdout=subprocess.PIPE, text=True)
    if found.returncode:
        raise SystemExit("Spark's connector for Kafka cannot be had: see above.")
    return found.stdout.strip().splitlines()[-1]


def fill(spark: Any, changes: pa.Table, address: str) -> None:
    """Write changes into the topic as JSON, by one task and keyed by flight, so that the changes of
    one flight keep their order.
    """
    from pyspark.sql import functions as F

    rows = spark.createDataFrame(changes).coalesce(1)
    messages = rows.select(
        F.col("flight_id").cast("string").alias("key"),
        F.to_json(F.struct(*rows.columns)).alias("value"),
    )
    messages.write.format("kafka").option("kafka.bootstrap.servers", address).option(
        "topic", TOPIC
    ).save()


def stream(spark: Any, address: str, schema: Any, rows: int) -> Any:
    """Read the topic from its beginning, so many rows for each micro-batch."""
    from pyspark.sql import functions as F

    options = {
        "kafka.bootstrap.servers": address,
        "subscribe": TOPIC,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(rows),
    }
    messages = spark.readStream.format("kafka").options(**options).load()
    return messages.select(
        F.from_json(F.col("value").cast("string"), schema).alias("change")
    ).select("change.*")
