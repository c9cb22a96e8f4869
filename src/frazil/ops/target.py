"""Choose where and how a write goes: the branch (write-audit-publish included), the summary
properties and the write options.

The branch that a read takes under write-audit-publish is chosen in `ops.reading`.
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
from frazil.ops.session import WriteAuditPublish
from frazil.rows.modes import COPY_ON_WRITE, OF_DELETES, mode_of
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import WAP_ENABLED, property_text
from frazil.spec.snapshot import MAIN_BRANCH
from frazil.storage import Storage


@dataclass(frozen=True)
class WriteArguments:
    """Hold the arguments of a write other than rows and conditions, as the caller passed them, not
    checked yet.
    """

    verb: Verb
    branch: str | None = MAIN_BRANCH
    snapshot_properties: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    case_sensitive: bool | None = None

    def for_verb(self, verb: Verb) -> WriteArguments:
        return replace(self, verb=verb)


def overwrites_partitions(arguments: WriteArguments, row_filter: object) -> bool:
    """Tell whether the option overwrite-mode=dynamic turns an overwrite into a dynamic partition
    overwrite. Raises InvalidInput when there is a filter as well."""
    if write_options(arguments.options).overwrite_mode != "dynamic":
        return False
    if not isinstance(row_filter, AlwaysTrue):
        raise InvalidInput("overwrite-mode=dynamic replaces partitions and takes no filter.")
    return True


@dataclass(frozen=True)
class WriteTarget:
    """Hold the state of the table to write to, the branch and the options.

    `properties`: added to the snapshot summary. `stage_only`: make the snapshot without moving a
    branch. `wap_id`: stage the snapshot under this id (write-audit-publish). `known_columns`: the
    highest field id of the table as it was loaded (see WrittenFor). `case_sensitive`: how the names
    of a frame's columns are matched; None: True, and for Spark frames the session's
    `spark.sql.caseSensitive`.
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
        """Return the same write to another state of the table."""
        return replace(self, metadata=metadata)

    @property
    def snapshot_fields(self) -> dict[str, Any]:
        """Return the arguments that every action takes that makes a snapshot."""
        return {
            "branch": self.branch,
            "snapshot_properties": self.properties,
            "stage_only": self.stage_only,
            "wap_id": self.wap_id,
        }


def target(
    arguments: WriteArguments,
    metadata: TableMetadata,
    storage: Storage,
    known_columns: int,
    engine: Engine,
    defaults: Mapping[str, str],
    works: Engine,
) -> WriteTarget:
    """Resolve the target of a write. As in Java, the session's spark.wap.branch takes the place of
    main on a table with write.wap.enabled; a branch that the caller names comes before it.

    `engine`: the engine whose session settings count. `defaults`: the write options that the
    session sets. `works`: the engine that writes the rows. Raises InvalidInput for contradictory
    arguments, and for options that have no effect on the verb, on this table or without Spark.
    """
    branch, options = arguments.branch, write_options(arguments.options, arguments.verb, defaults)
    check_formats(metadata, options, arguments.verb)
    if not works.evaluates_sql and options.asks_for("advisory_partition_size"):
        raise meaningless("advisory_partition_size", "without Spark, whose partitions it sizes")
    chosen, wap_id = _place(branch, options, metadata, engine)
    properties = mapping("snapshot_properties", arguments.snapshot_properties)
    # As in PyIceberg, branch=None stages the snapshot without moving a branch.
    return WriteTarget(
        metadata,
        storage,
        chosen or MAIN_BRANCH,
        {**options.snapshot_properties, **{k: property_text(k, v) for k, v in properties.items()}},
        options,
        stage_only=branch is None and not chosen and wap_id is None,
        wap_id=wap_id,
        known_columns=known_columns,
        case_sensitive=flag("case_sensitive", arguments.case_sensitive),
    )


@dataclass(frozen=True)
class WrittenTo:
    """Name the branch that a write goes to, and the id under which write-audit-publish stages its
    snapshot without moving the branch.
    """

    branch: str = MAIN_BRANCH
    wap_id: str | None = None


def where_to(arguments: WriteArguments, metadata: TableMetadata, engine: Engine) -> WrittenTo:
    """Tell, before anything is written, where `target` would put a write. Raises InvalidInput for
    contradictory arguments.
    """
    options = write_options(arguments.options, arguments.verb, engine.write_defaults())
    branch, wap_id = _place(arguments.branch, options, metadata, engine)
    return WrittenTo(branch or MAIN_BRANCH, wap_id)


def _place(
    branch: str | None, options: WriteOptions, metadata: TableMetadata, engine: Engine
) -> tuple[str | None, str | None]:
    """Return the branch that is chosen, if any, and the WAP id."""
    if "" in (branch, options.branch):
        raise InvalidInput(
            "branch is empty.", hint="Leave it out for main.", table=metadata.location
        )
    if branch is not None and not isinstance(branch, str):
        raise InvalidInput(f"branch must be a name, not {branch!r}.", table=metadata.location)
    if options.branch and branch not in (None, MAIN_BRANCH, options.branch):
        raise InvalidInput(
            f"branch={branch!r} and the write option branch={options.branch!r} contradict each other."
        )
    chosen = options.branch or branch
    wap = _write_audit_publish(metadata, options, engine)
    if wap.branch and chosen in (None, MAIN_BRANCH):
        chosen = wap.branch
    return chosen, wap.wap_id


def _write_audit_publish(
    metadata: TableMetadata, options: WriteOptions, engine: Engine
) -> WriteAuditPublish:
    """Return the WAP id (the write option's before the session's) and the session's WAP branch, for
    a table that has write-audit-publish switched on. Raises InvalidInput for an id and a branch at
    once, and for an id where it is switched off."""
    if not WAP_ENABLED.of(metadata.properties):
        if options.wap_id:
            raise InvalidInput(
                "wap-id is given, but the table property write.wap.enabled is not true.",
                table=metadata.location,
            )
        return WriteAuditPublish()
    settings = engine.write_audit_publish()
    wap = WriteAuditPublish(options.wap_id or settings.wap_id, settings.branch)
    if wap.wap_id and wap.branch:
        raise InvalidInput(
            f"Cannot set both WAP ID and branch, but got ID [{wap.wap_id}] and branch [{wap.branch}]"
        )
    return wap


def start_of(metadata: TableMetadata, to: WriteTarget) -> int | None:
    """Return the id of the snapshot from which conflicts are looked for: that of the option
    validate-from-snapshot-id, else the head of the branch in `metadata`, the table as it was
    loaded. None: the table was empty."""
    if to.options.validate_from_snapshot_id is not None:
        return metadata.snapshot_by_id(to.options.validate_from_snapshot_id).snapshot_id
    head = metadata.branch_head(to.branch)
    return head.snapshot_id if head else None


def check_overwrite(to: WriteTarget, where: object) -> None:
    """Check the options of an overwrite before anything is read. Raises InvalidInput for options of
    delete files where it writes none.
    """
    if any(to.options.asks_for(name) for name in OF_DELETES):
        mode_of(
            "delete",
            to.metadata,
            COPY_ON_WRITE if isinstance(where, AlwaysTrue) else None,
            to.options,
        )
