"""Find the Parquet files that other libraries can read as they are, and the conditions that pyarrow
is given by them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from frazil.arrow.files.project import file_schema
from frazil.scan.tasks import FileScanTask
from frazil.spec.name_mapping import NameMapping
from frazil.spec.schema import METADATA_COLUMNS, Schema
from frazil.spec.snapshot import Snapshot
from frazil.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
)
from frazil.storage import Storage

_MOST = 200  # files whose footers are read to find out
_ALIKE = (
    BinaryType, BooleanType, DateType, DecimalType, DoubleType, FloatType, IntegerType, LongType, StringType, TimestampType,
    TimestamptzType,
)  # fmt: skip
"""Types whose values every reader of Parquet gives alike."""
_GLOB = re.compile(r"[*?\[\]{}]")


def may_be_plain(snapshot: Snapshot) -> bool:
    """Tell by a snapshot's summary whether it is worth to plan its files: few, and no deletes."""
    files, deletes = (snapshot.summary.get(f"total-{k}-files") for k in ("data", "delete"))
    return deletes == "0" and files is not None and files.isdecimal() and int(files) <= _MOST


def plain_files(
    tasks: Sequence[FileScanTask],
    columns: Schema,
    storage: Storage,
    mapping: NameMapping | None,
) -> list[str] | None:
    """Return the paths of the files of a scan without a filter, if they are local Parquet files
    without deletes that hold each column by its name and type; None where a reader that does not
    know the table could give other rows, and for many files.

    `columns`: what the scan selects; `mapping`: the table's, for files without field ids.
    """
    if not 0 < len(tasks) <= _MOST or not all(
        isinstance(f.field_type, _ALIKE) and f.name not in METADATA_COLUMNS for f in columns.fields
    ):  # a file may hold _row_id with nulls, which stand for what the file inherits
        return None
    expected = [
        (f.field_id, f.name, t.type)
        for f, t in zip(columns.fields, columns.as_arrow(), strict=True)
    ]
    paths = []
    for task in tasks:
        path = storage.local_path(task.file.file_path)
        if (
            path is None
            or _GLOB.search(path)
            or str(task.file.file_format).lower() != "parquet"
            or task.delete_files
        ):
            return None
        try:
            physical = file_schema(pq.read_schema(path), mapping)
        except (OSError, pa.ArrowException):  # the scan says what is wrong with it
            return None
        if physical is None:
            return None
        in_file = {(f.field_id, f.name, f.type) for f in physical.fields}
        names = [f.name.lower() for f in physical.fields]  # DuckDB's names have no case
        if len(set(names)) < len(names) or not in_file.issuperset(expected):
            return None
        paths.append(path)
    return paths


_COMPARISON = re.compile(
    r"\((\w+) (>=|<=|>|<|==) "
    r"(-?\d+|\d{4}-\d\d-\d\d(?: \d\d:\d\d:\d\d\.\d{1,6}Z?)?|\"[^\"\\()']*\")\)"
)
_VALID = re.compile(r"is_valid\(\w+\)")
_LITERALS = {
    pa.int32(): (r"-?\d+", "{}"),
    pa.int64(): (r"-?\d+", "{}"),
    pa.date32(): (r"[\d-]{10}", "DATE '{}'"),
    pa.timestamp("us", "UTC"): (r".*Z", "TIMESTAMP '{}'"),
    pa.timestamp("us"): (r".*[^Z]", "TIMESTAMP_NTZ '{}'"),
    pa.string(): (r"\".*\"", "'{}'"),
    pa.large_string(): (r"\".*\"", "'{}'"),
}
"""Of an Arrow type: how pyarrow shows a value, and how Spark SQL writes it."""


def condition_of(text: str, schema: pa.Schema) -> str | None:
    """Return a filter that pyarrow shows as `text` as Spark SQL, if it joins comparisons of columns
    with values by `and`; None for every other one, which skips no file. pyarrow applies the filter
    to the rows as well.
    """
    parts = []
    for name, operator, value in _COMPARISON.findall(text):
        index = -1 if name in METADATA_COLUMNS else schema.get_field_index(name)
        shown, literal = _LITERALS.get(schema.field(index).type if index >= 0 else None, ("", ""))
        if not shown or not re.fullmatch(shown, value) or value in schema.names:
            return None  # a column that is called 2024 is shown as a number
        parts.append(
            f"`{name}` {operator.replace('==', '=')} {literal.format(value.strip(chr(34)))}"
        )
    rest = _VALID.sub("", _COMPARISON.sub("", text)).replace(" and ", "")
    return " AND ".join(parts) if parts and not rest.strip("()") else None
