"""Hold what reading a file scan task needs: the wanted columns, the filter, the options, and a few
facts of the table's metadata; and make the metadata columns of its batches, which say where rows
come from and their lineage (spec, "Reserved Field IDs", "Row Lineage").
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.arrow.deletes.apply_deletes import key_schema, widened
from frazil.arrow.deletes.delete_files import DeleteCache
from frazil.arrow.values.arrays import repeated
from frazil.arrow.values.arrow_schema import to_arrow_schema, to_arrow_type
from frazil.errors import InvalidInput, Unsupported
from frazil.expr.bound import Bound, Constant, references
from frazil.scan.changelog import ChangelogPlan
from frazil.scan.plan import Plan
from frazil.scan.tasks import FileScanTask
from frazil.spec.name_mapping import NameMapping, parse_name_mapping
from frazil.spec.partitioning import PartitionSpec
from frazil.spec.properties import NAME_MAPPING
from frazil.spec.schema import (
    DELETED_ID,
    FILE_ID,
    LAST_UPDATED_SEQUENCE_NUMBER_ID,
    METADATA_COLUMNS,
    PARTITION_ID,
    POS_ID,
    ROW_ID_ID,
    SPEC_ID_ID,
    Schema,
)
from frazil.spec.transforms import IdentityTransform
from frazil.spec.types import NestedField, StructType
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
    equality deletes may compare (`arrow.deletes.apply_deletes.key_schema`), where the plan has such
    deletes. Where `_deleted` is projected, deleted rows are read as well and marked by it.
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
        cls,
        plan: Plan | ChangelogPlan,
        projection: Schema,
        storage: Storage,
        options: ReadOptions | None = None,
    ) -> ReadContext:
        """Make the context of a scan plan; `storage` reads its files."""
        return cls(
            projection,
            storage,
            plan.schema,
            plan.row_filter,
            NAME_MAPPING.text(plan.metadata.properties),
            options or ReadOptions(),
            keys=key_schema(plan.metadata.schemas, plan.schema).project(plan.equality_ids)
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


# the metadata columns that files may store, too
LINEAGE_IDS = (
    ROW_ID_ID,
    LAST_UPDATED_SEQUENCE_NUMBER_ID,
)
# first_row_id of a file that is not committed yet: its rows have the lineage that the file stores,
# or none
UNSETTLED = -1
Positions = np.ndarray[Any, Any]


def metadata_column(
    field: NestedField, task: FileScanTask, positions: Positions, stored: pa.Array | None
) -> pa.Array:
    """Make one metadata column. `positions`: of the rows in the file. `stored`: the lineage column
    that the file itself holds, or None.
    """
    count = len(positions)
    match field.field_id:
        case _ if field.field_id == FILE_ID:
            return pa.repeat(task.file.file_path, count)
        case _ if field.field_id == POS_ID:
            return pa.array(positions, pa.int64())
        case _ if field.field_id == DELETED_ID:
            return pa.repeat(False, count)
        case _ if field.field_id == SPEC_ID_ID:
            return pa.repeat(pa.scalar(task.spec.spec_id, pa.int32()), count)
        case _ if field.field_id == PARTITION_ID:
            return _partition(field, task, count)
        case _ if field.field_id == ROW_ID_ID:
            return _row_ids(task.file.first_row_id, positions, stored)
        case _ if field.field_id == LAST_UPDATED_SEQUENCE_NUMBER_ID:
            number = (
                task.data_sequence_number
                if task.file.first_row_id not in (None, UNSETTLED)
                else None
            )
            fresh = pa.repeat(pa.scalar(number, pa.int64()), count)
            return (
                fresh
                if stored is None
                else pc.if_else(stored.is_null(), fresh, stored)
                if number is not None
                else stored_or_null(task, stored)
            )
    raise Unsupported(f"Metadata column {field.name} cannot be read.", column=field.name)


def stored_or_null(task: FileScanTask, stored: pa.Array) -> pa.Array:
    """Take the lineage that a file stores, or nulls: a file without first_row_id has no lineage
    (spec, "Row Lineage").
    """
    return stored if task.file.first_row_id is not None else pa.nulls(len(stored), pa.int64())


def _row_ids(first_row_id: int | None, positions: Positions, stored: pa.Array | None) -> pa.Array:
    if first_row_id is None:
        return pa.nulls(len(positions), pa.int64())
    if first_row_id == UNSETTLED:
        return pa.nulls(len(positions), pa.int64()) if stored is None else stored
    fresh = pa.array(positions + first_row_id, pa.int64())
    return fresh if stored is None else pc.if_else(stored.is_null(), fresh, stored)


def _partition(field: NestedField, task: FileScanTask, count: int) -> pa.Array:
    """Make the `_partition` column: a struct of the fields of all specs, in which those of other
    specs than the file's are null.
    """
    assert isinstance(field.field_type, StructType)
    if not field.field_type.fields:
        return pa.nulls(count, to_arrow_type(field.field_type))
    values = {p.field_id: v for p, v in zip(task.spec.fields, task.file.partition, strict=False)}
    row = {member.field_id: values.get(member.field_id) for member in field.field_type.fields}
    return repeated(field.field_type, row, count)
