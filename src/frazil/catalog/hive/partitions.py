"""Add the partitions of a Hive table over plain files to a Hive Metastore, or update them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from frazil.catalog.hive import calls
from frazil.catalog.hive.client import HiveClient, MetastoreError
from frazil.catalog.hive.settings import settings
from frazil.catalog.hive.site import metastore_sources
from frazil.catalog.hive.structs import (
    ClientCapabilities,
    GetTableRequest,
    HivePartition,
    HiveTable,
)
from frazil.catalog.hive.table_object import is_iceberg
from frazil.catalog.names import full_name, identifier_parts
from frazil.errors import InvalidInput, NoSuchTableError

_CHANGED = "transient_lastDdlTime"  # seconds; Hive's own parameter of tables and partitions


@contextmanager
def partitioned_table(
    uri: str, name: str, access: Mapping[str, str] | None = None
) -> Iterator[PartitionedTable]:
    """Open a connection to a metastore for the partitions of one table, given as `database.table`.
    `access`: the catalog properties that tell who asks, and how (`options.OF_ACCESS`); what they
    leave open is taken of Hadoop's configuration.

    Raises NoSuchTableError, InvalidInput for a table that is not Hive's own, StorageError.
    """
    parts = identifier_parts(name)
    if len(parts) != 2:
        raise InvalidInput(
            f"{name!r} is no name of a Hive table.",
            hint="Name it as in database.table, without a catalog.",
            table=name,
        )
    properties = {"warehouse": "", **(access or {}), "uri": uri}
    for _, values in metastore_sources(properties, None, os.environ):
        for key, value in values.items():  # in place: what comes next depends on what is known
            properties.setdefault(key, value)
    client = HiveClient(settings(properties))
    try:
        yield PartitionedTable(client, _hive_table(client, *parts))
    finally:
        client.close()


def _hive_table(client: HiveClient, database: str, name: str) -> HiveTable:
    whole = full_name((database, name))
    try:
        table: HiveTable | None = client.ask(
            calls.GET_TABLE, GetTableRequest(database, name, ClientCapabilities([]))
        ).table
    except MetastoreError as error:
        if error.kind != "NoSuchObjectException":
            raise
        text = f"The metastore has no table {whole}."
        raise NoSuchTableError(
            text,
            hint="Create it in Hive or Spark, over the folder and with its partition columns.",
            table=whole,
        ) from error
    if table is None or table.sd is None or is_iceberg(table) or "VIEW" in (table.tableType or ""):
        text = f"{whole} is no table of Hive's own over plain files: the metastore keeps no partitions for it."
        raise InvalidInput(text, table=whole)
    return table


class PartitionedTable:
    """Add and update the partitions of one table of Hive's own."""

    def __init__(self, client: HiveClient, table: HiveTable):
        self._client, self._table = client, table
        self.name = full_name((table.dbName or "", table.tableName or ""))

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the names of the partition columns, in lower case as the metastore keeps them."""
        return tuple(str(key.name) for key in self._table.partitionKeys or ())

    def announce(self, values: Sequence[str], location: str) -> None:
        """Add a partition with its folder; where there is one, give it this folder and a new time
        of change. Safe to repeat.
        """
        stored = self._partition(values)
        if stored is None:
            try:
                self._client.ask(calls.ADD_PARTITION, self._new(values, location))
                return
            except MetastoreError as error:
                if (
                    error.kind != "AlreadyExistsException"
                    or (stored := self._partition(values)) is None
                ):
                    raise
        changed = {**(stored.parameters or {}), _CHANGED: str(int(time.time()))}
        assert self._table.sd is not None
        formats = replace(stored.sd or self._table.sd, location=location)
        self._client.ask(
            calls.ALTER_PARTITION,
            self._table.dbName,
            self._table.tableName,
            replace(stored, sd=formats, parameters=changed),
        )

    def _partition(self, values: Sequence[str]) -> HivePartition | None:
        try:
            partition: HivePartition = self._client.ask(
                calls.GET_PARTITION, self._table.dbName, self._table.tableName, list(values)
            )
        except MetastoreError as error:
            if error.kind == "NoSuchObjectException":
                return None
            raise
        return partition

    def _new(self, values: Sequence[str], location: str) -> HivePartition:
        assert self._table.sd is not None
        now, formats = int(time.time()), replace(self._table.sd, location=location)
        return HivePartition(
            list(values),
            self._table.dbName,
            self._table.tableName,
            now,
            now,
            formats,
            {_CHANGED: str(now)},
        )
