"""Split the rows of a micro-batch by the table that each row names: the protocol for engines, and
its implementation for Arrow.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from frazil.arrow.write.conform import frame_schema
from frazil.ops.engine import Engine
from frazil.ops.in_process import IN_PROCESS
from frazil.spec.metadata import TableMetadata
from frazil.spec.schema import Schema
from frazil.stream.sink.rows import ArrowRows, BatchRows

SET_ASIDE = "table_name string, reason string, query_id string, batch_id bigint, set_aside_at timestamptz, row string"
"""The columns of the table that takes rows which were set aside; `row` is the whole row as JSON."""


@dataclass(frozen=True)
class NamedRows:
    """Count the rows of a batch that name one table. `name`: the text in the table column;
    `filled`: the positions of the columns that have a value in at least one of these rows."""

    name: str | None
    rows: int
    filled: frozenset[int]


@dataclass(frozen=True)
class Rejected:
    """Say which rows are set aside: those with a table name in `reasons`, each with its reason."""

    query_id: str
    batch_id: int
    reasons: Mapping[str | None, str]


class SplitRows(Protocol):
    """Hand out the rows of one micro-batch table by table. However many tables there are, the batch
    is evaluated once. Columns are named by their positions in the frame."""

    @property
    def engine(self) -> Engine:
        """Return the engine that writes the rows."""

    @property
    def schema(self) -> Schema:
        """Return the columns of the frame."""

    @property
    def case_sensitive(self) -> bool:
        """Tell whether names of columns that differ in case only are different columns."""

    @property
    def groups(self) -> Sequence[NamedRows]:
        """Return the table names that the batch holds. This evaluates the batch."""

    def rows(
        self, names: Sequence[str], columns: Sequence[int], metadata: TableMetadata | None = None
    ) -> BatchRows:
        """Return the rows with these table names, with these columns. `metadata`: the table's, for
        errors.
        """

    def rejected(self, rejected: Rejected) -> BatchRows:
        """Return the rows to set aside, with the columns of `SET_ASIDE`."""


@dataclass
class ArrowSplit:
    """Implement `SplitRows` for an Arrow table, in this process. `name_column`: the position of the
    column with the table names.
    """

    table: pa.Table
    name_column: int
    case_sensitive: bool = True
    engine: Engine = field(default=IN_PROCESS)

    @property
    def schema(self) -> Schema:
        """Return the columns of the frame."""
        return frame_schema(self.table)

    @cached_property
    def groups(self) -> Sequence[NamedRows]:
        """Return the table names that the batch holds."""
        groups = []
        for name in pc.unique(self.table.column(self.name_column)).to_pylist():
            part = self._rows_of_tables([name])
            filled = frozenset(
                i for i, column in enumerate(part.columns) if column.null_count < part.num_rows
            )
            groups.append(NamedRows(name, part.num_rows, filled))
        return groups

    def rows(
        self, names: Sequence[str], columns: Sequence[int], metadata: TableMetadata | None = None
    ) -> BatchRows:
        """Return the rows with these table names, with these columns."""
        return ArrowRows(
            self._rows_of_tables(names).select(list(columns)), case_sensitive=self.case_sensitive
        )

    def rejected(self, rejected: Rejected) -> BatchRows:
        """Return the rows to set aside, with the columns of `SET_ASIDE`."""
        part, now = self._rows_of_tables(list(rejected.reasons)), datetime.now(UTC)
        names = part.column(self.name_column).to_pylist()
        columns: dict[str, Any] = {
            "table_name": pa.array(names, pa.string()),
            "reason": pa.array([rejected.reasons[n] for n in names], pa.string()),
            "query_id": pa.array([rejected.query_id] * len(names), pa.string()),
            "batch_id": pa.array([rejected.batch_id] * len(names), pa.int64()),
            "set_aside_at": pa.array([now] * len(names), pa.timestamp("us", "UTC")),
            "row": pa.array([json.dumps(r, default=str) for r in part.to_pylist()], pa.string()),
        }
        return ArrowRows(pa.table(columns))

    def _rows_of_tables(self, names: Sequence[str | None]) -> pa.Table:
        in_rows = self.table.column(self.name_column)
        return self.table.filter(pc.is_in(in_rows, pa.array(list(names), in_rows.type)))
