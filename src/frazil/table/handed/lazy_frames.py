"""Hand a scan to engines that plan by themselves, polars' LazyFrame and DataFusion: they ask for columns and rows when they run."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa

from frazil.errors import NotInstalledError


class Scanned(Protocol):
    """A read that can still be narrowed (DataScan)."""

    def select(self, *field_names: str) -> Scanned: ...

    def to_arrow_batch_reader(self) -> pa.RecordBatchReader: ...


def lazy_polars(scan: Scanned, schema: pa.Schema, limited: Callable[[int], Scanned]) -> Any:
    """A LazyFrame that reads when it is collected, the columns that it needs. `limited`: the scan of so many rows. Raises
    NotInstalledError."""
    try:
        import polars
        from polars.io.plugins import register_io_source
    except ModuleNotFoundError as e:
        raise NotInstalledError("to_polars needs polars.", hint="pip install 'frazil[polars]'") from e

    def batches(names: list[str] | None, predicate: Any, rows: int | None, _: int | None) -> Iterator[Any]:
        wanted = schema.names if names is None else names
        needed = wanted if predicate is None else [*wanted, *(n for n in predicate.meta.root_names() if n not in wanted)]
        rest = rows
        for batch in narrowed(scan if rows is None or predicate is not None else limited(rows), schema, needed):
            frame = polars.from_arrow(batch)
            frame = (frame if predicate is None else frame.filter(predicate)).select(wanted)
            yield frame if rest is None else frame.head(rest)
            if rest is not None and (rest := rest - frame.height) <= 0:
                return

    return register_io_source(batches, schema=dict(polars.from_arrow(schema.empty_table()).schema), is_pure=True)


def narrowed(scan: Scanned, schema: pa.Schema, names: Sequence[str]) -> pa.RecordBatchReader:
    """The rows with only these columns, in the schema's order. Where none is asked for, any one tells how many rows there are."""
    kept = [n for n in schema.names if n in set(names)] or schema.names[:1]
    return scan.select(*kept).to_arrow_batch_reader()


@functools.cache
def _scan_dataset() -> Any:
    """The class of datasets over scans. It is made when the first one is wanted: pyarrow.dataset imports pandas, where that is there."""
    import pyarrow.dataset as ds

    class ScanDataset(ds.Dataset):  # type: ignore[misc]  # DataFusion asks for an instance of it
        """A scan as what DataFusion reads in Python: a dataset of one fragment, whose scanner applies columns and filter as it reads."""

        def __init__(self, scan: Scanned, schema: pa.Schema):
            self._scan, self._schema = scan, schema

        @property
        def schema(self) -> pa.Schema:
            return self._schema

        def get_fragments(self, filter: Any = None) -> Iterator[ScanDataset]:
            return iter((self,))

        def scanner(
            self, schema: pa.Schema | None = None, columns: list[str] | None = None, filter: Any = None, batch_size: int = 131_072, **_: Any
        ) -> ds.Scanner:
            """`schema`: what fragments are handed. The text of a filter holds the names of its columns, but odd names may be written
            otherwise there; a column too many does no harm."""
            names = self._schema.names
            wanted, text = names if columns is None else columns, "" if filter is None else str(filter)
            needed = [n for n in names if n in set(wanted) or (text and (n in text or not (n.isascii() and n.isidentifier())))]
            kept = [self._schema.field(n) for n in needed or names[:1]]
            batches, read = self._batches(needed), pa.schema(kept)
            return ds.Scanner.from_batches(batches, schema=read, columns=list(wanted), filter=filter, batch_size=batch_size)

        def _batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
            """Nothing is planned before the first batch is asked for."""
            yield from narrowed(self._scan, self._schema, names)

    return ScanDataset


def datafusion_table(scan: Scanned, schema: pa.Schema) -> Any:
    """A scan as a table of DataFusion, which hands filters to pyarrow where it can, and there NaN is not above all numbers: so it sees
    floating columns through a function that changes nothing, and keeps their filters to itself."""
    from datafusion import SessionContext, functions, lit
    from datafusion.expr import Expr

    def shown(field: pa.Field) -> Any:
        column = Expr.column('"' + field.name.replace('"', '""') + '"')
        if not pa.types.is_floating(field.type):
            return column
        return functions.nanvl(column, lit(float("nan")).cast(field.type)).alias(field.name)

    context = SessionContext()
    context.register_dataset("scanned", _scan_dataset()(scan, schema))
    return context.table("scanned").select(*(shown(f) for f in schema)).into_view()
