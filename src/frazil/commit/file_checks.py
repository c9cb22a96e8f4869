"""Check that files fit the table they are committed to: another commit may have changed its schema,
specs or sort orders since they were written, or may have added the same files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from frazil.commit.context import Context
from frazil.commit.produce import parent_of
from frazil.errors import ValidationException
from frazil.scan.delete_ranges import normalised
from frazil.scan.manifests import column_of, is_data, live, manifests_of, read_manifest
from frazil.spec.manifest import DataFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.types import NestedField, UnknownType, can_promote
from frazil.spec.updates import Update

_HINT = "Load the table again and repeat the write."


@dataclass(frozen=True)
class WrittenFor:
    """Compare, at each attempt, the table with the metadata `written` for which `files` were
    written. It goes before the action that adds the files, and makes no updates.

    `known_columns`: the highest field id of the table when the writer loaded it; higher ids are the
    writer's own new columns, and another writer may have taken them. `rewrites`: `files` contain
    rows that were in the table before.
    """

    written: TableMetadata
    known_columns: int
    files: Sequence[DataFile] = ()
    rewrites: bool = False

    def apply(self, metadata: TableMetadata, context: Context) -> Sequence[Update]:
        if metadata is not self.written:
            if self.rewrites and self.written.format_version < 3 <= metadata.format_version:
                raise self._changed(
                    metadata,
                    "it was upgraded to format version 3, and the rewritten rows would lose their row ids",
                )
            self._check_columns(metadata)
            self._check_specs(metadata)
        return ()

    def _check_columns(self, metadata: TableMetadata) -> None:
        written, current = self.written.schema(), metadata.schema()
        if written is current or written.same_fields(current):
            return
        for field_id, column in written.by_id.items():
            current_column = current.by_id.get(field_id)
            name = written.find_column_name(field_id) or column.name
            if field_id > self.known_columns and (
                current_column is None or current.find_column_name(field_id) != name
            ):
                raise self._changed(
                    metadata,
                    f"column {name} was written as field {field_id}, which another writer took meanwhile",
                )
            if current_column is not None and not _readable(
                column, current_column, metadata.format_version
            ):
                raise self._changed(
                    metadata,
                    f"column {name} was written as {column.field_type} and is {current_column.field_type} now",
                )

    def _check_specs(self, metadata: TableMetadata) -> None:
        for spec_id in {f.spec_id for f in self.files}:
            if metadata.spec_by_id(spec_id).fields != self.written.spec_by_id(spec_id).fields:
                raise self._changed(metadata, f"partition spec {spec_id} has other fields now")
        for order_id in {f.sort_order_id for f in self.files} - {None, 0}:
            if (
                metadata.sort_order_by_id(order_id or 0).fields
                != self.written.sort_order_by_id(order_id or 0).fields
            ):
                raise self._changed(metadata, f"sort order {order_id} has other fields now")

    def _changed(self, metadata: TableMetadata, change: str) -> ValidationException:
        text = f"Table {metadata.location} changed while data was written: {change}."
        return ValidationException(text, hint=_HINT, table=metadata.location)


@dataclass(frozen=True)
class NotYetThere:
    """Refuse to add existing files twice. It goes before the action that adds the files, and checks
    at each attempt, since another commit may have added the same files; manifests that earlier
    attempts have read are skipped."""

    paths: frozenset[str]  # normalised
    branch: str

    def apply(self, metadata: TableMetadata, context: Context) -> Sequence[Update]:
        head = parent_of(metadata, self.branch)
        seen, twice = context.looked_at.setdefault(context.action, set()), set[str]()
        for manifest in manifests_of(metadata, head, context.storage) if head is not None else ():
            if is_data(manifest) and manifest.manifest_path not in seen:
                table = live(read_manifest(context.storage, manifest, ("status", "file_path")))
                twice |= self.paths & set(normalised(column_of(table, "file_path")).to_pylist())
                seen.add(manifest.manifest_path)
        if twice:
            shown = ", ".join(sorted(twice)[:10])
            text = f"Cannot add files that are already referenced by table, files: {shown}"
            hint = "Leave these files out: rows of a file that is listed twice would be read twice, so no read would take it."
            raise ValidationException(text, hint=hint, table=metadata.location, files=sorted(twice))
        return ()


def _readable(written: NestedField, now: NestedField, version: int) -> bool:
    old, new = written.field_type, now.field_type
    if not (old.is_primitive and new.is_primitive):
        return type(old) is type(new)
    return isinstance(old, UnknownType) or can_promote(old, new, max(version, 3))
