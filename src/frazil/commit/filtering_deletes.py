"""Rewrite delete manifests without the delete files that a commit removes or makes obsolete (Java
ManifestFilterManager).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.commit.filtering import (
    DeleteRemoval,
    Filtered,
    FilterResult,
    Rows,
    check_required,
    in_partitions,
    rewrite_without,
)
from frazil.commit.manifests import DELETED, ManifestWriter
from frazil.commit.matching import TRUE, file_outcomes, manifests_that_may_match
from frazil.errors import ValidationException
from frazil.expr.nodes import AlwaysFalse
from frazil.scan.delete_ranges import normalised, path_bounds
from frazil.scan.manifests import column_of, read_manifest
from frazil.scan.summaries import manifests_that_may_hold
from frazil.spec.manifest import DataFile, DataFileContent, ManifestFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.partitioning import partition_key
from frazil.storage import normalise


@dataclass
class _PreparedDeleteRemoval:
    """Prepare a removal for testing many delete manifests."""

    removal: DeleteRemoval
    metadata: TableMetadata
    manifests: Sequence[ManifestFile]

    @cached_property
    def named(self) -> set[tuple[str, int | None]]:
        return {(f.file_path, f.content_offset) for f in self.removal.files}

    @cached_property
    def required(self) -> set[tuple[str, int | None]]:
        """Return the delete files that must be there to be removed: all that are named, or those
        whose data file gets a new vector, which holds their deletes. Were one to stay, the data
        file would have two vectors."""
        if self.removal.required or not self.named:
            return self.named
        replaced = set(
            _paths([v.referenced_data_file or "" for v in self.removal.vectors]).to_pylist()
        )
        named = [f for f in self.removal.files if f.is_dv and replaced]
        return {
            (f.file_path, f.content_offset)
            for f in named
            if normalise(f.referenced_data_file or "") in replaced
        }

    @cached_property
    def by_filter(self) -> set[str]:
        removal = self.removal
        return manifests_that_may_match(
            self.manifests,
            removal.row_filter,
            self.metadata.schema(),
            self.metadata,
            removal.case_sensitive,
            removal.zone,
        )

    @cached_property
    def by_partition(self) -> set[str]:
        """Return the manifests in whose partitions delete files may have to be removed; a delete
        file is in its data file's partition.
        """
        about: Iterable[DataFile] = (
            *self.removal.files,
            *self.removal.removed,
            *self.removal.vectors,
        )
        keys = self.removal.partitions | {partition_key(f.spec_id, f.partition) for f in about}
        return manifests_that_may_hold(self.manifests, keys, self.metadata)

    @cached_property
    def superseded(self) -> pa.Array:
        """Return the paths of the data files whose own delete files are removed."""
        return _paths(
            [
                *(f.file_path for f in self.removal.removed),
                *(v.referenced_data_file or "" for v in self.removal.vectors),
            ]
        )

    def may_change(self, m: ManifestFile) -> bool:
        if not m.has_live_files:
            return False
        old = (m.min_sequence_number or 0) < self.removal.before_sequence_number
        return old or m.manifest_path in self.by_filter or m.manifest_path in self.by_partition


def _paths(texts: Sequence[str]) -> pa.Array:
    return normalised(pa.array(sorted(set(texts)), pa.string()))


def filter_deletes(
    manifests: Sequence[ManifestFile],
    removal: DeleteRemoval,
    writer: ManifestWriter,
    metadata: TableMetadata,
) -> FilterResult:
    """Filter the delete files of `removal` out of delete manifests.

    Raises ValidationException when a required delete file is missing, or when a data file would
    have two deletion vectors.
    """
    result = FilterResult()
    chosen = _PreparedDeleteRemoval(removal, metadata, manifests)
    for manifest in manifests:
        if not chosen.may_change(manifest):
            result.take(manifest, Filtered(manifest))
            continue
        table = read_manifest(writer.output.storage, manifest)
        live: Rows = pc.not_equal(table["status"], int(DELETED)).to_numpy(zero_copy_only=False)
        marked = live & _marked(table, manifest, chosen)
        _refuse_second_vectors(table.filter(pa.array(live & ~marked)), removal, metadata)
        result.take(
            manifest,
            rewrite_without(table, marked, live, manifest, writer, metadata)
            if marked.any()
            else Filtered(manifest),
        )
    check_required(chosen.required, {(f.file_path, f.content_offset) for f in result.removed})
    return result


def _marked(table: pa.Table, manifest: ManifestFile, chosen: _PreparedDeleteRemoval) -> Rows:
    removal = chosen.removal
    sequence = pc.fill_null(table["sequence_number"], 0).to_numpy(zero_copy_only=False)
    marked: Rows = (sequence > 0) & (sequence < removal.before_sequence_number)
    if chosen.named:
        pairs = zip(
            table["file_path"].to_pylist(), table["content_offset"].to_pylist(), strict=True
        )
        marked |= np.fromiter((p in chosen.named for p in pairs), dtype=bool, count=len(table))
    if wanted := [k for k in removal.partitions if k[0] == manifest.partition_spec_id]:
        marked |= in_partitions(table, manifest.partition_spec_id, wanted)
    if len(chosen.superseded):
        marked |= _about(table, chosen)
    if manifest.manifest_path in chosen.by_filter and not isinstance(
        removal.row_filter, AlwaysFalse
    ):
        outcomes = file_outcomes(
            table,
            removal.row_filter,
            chosen.metadata.schema(),
            chosen.metadata,
            manifest.partition_spec_id,
            removal.case_sensitive,
            removal.zone,
            partition_only=True,
        )
        marked |= outcomes == TRUE
    return marked


def _about(table: pa.Table, chosen: _PreparedDeleteRemoval) -> Rows:
    """Mark the delete files of a single data file that is removed or gets a new deletion vector. In
    the second case old vectors are not marked: the caller has to name them, so that a vector that
    was not merged is never lost."""
    positional = column_of(table, "content").to_numpy() == int(DataFileContent.POSITION_DELETES)
    single = path_bounds([table], column_of(table, "referenced_data_file"), positional).single
    vector = pc.equal(column_of(table, "file_format"), "puffin").to_numpy(zero_copy_only=False)
    removed = _is_in(single, _paths([f.file_path for f in chosen.removal.removed]))
    return np.asarray(removed | (_is_in(single, chosen.superseded) & ~vector))


def _is_in(values: pa.Array, members: pa.Array) -> Rows:
    return np.asarray(
        pc.and_(values.is_valid(), pc.is_in(values, value_set=members)).to_numpy(
            zero_copy_only=False
        )
    )


def _refuse_second_vectors(
    staying: pa.Table, removal: DeleteRemoval, metadata: TableMetadata
) -> None:
    if not removal.vectors or not len(staying):
        return
    vectors = staying.filter(pc.equal(staying["file_format"], "puffin"))
    if not len(vectors):
        return
    paths = normalised(column_of(vectors, "referenced_data_file"))
    both = vectors.filter(
        pa.array(_is_in(paths, _paths([v.referenced_data_file or "" for v in removal.vectors])))
    )
    if len(both):
        file, other = both["referenced_data_file"][0].as_py(), both["file_path"][0].as_py()
        raise ValidationException(
            f"Cannot add a deletion vector for {file}, which has one already: {other}",
            file=file,
            table=metadata.location,
            snapshot_id=both["snapshot_id"][0].as_py(),
            hint="Merge both vectors, and remove the old one in the same commit.",
        )
