"""Order the data files of a stream's batches: by data sequence number, or by the lowest value of a
watermark column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.codec import single_value
from frazil.errors import CorruptData, InvalidInput
from frazil.scan.bounds import MapColumn
from frazil.scan.manifests import column_of
from frazil.scan.tasks import FileScanTask
from frazil.spec.schema import Schema
from frazil.spec.types import (
    IcebergType,
    LongType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
)
from frazil.stream.source.options import SEQUENCE, WATERMARK, StreamOptions

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class FileOrder:
    """Order files by data sequence number, or where `field_id` is set by the lower bound of that
    column.
    """

    field_id: int | None = None
    type: IcebergType | None = None
    column: str = ""
    factor: float = 1.0

    @property
    def name(self) -> str:
        """Return the order's name in offsets."""
        return SEQUENCE if self.field_id is None else f"{WATERMARK}:{self.field_id}"

    @property
    def needs_statistics(self) -> bool:
        return self.field_id is not None

    @property
    def columns(self) -> tuple[str, ...]:
        """Name the columns of a manifest's entries that `keys` needs."""
        return (
            ("sequence_number",)
            if self.field_id is None
            else ("file_path", "record_count", "lower_bounds")
        )

    def keys(self, entries: pa.Table) -> npt.NDArray[Any]:
        """Return the values by which the entries of a manifest are ordered. Raises CorruptData as
        `key` does.
        """
        if self.field_id is None or self.type is None:
            return np.asarray(pc.fill_null(column_of(entries, "sequence_number"), 0).to_numpy())
        lower_bounds = MapColumn(entries.column("lower_bounds")).at(self.field_id).cast(pa.binary())
        paths, rows = column_of(entries, "file_path"), column_of(entries, "record_count")
        return np.array(
            [self._watermark(b, rows[n], paths[n]) for n, b in enumerate(lower_bounds.to_pylist())],
            np.float64,
        )

    def key(self, task: FileScanTask) -> float:
        """Return the value by which a file is ordered. Raises CorruptData for a file without a
        lower bound of the watermark column.
        """
        if self.field_id is None or self.type is None:
            return task.data_sequence_number or 0
        return self._watermark(
            (task.file.lower_bounds or {}).get(self.field_id),
            task.file.record_count,
            task.file.file_path,
        )

    def _watermark(self, bound: bytes | None, rows: Any, path: Any) -> float:
        assert self.type is not None
        if bound is None:
            if int(rows) == 0:
                return float("-inf")
            raise CorruptData(
                f"Data file {path} has no lower bound of watermark column {self.column!r}, by which files are ordered.",
                hint="Keep metrics of that column (write.metadata.metrics.column.…), rewrite the file, or leave watermark-column out.",
                file=str(path),
            )
        return float(single_value.from_bytes(self.type, bound)) * self.factor

    def arranged(self, tasks: Sequence[FileScanTask]) -> list[FileScanTask]:
        """Return the tasks in order, without the statistics that the order needed."""
        ordered = sorted(tasks, key=self.key)
        return [_without_statistics(t) for t in ordered] if self.needs_statistics else ordered


def _without_statistics(task: FileScanTask) -> FileScanTask:
    empty: dict[str, Any] = dict.fromkeys(
        (
            "column_sizes",
            "value_counts",
            "null_value_counts",
            "nan_value_counts",
            "lower_bounds",
            "upper_bounds",
        )
    )
    facts = replace(task.facts, file=replace(task.file, **empty))
    return FileScanTask(None, 0, task.residual, task.spec, facts, None, task.delete_files)


def order_of(options: StreamOptions, schema: Schema) -> FileOrder | None:
    """Resolve the order that the options ask for. Raises InvalidInput for a watermark column that
    is no time.
    """
    if options.order is None:
        return None
    if options.order == SEQUENCE:
        return FileOrder()
    name = options.watermark_column or ""
    column = schema.find_field(name, options.case_sensitive)
    match column.field_type:
        case LongType():
            factor = options.watermark_factor
        case TimestampType() | TimestamptzType():
            factor = 1e-3
        case TimestampNanoType() | TimestamptzNanoType():
            factor = 1e-6
        case other:
            text = f"watermark-column {name!r} has type {other}; it must be a long or a timestamp."
            raise InvalidInput(text, hint="Name a column whose lower bounds are times.")
    return FileOrder(column.field_id, column.field_type, name, factor)


def ordered_by(name: str, order: FileOrder | None) -> FileOrder | None:
    """Return the order in which the pages of a scan are counted, as an offset names it, whatever
    the options say by now.
    """
    if not name:
        return None
    if order is not None and order.name == name:
        return order
    if name == SEQUENCE:
        return FileOrder()
    raise InvalidInput(
        f"The checkpoint's initial scan is ordered by {name}, the options say {order.name if order else 'nothing of an order'}.",
        hint="Restore watermark-column until the initial scan is done, or start with a new checkpoint directory.",
    )
