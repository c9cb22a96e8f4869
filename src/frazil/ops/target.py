"""Where a write goes and how: the branch (also that of write-audit-publish), summary properties, options; made from what a caller typed.

The branch that a read takes under write-audit-publish is chosen in `reading`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from frazil.arrow.write.write_context import check_formats
from frazil.arrow.write.write_options import Verb, WriteOptions, meaningless, write_options
from frazil.errors import InvalidInput
from frazil.expr.nodes import AlwaysTrue
from frazil.ops.arguments import flag, mapping
from frazil.ops.engine import Engine
from frazil.ops.session import WriteAuditPublish, has_write_audit_publish
from frazil.rows.modes import COPY_ON_WRITE, OF_DELETES, mode_of
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import property_text
from frazil.spec.snapshot import MAIN_BRANCH
from frazil.storage import Storage


@dataclass(frozen=True)
class WriteArguments:
    """What a caller typed, beside rows and conditions; nothing is checked yet."""

    verb: Verb
    branch: str | None = MAIN_BRANCH
    snapshot_properties: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    case_sensitive: bool | None = None

    def for_verb(self, verb: Verb) -> WriteArguments:
        return replace(self, verb=verb)


def overwrites_partitions(arguments: WriteArguments, row_filter: object) -> bool:
    """Whether the option overwrite-mode makes a dynamic overwrite of an overwrite. Raises InvalidInput when there is a filter as well."""
    if write_options(arguments.options).overwrite_mode != "dynamic":
        return False
    if not isinstance(row_filter, AlwaysTrue):
        raise InvalidInput("overwrite-mode=dynamic replaces partitions and takes no filter.")
    return True


@dataclass(frozen=True)
class WriteTarget:
    """A table's state to write to, and how. `stage_only`: the snapshot is made, no branch moves.

    `known_columns`: the highest field id of the table as it was loaded (see WrittenFor). `case_sensitive`: how names of frames are
    matched; None: True, for Spark frames what the session says.
    """

    metadata: TableMetadata
    storage: Storage
    branch: str
    properties: Mapping[str, str]
    options: WriteOptions
    stage_only: bool = False
    wap_id: str | None = None
    known_columns: int = 0
    case_sensitive: bool | None = None

    def with_metadata(self, metadata: TableMetadata) -> WriteTarget:
        """The same write to another state of the table."""
        return replace(self, metadata=metadata)

    @property
    def snapshot_fields(self) -> dict[str, Any]:
        """What every action that makes a snapshot is told of it."""
        return {
            "branch": self.branch, "snapshot_properties": self.properties, "stage_only": self.stage_only, "wap_id": self.wap_id,
        }  # fmt: skip


def target(
    arguments: WriteArguments, metadata: TableMetadata, storage: Storage, known_columns: int, engine: Engine, defaults: Mapping[str, str]
) -> WriteTarget:
    """Java's precedence for the branch: the option, the session's WAP branch, main. `engine`: whose session is asked. `defaults`: write
    options that a session gives.

    Raises InvalidInput for contradictions, and for options that cannot mean anything to the verb, to this table or without Spark.
    """
    branch, options = arguments.branch, write_options(arguments.options, arguments.verb, defaults)
    check_formats(metadata, options, arguments.verb)
    if not engine.evaluates_sql and options.advisory_partition_size is not None:
        raise meaningless("advisory_partition_size", "without Spark, whose partitions it sizes")
    if "" in (branch, options.branch):
        raise InvalidInput("branch is empty.", hint="Leave it out for main.", table=metadata.location)
    if branch is not None and not isinstance(branch, str):
        raise InvalidInput(f"branch is a name, not {branch!r}.", table=metadata.location)
    if options.branch and branch not in (None, MAIN_BRANCH, options.branch):
        raise InvalidInput(f"branch={branch!r} and the write option branch={options.branch!r} contradict each other.")
    chosen = options.branch or branch
    audited = _write_audit_publish(metadata, options, engine)
    if audited.branch:
        if chosen not in (None, MAIN_BRANCH):
            raise InvalidInput(f"Cannot write to both branch and WAP branch, but got branch [{chosen}] and WAP branch [{audited.branch}]")
        chosen = audited.branch
    given = mapping("snapshot_properties", arguments.snapshot_properties)
    # PyIceberg's branch=None: the snapshot is staged, no branch moves.
    return WriteTarget(
        metadata, storage, chosen or MAIN_BRANCH,
        {**options.snapshot_properties, **{k: property_text(k, v) for k, v in given.items()}}, options,
        stage_only=branch is None and not chosen and audited.wap_id is None, wap_id=audited.wap_id,
        known_columns=known_columns, case_sensitive=flag("case_sensitive", arguments.case_sensitive),
    )  # fmt: skip


def _write_audit_publish(metadata: TableMetadata, options: WriteOptions, engine: Engine) -> WriteAuditPublish:
    """The id and the branch that count: the option's id before the session's. Sessions are asked only for tables that have it on."""
    if not has_write_audit_publish(metadata):
        if options.wap_id:
            raise InvalidInput("wap-id is given, but the table property write.wap.enabled is not true.", table=metadata.location)
        return WriteAuditPublish()
    session = engine.write_audit_publish()
    found = WriteAuditPublish(options.wap_id or session.wap_id, session.branch)
    if found.wap_id and found.branch:
        raise InvalidInput(f"Cannot set both WAP ID and branch, but got ID [{found.wap_id}] and branch [{found.branch}]")
    return found


def start_of(metadata: TableMetadata, to: WriteTarget) -> int | None:
    """The snapshot from which conflicts count: the one named, else the branch's head as this write found it. `metadata`: as loaded."""
    if to.options.validate_from_snapshot_id is not None:
        return metadata.snapshot_by_id(to.options.validate_from_snapshot_id).snapshot_id
    head = metadata.ref_snapshot(to.branch) if to.branch in metadata.refs else metadata.current_snapshot()
    return head.snapshot_id if head else None


def check_overwrite(to: WriteTarget, where: object) -> None:
    """Raises InvalidInput, before anything is read, for options of delete files where the overwrite can write none."""
    if any(to.options.asks_for(name) for name in OF_DELETES):
        mode_of("delete", to.metadata, COPY_ON_WRITE if isinstance(where, AlwaysTrue) else None, to.options)
