"""Evolve the partition spec: PyIceberg's UpdateSpec with Java's rules (BaseUpdatePartitionSpec);
and replace the sort order: PyIceberg's UpdateSortOrder, whose fields replace the current order (no
field: unsorted).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from frazil.errors import ValidationError
from frazil.spec.metadata import TableMetadata
from frazil.spec.partitioning import (
    PartitionField,
    PartitionSpec,
    check_names,
    check_source,
    default_name,
)
from frazil.spec.sorting import (
    UNSORTED_SORT_ORDER,
    NullOrder,
    SortDirection,
    SortField,
    SortOrder,
    build_sort_order,
)
from frazil.spec.transforms import (
    TIMES,
    IdentityTransform,
    Transform,
    VoidTransform,
    parse_term,
    parse_transform,
)
from frazil.spec.updates import (
    AddPartitionSpec,
    AddSortOrder,
    SetDefaultSortOrder,
    SetDefaultSpec,
    Update,
)


@dataclass
class SpecDraft:
    """Hold the current spec while fields are added, removed and renamed."""

    metadata: TableMetadata
    case_sensitive: bool = True
    added: list[PartitionField] = field(default_factory=list)
    removed: set[int] = field(default_factory=set)
    renamed: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.schema, self.spec = self.metadata.schema(), self.metadata.spec()
        self.last_id = max(
            self.metadata.last_partition_id,
            *(s.last_assigned_field_id for s in self.metadata.partition_specs),
        )

    def field_id_for(
        self, source_id: int, transform: Transform, name: str | None
    ) -> tuple[int, str | None]:
        """Return the id and name of this field in an earlier spec (v2 and later), or the next id
        and None. `name` None: any name.
        """
        if self.metadata.format_version >= 2:
            for spec in self.metadata.partition_specs:
                for f in spec.fields:
                    if (
                        f.source_id == source_id
                        and f.transform == transform
                        and name in (None, f.name)
                    ):
                        return f.field_id, f.name
        self.last_id += 1
        return self.last_id, None

    def find(self, name: str) -> PartitionField:
        for f in self.spec.fields:
            if f.name == name:
                return f
        raise ValidationError(
            f"Cannot find partition field {name!r}; fields are: {', '.join(f.name for f in self.spec.fields) or '(none)'}."
        )

    def build(self) -> PartitionSpec:
        fields = []
        added_names = {a.name for a in self.added}
        for f in self.spec.fields:
            if f.field_id not in self.removed:
                fields.append(replace(f, name=self.renamed.get(f.field_id, f.name)))
            elif self.metadata.format_version < 2:
                # v1 keeps the position: field ids are not stored there
                name = f"{f.name}_{f.field_id}" if f.name in added_names else f.name
                fields.append(replace(f, transform=VoidTransform(), name=name))
        next_id = max(s.spec_id for s in self.metadata.partition_specs) + 1
        built = PartitionSpec(*fields, *self.added, spec_id=next_id)
        check_names(self.schema, built)
        return built


def same_fields(a: PartitionSpec, b: PartitionSpec) -> bool:
    return [(f.source_id, f.transform, f.name, f.field_id) for f in a.fields] == [
        (f.source_id, f.transform, f.name, f.field_id) for f in b.fields
    ]


class UpdateSpec:
    """Update the partition spec: `with t.update_spec() as update: update.add_field("ts", "day")`;
    also `update.add_field("days(ts)")`.
    """

    def __init__(self, metadata: TableMetadata, case_sensitive: bool = True):
        self._draft = SpecDraft(metadata, case_sensitive)
        self._calls: list[Callable[[SpecDraft], None]] = []

    def _do(self, call: Callable[[SpecDraft], None]) -> UpdateSpec:
        call(self._draft)
        self._calls.append(call)
        return self

    def add_field(
        self,
        source_column_name: str,
        transform: str | Transform | None = None,
        partition_field_name: str | None = None,
    ) -> UpdateSpec:
        """Add a partition field. The transform is given by name ("bucket[16]"), as an object, or
        with the column ("bucket(16, id)").
        """
        return self._do(lambda d: _add(d, source_column_name, transform, partition_field_name))

    def add_identity(self, source_column_name: str) -> UpdateSpec:
        """Partition by the value of a column. Raises ValidationError for a column that does not
        exist, or that the spec has already."""
        return self._do(lambda d: _add(d, source_column_name, IdentityTransform(), None))

    def identity(self, source_column_name: str) -> UpdateSpec:
        """Add an identity field, as `add_identity` does: PyIceberg's documentation uses this name."""
        return self.add_identity(source_column_name)

    def remove_field(self, name: str) -> UpdateSpec:
        """Remove a partition field by its name, or by its transform ("days(ts)")."""
        return self._do(lambda d: _remove(d, name))

    def rename_field(self, name: str, new_name: str) -> UpdateSpec:
        """Rename a partition field. Raises ValidationError for one that does not exist, or that
        this update removes."""
        return self._do(lambda d: _rename(d, name, new_name))

    def spec(self) -> PartitionSpec:
        """Return the spec after the changes."""
        return self._draft.build()

    def updates(self, metadata: TableMetadata) -> Sequence[Update]:
        """Return the metadata updates that make this the table's default spec; none when it is
        already."""
        draft = SpecDraft(metadata, self._draft.case_sensitive)
        for call in self._calls:
            call(draft)
        new = draft.build()
        if same_fields(new, metadata.spec()):
            return ()
        for spec in metadata.partition_specs:
            if same_fields(new, spec):
                return (SetDefaultSpec(spec.spec_id),)
        return (AddPartitionSpec(new), SetDefaultSpec())


def _add(
    draft: SpecDraft, column: str, transform: str | Transform | None, name: str | None
) -> None:
    if transform is None:
        term = parse_term(column)
        column, transform, name = term.column, term.transform, name or term.name
    parsed = transform if isinstance(transform, Transform) else _named(transform)
    source = check_source(
        draft.schema, draft.schema.find_field(column, draft.case_sensitive).field_id, parsed
    )
    staying = [f for f in draft.spec.fields if f.field_id not in draft.removed]
    same_source = [f for f in (*staying, *draft.added) if f.source_id == source.field_id]
    for f in same_source:
        if f.transform == parsed:
            raise ValidationError(
                f"Cannot add duplicate partition field {name or f.name}={parsed}({column}), conflicts with {f}"
            )
        if isinstance(parsed, TIMES) and isinstance(f.transform, TIMES) and f in draft.added:
            raise ValidationError(
                f"Cannot add redundant partition field: {parsed}({column}), conflicts with {f}"
            )
    removed_fields = (f for f in draft.spec.fields if f.field_id in draft.removed)
    removed = next(
        (f for f in removed_fields if f.source_id == source.field_id and f.transform == parsed),
        None,
    )
    if removed is not None:  # removed and added again: the field stays, perhaps renamed
        draft.removed.discard(removed.field_id)
        if name not in (None, removed.name):
            _rename(draft, removed.name, name)
        return
    field_id, old_name = draft.field_id_for(source.field_id, parsed, name)
    full = (
        name
        or old_name
        or default_name(
            draft.schema.find_column_name(source.field_id) or column, parsed, with_width=True
        )
    )
    for f in (*staying, *draft.added):
        if f.name == full and isinstance(f.transform, VoidTransform):
            draft.renamed[f.field_id] = f"{f.name}_{f.field_id}"
        elif f.name == full:
            raise ValidationError(f"Cannot add duplicate partition field name: {full}")
    draft.added.append(PartitionField(source.field_id, field_id, parsed, full))


def _named(text: str) -> Transform:
    transform = parse_transform(text)
    if not transform.is_known:
        names = "identity, bucket[n], truncate[w], year, month, day, hour, void"
        raise ValidationError(f"Unknown transform {text!r}; known transforms: {names}.")
    return transform


def _remove(draft: SpecDraft, name: str) -> None:
    if any(f.name == name for f in draft.added):
        raise ValidationError(f"Cannot delete newly added field: {name}")
    if "(" in name and not any(f.name == name for f in draft.spec.fields):
        term = parse_term(name)
        source = draft.schema.find_field(term.column, draft.case_sensitive)
        match = next(
            (
                f
                for f in draft.spec.fields
                if f.source_id == source.field_id and f.transform == term.transform
            ),
            None,
        )
        if match is None:
            raise ValidationError(f"Cannot find partition field to remove: {name}")
        name = match.name
    f = draft.find(name)
    if f.field_id in draft.renamed:
        raise ValidationError(f"Cannot rename and delete partition field: {name}")
    draft.removed.add(f.field_id)


def _rename(draft: SpecDraft, name: str, new_name: str) -> None:
    f = draft.find(name)
    if f.field_id in draft.removed:
        raise ValidationError(f"Cannot delete and rename partition field: {name}")
    for other in draft.spec.fields:
        if other.name == new_name and isinstance(other.transform, VoidTransform):
            draft.renamed[other.field_id] = f"{other.name}_{other.field_id}"
    draft.renamed[f.field_id] = new_name


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
