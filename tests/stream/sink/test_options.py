"""Options of a streaming write: honoured, or refused by name before the query starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from frazil.errors import InvalidInput, Unsupported
from frazil.maintain.stream_upkeep.stream_tasks import upkeep
from frazil.maintain.stream_upkeep.triggers import upkeep_options
from frazil.stream.sink.options import SinkOptions, sink_options
from tests.stream.sink.streams import make_table, sink_of

KEYED = {"write-mode": "upsert", "key-columns": "id"}


def test_names_may_be_written_with_dashes_or_underscores_and_lists_as_text() -> None:
    found = sink_options(
        {
            "write-mode": "CDC",
            "key_columns": "id, p",
            "order-column": "v",
            "op_column": "op",
            "upsert-strategy": "Equality-Deletes",
            "on-rewind": "skip",
            "max-continuous-empty-commits": "3",
            "target-file-size-bytes": "1000",
        }
    )
    assert found == SinkOptions(
        "cdc",
        ("id", "p"),
        "v",
        "op",
        "equality-deletes",
        "skip",
        3,
        {"target-file-size-bytes": "1000"},
    )
    assert sink_options({}) == SinkOptions("append", (), None, None, "lookup", "fail", 10, {})
    assert sink_options({"key_columns": ["id"]}, mode="upsert").key_columns == ("id",)


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"write-mode": "merge"}, "append, overwrite, complete, upsert, cdc"),
        ({"write-mode": "upsert", "mode": "append"}, "given twice"),
        ({"key-columns": "id"}, "key-columns"),
        ({"write-mode": "complete", "order-column": "v"}, "order-column"),
        ({"upsert-strategy": "lookup"}, "upsert-strategy"),
        ({**KEYED, "op-column": "op"}, "op-column"),
        ({**KEYED, "upsert-strategy": "both"}, "lookup or equality-deletes"),
        ({"on-rewind": "ask"}, "skip, fail, rewrite"),
        ({"max-continuous-empty-commits": "0"}, "at least 1"),
        (
            {**KEYED, "distribution-mode": "range"},
            "'distribution-mode'=range means nothing in write-mode=upsert: ranges of a sort order",
        ),
        ({**KEYED, "advisory-partition-size": "1000"}, "advisoryPartitionSizeInBytes"),
        (
            {**KEYED, "upsert-strategy": "equality-deletes", "isolation-level": "snapshot"},
            "isolation-level",
        ),
        (
            {**KEYED, "upsert-strategy": "equality-deletes", "delete-granularity": "file"},
            "delete-granularity",
        ),
        ({"isolation-level": "snapshot"}, "isolation-level"),
        ({"write-mode": "complete", "overwrite-mode": "dynamic"}, "overwrite-mode"),
        ({"no-such-option": "1"}, "no-such-option"),
        ({"upsert-enabled": "true"}, "write-mode=upsert"),
        ({"write-parallelism": "none"}, "at least 1"),
        ({"write-parallelism": "4", "distribution-mode": "hash"}, "write-parallelism"),
        (
            {"write-parallelism": "4", "write-mode": "complete", "advisory-partition-size": "1000"},
            "advisory-partition-size",
        ),
        ({"flink-maintenance.expire-snapshots.enabled": "true"}, "maintenance.expire.enabled"),
        ({"flink-maintenance.rewrite.max-bytes": "1000"}, "docs/maintenance.md"),
        ({"flink-maintenance.lock.jdbc.uri": "jdbc:x"}, "maintenance.lease-duration"),
        ({"flink-maintenance.lock-check-delay-seconds": "30"}, "maintenance.lease-duration"),
        ({"flink-maintenance.parallelism": "4"}, "docs/maintenance.md"),
        ({"partition.mark-done.at": "now"}, "partition.mark-done.at"),
        ({"range-distribution-statistics-type": "Auto"}, "distribution-mode=range"),
        ({"table-refresh-interval": "10s"}, "table-refresh-interval"),
        ({"sink.partition-commit.delay": "1 h"}, "sink.partition-commit.delay"),
        ({**KEYED, "order-column": "a,b"}, "order-column"),
        ({"use-merge-append-for-streaming": "true"}, "use-merge-append-for-streaming"),
        ({"writeMode": "upsert"}, "Did you mean 'write-mode'"),
        ({**KEYED, "orderColumn": "v"}, "Did you mean 'order-column'"),
    ],
)
def test_what_is_unknown_or_contradicts_is_refused_by_name(
    given: dict[str, Any], word: str
) -> None:
    with pytest.raises((InvalidInput, Unsupported)) as told:
        sink_options(given)
    assert word in str(told.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rewrite.enabled", "true"),
        ("rewrite.schedule.commit-count", "10"),
        ("rewrite.schedule.data-file-count", "10"),
        ("rewrite.schedule.data-file-size", "10"),
        ("rewrite.schedule.interval-second", "10 s"),
        ("rewrite.partial-progress.enabled", "true"),
        ("rewrite.partial-progress.max-commits", "3"),
        ("expire-snapshots.max-snapshot-age-seconds", "3 d"),
        ("expire-snapshots.retain-last", "2"),
        ("expire-snapshots.clean-expired-metadata", "true"),
        ("expire-snapshots.schedule.commit-count", "2"),
        ("delete-orphan-files.min-age-seconds", "3 d"),
        ("delete-orphan-files.location", "/x"),
        ("delete-orphan-files.prefix-mismatch-mode", "ERROR"),
        ("convert-equality-deletes.schedule.commit-count", "2"),
        ("rate-limit-seconds", "60 s"),
    ],
)
def test_what_is_said_instead_of_flinks_options_of_maintenance_is_an_option(
    name: str, value: str, tmp_path: Path
) -> None:
    with pytest.raises(Unsupported) as told:
        sink_options({f"flink-maintenance.{name}": value})
    instead = str(told.value).split(": use ")[1].split(",")[0].rstrip(".")
    task = instead.split(".")[1]
    maintained, rest = upkeep_options(
        {instead: value}
        | ({} if task == "rate-limit" else {f"maintenance.{task}.every-interval": "1 h"})
    )
    assert maintained is not None and not rest
    upkeep(maintained, make_table(tmp_path).metadata)


def test_keys_are_the_identifier_fields_unless_they_are_named(tmp_path: Path) -> None:
    plain = make_table(tmp_path / "a")
    with pytest.raises(InvalidInput, match="needs keys"):
        sink_of(plain, mode="upsert")
    with pytest.raises(InvalidInput, match="Missing required equality field column 'nope'"):
        sink_of(plain, mode="upsert", key_columns=["nope"])
    keyed = make_table(
        tmp_path / "b", "id bigint not null, p string, v bigint", identifier_fields=["id"]
    )
    assert sink_of(keyed, mode="upsert").options.key_columns == ()


def test_a_table_that_says_so_is_upserted_into_unless_a_mode_is_named(tmp_path: Path) -> None:
    says = {"properties": {"write.upsert.enabled": "true"}}
    keyed = make_table(
        tmp_path / "a", "id bigint not null, p string, v bigint", identifier_fields=["id"], **says
    )
    assert sink_of(keyed).options.mode == "upsert"
    assert sink_of(keyed, write_mode="append").options.mode == "append"
    plain = make_table(tmp_path / "b", **says)
    with pytest.raises(InvalidInput, match="write.upsert.enabled is true") as told:
        sink_of(plain)
    assert "write-mode=upsert" in str(told.value) and "write-mode=append" in str(told.value)
    assert sink_of(plain, **{"key-columns": "id"}).options.mode == "upsert"


@pytest.mark.parametrize("kind", ["double", "array<int>"])
def test_columns_that_cannot_be_keys_are_refused(kind: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be a key"):
        sink_of(make_table(tmp_path, f"k {kind}, v bigint"), mode="upsert", key_columns=["k"])


def test_equality_deletes_want_the_partition_among_the_keys_and_a_look_up_does_not(
    tmp_path: Path,
) -> None:
    table = make_table(tmp_path, partition_by=["p"])
    with pytest.raises(InvalidInput, match="upsert-strategy=lookup moves rows"):
        sink_of(table, mode="upsert", key_columns=["id"], upsert_strategy="equality-deletes")
    assert sink_of(table, mode="upsert", key_columns=["id"]) and sink_of(
        table, mode="upsert", key_columns=["id", "p"], upsert_strategy="equality-deletes"
    )


def test_a_table_of_version_1_takes_no_upserts(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match=r"t.upgrade\(2\)"):
        sink_of(make_table(tmp_path, format_version=1), mode="upsert", key_columns=["id"])
