"""Find the Parquet files that other libraries can read as they are, and the conditions that pyarrow
is given by them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from frazil.arrow.files.project import file_schema
from frazil.expr.bound import Bound, references
from frazil.scan.plan import Plan
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


@dataclass(frozen=True)
class PlainFiles:
    """Hold the Parquet files of a scan that hold its columns as they are. `selected`: the names of
    its columns; `columns`: these and those that only its filter reads; `runs`: the files in their
    order, those together that follow each other with the same Parquet schema and the same metadata.
    """

    row_filter: Bound
    selected: tuple[str, ...]
    columns: pa.Schema
    runs: tuple[tuple[str, ...], ...]

    @property
    def paths(self) -> list[str]:
        return [path for run in self.runs for path in run]


def plain_files(
    plan: Plan, selected: Schema, storage: Storage, mapping: NameMapping | None
) -> PlainFiles | None:
    """Find the files of a scan, if they are local Parquet files without deletes that hold each
    column by its name and type; None where a reader that does not know the table could give other
    rows, and for many files.

    `selected`: the columns of the scan; `mapping`: the table's, for files without field ids.
    """
    if not 0 < len(plan) <= _MOST or plan.has_deletes:
        return None
    if {f.lower() for g in plan.groups for f in g.table["file_format"].to_pylist()} != {"parquet"}:
        return None
    filtered = references(plan.row_filter).keys()
    fields = (*selected.fields, *plan.schema.project(filtered - selected.field_ids).fields)
    if (
        not selected.fields
        or not filtered <= {f.field_id for f in fields}
        or not all(
            isinstance(f.field_type, _ALIKE) and f.name not in METADATA_COLUMNS for f in fields
        )
    ):
        # a file may hold _row_id with nulls, which stand for what the file inherits
        return None
    columns = Schema(*fields).as_arrow()
    expected = [(f.field_id, f.name, t.type) for f, t in zip(fields, columns, strict=True)]
    runs: list[tuple[tuple[pq.ParquetSchema, dict[bytes, bytes] | None], list[str]]] = []
    for path in map(storage.local_path, plan.paths()):
        if path is None or _GLOB.search(path):
            return None
        try:
            footer = pq.read_metadata(path)
            layout = (footer.schema, footer.metadata)
            if not runs or layout != runs[-1][0]:
                if not _holds(footer.schema.to_arrow_schema(), expected, mapping):
                    return None
                runs.append((layout, []))
        except (OSError, pa.ArrowException):  # the scan says what is wrong with it
            return None
        runs[-1][1].append(path)
    names = tuple(f.name for f in selected.fields)
    return PlainFiles(plan.row_filter, names, columns, tuple(tuple(paths) for _, paths in runs))


def _holds(
    schema: pa.Schema, expected: Sequence[tuple[int, str, pa.DataType]], mapping: NameMapping | None
) -> bool:
    """Tell whether a file has these columns by their ids, names and types, and no two of one name
    but for its case, which DuckDB does not see."""
    physical = file_schema(schema, mapping)
    if physical is None:
        return False
    names = {f.name.lower() for f in physical.fields}
    return len(names) == len(physical.fields) and {
        (f.field_id, f.name, f.type) for f in physical.fields
    }.issuperset(expected)


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
