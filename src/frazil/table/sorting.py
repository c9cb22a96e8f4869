"""Provide sort orders by PyIceberg's path: `from frazil.table.sorting import SortField, SortOrder`."""

from frazil.spec.sorting import UNSORTED_SORT_ORDER, NullOrder, SortDirection, SortField, SortOrder

__all__ = ["UNSORTED_SORT_ORDER", "NullOrder", "SortDirection", "SortField", "SortOrder"]
