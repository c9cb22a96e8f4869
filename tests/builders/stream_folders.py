"""A folder of JSON files that a stream of Spark reads, one file per micro-batch."""

import json
import os

SCHEMA = "id bigint, at timestamp, dt string"


class FolderSource:
    """A folder that a stream reads; every file that is put there is a batch."""

    def __init__(self, spark, place):
        self.spark, self.place, self.count = spark, place, 0
        place.mkdir()

    def put(self, *rows):
        lines = "\n".join(json.dumps({"id": i, "at": at, "dt": dt}) for i, at, dt in rows)
        file = self.place / f"{self.count:04d}.json"
        file.write_text(lines)
        # Spark takes files in the order of their times
        os.utime(file, (1_700_000_000 + self.count,) * 2)
        self.count += 1

    def frame(self):
        return (
            self.spark.readStream.schema(SCHEMA)
            .option("maxFilesPerTrigger", 1)
            .json(str(self.place))
        )
