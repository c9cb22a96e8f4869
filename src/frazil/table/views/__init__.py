"""Provide View, and the methods of Catalog that create, replace, list, load, rename and drop views."""

from frazil.spec.view import SQLViewRepresentation, ViewHistoryEntry, ViewVersion
from frazil.table.views.catalog_views import CatalogViews
from frazil.table.views.view import View

__all__ = ["CatalogViews", "SQLViewRepresentation", "View", "ViewHistoryEntry", "ViewVersion"]
