"""Report what became of the delete files of a snapshot: an Arrow table, one `ExplainedDelete` per
file on demand, and a short text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import overload

import pyarrow as pa
import pyarrow.compute as pc

from frazil.spec.fact_tree import FactNode, ShownAsTree, leaves
from frazil.spec.shown import count_text

SHOWN = 10  # lines that a text shows of one kind
EXPLAINED = pa.schema(
    [
        pa.field("file_path", pa.string(), False),
        pa.field("kind", pa.string(), False),
        pa.field("scope", pa.string(), False),
        pa.field("spec_id", pa.int32(), False),
        pa.field("partition", pa.string(), False),
        pa.field("equality_columns", pa.list_(pa.string())),
        pa.field("referenced_data_file", pa.string()),
        pa.field("sequence_number", pa.int64()),
        pa.field("record_count", pa.int64(), False),
        pa.field("size_in_bytes", pa.int64(), False),
        pa.field("data_files", pa.int64(), False),
        pa.field("oldest_data_sequence_number", pa.int64()),
        pa.field("reason", pa.string()),
    ]
)


class Reason(StrEnum):
    """Say why a delete file applies to none of the data files that are read (spec, "Scan
    Planning").

    Each data file may be excluded for another reason; the one given is the latest step of planning
    that some data file reached.
    """

    MANIFEST = "manifest"
    NO_DATA = "no data"
    DATA_FILE = "data file"
    PARTITION = "partition"
    SEQUENCE = "sequence number"
    VECTOR = "deletion vector"
    PATHS = "path bounds"
    KEYS = "key bounds"
    EMPTY = "empty"

    @property
    def text(self) -> str:
        """Return the reason as a sentence without its subject."""
        return _TEXTS[self]


_TEXTS = {
    Reason.MANIFEST: "partition summaries of its manifest do not match the filter",
    Reason.NO_DATA: "no data file is read",
    Reason.DATA_FILE: "the data file it applies to is not read",
    Reason.PARTITION: "no data file of the same spec and partition is read",
    Reason.SEQUENCE: "the sequence number is too low for all data files in reach",
    Reason.VECTOR: "deletion vectors replace it",
    Reason.PATHS: "its path bounds hold no data file in reach",
    Reason.KEYS: "bounds and counts of its keys match no data file in reach",
    Reason.EMPTY: "it has no rows",
}


@dataclass(frozen=True, kw_only=True)
class ExplainedDelete:
    """Describe one delete file or deletion vector of the snapshot, and to how many of the planned
    data files it applies.

    `file_path`: the delete file, of a vector the Puffin file around it. `kind`: `position`,
    `equality` or `vector`. `scope`: `file` (one data file, named by `referenced_data_file` or by
    equal path bounds), `partition` (of the spec `spec_id`; `partition` is its path as `a=1/b=x`,
    empty in an unpartitioned spec) or `table` (an equality delete of an unpartitioned spec).
    `equality_columns`: the columns that an equality delete compares. `sequence_number`: its data
    sequence number, None where a catalog's server has planned the scan. `record_count`: deleted
    positions or keys. `size_in_bytes`: for a deletion vector the size of its blob. `data_files`: to
    how many data files it applies (at most, unless `exact`); 0: it was dropped for `reason`.
    `oldest_data_sequence_number`: the least one of the data files in reach by path or partition;
    None: there is none, or a catalog's server has planned the scan, which returns no sequence
    numbers.
    """

    file_path: str
    kind: str
    scope: str
    spec_id: int
    partition: str
    equality_columns: tuple[str, ...] | None
    referenced_data_file: str | None
    sequence_number: int | None
    record_count: int
    size_in_bytes: int
    data_files: int
    oldest_data_sequence_number: int | None
    reason: Reason | None
    exact: bool = True

    @property
    def applies(self) -> bool:
        """Tell whether it applies to some data file of the plan."""
        return self.reason is None

    @property
    def why(self) -> str:
        """Say to how many data files the delete file applies, or why to none."""
        if self.reason is None:
            return f"applies to {'' if self.exact else 'at most '}{count_text(self.data_files, 'data file')}"
        if self.reason is Reason.SEQUENCE:
            least = "more than" if self.kind == "equality" else "at least"
            return f"dropped, {self.reason.text}, the oldest needs {least} {self.oldest_data_sequence_number}"
        return f"dropped, {self.reason.text}"

    def __str__(self) -> str:
        kind = {"position": "position deletes", "vector": "deletion vector"}.get(
            self.kind
        ) or f"equality deletes by {self._compared}"
        places = {"file": f"of {self.referenced_data_file}", "table": "everywhere"}
        place = places.get(self.scope) or f"in {self.partition or 'no partition'}"
        rows = count_text(self.record_count, "row")
        number = "" if self.sequence_number is None else f", sequence number {self.sequence_number}"
        return f"{kind} {place}, {rows}{number}: {self.why} ({self.file_path})"

    @property
    def _compared(self) -> str:
        return ", ".join(self.equality_columns or ())


class ExplainedDeletes(ShownAsTree, Sequence[ExplainedDelete]):
    """List explained delete files; each object is made when it is asked for. `to_arrow()` has
    columns of the same names.

    `exact` is False where there were too many pairs of data file and delete file to test the bounds
    of all: `data_files` is then an upper limit, and a delete file that only its bounds would drop
    counts as applied. The text shows a few of each.
    """

    def __init__(self, table: pa.Table, exact: bool = True):
        self._table, self.exact = table, exact

    def to_arrow(self) -> pa.Table:
        """Return one row per delete file: the fields of `ExplainedDelete`, with `reason` as text,
        null where the delete file applies.
        """
        return self._table

    @property
    def applied(self) -> ExplainedDeletes:
        """Return the delete files that apply to some data file."""
        return ExplainedDeletes(
            self._table.filter(pc.is_null(self._table.column("reason"))), self.exact
        )

    @property
    def dropped(self) -> ExplainedDeletes:
        """Return the delete files that apply to no data file."""
        return ExplainedDeletes(
            self._table.filter(pc.is_valid(self._table.column("reason"))), self.exact
        )

    @property
    def reasons(self) -> dict[Reason, int]:
        """Count the dropped delete files by reason; reasons that do not occur are left out."""
        counted = pc.value_counts(self._table.column("reason").drop_null()).to_pylist()
        count_by_reason = {Reason(c["values"]): int(c["counts"]) for c in counted}
        return {reason: count_by_reason[reason] for reason in Reason if reason in count_by_reason}

    def together(self, others: ExplainedDeletes) -> ExplainedDeletes:
        """Return these delete files followed by others."""
        return ExplainedDeletes(
            pa.concat_tables([self._table, others._table]), self.exact and others.exact
        )

    def first(self, reason: Reason) -> ExplainedDelete:
        """Return the first delete file that was dropped for this reason. Raises IndexError when
        there is none.
        """
        return ExplainedDeletes(
            self._table.filter(pc.equal(self._table.column("reason"), str(reason)))
        )[0]

    def __len__(self) -> int:
        return int(self._table.num_rows)

    @overload
    def __getitem__(self, index: int) -> ExplainedDelete: ...
    @overload
    def __getitem__(self, index: slice) -> ExplainedDeletes: ...
    def __getitem__(self, index: int | slice) -> ExplainedDelete | ExplainedDeletes:
        if isinstance(index, slice):
            begin, end, step = index.indices(len(self))
            return ExplainedDeletes(
                self._table.take(pa.array(range(begin, end, step), pa.int64())), self.exact
            )
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(index)
        return next(_objects(self._table.slice(place, 1), self.exact))

    def __iter__(self) -> Iterator[ExplainedDelete]:
        for batch in self._table.to_batches(max_chunksize=1024):
            yield from _objects(batch, self.exact)

    @property
    def tree(self) -> FactNode:
        """Return how many apply, and some of them, as a tree of facts."""
        applied, dropped = self.applied, self.dropped
        about = (
            ""
            if self.exact
            else "; counts of data files are upper limits, since not all bounds were compared"
        )
        title = f"{count_text(len(self), 'delete file')}: {len(applied):,} apply, {len(dropped):,} dropped{about}"
        return FactNode(title, (), leaves([*applied.lines(SHOWN), *dropped.lines(SHOWN)]))

    def lines(self, most: int) -> list[str]:
        """Describe at most `most` delete files, one per line; more that were dropped are summed up
        in one line per reason.
        """
        if len(self) <= most:
            return [str(d) for d in self]
        reasons = self.reasons
        if sum(reasons.values()) < len(self):
            return [*(str(d) for d in self[:most]), f"and {len(self) - most:,} more"]
        return [
            f"{count:,}: {reason.text}; the first is {self.first(reason).file_path}"
            for reason, count in reasons.items()
        ]


def _objects(rows: pa.Table | pa.RecordBatch, exact: bool) -> Iterator[ExplainedDelete]:
    for row in rows.to_pylist():
        columns, reason = row.pop("equality_columns"), row.pop("reason")
        columns, reason = (
            None if columns is None else tuple(columns),
            None if reason is None else Reason(reason),
        )
        yield ExplainedDelete(**row, equality_columns=columns, reason=reason, exact=exact)
