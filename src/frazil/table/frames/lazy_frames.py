"""Convert a scan to a polars LazyFrame or a DataFusion table, which read only the columns and rows
that a query needs, when it runs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from frazil.expr.bound import (
    Bound,
    BoundLiteral,
    BoundNot,
    BoundReference,
    Comparison,
    NullTest,
    conjuncts,
)
from frazil.expr.sql_text import double_quoted
from frazil.spec.types import (
    DateType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
)
from frazil.table.frames.frames import polars_module
from frazil.table.frames.plain_files import PlainFiles, condition_of

if TYPE_CHECKING:
    import datafusion
    import polars as pl
    import pyarrow.dataset as ds


_ORDERED = (IntegerType, LongType, DateType, TimestampType, TimestamptzType, StringType)


class Scanned(Protocol):
    """Read a table, with the columns still to be chosen: what this module needs of DataScan."""

    @property
    def limit(self) -> int | None: ...

    def select(self, *field_names: str) -> Scanned: ...

    def filter(self, expr: str) -> Scanned: ...

    def to_arrow_batch_reader(self) -> pa.RecordBatchReader: ...


def lazy_polars(
    scan: Scanned,
    schema: pa.Schema,
    limited: Callable[[int], Scanned],
    files: PlainFiles | None,
) -> pl.LazyFrame:
    """Convert a scan to a LazyFrame, which reads the columns that it needs when it is collected.
    `limited`: returns the scan with a limit of rows; `files`: Parquet files that hold its rows as
    they are, which polars reads itself. Raises NotInstalledError."""
    if files is not None and (frame := polars_over(files)) is not None:
        return frame
    polars, types = polars_module(), _polars_types(schema)
    from polars.io.plugins import register_io_source

    def batches(
        names: list[str] | None, predicate: pl.Expr | None, rows: int | None, _: int | None
    ) -> Iterator[pl.DataFrame]:
        selected = schema.names if names is None else names
        needed = (
            selected
            if predicate is None
            else [*selected, *(n for n in predicate.meta.root_names() if n not in selected)]
        )
        rows_left = rows
        for batch in narrowed(
            scan if rows is None or predicate is not None else limited(rows), schema, needed
        ):
            frame = polars.from_arrow(batch)
            frame = (frame if predicate is None else frame.filter(predicate))[selected]
            yield frame if rows_left is None else frame.head(rows_left)
            if rows_left is not None and (rows_left := rows_left - frame.height) <= 0:
                return

    return register_io_source(batches, schema=types, is_pure=True)


def polars_over(files: PlainFiles) -> pl.LazyFrame | None:
    """Let polars read the files of a scan, with its filter; None where polars takes a column for
    another type than Arrow does, takes a name for a pattern, or where the filter is more than tests
    joined by AND that surely mean the same in polars. Raises NotInstalledError."""
    polars = polars_module()
    types = _polars_types(files.columns)
    parts = conjuncts(files.row_filter)
    conditions = [c for part in parts if (c := _condition(part, types)) is not None]
    if len(conditions) < len(parts) or any(n == "*" or n.startswith("^") for n in types):
        return None
    # by runs: polars refuses files together that have columns which the first one lacks
    runs = [
        polars.scan_parquet(list(run), glob=False, hive_partitioning=False).select(list(types))
        for run in files.runs
    ]
    frame = polars.concat(runs) if len(runs) > 1 else runs[0]
    if dict(frame.collect_schema()) != types:
        return None
    return frame.filter(*conditions).select(files.selected) if conditions else frame


@functools.lru_cache(maxsize=100)
def _polars_types(schema: pa.Schema) -> dict[str, pl.DataType]:
    return dict(polars_module().from_arrow(schema.empty_table()).schema)


def _condition(part: Bound, types: Mapping[str, pl.DataType]) -> pl.Expr | None:
    """Return the test of a column against null, or against a value of a type that has one order;
    None for everything else."""
    polars = polars_module()
    match part:
        case NullTest(term=BoundReference(path=(name,))):
            return polars.col(name).is_null()
        case BoundNot(child=NullTest(term=BoundReference(path=(name,)))):
            return polars.col(name).is_not_null()
        case Comparison(
            op="eq" | "lt" | "le" | "gt" | "ge" as op,
            left=BoundReference(path=(name,), type=kind),
            right=BoundLiteral(value=value),
        ) if isinstance(kind, _ORDERED) and value is not None:
            compare: Callable[[pl.Expr], pl.Expr] = getattr(polars.col(name), op)
            return compare(polars.lit(value, dtype=types[name]))
    return None


def narrowed(scan: Scanned, schema: pa.Schema, names: Sequence[str]) -> pa.RecordBatchReader:
    """Read only these columns, in the schema's order. If none is asked for, one column is read, so
    that rows can be counted.
    """
    columns = [n for n in schema.names if n in set(names)] or schema.names[:1]
    return scan.select(*columns).to_arrow_batch_reader()


@functools.cache
def _scan_dataset() -> Callable[[Scanned, pa.Schema], ds.Dataset]:
    """Define the class of datasets over scans. It is defined at its first use, since
    pyarrow.dataset imports pandas if it is installed.
    """
    import pyarrow.dataset as ds

    class ScanDataset(ds.Dataset):  # type: ignore[misc]  # DataFusion and DuckDB require an instance of Dataset
        """Present a scan as a pyarrow dataset of one fragment, whose scanner applies the columns
        and filter of a query as it reads.
        """

        def __init__(self, scan: Scanned, schema: pa.Schema):
            self._scan, self._schema = scan, schema

        @property
        def schema(self) -> pa.Schema:
            return self._schema

        def get_fragments(self, filter: ds.Expression | None = None) -> Iterator[ScanDataset]:
            return iter((self,))

        def scanner(
            self,
            schema: pa.Schema | None = None,
            columns: list[str] | None = None,
            filter: ds.Expression | None = None,
            batch_size: int = 131_072,
            **_: object,
        ) -> ds.Scanner:
            """Scan the columns, filtered. `schema` is part of pyarrow's interface and not used."""
            names = self._schema.names
            selected, text = (
                names if columns is None else columns,
                "" if filter is None else str(filter),
            )
            # pyarrow tells the columns of a filter only as text, in which unusual names may be
            # written differently. So columns with such names are read whenever there is a filter; a
            # column too many does no harm.
            needed = [
                n
                for n in names
                if n in set(selected)
                or (text and (n in text or not (n.isascii() and n.isidentifier())))
            ]
            read_schema = pa.schema([self._schema.field(n) for n in needed or names[:1]])
            # the filter is of the rows that a limit leaves
            condition = condition_of(text, self._schema) if self._scan.limit is None else None
            batches = self._batches(needed, condition)
            return ds.Scanner.from_batches(
                batches,
                schema=read_schema,
                columns=list(selected),
                filter=filter,
                batch_size=batch_size,
            )

        def _batches(self, names: Sequence[str], condition: str | None) -> Iterator[pa.RecordBatch]:
            """Read the columns; a generator, so that nothing is planned before the first batch is
            asked for. A changelog has columns beside those that were selected."""
            columns = list(names) or self._schema.names[:1]
            scan = self._scan if condition is None else self._scan.filter(condition)
            for batch in narrowed(scan, self._schema, names):
                yield batch.select(columns)

    return ScanDataset


def scan_dataset(scan: Scanned, schema: pa.Schema) -> ds.Dataset:
    """Present a scan as a pyarrow dataset, of which each query reads the columns that it needs."""
    return _scan_dataset()(scan, schema)


def datafusion_table(scan: Scanned, schema: pa.Schema) -> datafusion.DataFrame:
    """Convert a scan to a table of DataFusion.

    DataFusion passes filters to pyarrow where it can, and pyarrow does not order NaN above all
    other numbers as DataFusion does. So floating-point columns are wrapped in a function that
    changes no value, which makes DataFusion evaluate their filters itself.
    """
    from datafusion import SessionContext, functions, lit
    from datafusion.expr import Expr

    def shown(field: pa.Field) -> Expr:
        column = Expr.column(double_quoted(field.name))
        if not pa.types.is_floating(field.type):
            return column
        return functions.nanvl(column, lit(float("nan")).cast(field.type)).alias(field.name)

    context = SessionContext()
    context.register_dataset("scanned", scan_dataset(scan, schema))
    return context.table("scanned").select(*(shown(f) for f in schema)).into_view()
