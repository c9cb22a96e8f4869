"""Make the chain of policies that the options name, in the order in which they are named; the
policies tag and property among them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import quote

from frazil.commit.actions import MetadataChange
from frazil.commit.produce import parent_of
from frazil.commit.table_commit import commit
from frazil.errors import Unsupported, ValidationError
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import PARTITION_COMMIT
from frazil.spec.snapshot import MAIN_BRANCH, SnapshotRef
from frazil.spec.updates import SetProperties, SetSnapshotRef, Update
from frazil.stream.partitions.fields import fields_of, path_of
from frazil.stream.partitions.options import (
    CUSTOM,
    MERGE,
    METASTORE,
    PROPERTY,
    SUCCESS_FILE,
    TAG,
    PartitionCommitOptions,
)
from frazil.stream.partitions.policies.context import PartitionContext, Policy, TableSite
from frazil.stream.partitions.policies.merge_files import merge
from frazil.stream.partitions.policies.success_file import success_file

Chain = tuple[tuple[str, Policy], ...]


def table_chain(options: PartitionCommitOptions, site: TableSite) -> Chain:
    """Make the policies of a table."""
    check_for_table(options)
    return chain_of(
        options,
        {
            SUCCESS_FILE: lambda: success_file(site.storage, options.success_file),
            TAG: lambda: tag(site),
            PROPERTY: lambda: table_property(site),
            MERGE: lambda: merge(site, options.merge_target),
        },
    )


def check_for_table(options: PartitionCommitOptions) -> None:
    """Check that the policies are for Iceberg tables. Raises Unsupported."""
    if METASTORE in options.policies:
        raise Unsupported(
            "The policy metastore is for plain folders of Parquet files: a Hive Metastore keeps no partitions of Iceberg tables.",
            hint="Iceberg tables have success-file, tag, property, merge and custom.",
            option="sink.partition-commit.policy.kind",
        )


def chain_of(options: PartitionCommitOptions, makers: Mapping[str, Callable[[], Policy]]) -> Chain:
    """Make the policies, in the order in which the options name them. `makers`: the functions that
    make the built-in policies by name.
    """
    return tuple(
        (kind, custom_policy(options) if kind == CUSTOM else makers[kind]())
        for kind in options.policies
    )


def custom_policy(options: PartitionCommitOptions) -> Policy:
    """Make the policy that runs the caller's functions, one after the other."""

    def run(context: PartitionContext) -> None:
        for function in options.custom:
            function(context)

    return run


def tag_name(path: str, branch: str = MAIN_BRANCH) -> str:
    """Name the tag of a partition: `done/dt=2026-01-01`, on other branches
    `done@branch/dt=2026-01-01`.
    """
    return f"done/{path}" if branch == MAIN_BRANCH else f"done@{quote(branch, safe='')}/{path}"


def property_of(path: str, branch: str) -> str:
    """Name the table property of a partition: `frazil.partition-commit.done/dt=2026-01-01@main`."""
    return f"{PARTITION_COMMIT.prefix}done/{path}@{quote(branch, safe='')}"


def tag(site: TableSite) -> Policy:
    """Make the policy: a tag at the snapshot that shows the partition complete. It moves when the
    partition is committed again.
    """

    def mark(context: PartitionContext) -> None:
        def change(metadata: TableMetadata) -> Sequence[Update]:
            head = parent_of(metadata, site.branch)
            if head is None:
                return ()
            name = tag_name(_path(metadata, context), site.branch)
            held = metadata.refs.get(name)
            if held is not None and held.is_branch:
                raise ValidationError(
                    f"Cannot tag a partition: {name} is a branch.", table=site.name, ref=name
                )
            return (
                SetSnapshotRef(
                    name,
                    SnapshotRef(
                        head.snapshot_id,
                        "tag",
                        max_ref_age_ms=held.max_ref_age_ms if held else None,
                    ),
                ),
            )

        commit(site.backend, site.load(), [MetadataChange(change)])

    return mark


def table_property(site: TableSite) -> Policy:
    """Make the policy: a table property with a JSON object of snapshot-id, watermark and late."""

    def mark(context: PartitionContext) -> None:
        def change(metadata: TableMetadata) -> Sequence[Update]:
            head = parent_of(metadata, site.branch)
            body = {
                "snapshot-id": head.snapshot_id if head else None,
                "watermark": context.watermark,
                "late": context.late,
            }
            return (
                SetProperties(
                    {property_of(_path(metadata, context), site.branch): json.dumps(body)}
                ),
            )

        commit(site.backend, site.load(), [MetadataChange(change)])

    return mark


def _path(metadata: TableMetadata, context: PartitionContext) -> str:
    return path_of(context.partition, fields_of(metadata, context.partition.spec_id))
