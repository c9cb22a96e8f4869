"""Describe to a policy which partition of which table is complete, and give the policies of a table
access to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from frazil.catalog import CatalogBackend, LoadedTable
from frazil.spec.snapshot import MAIN_BRANCH
from frazil.storage import Storage
from frazil.stream.partitions.fields import Partition
from frazil.tasks.runner import InProcess, Runner


@dataclass(frozen=True)
class PartitionContext:
    """Describe a complete partition to a policy.

    `catalog`, `database`, `table`: names, `database` with dots between the levels of a namespace;
    of a plain folder: empty, the directory around it, and its own name. `partition_values`: texts
    in the order of `partition_keys`; a null is the option partition.default-name. `path`: the
    partition's folder; under a table's object-store layout no data lies there, but marks do.
    `watermark`: milliseconds since 1970 UTC, None without one. `late`: the partition was committed
    before, and data came since. `branch`: the branch that was written. `partition`: the texts in
    the order of the spec's fields, None for null, with the id of the spec.
    """

    catalog: str
    database: str
    table: str
    partition_keys: tuple[str, ...]
    partition_values: tuple[str, ...]
    path: str
    watermark: int | None = None
    late: bool = False
    branch: str = MAIN_BRANCH
    partition: Partition = field(default=Partition(0, ()), repr=False)

    @property
    def partition_spec(self) -> dict[str, str]:
        """Return the values by key, as Flink's context has them."""
        return dict(zip(self.partition_keys, self.partition_values, strict=True))


Policy = Callable[[PartitionContext], object]


def address_of(table: LoadedTable) -> tuple[str, ...]:
    """Return the identifier by which a catalog loads the table; the location for a table that was
    opened by its path.
    """
    return table.identifier or (table.metadata.location,)


@dataclass(frozen=True)
class TableSite:
    """Give the policies of a table access to it. Each policy loads the newest state for itself.
    `runner`: runs the tasks that rewrite files."""

    backend: CatalogBackend
    identifier: tuple[str, ...]
    name: str
    branch: str
    storage: Storage = field(repr=False)
    runner: Runner = field(default_factory=InProcess, repr=False)

    def load(self) -> LoadedTable:
        return self.backend.load(self.identifier)
