"""Add a partition that is complete to a Hive Metastore, for a table over a plain folder (policy
`metastore`).
"""

from __future__ import annotations

from collections.abc import Sequence

from frazil.catalog.hive.partitions import partitioned_table
from frazil.errors import InvalidInput
from frazil.stream.partitions.directories.folder import HIVE_NULL
from frazil.stream.partitions.options import PartitionCommitOptions
from frazil.stream.partitions.policies.context import PartitionContext, Policy


def metastore(options: PartitionCommitOptions) -> Policy:
    """Make the policy: the partition is added, or updated where it is there, so that Hive and Spark
    SQL read it.
    """

    def announce(context: PartitionContext) -> None:
        nulls = (value is None for value in context.partition.values)
        values = [
            HIVE_NULL if null else text
            for null, text in zip(nulls, context.partition_values, strict=True)
        ]
        with partitioned_table(*_target(options)) as table:
            table.announce(values, context.path)

    return announce


def _target(options: PartitionCommitOptions) -> tuple[str, str, dict[str, str]]:
    return (
        options.metastore_uri or "",
        options.metastore_table or "",
        dict(options.metastore_access),
    )


def check_metastore(options: PartitionCommitOptions, keys: Sequence[str]) -> None:
    """Check that the metastore has the table, with these partition columns. Raises
    NoSuchTableError, InvalidInput, StorageError.
    """
    with partitioned_table(*_target(options)) as table:
        if table.keys != tuple(key.lower() for key in keys):
            raise InvalidInput(
                f"The Hive table {table.name} is partitioned by {', '.join(table.keys) or 'nothing'}, the stream by {', '.join(keys)}.",
                hint="Both must have the same columns in the same order.",
                table=table.name,
            )
