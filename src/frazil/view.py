"""Provide views by PyIceberg's path: `from frazil.view import View`, and the classes of their
metadata.
"""

from frazil.spec.view import SQLViewRepresentation, ViewHistoryEntry, ViewMetadata, ViewVersion
from frazil.table.views import View

__all__ = ["SQLViewRepresentation", "View", "ViewHistoryEntry", "ViewMetadata", "ViewVersion"]
