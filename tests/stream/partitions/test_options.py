"""Options of partition commit: Flink's names and defaults, and refusals that name the option and
the fix.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from frazil.errors import InvalidInput, Unsupported
from frazil.spec.options import milliseconds
from frazil.stream.partitions.commit_hook import partition_commit_of
from frazil.stream.partitions.options import (
    OPTIONS,
    is_partition_option,
    partition_commit_options,
)
from tests.stream.partitions import custom

KIND, TRIGGER = "sink.partition-commit.policy.kind", "sink.partition-commit.trigger"


def test_without_options_there_is_no_partition_commit():
    options = partition_commit_options({})
    assert (
        not options.enabled
        and options.trigger == "process-time"
        and options.delay_ms == 0
        and options.zone == "UTC"
    )
    assert (
        options.success_file == "_SUCCESS"
        and options.default_name == "__DEFAULT_PARTITION__"
        and not options.end_input
    )


def test_options_are_read_by_flinks_names_and_as_keywords_without_dots():
    named = partition_commit_options(
        {
            KIND: "merge, success-file",
            TRIGGER: "partition-time",
            "sink.partition-commit.delay": "1 h",
        }
    )
    as_keywords = partition_commit_options(
        {
            "sink_partition_commit_policy_kind": ["merge-files", "success-file"],
            "sink.partition_commit.trigger": "PARTITION-TIME",
            "sink_partition_commit_delay": timedelta(hours=1),
        }
    )
    assert (
        named == as_keywords
        and named.policies == ("merge", "success-file")
        and named.delay_ms == 3_600_000
    )
    assert is_partition_option("sink_partition_commit_delay") and not is_partition_option(
        "key-columns"
    )


def test_callables_alone_mean_the_policy_custom():
    assert partition_commit_options({}, [print]).policies == ("custom",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0 s", 0),
        ("5", 5),
        ("500ms", 500),
        ("30 min", 1_800_000),
        ("1 h", 3_600_000),
        ("2 hours", 7_200_000),
        ("1d", 86_400_000),
        ("3 days", 259_200_000),
    ],
)
def test_durations_are_those_of_flink(text, expected):
    assert milliseconds(text) == expected


@pytest.mark.parametrize(
    "text", ["", "soon", "1 fortnight", "-1 s", "1.5 h", "1 h 30 min", "7 mss"]
)
def test_other_durations_are_refused_with_the_options_name(text):
    with pytest.raises(InvalidInput, match=r"sink\.partition-commit\.delay"):
        partition_commit_options({KIND: "merge", "sink.partition-commit.delay": text})


@pytest.mark.parametrize("name", [o.name for o in OPTIONS.options])
@pytest.mark.parametrize("value", [b"x", {"a": 1}, {1}, [1], object])
def test_values_that_no_option_takes_are_refused_by_name(name: str, value: object) -> None:
    with pytest.raises((InvalidInput, Unsupported)):
        partition_commit_options({KIND: "tag", name: value})


@pytest.mark.parametrize("policies", [[5], [print, None], print, "os:getcwd"])
def test_policies_that_are_no_functions_are_refused_before_a_row_is_written(
    policies: object,
) -> None:
    with pytest.raises(InvalidInput, match="policies must be a list of functions"):
        partition_commit_options({KIND: "custom"}, policies)  # type: ignore[arg-type]


@pytest.mark.parametrize("place", ["nosuch:f", "os:nosuch", "os:name", "os"])
def test_a_policy_that_cannot_be_imported_is_refused_before_a_row_is_written(place: str) -> None:
    with pytest.raises(InvalidInput, match=r"sink\.partition-commit\.policy\.class: "):
        partition_commit_options({KIND: "custom", "sink.partition-commit.policy.class": place})


def test_parameters_of_a_policy_class_are_texts_in_one_or_in_a_list() -> None:
    chosen = {KIND: "custom", "sink.partition-commit.policy.class": f"{custom.__name__}:Recorder"}
    name = "sink.partition-commit.policy.class.parameters"
    for given in ("a;b", ["a", "b"]):
        assert partition_commit_options({**chosen, name: given}).policy_parameters == ("a", "b")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"sink.partition-commit.triger": "idle"}, "Unknown option"),
        ({TRIGGER: "idle"}, "no effect without sink.partition-commit.policy.kind"),
        *(
            ({name: "1 h"}, f"{name} has no effect without")
            for name in ("watermark-column", "watermark-delay", "partition.default-name")
        ),
        ({KIND: "tag,tag"}, "twice"),
        ({KIND: "publish"}, "one of success-file, tag"),
        ({KIND: "metastore"}, "metastore.uri"),
        (
            {
                KIND: "metastore",
                "sink.partition-commit.metastore.uri": "thrift://a",
                "sink.partition-commit.metastore.table": "t",
            },
            "metastore.table",
        ),
        (
            {KIND: "tag", "sink.partition-commit.metastore.uri": "thrift://a"},
            "does not list metastore",
        ),
        ({KIND: "custom"}, "nothing to run"),
        ({KIND: "tag", "sink.partition-commit.policy.class": "a:b"}, "does not list custom"),
        ({KIND: "custom", "sink.partition-commit.policy.class.parameters": "x"}, "nothing to run"),
        ({KIND: "tag", TRIGGER: "hourly"}, "process-time, partition-time, idle"),
        (
            {KIND: "tag", "sink.partition-commit.success-file.name": "_DONE"},
            "does not list success-file",
        ),
        (
            {KIND: "success-file", "sink.partition-commit.success-file.name": "a/b"},
            "name of a file",
        ),
        ({KIND: "tag", "compaction.file-size": "1GB"}, "does not list merge"),
        ({KIND: "merge", "compaction.file-size": "huge"}, "must be a size"),
        (
            {KIND: "tag", "partition.time-extractor.timestamp-pattern": "$dt"},
            "no effect with sink.partition-commit.trigger=process-time",
        ),
        (
            {KIND: "tag", TRIGGER: "partition-time", "partition.time-extractor.kind": "custom"},
            "needs partition.time-extractor.class",
        ),
        (
            {
                KIND: "tag",
                TRIGGER: "partition-time",
                "partition.time-extractor.kind": "default",
                "partition.time-extractor.class": "a:b",
            },
            "contradicts",
        ),
        (
            {
                KIND: "tag",
                TRIGGER: "partition-time",
                "partition.time-extractor.class": "a:b",
                "partition.time-extractor.timestamp-pattern": "$a",
            },
            "contradicts",
        ),
        (
            {
                KIND: "tag",
                TRIGGER: "partition-time",
                "sink.partition-commit.watermark-time-zone": "Mars/Base",
            },
            "must be a time zone",
        ),
        (
            {KIND: "tag", TRIGGER: "partition-time", "watermark-delay": "1 h"},
            "needs watermark-column",
        ),
        ({KIND: "tag", "sink.partition-commit.end-input": "maybe"}, "true or false, not 'maybe'"),
        ({KIND: "tag", "sink_partition_commit_policy_kind": "merge"}, "given twice"),
    ],
)
def test_wrong_and_contradictory_options_are_refused_with_a_sentence(options, said):
    with pytest.raises(InvalidInput, match=said.replace(".", r"\.")):
        partition_commit_options(options)


@pytest.mark.parametrize(
    "name",
    [
        "sink.rolling-policy.file-size",
        "sink.rolling-policy.rollover-interval",
        "sink.rolling-policy.inactivity-interval",
        "sink.rolling-policy.check-interval",
        "compaction.parallelism",
        "sink.shuffle-by-partition.enable",
        "sink.parallelism",
        "partition.idle-time-to-done",
        "partition.mark-done-action",
        "partition.mark-done.recover-from-state",
    ],
)
def test_options_of_flink_and_paimon_that_mean_nothing_here_are_refused_with_what_to_do(name):
    with pytest.raises(Unsupported, match=name.replace(".", r"\.")) as caught:
        partition_commit_options({KIND: "merge", name: "1"})
    assert len(str(caught.value).partition(" is not supported here: ")[2]) > 20


def test_a_password_that_is_given_twice_is_not_shown():
    name = "sink.partition-commit.metastore.hive.metastore.client.plain.password"
    with pytest.raises(InvalidInput, match="given twice") as caught:
        partition_commit_options({name: "first-word", name.replace("-", "_"): "second-word"})
    assert "-word" not in str(caught.value)


def test_auto_compaction_is_refused_in_favour_of_merge_and_its_absence_is_taken():
    with pytest.raises(Unsupported, match="auto-compaction") as caught:
        partition_commit_options({KIND: "tag", "auto-compaction": "true"})
    assert "merge" in caught.value.hint
    assert partition_commit_options({KIND: "tag", "auto-compaction": "false"}).policies == ("tag",)


def test_the_options_of_a_streaming_write_are_told_apart():
    hook, others = partition_commit_of(
        {KIND: "tag", "sink_partition_commit_delay": "1 h", "write-mode": "append", "branch": "b"}
    )
    assert (
        others == {"write-mode": "append", "branch": "b"}
        and hook.options.policies == ("tag",)
        and hook.options.delay_ms == 3_600_000
    )
    assert partition_commit_of({"write-mode": "upsert"}) == (None, {"write-mode": "upsert"})
