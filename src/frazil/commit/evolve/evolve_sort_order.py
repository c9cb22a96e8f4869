"""Replace the sort order: PyIceberg's UpdateSortOrder. The fields given replace the current order
(no field: unsorted).
"""

from __future__ import annotations

from collections.abc import Sequence

from frazil.errors import ValidationError
from frazil.spec.metadata import TableMetadata
from frazil.spec.sorting import (
    UNSORTED_SORT_ORDER,
    NullOrder,
    SortDirection,
    SortField,
    SortOrder,
    build_sort_order,
)
from frazil.spec.transforms import IdentityTransform, Transform, parse_term, parse_transform
from frazil.spec.updates import AddSortOrder, SetDefaultSortOrder, Update


class UpdateSortOrder:
    """Update the sort order: `with t.update_sort_order() as update: update.asc("id").desc("ts",
    "day")`.
    """

    def __init__(self, metadata: TableMetadata, case_sensitive: bool = True):
        self._metadata, self._case_sensitive = metadata, case_sensitive
        self._fields: list[SortField] = []

    def asc(
        self,
        source_column_name: str,
        transform: str | Transform | None = None,
        null_order: NullOrder = NullOrder.NULLS_LAST,
    ) -> UpdateSortOrder:
        """Sort ascending by a column, after those added before. `transform`: by its value under a
        transform, as "day"; None: the column itself. Raises ValidationError for an unknown column,
        or a transform that does not fit it."""
        return self._add(source_column_name, transform, SortDirection.ASC, null_order)

    def desc(
        self,
        source_column_name: str,
        transform: str | Transform | None = None,
        null_order: NullOrder = NullOrder.NULLS_LAST,
    ) -> UpdateSortOrder:
        """Sort descending by a column, after those added before. `transform`: by its value under a
        transform, as "day"; None: the column itself. Raises ValidationError for an unknown column,
        or a transform that does not fit it."""
        return self._add(source_column_name, transform, SortDirection.DESC, null_order)

    def by(self, *terms: str) -> UpdateSortOrder:
        """Add fields given as text: `by("id desc nulls last", "bucket(16, k)")`."""
        self._fields.extend(
            build_sort_order(
                self._metadata.schema(), terms, case_sensitive=self._case_sensitive
            ).fields
        )
        return self

    def _add(
        self,
        column: str,
        transform: str | Transform | None,
        direction: SortDirection,
        nulls: NullOrder,
    ) -> UpdateSortOrder:
        if transform is None and "(" in column:
            term = parse_term(column)
            column, transform = term.column, term.transform
        parsed = (
            parse_transform(transform)
            if isinstance(transform, str)
            else transform or IdentityTransform()
        )
        source = self._metadata.schema().find_field(column, self._case_sensitive)
        if not parsed.is_known or not parsed.can_transform(source.field_type):
            raise ValidationError(
                f"Cannot sort by {parsed}({column}): its type is {source.field_type}"
            )
        self._fields.append(SortField(source.field_id, parsed, direction, NullOrder(nulls)))
        return self

    def sort_order(self) -> SortOrder:
        """Return the sort order after the changes."""
        return SortOrder(*self._fields) if self._fields else UNSORTED_SORT_ORDER

    def updates(self, metadata: TableMetadata) -> Sequence[Update]:
        """Return the metadata updates that make this the table's sort order; none when it is
        already."""
        fields = tuple(self._fields)
        if fields == metadata.sort_order().fields:
            return ()
        for order in metadata.sort_orders:
            if order.fields == fields:
                return (SetDefaultSortOrder(order.order_id),)
        if not fields:
            return (AddSortOrder(UNSORTED_SORT_ORDER), SetDefaultSortOrder(0))
        next_id = max(1, max((o.order_id for o in metadata.sort_orders), default=0) + 1)
        return (AddSortOrder(SortOrder(*fields, order_id=next_id)), SetDefaultSortOrder())
