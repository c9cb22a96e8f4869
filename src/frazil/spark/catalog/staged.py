"""Create or replace a table together with its rows: CREATE TABLE AS SELECT and REPLACE TABLE in one
commit.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from py4j.java_gateway import JavaObject

from frazil.catalog.names import full_name
from frazil.ops.session import Session
from frazil.spark.catalog.protocol import Calls, Parts, Staged, TableDefinition
from frazil.spark.catalog.table import DescribedTable
from frazil.spark.catalog.write import WriteBuilder
from frazil.spark.host.jvm import implementing
from frazil.spark.host.jvm_catalog import CATALOG, CatalogTypes


class StagedTable(DescribedTable):
    """Take the rows of a table that becomes visible with them."""

    Java = implementing(CATALOG + "StagedTable", CATALOG + "SupportsWrite")

    def __init__(
        self,
        types: CatalogTypes,
        spark: Session,
        calls: Calls,
        parts: Parts,
        definition: TableDefinition,
        staged: Staged,
        transforms: JavaObject,
    ):
        super().__init__(types, full_name((calls.name, *parts)))
        self._spark, self._definition, self._staged, self._transforms = (
            spark,
            definition,
            staged,
            transforms,
        )

    @cached_property
    def _struct(self) -> Any:
        return self.types.struct_type(self._spark, self._definition.schema)

    def partitioning(self) -> Any:
        return self._transforms

    def properties(self) -> Any:
        return self.types.string_map(self._definition.properties)

    def capabilities(self) -> Any:
        return self.types.capabilities(
            ["V1_BATCH_WRITE", "TRUNCATE", "OVERWRITE_BY_FILTER", "OVERWRITE_DYNAMIC"]
        )

    def newWriteBuilder(self, info: JavaObject) -> Any:
        options = self.types.options(info.options())
        return WriteBuilder(self.types, self._described, options, self._staged.insert, self._spark)

    def commitStagedChanges(self) -> None:
        self._staged.commit()

    def abortStagedChanges(self) -> None:
        self._staged.abort()

    def reportDriverMetrics(self) -> Any:
        return self.types.no_task_metrics
