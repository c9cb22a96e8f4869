"""Explain for one data file why a scan reads it or skips it: what each condition of the filter can
be on its rows, by which metadata.

The conditions are the parts of the filter that AND joins. Each is evaluated as in planning: on the
partition summaries of the file's manifest, on its partition values, and on its counts and bounds
(`scan.prune`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import InvalidInput
from frazil.expr.bound import (
    Bound,
    BoundAnd,
    BoundLiteral,
    BoundNot,
    BoundOr,
    Comparison,
    Membership,
    conjuncts,
    references,
)
from frazil.expr.pruning.ranges import Range
from frazil.expr.sql_text import literal_text, shown_value
from frazil.scan.delete_ranges import normalised
from frazil.scan.manifests import PRUNED_BY, STATISTICS, column_of, live, read_manifest
from frazil.scan.prune import (
    file_outcomes,
    manifest_outcomes,
    partition_outcomes,
    partition_ranges,
    statistics_ranges,
)
from frazil.spec.fact_tree import FactNode, ShownAsTree, leaves
from frazil.spec.manifest import ManifestFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.partitioning import PartitionSpec
from frazil.spec.schema import Schema
from frazil.spec.shown import shortened
from frazil.spec.types import IcebergType
from frazil.storage import Storage
from frazil.storage.locations import normalise

BY_SUMMARIES, BY_PARTITION, BY_STATISTICS = (
    "partition summaries of its manifest",
    "partition values",
    "counts and bounds",
)
_COLUMNS = tuple(dict.fromkeys((*PRUNED_BY, *STATISTICS, "file_path", "split_offsets")))
_TRUTH = ((1, "TRUE"), (2, "FALSE"), (4, "NULL"))


@dataclass(frozen=True)
class ExplainedCondition:
    """Explain one condition of a filter on one data file.

    `outcomes`: the truth values (TRUE, FALSE, NULL) that it may have on rows of the file; without
    TRUE the file is skipped. `decided_by`: the metadata that excluded TRUE; None: nothing did.
    `known`: what the metadata says of the columns of the condition.
    """

    condition: str
    outcomes: tuple[str, ...]
    decided_by: str | None = None
    known: tuple[str, ...] = ()

    def __str__(self) -> str:
        shown = f"{shortened(self.condition)} can be {' or '.join(self.outcomes) or 'nothing, as there are no rows'}"
        return f"{shown}: {'; '.join(self.known) or 'nothing is known of its columns'}"


@dataclass(frozen=True, repr=False)
class ExplainedFile(ShownAsTree):
    """Explain why a scan reads a data file (`is_read`) or by which metadata it skips it
    (`skipped_by`).

    `file_path`: the data file, `record_count`: its rows, deleted ones included. `matches_wholly`:
    the filter is TRUE for every row, so that none of them is tested. `conditions`: one per part of
    the filter that AND joins. `manifest_path`: the manifest that lists the file.
    """

    file_path: str
    manifest_path: str
    is_read: bool
    matches_wholly: bool
    record_count: int
    conditions: tuple[ExplainedCondition, ...] = field(default=())

    @property
    def skipped_by(self) -> str | None:
        """Name the metadata that excludes the file, the first that planning looks at; None: the
        file is read.
        """
        if self.is_read:
            return None
        reasons = {condition.decided_by for condition in self.conditions}
        return next((by for by in (BY_SUMMARIES, BY_PARTITION) if by in reasons), BY_STATISTICS)

    @property
    def tree(self) -> FactNode:
        """Return the verdict, and the conditions below it, as a tree of facts."""
        verdict = f"{self.file_path} ({self.record_count:,} rows) {self._verdict()}"
        return FactNode(verdict, (), leaves([str(c) for c in self.conditions]))

    def _verdict(self) -> str:
        if not self.is_read:
            return f"is skipped, by {self.skipped_by}"
        if not self.conditions:
            return "is read: the scan has no filter"
        if self.matches_wholly:
            return "is read: the filter is TRUE for every row"
        return (
            "is read: nothing that the metadata says excludes that the filter is TRUE for some row"
        )


@dataclass(frozen=True)
class Candidates:
    """Hold the files among which a scan chooses by its filter: entries of these manifests, which
    `storage` reads. `choose`: the choice of planning, by default of the live entries."""

    manifests: tuple[ManifestFile, ...]
    storage: Storage
    choose: Callable[[pa.Table], pa.Table] = live


def explain_file(
    file_path: str, candidates: Candidates, metadata: TableMetadata, bound: Bound, schema: Schema
) -> ExplainedFile:
    """Explain one data file. Raises InvalidInput when it is not among the candidates."""
    wanted = normalise(file_path)
    for manifest in _likely_first(candidates.manifests, metadata, bound, schema):
        entries = candidates.choose(
            read_manifest(candidates.storage, manifest, _COLUMNS, keep=False)
        )
        place = pc.index(normalised(column_of(entries, "file_path")), wanted).as_py()
        if place >= 0:
            return _explained(entries.slice(place, 1), manifest, metadata, bound, schema)
    raise InvalidInput(
        f"What is scanned of {metadata.location} does not have the data file {file_path}.",
        hint="t.inspect.files() lists the data files of a snapshot.",
        file=file_path,
    )


def _likely_first(
    manifests: Sequence[ManifestFile], metadata: TableMetadata, bound: Bound, schema: Schema
) -> Iterable[ManifestFile]:
    """Order manifests with live files so that those which the scan reads come first: most questions
    are about files that are read.
    """
    alive = [m for m in manifests if m.has_live_files]
    return sorted(
        alive,
        key=lambda m: (
            not manifest_outcomes([m], bound, schema, metadata.spec_by_id(m.partition_spec_id))[0]
            & 1
        ),
    )


def _explained(
    entry: pa.Table, manifest: ManifestFile, metadata: TableMetadata, bound: Bound, schema: Schema
) -> ExplainedFile:
    spec = metadata.spec_by_id(manifest.partition_spec_id)
    possible = _outcomes(entry, manifest, metadata, bound, schema, spec)[0]
    return ExplainedFile(
        file_path=entry.column("file_path")[0].as_py(),
        manifest_path=manifest.manifest_path,
        is_read=bool(possible & 1),
        matches_wholly=possible == 1,
        record_count=entry.column("record_count")[0].as_py(),
        conditions=tuple(
            _condition(part, entry, manifest, metadata, schema, spec) for part in conjuncts(bound)
        ),
    )


def _outcomes(
    entry: pa.Table,
    manifest: ManifestFile,
    metadata: TableMetadata,
    bound: Bound,
    schema: Schema,
    spec: PartitionSpec,
) -> tuple[int, str | None]:
    """Return the possible truth values as bits, and the metadata that excluded TRUE."""
    possible, decided_by = 7, None
    by_partition = partition_outcomes(entry, bound, schema, spec)
    for by, mask in (
        (BY_SUMMARIES, manifest_outcomes([manifest], bound, schema, spec)),
        (BY_PARTITION, np.full(1, 7, np.uint8) if by_partition is None else by_partition),
        (BY_STATISTICS, file_outcomes(entry, bound, schema, spec, metadata.snapshots)),
    ):
        possible &= int(mask[0])
        decided_by = decided_by or (None if possible & 1 else by)
    return possible, decided_by


def _condition(
    part: Bound,
    entry: pa.Table,
    manifest: ManifestFile,
    metadata: TableMetadata,
    schema: Schema,
    spec: PartitionSpec,
) -> ExplainedCondition:
    possible, decided_by = _outcomes(entry, manifest, metadata, part, schema, spec)
    columns = references(part)
    by_partition = partition_ranges(column_of(entry, "partition"), spec, schema, list(columns))
    by_statistics = statistics_ranges(entry, schema, list(columns), metadata.snapshots)
    range_texts = [
        f"{text} ({by})"
        for field_id, reference in columns.items()
        for by, ranges in ((BY_PARTITION, by_partition), (BY_STATISTICS, by_statistics))
        for one_range in ranges.get(field_id, ())
        if (text := _range_text(reference.name, one_range, reference.type))
    ]
    truth_values = tuple(text for bit, text in _TRUTH if possible & bit)
    return ExplainedCondition(
        str(_with_sql_constants(part)), truth_values, decided_by, tuple(range_texts)
    )


class _SqlText(str):
    """Hold a constant as SQL, which `repr` leaves as it is."""

    __repr__ = str.__str__


def _with_sql_constants(bound: Bound) -> Bound:
    """Replace constants by their SQL text, for a condition that is shown: dates and times are
    numbers inside.
    """
    match bound:
        case BoundLiteral():
            return replace(bound, value=_SqlText(literal_text(bound.value, bound.type)))
        case Membership():
            return replace(
                bound,
                values=tuple(
                    _SqlText(literal_text(value, bound.term.type)) for value in bound.values
                ),
            )
        case Comparison():
            return replace(
                bound, left=_with_sql_constants(bound.left), right=_with_sql_constants(bound.right)
            )
        case BoundNot():
            return replace(bound, child=_with_sql_constants(bound.child))
        case BoundAnd() | BoundOr():
            return replace(bound, parts=tuple(map(_with_sql_constants, bound.parts)))
    return bound


def _range_text(name: str, column_range: Range, type_: IcebergType) -> str:
    """Describe what is known of a column in one file; an empty text: nothing is."""
    lower, upper = (
        shown_value(_value(bound), type_) for bound in (column_range.lower, column_range.upper)
    )
    has_nulls, has_nans, has_values = (
        bool(np.ravel(flag)[0])
        for flag in (column_range.nulls, column_range.nans, column_range.values)
    )
    if not has_values:
        return f"{name} has no values but null" + (" and NaN" if has_nans else "")
    words = []
    if lower is not None and lower == upper:
        words.append(f"= {shortened(lower, 40)}")
    elif lower is not None and upper is not None:
        words.append(f"between {shortened(lower, 40)} and {shortened(upper, 40)}")
    elif lower is not None:
        words.append(f">= {shortened(lower, 40)}")
    elif upper is not None:
        words.append(f"<= {shortened(upper, 40)}")
    elif column_range.hashed is not None:
        words.append(
            f"in bucket {_value(column_range.hashed.lower)} of {column_range.hashed.num_buckets}"
        )
    if not has_nulls:
        words.append("without nulls")
    return f"{name} {', '.join(words)}" if words else ""


def _value(bound: pa.Array | pa.Scalar | None) -> Any:
    if bound is None:
        return None
    return (bound if isinstance(bound, pa.Scalar) else bound[0]).as_py()
