"""Provide table metadata by PyIceberg's path: `from frazil.table.metadata import TableMetadata`;
one class serves all format versions.
"""

from frazil.spec.metadata import TableMetadata

__all__ = ["TableMetadata"]
