"""Convert frames of every kind to Arrow: Arrow's own, pandas with the levels of its index, polars,
lists of dicts, dicts of columns.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.arrow.values.python_values import TYPED, column_of, field_named, name_of
from frazil.errors import InvalidInput, SchemaMismatch
from frazil.spec.schema import Schema
from frazil.spec.types import IcebergType, IntegerType, LongType

if TYPE_CHECKING:
    import pandas as pd

# above this, pandas may have rounded whole numbers when it turned them into doubles
_EXACT = 2.0**53
TypeOf = Callable[[str], IcebergType | None]


def as_arrow(
    frame: Any, like: Schema | None = None, *, rows: bool = True, case_sensitive: bool = True
) -> pa.Table | pa.RecordBatchReader:
    """Convert a frame to Arrow: a Table, RecordBatch, reader, list of dicts, dict of columns,
    pandas, polars, or the PyCapsule interface.

    `like`: the table's schema, as whose types Python values are read, and pandas' doubles where the
    table has whole numbers. `rows=False`: only the frame's schema is wanted (a stream is then not
    consumed). Raises InvalidInput for anything else, SchemaMismatch for values that do not form a
    column.
    """

    def type_of(name: str) -> IcebergType | None:
        field = None if like is None else field_named(like.fields, name, case_sensitive)
        return None if field is None else field.field_type

    match frame:
        case pa.Table() | pa.RecordBatchReader():
            return frame
        case pa.RecordBatch():
            return pa.Table.from_batches([frame])
        case list() if all(isinstance(r, Mapping) for r in frame) and any(frame):
            # a row may lack columns that others have
            names = dict.fromkeys(name for row in frame for name in row)
            return pa.table(
                {name_of(n): column_of(n, [row.get(n) for row in frame], type_of(n)) for n in names}
            )
        case dict():
            columns = {name_of(n): _column(n, values, type_of(n)) for n, values in frame.items()}
            lengths = {n: len(c) for n, c in columns.items()}
            if len(set(lengths.values())) > 1:
                raise InvalidInput(
                    f"The columns of the frame differ in length: {', '.join(f'{n}: {c}' for n, c in lengths.items())}."
                )
            return pa.table(columns)
    if _is_of_pandas(frame, "DataFrame"):
        return _of_pandas(frame, type_of)
    if type(frame).__name__ == "LazyFrame" and type(frame).__module__.split(".")[0] == "polars":
        frame = (frame if rows else frame.limit(0)).collect()
    if hasattr(frame, "to_arrow") and type(frame).__module__.split(".")[0] == "polars":
        table = frame.to_arrow()
        if isinstance(table, pa.Table):
            return table
    with contextlib.suppress(pa.ArrowInvalid, TypeError):
        # a single column, as a pandas Series is, has the interface as well
        if hasattr(frame, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(frame)
        if hasattr(frame, "__arrow_c_array__"):
            return pa.Table.from_batches([pa.record_batch(frame)])
    raise InvalidInput(
        f"{type(frame).__module__}.{type(frame).__name__} is not a frame.",
        hint="Give a pyarrow Table or reader, a pandas or polars DataFrame, a list of dicts, or a Spark DataFrame.",
    )


def _column(name: str, values: Any, want: IcebergType | None) -> Any:
    """Convert a column of a dict: Python values, a numpy array, a pandas Series, or an Arrow
    column.
    """
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if _is_of_pandas(values, "Series"):
        return _of_series(name, values, want)
    try:
        if isinstance(values, np.ndarray) and values.dtype != object and values.ndim == 1:
            return pa.array(values)
        items = list(values)
    except (pa.ArrowException, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise SchemaMismatch(
            f"Column {name} cannot be read as one type: {reason}.", hint=TYPED, column=name
        ) from error
    return column_of(name, items, want)


# pandas
# --------------------------------------------------------------------------------------------------


def _is_of_pandas(value: object, name: str) -> bool:
    return any(
        c.__name__ == name and c.__module__.split(".")[0] == "pandas" for c in type(value).__mro__
    )


def _of_pandas(frame: pd.DataFrame, type_of: TypeOf) -> pa.Table:
    """Convert a pandas frame: its columns, then the named levels of its index, as pyarrow does;
    levels without a name are left out.
    """
    columns = [(str(name), frame.iloc[:, position]) for position, name in enumerate(frame.columns)]
    names = {name for name, _ in columns}
    for level, name in enumerate(frame.index.names):
        if name is None:
            continue
        values = frame.index.get_level_values(level).to_series(index=frame.index, name=name)
        if str(name) not in names:
            columns.append((str(name), values))
        elif not _same(frame[name] if name in frame.columns else frame[str(name)], values):
            raise InvalidInput(
                f"The pandas frame has a column and an index level named {str(name)!r} with different values.",
                hint="Rename one of them, or leave the index out: frame.reset_index(drop=True).",
                column=str(name),
            )
    arrays = [_of_series(name, values, type_of(name)) for name, values in columns]
    if not arrays:
        return pa.Table.from_batches(
            [pa.RecordBatch.from_struct_array(pa.array([{}] * len(frame), pa.struct([])))]
        )
    return pa.Table.from_arrays(arrays, names=[name for name, _ in columns])


def _same(column: pd.Series, level: pd.Series) -> bool:
    """Tell whether a column repeats a level of the index, as after `set_index(…, drop=False)`."""
    return getattr(column, "ndim", 1) == 1 and bool(
        column.reset_index(drop=True).equals(level.reset_index(drop=True))
    )


def _of_series(name: str, values: pd.Series, want: IcebergType | None) -> Any:
    """Convert a pandas Series, missing values to null. Doubles become whole numbers again where the
    table's column has them (`want`).
    """
    try:
        if values.dtype == object and _infer_dtype(values) != "string":
            return column_of(name, _objects(values), want)
        column = pa.array(values, from_pandas=True)
    except SchemaMismatch as error:
        message = error.message.replace(f"Column {name} ", f"The pandas column {name} ", 1)
        raise SchemaMismatch(message, hint=error.hint, **error.facts) from error
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise SchemaMismatch(
            f"The pandas column {name} cannot be read as one type: {error}.",
            hint=TYPED,
            column=name,
        ) from error
    if isinstance(want, IntegerType | LongType) and pa.types.is_floating(column.type):
        return _whole(column)
    return column


def _infer_dtype(values: pd.Series) -> str:
    from pandas.api.types import infer_dtype

    return str(infer_dtype(values, skipna=True))


def _objects(values: pd.Series) -> list[Any]:
    """List the Python objects of a Series, with None for each of pandas' nulls (NaN among them)."""
    missing: Sequence[bool] = values.isna().tolist()
    return [None if gone else v for v, gone in zip(values.tolist(), missing, strict=True)]


def _whole(doubles: pa.Array | pa.ChunkedArray) -> Any:
    """Convert doubles to whole numbers where all of them are whole; otherwise return them as they
    are.
    """
    largest = pc.max(pc.abs(doubles)).as_py()
    if largest is None:
        return pa.nulls(len(doubles), pa.int64())
    if not largest <= _EXACT or not pc.all(pc.equal(pc.trunc(doubles), doubles)).as_py():
        return doubles
    return pc.cast(doubles, pa.int64())
