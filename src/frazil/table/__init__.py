"""Provide the classes that users work with: Catalog, Table, DataScan, Transaction. This room joins
the rooms below it, and holds no logic of the table format.

Start at `load` (load_catalog, load_table), `catalog.Catalog`, `table.Table`, `scan.DataScan`,
`transaction.Transaction` or `CommitResult` (from `ops.operation`). Names and arguments are those of
PyIceberg where it has them; further arguments are keyword-only. The public names of
`pyiceberg.table` are found here as well, some of them in modules of the same name (`sorting`,
`snapshots`, `refs`, `statistics`).
"""

from frazil.ops.operation import CommitResult
from frazil.scan.tasks import FileScanTask
from frazil.spec.pyiceberg_properties import TableProperties
from frazil.table.catalog_transaction import CatalogTransaction, CreateTableTransaction
from frazil.table.load import StaticTable
from frazil.table.scan import DataScan, IncrementalAppendScan
from frazil.table.table import Table
from frazil.table.transaction import Transaction

TableScan, UpsertResult = DataScan, CommitResult

__all__ = [
    "CatalogTransaction", "CommitResult", "CreateTableTransaction", "DataScan", "FileScanTask", "IncrementalAppendScan",
    "StaticTable", "Table", "TableProperties", "TableScan", "Transaction", "UpsertResult", "catalog",
    "catalog_transaction", "create", "engines", "load", "metadata", "metadata_table", "procedure_calls", "refs",
    "snapshots", "sorting", "statistics", "table", "transaction", "update", "views",
]  # fmt: skip
