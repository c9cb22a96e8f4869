"""docs/from-flink.md and docs/from-java.md against the code: what is said of each option of these
engines' streams is what happens.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from frazil.errors import InvalidInput, Unsupported
from frazil.stream.partitions.options import is_partition_option, partition_commit_options
from frazil.stream.sink.options import sink_options
from frazil.stream.source.options import stream_options

DOCS = Path(__file__).resolve().parents[2] / "docs"
FLINK, JAVA = (DOCS / name for name in ("from-flink.md", "from-java.md"))
REFUSES = (InvalidInput, Unsupported)

# Values that Flink's and Java's documents would have for these options, where "1" is none.
VALUES = {
    "streaming": "true", "starting-strategy": "TABLE_SCAN_THEN_INCREMENTAL", "start-tag": "t", "branch": "main", "monitor-interval": "10s",
    "case-sensitive": "true", "watermark-column": "ts", "watermark-column-time-unit": "microseconds", "vectorization-enabled": "true",
    "locality": "false", "streaming-skip-delete-snapshots": "true", "streaming-skip-overwrite-snapshots": "true", "write-format": "parquet",
    "compression-codec": "zstd", "compression-strategy": "speed", "distribution-mode": "hash", "fanout-enabled": "true",
    "merge-schema": "true", "snapshot-property.<name>": "x",
}  # fmt: skip
# What an option needs beside it.
WITH: dict[str, dict[str, str]] = {
    "start-snapshot-id": {"starting-strategy": "INCREMENTAL_FROM_SNAPSHOT_ID"},
    "start-tag": {"starting-strategy": "INCREMENTAL_FROM_SNAPSHOT_ID"},
    "start-snapshot-timestamp": {"starting-strategy": "INCREMENTAL_FROM_SNAPSHOT_TIMESTAMP"},
    "watermark-column-time-unit": {"watermark-column": "ts"},
    "compression-level": {"compression-codec": "zstd"}, "compression-strategy": {"write-format": "orc"},
}  # fmt: skip
# Flink's options of the Iceberg connector and of partition commit, by the documents of both.
FLINKS = {
    "Source": """streaming starting-strategy start-snapshot-id start-tag start-snapshot-timestamp branch monitor-interval
        max-planning-snapshot-count max-allowed-planning-failures split-size split-lookback split-file-open-cost case-sensitive
        watermark-column watermark-column-time-unit snapshot-id tag as-of-timestamp end-snapshot-id end-tag limit include-column-stats
        table.exec.iceberg.worker-pool-size table.exec.iceberg.infer-source-parallelism table.exec.iceberg.infer-source-parallelism.max
        table.exec.iceberg.fetch-batch-record-count table.exec.iceberg.split-assigner-type
        table.exec.iceberg.expose-split-locality-info""",
    "Sink": """upsert-enabled overwrite-enabled equality-field-columns write-format target-file-size-bytes compression-codec
        compression-level compression-strategy distribution-mode branch flink.max-continuous-empty-commits write-parallelism uid-suffix
        flink-maintenance.rewrite.enabled flink-maintenance.expire-snapshots.enabled flink-maintenance.delete-orphan-files.enabled
        flink-maintenance.convert-equality-deletes.enabled flink-maintenance.rate-limit-seconds table-refresh-interval
        flink.manifests.location
        range-distribution-statistics-type range-distribution-sort-key-base-weight""",
    "Partition commit": """sink.partition-commit.trigger sink.partition-commit.delay sink.partition-commit.watermark-time-zone
        sink.partition-commit.policy.kind sink.partition-commit.policy.class sink.partition-commit.policy.class.parameters
        sink.partition-commit.success-file.name partition.time-extractor.kind partition.time-extractor.class
        partition.time-extractor.timestamp-pattern partition.time-extractor.timestamp-formatter partition.default-name auto-compaction
        compaction.file-size compaction.parallelism sink.rolling-policy.file-size sink.rolling-policy.rollover-interval
        sink.rolling-policy.inactivity-interval sink.rolling-policy.check-interval sink.shuffle-by-partition.enable sink.parallelism""",
}


def said(page: Path, heading: str) -> dict[str, str]:
    """Return what a page says of each option in the table below a heading: its second column."""
    section = page.read_text().split(f"# {heading}\n")[1].split("\n#")[0]
    rows = re.findall(r"^\| (`[^|]+) \| ([^|]+) \|", section, re.M)
    return {name: said for names, said in rows for name in re.findall(r"`([^`]+)`", names)}


def given(name: str) -> dict[str, str]:
    return {name.replace("<name>", "k"): VALUES.get(name, "1"), **WITH.get(name, {})}


def is_refused_by_name(parse: Any, name: str, options: Mapping[str, str]) -> None:
    with pytest.raises(REFUSES) as refused:
        parse(options)
    assert name in str(refused.value), refused.value


@pytest.mark.parametrize("heading", FLINKS)
def test_each_option_of_flink_has_its_line(heading: str) -> None:
    assert set(said(FLINK, heading)) == set(FLINKS[heading].split())


@pytest.mark.parametrize(("page", "heading"), [(FLINK, "Source"), (JAVA, "Streaming reads")])
def test_options_of_sources_are_taken_or_refused_as_the_page_says(page: Path, heading: str) -> None:
    for name, there in said(page, heading).items():
        if there == "same":
            stream_options(given(name) if name != "streaming" else {"streaming": "true"})
        else:
            assert there == "refused", name
            is_refused_by_name(stream_options, name, {name: "1"})


@pytest.mark.parametrize(("page", "heading"), [(FLINK, "Sink"), (JAVA, "Streaming writes")])
def test_options_of_sinks_are_taken_or_refused_as_the_page_says(page: Path, heading: str) -> None:
    for name, there in said(page, heading).items():
        if "(" in name or name == "toTable":
            continue  # methods of Spark's writer, which the page's own code calls
        if there == "same":
            sink_options(given(name))
        else:
            is_refused_by_name(sink_options, name, {name: "1"})


def test_options_of_partition_commit_are_taken_or_refused_as_the_page_says() -> None:
    known = {
        "sink.partition-commit.trigger": "partition-time",
        "sink.partition-commit.delay": "1 h",
        "sink.partition-commit.policy.kind": "custom",
        "sink.partition-commit.policy.class": "tests.stream.partitions.custom:Recorder",
        "sink.partition-commit.policy.class.parameters": "a;b",
        "partition.time-extractor.kind": "default",
        "partition.time-extractor.timestamp-pattern": "$dt",
        "sink.partition-commit.watermark-time-zone": "Europe/Berlin",
        "partition.default-name": "none",
        "partition.time-extractor.timestamp-formatter": "yyyy-MM-dd",
    }
    partition_commit_options(known)
    partition_commit_options(
        {
            "sink.partition-commit.trigger": "partition-time",
            "sink.partition-commit.policy.kind": "success-file,merge",
            "sink.partition-commit.success-file.name": "_DONE",
            "compaction.file-size": "128MB",
            "partition.time-extractor.kind": "custom",
            "partition.time-extractor.class": "os:getcwd",
        }
    )
    taken = {
        *known,
        "sink.partition-commit.success-file.name",
        "compaction.file-size",
        "partition.time-extractor.class",
    }
    for name, there in said(FLINK, "Partition commit").items():
        assert is_partition_option(name), name
        if there == "same":
            assert name in taken
        else:
            is_refused_by_name(
                partition_commit_options,
                name,
                {name: "true", "sink.partition-commit.policy.kind": "merge"},
            )
