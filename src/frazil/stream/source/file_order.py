"""Order the data files of a stream's batches: by data sequence number, or by the lowest value of a watermark column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.codec import single_value
from frazil.errors import CorruptData, InvalidInput
from frazil.scan.tasks import FileScanTask
from frazil.spec.schema import Schema
from frazil.spec.types import IcebergType, LongType, TimestampNanoType, TimestampType, TimestamptzNanoType, TimestamptzType
from frazil.stream.source.options import SEQUENCE, WATERMARK, StreamOptions

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class FileOrder:
    """Order files by data sequence number, or where `field_id` is set by the lower bound of that column."""

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

    def key(self, task: FileScanTask) -> float:
        """Return the value by which a file is ordered. Raises CorruptData for a file without a lower bound of the watermark column."""
        if self.field_id is None or self.type is None:
            return task.data_sequence_number or 0
        bound = (task.file.lower_bounds or {}).get(self.field_id)
        if bound is None:
            if task.file.record_count == 0:
                return float("-inf")
            raise CorruptData(
                f"Data file {task.file.file_path} has no lower bound of watermark column {self.column!r}, by which files are ordered.",
                hint="Keep metrics of that column (write.metadata.metrics.column.…), rewrite the file, or leave watermark-column out.",
                file=task.file.file_path,
            )  # fmt: skip
        return float(single_value.from_bytes(self.type, bound)) * self.factor

    def arranged(self, tasks: Sequence[FileScanTask]) -> list[FileScanTask]:
        """Return the tasks in order, without the statistics that the order needed."""
        ordered = sorted(tasks, key=self.key)
        return [_without_statistics(t) for t in ordered] if self.needs_statistics else ordered


def _without_statistics(task: FileScanTask) -> FileScanTask:
    empty: dict[str, Any] = dict.fromkeys(
        ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
    )
    facts = replace(task.facts, file=replace(task.file, **empty))
    return FileScanTask(None, 0, task.residual, task.spec, facts, None, task.delete_files)


def order_of(options: StreamOptions, schema: Schema) -> FileOrder | None:
    """Resolve the order that the options ask for. Raises InvalidInput for a watermark column that is no time."""
    if options.order is None:
        return None
    if options.order == SEQUENCE:
        return FileOrder()
    name = options.watermark_column or ""
    found = schema.find_field(name, options.case_sensitive)
    match found.field_type:
        case LongType():
            factor = options.watermark_factor
        case TimestampType() | TimestamptzType():
            factor = 1e-3
        case TimestampNanoType() | TimestamptzNanoType():
            factor = 1e-6
        case other:
            text = f"watermark-column {name!r} has type {other}; it must be a long or a timestamp."
            raise InvalidInput(text, hint="Name a column whose lower bounds are times.")
    return FileOrder(found.field_id, found.field_type, name, factor)


def ordered_by(name: str, order: FileOrder | None) -> FileOrder | None:
    """Return the order in which the pages of a scan are counted, as an offset names it, whatever the options say by now."""
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
