"""Hold what reading a file scan task needs: the wanted columns, the filter, the options, and a few
facts of the table's metadata.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from frazil.arrow.deletes.apply_deletes import key_schema, widened
from frazil.arrow.deletes.delete_files import DeleteCache
from frazil.arrow.values.arrow_schema import to_arrow_schema
from frazil.errors import InvalidInput
from frazil.expr.bound import Bound, Constant, references
from frazil.spec.name_mapping import NameMapping, parse_name_mapping
from frazil.spec.partitioning import PartitionSpec
from frazil.spec.properties import NAME_MAPPING
from frazil.spec.schema import DELETED_ID, METADATA_COLUMNS, Schema
from frazil.spec.transforms import IdentityTransform
from frazil.spec.types import NestedField
from frazil.storage.base import Storage

METADATA_IDS = frozenset(METADATA_COLUMNS.values())


@dataclass(frozen=True)
class ReadOptions:
    """Hold the options of a read.

    `batch_size`: rows per batch at most. `workers`: threads (None: one per core). `memory`: bytes
    of batches that wait to be consumed. `delete_cache`: bytes of decoded delete files that are kept
    for other data files. `delete_memory`: bytes that the keys of equality deletes may take; a set
    of keys that needs more than a quarter of it goes to disk (Python's directory for temporary
    files).
    """

    batch_size: int = 131_072
    workers: int | None = None
    memory: int = 256 * 1024 * 1024
    delete_cache: int = 512 * 1024 * 1024
    delete_memory: int = 1024 * 1024 * 1024


@dataclass(frozen=True)
class ReadContext:
    """Hold what all tasks of a scan need to be read; frozen and picklable, so that it travels with
    them.

    `projection`: the wanted columns, metadata columns (`_file`, …) among them. `table_schema`: all
    columns of the snapshot, among which the filter's are found. `row_filter`: bound; rows are kept
    where it is TRUE. `name_mapping`: the table property's JSON. `apply_residual=False`: the
    residuals of tasks are not applied, every row of a task is read. `keys`: the columns that
    equality deletes may compare (`arrow.deletes.key_schema`), where the plan has such deletes.
    Where `_deleted` is projected, deleted rows are read as well and marked by it.
    """

    projection: Schema
    storage: Storage
    table_schema: Schema
    row_filter: Bound | None = None
    name_mapping: str | None = None
    options: ReadOptions = field(default_factory=ReadOptions)
    apply_residual: bool = True
    keys: Schema | None = None

    @classmethod
    def of(
        cls, plan: Any, projection: Schema, storage: Storage, options: ReadOptions | None = None
    ) -> ReadContext:
        """Make the context of a scan plan; `storage` reads its files."""
        return cls(
            projection,
            storage,
            plan.schema,
            plan.row_filter,
            NAME_MAPPING.text(plan.metadata.properties),
            options or ReadOptions(),
            keys=key_schema(plan.metadata.schemas).project(plan.equality_ids)
            if plan.equality_ids
            else None,
        )

    @cached_property
    def shows_deleted(self) -> bool:
        """Tell whether `_deleted` is projected, so that deleted rows are read as well."""
        return any(f.field_id == DELETED_ID for f in self.projection.fields)

    @cached_property
    def delete_cache(self) -> DeleteCache:
        return DeleteCache(max(self.options.delete_cache, self.options.delete_memory))

    @cached_property
    def data_schema(self) -> Schema:
        """Join the table's columns and those that only equality deletes still compare."""
        return self.table_schema if self.keys is None else widened(self.table_schema, self.keys)

    def mask_fields(self, row_filter: Bound | None, keys: set[int]) -> tuple[NestedField, ...]:
        """List the top-level columns, pruned, that decide which rows are kept: those of the filter
        and those of equality deletes.
        """
        wanted = {*keys, *(references(row_filter) if row_filter is not None else ())}
        return self.data_schema.project(wanted).fields if wanted else ()

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """Return the Arrow schema of the batches that are read."""
        return to_arrow_schema(self.projection)

    @cached_property
    def mapping(self) -> NameMapping | None:
        return parse_name_mapping(self.name_mapping) if self.name_mapping else None

    @cached_property
    def filter(self) -> Bound | None:
        """Return the filter; None when it keeps every row."""
        return (
            None
            if isinstance(self.row_filter, Constant) and self.row_filter.value is True
            else self.row_filter
        )

    @cached_property
    def filter_paths(self) -> dict[int, tuple[str, ...]]:
        """Map the field ids of the filter to their paths of names in a batch of `mask_fields`."""
        field_ids = references(self.filter) if self.filter is not None else {}
        names = {i: f.name for i, f in self.table_schema.by_id.items()}
        return {i: (*(names[p] for p in self.table_schema.parents[i]), names[i]) for i in field_ids}

    def sharing_deletes(self, **changes: Any) -> ReadContext:
        """Replace fields, as `dataclasses.replace` does, for another read of the same files; both
        contexts share the decoded deletes.
        """
        context = replace(self, **changes)
        context.__dict__["delete_cache"] = self.delete_cache
        return context


def identity_values(spec: PartitionSpec, partition: tuple[Any, ...]) -> dict[int, Any]:
    """Map source field ids to the partition values of identity transforms, which stand for the
    column in every row of a file.
    """
    if len(partition) != len(spec.fields):
        if not partition:
            return {}
        text = f"A file has {len(partition)} partition values, but its partition spec {spec.spec_id} has {len(spec.fields)} fields."
        raise InvalidInput(text, spec_id=spec.spec_id)
    return {
        f.source_id: v
        for f, v in zip(spec.fields, partition, strict=True)
        if isinstance(f.transform, IdentityTransform)
    }
