"""Options of streaming reads: honoured, or refused by name with what to write instead."""

from __future__ import annotations

import re
from typing import Any

import pytest

from frazil.errors import InvalidInput, Unsupported
from frazil.expr.nodes import AlwaysTrue
from frazil.stream.source.options import OPTIONS, Limits, StartingStrategy, stream_options


def test_without_options_a_stream_is_as_flinks() -> None:
    found = stream_options({})
    assert (
        found.strategy is StartingStrategy.LATEST
        and found.branch == "main"
        and found.monitor_interval_ms == 60_000
    )
    assert (found.max_failures, found.limits, found.skips, found.changes) == (
        3,
        Limits(),
        (),
        False,
    )
    assert (found.on_expired, found.on_rollback, found.order, found.selected_fields) == (
        "fail",
        "fail",
        None,
        ("*",),
    )


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("60s", 60_000), ("500 ms", 500), ("1 min", 60_000), ("2h", 7_200_000), ("250", 250)],
)
def test_durations_are_written_as_in_flink(text: str, milliseconds: int) -> None:
    assert stream_options({"monitor-interval": text}).monitor_interval_ms == milliseconds


def test_names_may_have_underscores_and_capitals() -> None:
    found = stream_options(
        {
            "Starting_Strategy": "incremental_from_earliest_snapshot",
            "max_planning_snapshot_count": 7,
            "row_filter": "id > 1",
        }
    )
    assert (
        found.strategy is StartingStrategy.EARLIEST
        and found.limits.snapshots == 7
        and found.row_filter == "id > 1"
    )
    assert stream_options({"selected_fields": ("id", "s.a")}).selected_fields == ("id", "s.a")
    assert stream_options({"row-filter": AlwaysTrue()}).row_filter == AlwaysTrue()


@pytest.mark.parametrize(
    ("given", "strategy"),
    [
        ({"streaming-max-files-per-micro-batch": "5"}, StartingStrategy.EARLIEST),
        ({"streaming-skip-delete-snapshots": "true"}, StartingStrategy.EARLIEST),
        ({"stream-from-timestamp": "5"}, StartingStrategy.JAVA_TIMESTAMP),
        ({"stream-from-timestamp": "5", "monitor-interval": "1s"}, StartingStrategy.JAVA_TIMESTAMP),
        (
            {"streaming-max-files-per-micro-batch": "5", "monitor-interval": "1s"},
            StartingStrategy.LATEST,
        ),
        ({"streaming-max-bytes-per-micro-batch": "5"}, StartingStrategy.EARLIEST),
        ({"branch": "b", "split-size": "1000000"}, StartingStrategy.EARLIEST),
        ({}, StartingStrategy.EARLIEST),
        ({"on-non-append": "skip"}, StartingStrategy.EARLIEST),
        *(
            ({name: value}, StartingStrategy.LATEST)
            for name, value in (
                ("monitor-interval", "1s"),
                ("max-planning-snapshot-count", "1"),
                ("streaming", "true"),
                ("case-sensitive", "true"),
                ("split-lookback", "3"),
                ("watermark-column", "id"),
                ("table.exec.iceberg.worker-pool-size", "2"),
            )
        ),
    ],
)
def test_scripts_for_javas_jar_start_as_java_does_and_with_an_option_of_flinks_as_flink(
    given: dict[str, str], strategy: StartingStrategy
) -> None:
    assert stream_options(given, as_jar=True).strategy is strategy
    assert stream_options(given).strategy is (
        strategy if "stream-from-timestamp" in given else StartingStrategy.LATEST
    )


def test_javas_skips_and_ours_are_the_same_thing() -> None:
    both = {"streaming-skip-delete-snapshots": "true", "streaming-skip-overwrite-snapshots": "true"}
    assert (
        set(stream_options(both).skips)
        == set(stream_options({"on-non-append": "skip"}).skips)
        == {"overwrite", "delete"}
    )
    assert stream_options(
        {"streaming-skip-delete-snapshots": "true", "streaming-skip-overwrite-snapshots": "false"}
    ).skips == ("delete",)
    assert stream_options({"on-non-append": "skip-overwrite"}).skips == ("overwrite",)


CONTRADICTIONS: list[tuple[dict[str, Any], str]] = [
    ({"start-snapshot-id": 1}, "INCREMENTAL_FROM_SNAPSHOT_ID"),
    ({"start-snapshot-timestamp": 1}, "INCREMENTAL_FROM_SNAPSHOT_TIMESTAMP"),
    ({"start-tag": "t"}, "INCREMENTAL_FROM_SNAPSHOT_ID"),
    ({"starting-strategy": "INCREMENTAL_FROM_SNAPSHOT_ID"}, "start-snapshot-id or start-tag"),
    (
        {
            "starting-strategy": "INCREMENTAL_FROM_SNAPSHOT_ID",
            "start-snapshot-id": 1,
            "start-tag": "t",
        },
        "not both",
    ),
    (
        {
            "starting-strategy": "INCREMENTAL_FROM_SNAPSHOT_ID",
            "start-snapshot-id": 1,
            "start-snapshot-timestamp": 1,
        },
        "means nothing",
    ),
    (
        {"starting-strategy": "INCREMENTAL_FROM_EARLIEST_SNAPSHOT", "start-snapshot-id": 1},
        "means nothing",
    ),
    ({"starting-strategy": "INCREMENTAL_FROM_SNAPSHOT_TIMESTAMP"}, "start-snapshot-timestamp"),
    ({"starting-strategy": "stream-from-timestamp"}, "'starting-strategy' must be one of"),
    ({"starting-strategy": "LATEST"}, "INCREMENTAL_FROM_LATEST_SNAPSHOT"),
    (
        {"starting-strategy": "TABLE_SCAN_THEN_INCREMENTAL", "stream-from-timestamp": 1},
        "both say where",
    ),
    ({"on-non-append": "skip", "streaming-skip-delete-snapshots": "true"}, "Give one of them"),
    ({"on-non-append": "cdc"}, "skip-overwrite"),
    ({"on-expired": "skip"}, "earliest"),
    ({"order-by": "watermark"}, "watermark-column"),
    ({"order-by": "sequence", "watermark-column": "ts"}, "contradict"),
    ({"order-by": "name"}, "sequence or watermark"),
    ({"on-non-append": "changes", "order-by": "sequence"}, "means nothing to changes"),
    ({"watermark-column-time-unit": "seconds"}, "needs watermark-column"),
    ({"watermark-column": "n", "watermark-column-time-unit": "years"}, "microseconds"),
    ({"streaming-max-files-per-micro-batch": 0}, "at least 1"),
    ({"streaming-max-rows-per-micro-batch": "many"}, "whole number"),
    ({"max-allowed-planning-failures": -2}, "at least -1"),
    ({"monitor-interval": "soon"}, "duration"),
    ({"streaming": "false"}, "spark.read"),
    ({"case-sensitive": "maybe"}, "true or false"),
    ({"selected-fields": " , "}, "'selected-fields' must be a list of names"),
    ({"lookback": 1, "split-lookback": 2}, "'lookback' is given twice, as 1 and as 2"),
    ({"split-lookback": 5, "order-by": "sequence"}, "contradicts the order of files"),
    ({"lookback": 0}, "Read option 'lookback' must be a whole number of at least 1, not 0"),
    ({"split-size": "large"}, "'split-size' must be a whole number"),
    (
        {"starting-strategy": "INCREMENTAL_FROM_SNAPSHOT_ID", "start-snapshot-id": "+-1"},
        "whole number",
    ),
    ({"branch": "a", "BRANCH": "b"}, "given twice"),
    ({"starting-stategy": "x"}, "Did you mean 'starting-strategy'"),
    ({"wharever": 1}, "Known: branch"),
]


@pytest.mark.parametrize(
    ("given", "told"), CONTRADICTIONS, ids=lambda x: "+".join(x) if isinstance(x, dict) else None
)
def test_what_is_contradictory_or_unknown_is_refused_with_the_fix(
    given: dict[str, Any], told: str
) -> None:
    with pytest.raises(InvalidInput, match=re.escape(told)):
        stream_options(given)


@pytest.mark.parametrize(
    "name",
    [
        "snapshot-id",
        "tag",
        "as-of-timestamp",
        "end-snapshot-id",
        "end-tag",
        "end-timestamp",
        "limit",
        "async-micro-batch-planning-enabled",
        "streaming-snapshot-polling-interval-ms",
        "versionAsOf",
        "include-column-stats",
        "table.exec.iceberg.split-assigner-type",
    ],
)
def test_options_of_batch_reads_are_refused_by_name(name: str) -> None:
    with pytest.raises(Unsupported, match=re.escape(repr(name))):
        stream_options({name: "1"})
    assert OPTIONS.find(name) is None


@pytest.mark.parametrize(
    ("name", "done", "other"),
    [("vectorization-enabled", True, "false"), ("locality", "False", "true")],
)
def test_options_that_tune_javas_reader_are_taken_where_they_say_what_is_done_and_else_refused(
    name: str, done: Any, other: str
) -> None:
    assert stream_options({name: done}) == stream_options({})
    with pytest.raises(Unsupported, match=f"'{name}' cannot be {other} here: .*Leave it out"):
        stream_options({name: other})
    with pytest.raises(InvalidInput, match=f"'{name}' must be true or false, not 'maybe'"):
        stream_options({name: "maybe"})


@pytest.mark.parametrize(
    ("unit", "milliseconds"),
    [
        ("DAYS", 86_400_000),
        ("HOURS", 3_600_000),
        ("MINUTES", 60_000),
        ("Seconds", 1000),
        ("milliseconds", 1),
        ("microseconds", 1e-3),
        ("NANOSECONDS", 1e-6),
    ],
)
def test_a_watermark_column_of_numbers_counts_in_any_of_javas_units(
    unit: str, milliseconds: float
) -> None:
    assert (
        stream_options(
            {"watermark-column": "n", "watermark-column-time-unit": unit}
        ).watermark_factor
        == milliseconds
    )


def test_the_tables_name_and_the_options_must_agree() -> None:
    assert stream_options({"on-non-append": "changes"}, changes=True).changes
    assert stream_options({"branch": "b"}, branch="b").branch == "b"
    with pytest.raises(InvalidInput, match="contradicts the table's name"):
        stream_options({"on-non-append": "skip"}, changes=True)
    with pytest.raises(InvalidInput, match="branch"):
        stream_options({"branch": "a"}, branch="b")
