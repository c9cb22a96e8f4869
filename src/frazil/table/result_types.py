"""Gather the types that methods of tables and catalogs return, or call functions of users with, and
whose rooms are loaded when such a method runs (`on_demand_types`).
"""

from frazil.maintain.migration.add_files import AddFilesResult
from frazil.maintain.migration.move_tables import MoveTablesResult
from frazil.maintain.migration.new_tables import MigrateTableResult, SnapshotTableResult
from frazil.maintain.migration.register import RegisterTableResult
from frazil.maintain.progress import ProgressCallback
from frazil.report.page import TableReport
from frazil.stream.engine import StreamWriter
from frazil.stream.hooks import BatchHook
from frazil.stream.sink.many_tables import TablesResult
from frazil.table.maintenance import MaintenanceTable

__all__ = [
    "AddFilesResult",
    "BatchHook",
    "MaintenanceTable",
    "MigrateTableResult",
    "MoveTablesResult",
    "ProgressCallback",
    "RegisterTableResult",
    "SnapshotTableResult",
    "StreamWriter",
    "TableReport",
    "TablesResult",
]
