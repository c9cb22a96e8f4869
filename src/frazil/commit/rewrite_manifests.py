"""Rewrite manifests: the same entries, sorted by partition, in as few manifests as their target
size allows (Java BaseRewriteManifests).

Entries are decoded, sorted and encoded as columns. They keep their snapshot ids, sequence numbers
and first row ids; all become EXISTING.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from frazil.codec.manifest_columns import encode_columns, partition_columns
from frazil.codec.single_value import from_bytes
from frazil.commit.context import Context, SnapshotState
from frazil.commit.manifests import EXISTING, field_summaries
from frazil.commit.produce import SnapshotTarget, parent_of, produce_rearranged
from frazil.errors import ValidationError
from frazil.expr.building import scalar
from frazil.scan.manifests import (
    ALL_COLUMNS,
    column_of,
    each,
    live,
    manifests_of,
    packs_for,
    read_manifest,
    read_pack,
    threads_for,
)
from frazil.scan.options import default_workers
from frazil.spec.manifest import FieldSummary, ManifestContent, ManifestFile
from frazil.spec.metadata import TableMetadata, schema_of_spec
from frazil.spec.partitioning import PartitionSpec
from frazil.spec.properties import (
    MANIFEST_CODEC,
    MANIFEST_LEVEL,
    MANIFEST_TARGET_SIZE,
    refuse_encryption,
)
from frazil.spec.schema import Schema
from frazil.spec.snapshot import MAIN_BRANCH
from frazil.spec.types import IcebergType
from frazil.spec.updates import Update
from frazil.storage import Storage

Advance = Callable[[int], object]


@dataclass(frozen=True)
class ManifestGroup:
    """Hold manifests of one content and spec that are rewritten together, and how many manifests
    they become.
    """

    content: int
    manifests: tuple[ManifestFile, ...]
    added: int


def plan_manifests(
    metadata: TableMetadata,
    storage: Storage,
    spec_id: int | None = None,
    sort_by: Sequence[str] = (),
    branch: str = MAIN_BRANCH,
) -> list[ManifestGroup]:
    """Plan which manifests of a branch to rewrite: those of one spec (None: the current one), data
    and deletes apart. A group that is as small and as sorted as it can be is left out.

    Raises ValidationError for a spec that is not there and for `sort_by` names that are no fields
    of it.
    """
    spec = metadata.spec() if spec_id is None else metadata.spec_by_id(spec_id)
    order = sort_fields(spec, sort_by)
    head = parent_of(metadata, branch)
    listed = manifests_of(metadata, head, storage) if head is not None else ()
    target = max(1, MANIFEST_TARGET_SIZE.of(metadata.properties))
    types = [f.field_type for f in spec.partition_type(schema_of_spec(metadata, spec))]
    groups = []
    for content in (ManifestContent.DATA, ManifestContent.DELETES):
        group = tuple(
            m for m in listed if m.content == content and m.partition_spec_id == spec.spec_id
        )
        if not group:
            continue
        files = sum(_live_files(m, storage) for m in group)
        added = min(files, math.ceil(sum(m.manifest_length for m in group) / target))
        if added != len(group) or not in_order(group, types, order):
            groups.append(ManifestGroup(content, group, added))
    return groups


def _live_files(manifest: ManifestFile, storage: Storage) -> int:
    if manifest.added_files_count is None or manifest.existing_files_count is None:
        # an old writer left them out
        return len(live(read_manifest(storage, manifest, ("status",))))
    return manifest.added_files_count + manifest.existing_files_count


def sort_fields(spec: PartitionSpec, sort_by: Sequence[str]) -> list[int]:
    """Return the places of the partition fields to sort by: all of the spec, unless some are named."""
    names = [f.name for f in spec.fields]
    if unknown := [name for name in sort_by if name not in names]:
        raise ValidationError(
            f"Cannot set manifest sorting because specified field(s) {unknown} were not found in current partition spec {spec}.",
            hint=f"Its fields are {names}.",
        )
    return [names.index(name) for name in sort_by or names]


def in_order(
    manifests: Sequence[ManifestFile], types: Sequence[IcebergType], order: Sequence[int]
) -> bool:
    """Tell whether the first field that manifests are sorted by has no range in common between two
    of them.
    """
    if not order or len(manifests) < 2:
        return True
    if any(m.partitions is None or len(m.partitions) != len(types) for m in manifests):
        return False
    summaries = [m.partitions[order[0]] for m in manifests if m.partitions is not None]
    if any(
        s.lower_bound is None
        and s.upper_bound is None
        and not s.contains_null
        and not s.contains_nan
        for s in summaries
    ):
        return False  # such a summary says nothing (`scan.summaries`)
    type_ = types[order[0]]
    try:
        ranges = sorted(
            (_end(type_, s, s.lower_bound, low=True), _end(type_, s, s.upper_bound, low=False))
            for s in summaries
        )
    except (
        TypeError,
        ValueError,
    ):
        # bounds of a type that has no order here: rewriting them does no harm
        return False
    return all(before[1] <= after[0] for before, after in zip(ranges, ranges[1:], strict=False))


def _end(
    type_: IcebergType, summary: FieldSummary, bound: bytes | None, low: bool
) -> tuple[int, object]:
    """Return an end of a range, nulls first."""
    if bound is None or (low and summary.contains_null is not False):
        return (0, 0)
    return (1, from_bytes(type_, bound))


@dataclass
class RewriteManifests:
    """Rewrite the manifests of one spec on main. `groups`: what the last attempt rewrote. A later
    attempt keeps what is written as long as all manifests that it stands for are still there, and
    begins anew otherwise."""

    spec_id: int | None = None
    sort_by: tuple[str, ...] = ()
    advance: Advance = lambda _: None
    groups: list[ManifestGroup] = field(default_factory=list)
    written: list[ManifestFile] = field(default_factory=list)
    entries: int = 0
    _written_for: object = None

    def apply(self, metadata: TableMetadata, context: Context) -> Sequence[Update]:
        refuse_encryption(metadata)
        if context.only_new:
            return ()
        head = parent_of(metadata, MAIN_BRANCH)
        if head is None:
            return ()
        listed, state = manifests_of(metadata, head, context.storage), context.state(metadata)
        listed_keys = {(m.manifest_path, m.first_row_id) for m in listed}
        replaced_keys = {
            (m.manifest_path, m.first_row_id) for g in self.groups for m in g.manifests
        }
        made_for = (
            metadata.format_version,
            metadata.location,
            metadata.partition_specs,
            metadata.current_schema_id,
        )
        if not replaced_keys or not replaced_keys <= listed_keys or self._written_for != made_for:
            self.groups = plan_manifests(metadata, context.storage, self.spec_id, self.sort_by)
            self.written, self.entries, self._written_for = [], 0, made_for
            for group in self.groups:
                self._rewrite(group, metadata, state, context.storage)
            replaced_keys = {
                (m.manifest_path, m.first_row_id) for g in self.groups for m in g.manifests
            }
        if not replaced_keys:
            return ()
        untouched = [m for m in listed if (m.manifest_path, m.first_row_id) not in replaced_keys]
        manifests = [
            m
            for content in ManifestContent
            for m in (*self.written, *untouched)
            if m.content == content
        ]
        counts = {
            "manifests-created": len(self.written),
            "manifests-kept": len(untouched),
            "manifests-replaced": len(replaced_keys),
        }
        texts = {
            name: str(count)
            for name, count in {**counts, "entries-processed": self.entries}.items()
        }
        return produce_rearranged(manifests, texts, SnapshotTarget(), metadata, context)

    def _rewrite(
        self, group: ManifestGroup, metadata: TableMetadata, state: SnapshotState, storage: Storage
    ) -> None:
        spec = metadata.spec_by_id(group.manifests[0].partition_spec_id)
        schema = schema_of_spec(metadata, spec)
        entries = _sorted(
            _existing(group.manifests, spec, schema, storage, self.advance),
            sort_fields(spec, self.sort_by),
        )
        bounds = (
            [part * len(entries) // group.added for part in range(group.added + 1)]
            if group.added
            else []
        )
        parts = [
            entries.slice(start, end - start)
            for start, end in zip(bounds, bounds[1:], strict=False)
        ]

        def encode(part: pa.Table) -> bytes:
            return encode_columns(
                part,
                spec=spec,
                schema=schema,
                format_version=metadata.format_version,
                content=group.content,
                codec=MANIFEST_CODEC.of(metadata.properties),
                level=MANIFEST_LEVEL.of(metadata.properties),
            )

        for part, data in zip(parts, each(encode, parts, default_workers()), strict=True):
            path = state.writer.location(f"{state.writer.uuid}-m{state.writer.count}.avro")
            state.writer.count += 1
            state.writer.output.write(path, data)
            self.written.append(
                _described(part, path, len(data), spec, schema, group.content, state.snapshot_id)
            )
        self.entries += len(entries)


def _existing(
    manifests: Sequence[ManifestFile],
    spec: PartitionSpec,
    schema: Schema,
    storage: Storage,
    advance: Advance,
) -> pa.Table:
    """Read the live entries of manifests as EXISTING ones, with partition values of the types that
    the spec has now.
    """
    labels = [str(f.field_id) for f in spec.partition_type(schema).fields]

    def entries(pack: Sequence[ManifestFile]) -> pa.Table:
        tables = []
        for read in read_pack(storage, pack):
            table = live(read).select(ALL_COLUMNS).combine_chunks()
            children = partition_columns(table, spec, schema)
            partition = (
                pa.StructArray.from_arrays(children, labels)
                if labels
                else pa.Array.from_buffers(pa.struct([]), len(table), [None])
            )
            tables.append(
                table.set_column(table.column_names.index("partition"), "partition", partition)
            )
        return pa.concat_tables(tables)

    threads, tables = threads_for(manifests, storage, default_workers()), []
    packs = packs_for(manifests, threads)
    for pack, table in zip(packs, each(entries, packs, threads), strict=True):
        tables.append(table)
        advance(len(pack))
    every = pa.concat_tables(tables).combine_chunks()
    status = pa.repeat(scalar(int(EXISTING), pa.int32()), len(every))
    return every.set_column(every.column_names.index("status"), "status", status)


def _sorted(entries: pa.Table, order: Sequence[int]) -> pa.Table:
    children = column_of(entries, "partition").flatten() if order else []
    keys: dict[str, pa.Array] = {}
    for field_number in order:
        if not pa.types.is_null(children[field_number].type):
            # the key before each field sorts nulls first
            keys |= {
                f"known {field_number}": children[field_number].is_valid(),
                str(field_number): children[field_number],
            }
    if not keys or not len(entries):
        return entries
    indices = pc.sort_indices(pa.table(keys), [(name, "ascending") for name in keys])
    return entries.take(indices).combine_chunks()


def _described(
    entries: pa.Table,
    path: str,
    length: int,
    spec: PartitionSpec,
    schema: Schema,
    content: int,
    snapshot_id: int,
) -> ManifestFile:
    children = column_of(entries, "partition").flatten() if spec.fields else []
    types = [f.field_type for f in spec.partition_type(schema)]
    summaries = [
        field_summaries([t], [(v,) for v in _distinct(c)])[0]
        for t, c in zip(types, children, strict=True)
    ]
    return ManifestFile(
        manifest_path=path,
        manifest_length=length,
        partition_spec_id=spec.spec_id,
        content=content,
        added_snapshot_id=snapshot_id,
        min_sequence_number=pc.min(entries["sequence_number"]).as_py(),
        added_files_count=0,
        existing_files_count=len(entries),
        deleted_files_count=0,
        added_rows_count=0,
        existing_rows_count=pc.sum(entries["record_count"]).as_py(),
        deleted_rows_count=0,
        partitions=tuple(summaries),
    )


def _distinct(values: pa.Array) -> list[object]:
    """Return the different values, -0.0 and 0.0 both."""
    bits = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}.get(values.type)
    if bits is None:
        return list(pc.unique(values).to_pylist())
    return list(pc.unique(values.view(bits)).view(values.type).to_pylist())
