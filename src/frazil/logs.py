"""Name the formatter that writes log records as JSON, with the facts by name that Frazil's records
carry: table, operation, snapshot_id, ….
"""

from frazil.spec.logs import JsonFormatter

__all__ = ["JsonFormatter"]
