"""Make the chain of policies that the options name, in the order in which they are named."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from frazil.errors import Unsupported
from frazil.stream.partitions.extractor import loaded
from frazil.stream.partitions.options import (
    CUSTOM,
    MERGE,
    METASTORE,
    PROPERTY,
    SUCCESS_FILE,
    TAG,
    PartitionCommitOptions,
)
from frazil.stream.partitions.policies import marks
from frazil.stream.partitions.policies.context import PartitionContext, Policy, TableSite
from frazil.stream.partitions.policies.merge import merge
from frazil.stream.partitions.policies.success_file import success_file

Chain = tuple[tuple[str, Policy], ...]


def table_chain(options: PartitionCommitOptions, site: TableSite) -> Chain:
    """Make the policies of a table."""
    check_for_table(options)
    return chain_of(
        options,
        {
            SUCCESS_FILE: lambda: success_file(site.storage, options.success_file),
            TAG: lambda: marks.tag(site),
            PROPERTY: lambda: marks.table_property(site),
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
    """Make the policy that runs the caller's functions, one after the other. Raises InvalidInput
    when the class cannot be imported.
    """
    if options.policy_class is None:
        functions = options.custom
    else:
        option = "sink.partition-commit.policy.class"
        functions = (loaded(options.policy_class, option, "commit", options.policy_parameters),)

    def run(context: PartitionContext) -> None:
        for function in functions:
            function(context)

    return run
