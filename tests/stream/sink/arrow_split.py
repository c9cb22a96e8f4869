"""Split an Arrow table by the tables that its rows name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from frazil.arrow.write.conform import frame_schema
from frazil.ops.engine import Engine
from frazil.ops.in_process import IN_PROCESS
from frazil.spec.metadata import TableMetadata
from frazil.spec.schema import Schema
from frazil.stream.sink.many_tables import NamedRows, Rejected
from frazil.stream.sink.rows import ArrowRows, BatchRows


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
