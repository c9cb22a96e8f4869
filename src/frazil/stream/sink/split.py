"""Split the rows of a micro-batch by the table that each row names: the protocol for engines, and
its implementation for Arrow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from frazil.ops.engine import Engine
from frazil.spec.metadata import TableMetadata
from frazil.spec.schema import Schema
from frazil.stream.sink.rows import BatchRows

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
