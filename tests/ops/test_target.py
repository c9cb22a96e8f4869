"""Where a write goes: the branch, write-audit-publish, the options of caller and session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from frazil.errors import InvalidInput
from frazil.ops.in_process import InProcessEngine
from frazil.ops.session import WriteAuditPublish
from frazil.ops.table_definition import table_metadata
from frazil.ops.target import (
    WriteArguments,
    WriteTarget,
    WrittenTo,
    overwrites_partitions,
    target,
    where_to,
)
from frazil.spec.ddl import parse_schema
from frazil.spec.metadata import TableMetadata


@dataclass(frozen=True)
class SessionEngine(InProcessEngine):
    """An engine whose session has settings, as one of Spark has."""

    wap: WriteAuditPublish = WriteAuditPublish()
    defaults: Mapping[str, str] = field(default_factory=dict)
    sql: bool = True

    @property
    def evaluates_sql(self) -> bool:
        return self.sql

    def write_audit_publish(self) -> WriteAuditPublish:
        return self.wap

    def write_defaults(self) -> Mapping[str, str]:
        return self.defaults


PLAIN = table_metadata("memory://t", parse_schema("id bigint"), None, None, {})
AUDITED = table_metadata(
    "memory://t", parse_schema("id bigint"), None, None, {"write.wap.enabled": "true"}
)
NO_STORAGE: Any = None


def resolved(
    arguments: WriteArguments,
    metadata: TableMetadata = PLAIN,
    engine: SessionEngine = SessionEngine(),
) -> WriteTarget:
    return target(arguments, metadata, NO_STORAGE, 1, engine, engine.write_defaults(), engine)


@pytest.mark.parametrize(
    ("branch", "options", "goes_to", "stage_only"),
    [
        ("main", {}, "main", False),
        ("audit", {}, "audit", False),
        (None, {}, "main", True),
        ("main", {"branch": "audit"}, "audit", False),
        (None, {"branch": "audit"}, "audit", False),
        ("audit", {"branch": "audit"}, "audit", False),
    ],
)
def test_the_branch_is_the_option_s_or_the_argument_s_and_none_stages(
    branch: str | None, options: dict[str, str], goes_to: str, stage_only: bool
) -> None:
    to = resolved(WriteArguments("append", branch, options=options))
    assert (to.branch, to.stage_only, to.wap_id) == (goes_to, stage_only, None)


@pytest.mark.parametrize(
    ("branch", "options", "text"),
    [
        ("", {}, "branch is empty"),
        ("main", {"branch": ""}, "branch is empty"),
        (7, {}, "branch must be a name"),
        ("a", {"branch": "b"}, "contradict each other"),
    ],
)
def test_a_branch_that_is_none_or_two_is_refused(
    branch: Any, options: dict[str, str], text: str
) -> None:
    with pytest.raises(InvalidInput, match=text):
        resolved(WriteArguments("append", branch, options=options))


def test_the_session_s_wap_branch_takes_writes_to_main_of_a_table_that_is_audited() -> None:
    engine = SessionEngine(WriteAuditPublish(branch="audit"))
    assert resolved(WriteArguments("append"), AUDITED, engine).branch == "audit"
    assert resolved(WriteArguments("append", None), AUDITED, engine).branch == "audit"
    assert resolved(WriteArguments("append"), PLAIN, engine).branch == "main"
    assert resolved(WriteArguments("append", "b"), AUDITED, engine).branch == "b"
    assert (
        resolved(WriteArguments("append", options={"branch": "b"}), AUDITED, engine).branch == "b"
    )


def test_a_wap_id_stages_without_moving_a_branch_and_the_option_s_goes_before_the_session_s() -> (
    None
):
    engine = SessionEngine(WriteAuditPublish(wap_id="session"))
    by_session = resolved(WriteArguments("append"), AUDITED, engine)
    by_option = resolved(WriteArguments("append", options={"wap_id": "option"}), AUDITED, engine)
    assert (by_session.wap_id, by_option.wap_id) == ("session", "option")
    assert (
        not by_session.stage_only
        and not resolved(WriteArguments("append", None), AUDITED, engine).stage_only
    )
    assert resolved(WriteArguments("append"), PLAIN, engine).wap_id is None


def test_a_wap_id_and_a_wap_branch_at_once_and_an_id_for_a_table_that_is_not_audited_are_refused() -> (
    None
):
    both = SessionEngine(WriteAuditPublish("id", "branch"))
    with pytest.raises(
        InvalidInput,
        match=r"Cannot set both WAP ID and branch, but got ID \[id\] and branch \[branch\]",
    ):
        resolved(WriteArguments("append"), AUDITED, both)
    with pytest.raises(InvalidInput, match="write.wap.enabled is not true"):
        resolved(WriteArguments("append", options={"wap_id": "id"}), PLAIN)
    assert resolved(WriteArguments("append"), PLAIN, both).branch == "main"


@pytest.mark.parametrize(
    "engine",
    [
        SessionEngine(),
        SessionEngine(WriteAuditPublish(branch="b")),
        SessionEngine(WriteAuditPublish("id")),
    ],
)
@pytest.mark.parametrize("metadata", [PLAIN, AUDITED])
def test_where_a_write_will_go_is_told_beforehand_as_it_is_resolved(
    metadata: TableMetadata, engine: SessionEngine
) -> None:
    to = resolved(WriteArguments("append"), metadata, engine)
    assert where_to(WriteArguments("append"), metadata, engine) == WrittenTo(to.branch, to.wap_id)


def test_options_of_the_caller_go_before_those_of_the_session() -> None:
    engine = SessionEngine(defaults={"compression-codec": "gzip", "target-file-size-bytes": "1000"})
    options = resolved(
        WriteArguments("append", options={"compression_codec": "zstd"}), engine=engine
    ).options
    assert (options.compression_codec, options.target_file_size_bytes) == ("zstd", 1000)


def test_properties_of_the_snapshot_are_texts_and_the_argument_goes_before_the_option() -> None:
    arguments = WriteArguments(
        "append",
        snapshot_properties={"a": 1, "b": True},
        options={"snapshot-property.a": "o", "snapshot-property.c": "o"},
    )  # type: ignore[dict-item]
    assert dict(resolved(arguments).properties) == {"a": "1", "b": "true", "c": "o"}


def test_what_has_no_effect_without_spark_is_refused_there_alone() -> None:
    arguments = WriteArguments("append", options={"advisory_partition_size": 1 << 20})
    assert resolved(arguments).options.advisory_partition_size == 1 << 20
    with pytest.raises(InvalidInput, match="advisory.partition.size"):
        resolved(arguments, engine=replace(SessionEngine(), sql=False))


def test_it_is_refused_by_the_engine_that_works_not_by_the_one_whose_settings_count() -> None:
    arguments = WriteArguments("merge", options={"advisory_partition_size": 1 << 20})
    session, process = (
        SessionEngine(defaults={"advisory-partition-size": "1048576"}),
        SessionEngine(sql=False),
    )

    def size(arguments: WriteArguments, engine: SessionEngine, works: SessionEngine) -> int | None:
        return target(
            arguments, PLAIN, NO_STORAGE, 1, engine, engine.write_defaults(), works
        ).options.advisory_partition_size

    assert size(arguments, process, session) == 1 << 20
    with pytest.raises(InvalidInput, match="advisory.partition.size"):
        size(arguments, session, process)
    assert size(WriteArguments("merge"), session, process) == 1 << 20, (
        "a setting of the session is ignored where it has no effect"
    )


def test_overwrite_mode_dynamic_takes_no_filter() -> None:
    from frazil.expr.nodes import AlwaysTrue

    dynamic = WriteArguments("overwrite", options={"overwrite_mode": "dynamic"})
    assert overwrites_partitions(dynamic, AlwaysTrue()) and not overwrites_partitions(
        WriteArguments("overwrite"), "id = 1"
    )
    with pytest.raises(InvalidInput, match="takes no filter"):
        overwrites_partitions(dynamic, "id = 1")
