"""The front hall: what users hold in their hands. It joins the rooms below, and holds no logic of the format.

Door: `load` (load_catalog, load_table), `catalog.Catalog`, `table.Table`, `scan.DataScan`, `transaction.Transaction`,
`CommitResult` (from `ops.result`).
The words follow PyIceberg where it has them; ours are keyword-only. What PyIceberg has in `pyiceberg.table` is here as well, some of it in
modules of that name (`sorting`, `snapshots`, `refs`, `statistics`).
"""

from frazil.ops.result import CommitResult
from frazil.scan.tasks import FileScanTask
from frazil.spec.property_keys import TableProperties
from frazil.table.creation import CreateTableTransaction
from frazil.table.scan import DataScan, IncrementalAppendScan
from frazil.table.static import StaticTable
from frazil.table.table import Table
from frazil.table.transaction import Transaction

TableScan, UpsertResult = DataScan, CommitResult

__all__ = [
    "CommitResult", "CreateTableTransaction", "DataScan", "FileScanTask", "IncrementalAppendScan", "StaticTable", "Table",
    "TableProperties", "TableScan", "Transaction", "UpsertResult", "caches", "catalog", "create", "engines", "load", "refs", "snapshots",
    "sorting", "static", "statistics", "table",
]  # fmt: skip
