"""Prune pairs of data file and delete file by statistics: deleted paths or keys whose bounds and
counts exclude the data file's.

A statistic that is missing, of another type or not decodable rules nothing out (spec, "Scan
Planning").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.expr.pruning.ranges import possible_bounds
from frazil.expr.values import FLOATS
from frazil.scan.bounds import MapColumn, decode_bounds, trusted
from frazil.scan.manifests import BOUNDS, STATISTICS, column_of
from frazil.scan.tasks import PlannedFiles
from frazil.spec.metadata import TableMetadata
from frazil.spec.schema import DELETE_FILE_PATH_ID
from frazil.spec.types import (
    GeographyType,
    GeometryType,
    IcebergType,
    StringType,
    UnknownType,
    UUIDType,
    VariantType,
)
from frazil.storage.locations import normalise

Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]
_UNCOMPARED = (
    UUIDType,
    VariantType,
    GeometryType,
    GeographyType,
    UnknownType,
)  # uuid: writers disagree about the order
_CHUNK = 250_000
_STRING = StringType()


def normalised(paths: pa.Array) -> pa.Array:
    """Normalise paths so that each file has one spelling, as `storage.locations.normalise` does: `file:/x`,
    `file:///x` and `/x` are one file.
    """
    odd = pc.or_kleene(
        pc.match_substring_regex(paths, "^(?i:file|s3a|s3n|gcs|abfs|wasbs?|memory|hdfs):"),
        _has_nothing(paths),
    )
    if not pc.any(odd).as_py():
        return paths
    # s3://bucket/key has a doubled slash and is normal: the slow `normalise` is called only for
    # paths that it may change.
    plain = pc.match_substring_regex(
        paths, r"^(s3|gs|abfss|https?)://|^hdfs://[a-z0-9_.-]+(:[0-9]+)?(/([^/.]|\.[^/])[^/]*)+$"
    )
    plain = pc.and_(plain, pc.invert(pc.match_substring(paths, ":8020/")))
    odd = pc.and_(odd, pc.invert(plain))
    local = pc.match_substring_regex(paths, "^file:(///)?[^/]|^file:/[^/]")
    simple = pc.replace_substring_regex(paths, "^file:(//)?/", "/")
    done = pc.and_(local, pc.invert(_has_nothing(simple)))
    rest = pc.and_(odd, pc.invert(done))
    simplified = pc.if_else(done, simple, paths)
    if not pc.any(rest).as_py():
        return simplified
    return pa.array(
        [
            normalise(p) if r else p
            for p, r in zip(simplified.to_pylist(), rest.to_pylist(), strict=True)
        ],
        pa.string(),
    )


def _has_nothing(paths: pa.Array) -> pa.Array:
    """Tell which paths have doubled slashes or `/./`, which `storage.locations.collapsed` drops."""
    return pc.or_(pc.match_substring(paths, "//"), pc.match_substring(paths, "/./"))


@dataclass(frozen=True)
class PathBounds:
    """Hold, for each delete file, `single`: the one data file it applies to (normalised; null:
    several, or an equality delete), and `lower` and `upper`: the bounds of its deleted paths as
    bytes (null: unknown)."""

    single: pa.Array
    lower: pa.Array
    upper: pa.Array

    @property
    def scattered(self) -> Flags:
        return np.asarray(self.single.is_null().to_numpy(zero_copy_only=False))


def path_bounds(tables: Sequence[pa.Table], referenced: pa.Array, positional: Flags) -> PathBounds:
    """Read the path bounds of delete files. Equal bounds mean one data file, also without
    `referenced_data_file` (spec, "Manifests").

    Where both name a file of the same name in different places, the bounds are right: Java's
    `rewrite_table_path` (1.11) gives a copy's position delete files new bounds, but leaves
    `referenced_data_file` as it was in the original.
    """
    lower, upper = (
        pa.concat_arrays(
            [MapColumn(t.column(name)).at(DELETE_FILE_PATH_ID).cast(pa.binary()) for t in tables]
        )
        for name in ("lower_bounds", "upper_bounds")
    )
    same = decode_bounds(pc.if_else(pc.equal(lower, upper), lower, None), _STRING)
    moved = pc.fill_null(pc.not_equal(referenced, same), False)
    if pc.any(moved).as_py():
        moved = pc.and_(moved, pc.equal(_file_names(referenced), _file_names(same)))
    one_file = pc.if_else(moved, same, pc.coalesce(referenced, same))
    single = pc.if_else(pa.array(positional), one_file, pa.scalar(None, pa.string()))
    return PathBounds(normalised(single), lower, upper)


def _file_names(paths: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(paths, "^.*/", "")


@dataclass(frozen=True)
class _Column:
    """Hold the statistics of one key column: those of data files, or those of delete files."""

    lower: pa.Array
    upper: pa.Array
    may_null: Flags
    all_null: Flags
    no_nan: Flags


Test = Callable[[Numbers, Numbers], Flags]


@dataclass(frozen=True)
class Pruner:
    """Test pairs of data file and delete file: `pruner(data, deletes)` tells for each pair of
    numbers whether the delete may apply.
    """

    tests: tuple[tuple[Flags, Test], ...]  # (delete files that are tested, the test)

    def __call__(self, data: npt.NDArray[np.int64], deletes: Numbers) -> Flags:
        keep = np.ones(len(deletes), bool)
        for about, test in self.tests:
            tested = np.flatnonzero(keep & about[deletes])
            for start in range(0, len(tested), _CHUNK):
                part = tested[start : start + _CHUNK]
                keep[part] = test(data[part], deletes[part])
        return keep


def pruner_of(
    metadata: TableMetadata,
    groups: Sequence[PlannedFiles],
    tables: Sequence[pa.Table],
    bounds: PathBounds,
    data_paths: pa.Array,
    scattered: Flags,
    equality: Flags,
) -> Pruner | None:
    """Make the pruner for these data files and delete files; None: no statistic could rule a pair
    out.
    """
    tests: list[tuple[Flags, Test]] = []
    has_bounds = (pc.or_(bounds.lower.is_valid(), bounds.upper.is_valid())).to_numpy(
        zero_copy_only=False
    )
    if (scattered & has_bounds).any():
        tests.append((scattered & has_bounds, _by_path_bounds(bounds, data_paths)))
    if equality.any() and all(set(STATISTICS).issubset(g.table.column_names) for g in groups):
        ids = pa.concat_arrays([column_of(t, "equality_ids") for t in tables])
        parents, flat = (
            pc.list_parent_indices(ids).to_numpy(zero_copy_only=False),
            pc.list_flatten(ids).to_numpy(zero_copy_only=False),
        )
        for field_id in np.unique(flat[equality[parents]]):
            type_ = key_type(metadata, int(field_id))
            if type_ is None or not type_.is_primitive or isinstance(type_, _UNCOMPARED):
                continue
            about = np.zeros(len(equality), bool)
            about[parents[flat == field_id]] = True
            ours = _statistics([g.table for g in groups], int(field_id), type_)
            tests.append(
                (
                    about & equality,
                    _by_ranges(
                        ours, _statistics(tables, int(field_id), type_), isinstance(type_, FLOATS)
                    ),
                )
            )
    return Pruner(tuple(tests)) if tests else None


def key_type(metadata: TableMetadata, field_id: int) -> IcebergType | None:
    """Return the widest type a column ever had: its type in the newest schema that has it."""
    schemas = sorted(metadata.schemas, key=lambda s: s.schema_id, reverse=True)
    return next((s.by_id[field_id].field_type for s in schemas if field_id in s.by_id), None)


def _by_path_bounds(bounds: PathBounds, data_paths: pa.Array) -> Test:
    """Test data file paths against path bounds, by rank among all of them. Bounds in a spelling
    that is not normalised (`file:/x`) sort differently, so they rule nothing out."""
    plain = pc.and_(*(pc.equal(_plain(b), b) for b in (bounds.lower, bounds.upper)))
    odd = ~pc.fill_null(plain, False).to_numpy(zero_copy_only=False)
    least, most = possible_bounds(bounds.lower, bounds.upper)
    everything = pa.concat_arrays([data_paths.cast(pa.binary()), least, most])
    ranks = pc.rank(everything, tiebreaker="dense").to_numpy().astype(np.int64)
    of_paths, of_least, of_most = np.split(ranks, [len(data_paths), len(data_paths) + len(least)])
    lower = np.where(least.is_null().to_numpy(zero_copy_only=False) | odd, -1, of_least)
    upper = np.where(
        most.is_null().to_numpy(zero_copy_only=False) | odd, np.iinfo(np.int64).max, of_most
    )
    return lambda data, deletes: np.asarray(
        (of_paths[data] >= lower[deletes]) & (of_paths[data] <= upper[deletes])
    )


def _plain(values: pa.Array) -> pa.Array:
    text = decode_bounds(values, _STRING)
    return normalised(text).cast(pa.binary())


def _statistics(tables: Sequence[pa.Table], field_id: int, type_: IcebergType) -> _Column:
    columns = {
        n: pa.concat_arrays([MapColumn(t.column(n)).at(field_id) for t in tables])
        for n in STATISTICS
    }
    rows = np.concatenate([t.column("record_count").to_numpy() for t in tables])
    values, nulls, nans = (
        pc.fill_null(columns[n], -1).to_numpy(zero_copy_only=False)
        for n in ("value_counts", "null_value_counts", "nan_value_counts")
    )
    offsets = pa.table(
        {"split_offsets": pa.concat_arrays([column_of(t, "split_offsets") for t in tables])}
    )
    lower, upper = (decode_bounds(columns[n], type_) for n in BOUNDS)
    unbounded = (pc.and_(lower.is_null(), upper.is_null())).to_numpy(zero_copy_only=False)
    lower, upper = trusted(lower, upper, type_, offsets)
    counted = (nulls >= 0) & (values == rows)
    return _Column(
        lower, upper, ~(counted & (nulls == 0)), counted & (nulls >= rows) & unbounded, nans == 0
    )


def _by_ranges(ours: _Column, theirs: _Column, floats: bool) -> Test:
    """Test the key ranges of data files against those of equality deletes. Null equals null and NaN
    equals NaN in an equality delete, so a pair that may share one of them is kept."""

    def may_apply(data: Numbers, deletes: Numbers) -> Flags:
        both_null = ours.may_null[data] & theirs.may_null[deletes]
        one_sided = (ours.all_null[data] & ~theirs.may_null[deletes]) | (
            theirs.all_null[deletes] & ~ours.may_null[data]
        )
        rows, keys = pa.array(data), pa.array(deletes)
        lower, upper, least, most = (
            ours.lower.take(rows),
            ours.upper.take(rows),
            theirs.lower.take(keys),
            theirs.upper.take(keys),
        )
        bounded = pc.and_(
            pc.and_(lower.is_valid(), upper.is_valid()), pc.and_(least.is_valid(), most.is_valid())
        )
        apart = pc.fill_null(
            pc.and_(bounded, pc.or_(pc.less(upper, least), pc.less(most, lower))), False
        ).to_numpy(zero_copy_only=False)
        if floats:
            apart = apart & (ours.no_nan[data] | theirs.no_nan[deletes])
        return np.asarray(both_null | ~(one_sided | apart))

    return may_apply
