"""Define the table that all maintenance procedures work on, and their results, with the output
columns of Java's procedures.
"""

from __future__ import annotations

import html
import logging
from collections.abc import Callable
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any

import pyarrow as pa

from frazil.catalog import CatalogBackend, LoadedTable
from frazil.catalog.backend import reloaded
from frazil.errors import ValidationError
from frazil.ops.engine import Engine
from frazil.ops.operation import TableOperation, writable
from frazil.spec import logs
from frazil.spec.fact_tree import FactNode, html_of
from frazil.spec.metadata import TableMetadata
from frazil.spec.shown import html_table
from frazil.storage import Storage
from frazil.tasks.runner import Runner

_log = logging.getLogger("frazil.maintain")


@dataclass(frozen=True)
class MaintainedTable:
    """Hold the table that a procedure works on, with the engine and the runner that do the work.

    `loaded`: the state to begin with. `engine`, `runner`: where files are read and written.
    `on_commit`: called with the table's new state after each commit.
    """

    backend: CatalogBackend | None
    loaded: LoadedTable
    name: str
    engine: Engine
    runner: Runner
    on_commit: Callable[[LoadedTable], object] = lambda _: None

    @property
    def metadata(self) -> TableMetadata:
        return self.loaded.metadata

    @property
    def storage(self) -> Storage:
        return self.loaded.storage

    @property
    def writable(self) -> CatalogBackend:
        """Return the catalog to commit to. Raises ValidationError for a table that is read-only."""
        return writable(self.backend, self.name)

    def newest(self) -> LoadedTable:
        """Load the newest state of the table, with the commits of other writers."""
        return reloaded(self.writable, self.loaded)

    def in_state(self, loaded: LoadedTable) -> MaintainedTable:
        """Return the same table in another state."""
        return replace(self, loaded=loaded)

    def begin(self, loaded: LoadedTable | None = None) -> TableOperation:
        """Begin an operation that ends in one commit, on the given state or on the one to begin
        with.
        """
        return TableOperation(
            self.backend,
            loaded or self.loaded,
            self.name,
            engine=self.engine,
            on_commit=self.on_commit,
        )


@dataclass(frozen=True, kw_only=True)
class ProcedureResult:
    """Hold the result of a procedure, or the expected result (`dry_run`). Fields of subclasses are
    the columns of Java's procedure; those whose metadata say `{"ours": True}` are Frazil's own and
    are not part of `to_arrow()`.

    `seconds`: how long it took. `bytes_rewritten`, `bytes_removed`: sizes of the files that were
    read and written again, and removed.
    """

    dry_run: bool = field(default=False, metadata={"ours": True})
    seconds: float = field(default=0.0, metadata={"ours": True})
    bytes_rewritten: int = field(default=0, metadata={"ours": True})
    bytes_removed: int = field(default=0, metadata={"ours": True})

    def to_arrow(self) -> pa.Table:
        """Return the columns of Java's procedure as a table, in one row unless the procedure
        returns several.
        """
        return pa.table(
            {
                f.name: pa.array([getattr(self, f.name)], _arrow_type(f))
                for f in fields(self)
                if not f.metadata.get("ours")
            }
        )

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers by name, for logs."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.repr}

    def show(self) -> None:
        """Print the result, a line for each number."""
        print(repr(self))

    def _repr_html_(self) -> str:
        state = f"{type(self).__name__}: {'dry run, nothing was changed' if self.dry_run else 'done'} ({self.seconds:,.2f} seconds)"
        if type(self).to_arrow is not ProcedureResult.to_arrow:  # a result of several rows
            return html_of_arrow(state, self.to_arrow())
        names = (f.name for f in fields(self) if f.repr and f.name not in ("dry_run", "seconds"))
        return html_of(FactNode(state, tuple((n, _shown(n, getattr(self, n))) for n in names)))

    def __repr__(self) -> str:
        values = {
            f.name: v
            for f in fields(self)
            if f.repr and f.name not in ("dry_run", "seconds") and (v := getattr(self, f.name))
        }
        numbers = ", ".join(f"{name}={_shown(name, value)}" for name, value in values.items())
        return f"{type(self).__name__}({'dry run' if self.dry_run else 'done'}: {numbers or 'nothing to do'}, seconds={self.seconds:,.2f})"


def log_result(table: str, procedure: str, result: ProcedureResult, **more: object) -> None:
    """Log the result of a procedure on a table, or of its dry run (`dry_run`)."""
    if _log.isEnabledFor(logging.INFO):
        extra = logs.facts(
            table, procedure, seconds=result.seconds, result=result.to_dict(), **more
        )
        _log.info("Maintenance of %s: %s: %s", table, procedure, result, extra=extra)


def _shown(name: str, value: object) -> str:
    """Write a value as text: numbers with commas, ids as they are typed."""
    if isinstance(value, float):
        return f"{value:,.2f}"
    return (
        f"{value:,}"
        if isinstance(value, int) and not name.endswith(("_id", "_ref", "_from"))
        else str(value)
    )


def _arrow_type(column: Field[Any]) -> pa.DataType | None:
    """Return the type of a column, which is the same where there is no value; None: Arrow infers
    it.
    """
    kind = str(column.type).removesuffix(" | None")
    return {"int": pa.int64(), "str": pa.string(), "bool": pa.bool_(), "float": pa.float64()}.get(
        kind
    )


# Show results of procedures that have several rows as tables in a notebook.

_SHOWN = 20


def html_of_arrow(title: str, table: pa.Table) -> str:
    """Return the first rows of an Arrow table as an HTML table with a title."""
    rows = ([_text(v) for v in row.values()] for row in table.slice(0, _SHOWN).to_pylist())
    more = f"<p>and {table.num_rows - _SHOWN:,} more</p>" if table.num_rows > _SHOWN else ""
    return f"<p><b>{html.escape(title)}</b></p>{html_table(table.column_names, rows)}{more}"


def _text(value: object) -> str:
    return "" if value is None else f"{value:,.2f}" if isinstance(value, float) else str(value)


def newest_state(table: MaintainedTable, dry_run: bool = False) -> MaintainedTable:
    """Return the table in its newest state. A table that was opened from a metadata file has no
    other, and takes only dry runs.

    Raises ValidationError for a read-only table, and for one that was dropped and created again.
    """
    if table.backend is None and dry_run:
        return table
    fresh = table.newest()
    if fresh.metadata.table_uuid != table.metadata.table_uuid:
        raise ValidationError(
            f"Table {table.name} was dropped and created again: its uuid was {table.metadata.table_uuid} and is now "
            f"{fresh.metadata.table_uuid}.",
            hint="Load it again.",
            table=table.name,
        )
    return replace(table, loaded=fresh)


def newest_readable(table: MaintainedTable) -> MaintainedTable:
    """Return the table in its newest state, or, where it is read-only, in the state that it was
    opened in; for procedures that read only.

    Raises ValidationError for a table that was dropped and created again.
    """
    return newest_state(table, dry_run=True)
