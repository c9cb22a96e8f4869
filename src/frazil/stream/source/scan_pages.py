"""Page the initial scan of a stream: which files of a snapshot a page holds, counted as they are listed or in an order of their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from frazil.expr.nodes import Predicate
from frazil.scan.listing.numbering import FileNumbers, number_files
from frazil.scan.options import ScanOptions
from frazil.scan.plan import Plan, plan
from frazil.scan.tasks import FileScanTask
from frazil.spec.metadata import TableMetadata
from frazil.spec.schema import Schema
from frazil.spec.snapshot import Snapshot
from frazil.storage import Storage
from frazil.stream.source.added import Numbers, sizes_of
from frazil.stream.source.file_order import FileOrder


@dataclass(frozen=True)
class ScanPages:
    """Hold the initial scan of one snapshot. `order` None: files are counted as the manifests list them, so that a page opens only the
    manifests of its files; else all manifests are read once, and the files counted in that order."""

    metadata: TableMetadata = field(repr=False)
    storage: Storage = field(repr=False)
    snapshot: Snapshot
    schema: Schema = field(repr=False)
    order: FileOrder | None = None

    @cached_property
    def total(self) -> int:
        """Return the number of files in the snapshot."""
        return self._numbered(None).total

    def sizes(self, first: int) -> Iterator[tuple[Numbers, Numbers]]:
        """Yield rows and bytes of the files from the page's first one on, in runs."""
        if self.order is None:
            yield from sizes_of(self._numbered(range(first, self.total)), self.storage)
            return
        _, rows, size = self._arranged
        yield rows[first:], size[first:]

    def plan(
        self, files: range, row_filter: Predicate, case_sensitive: bool, zone: str, options: ScanOptions
    ) -> tuple[Plan, list[FileScanTask]]:
        """Plan a page with the deletes that apply to its files: the plan, which may hold more, and the tasks of the page."""
        numbers = files if self.order is None else range(self.total)
        planned = plan(
            self.metadata, self.storage, snapshot=self.snapshot, row_filter=row_filter, schema=self.schema, case_sensitive=case_sensitive,
            zone=zone, options=replace(options, with_stats=self._with_statistics), files=numbers,
        )  # fmt: skip
        if self.order is None:
            return planned, sorted(planned.tasks(), key=_number)
        ranks = {int(n): rank for rank, n in enumerate(self._arranged[0])}
        chosen = [t for t in planned.tasks() if ranks[_number(t)] in files]
        return planned, self.order.arranged(sorted(chosen, key=lambda t: ranks[_number(t)]))

    @property
    def _with_statistics(self) -> bool:
        return self.order is not None and self.order.needs_statistics

    def _numbered(self, files: range | None) -> FileNumbers:
        return number_files(self.metadata, self.snapshot, self.storage, files=files)

    @cached_property
    def _arranged(self) -> tuple[Numbers, Numbers, Numbers]:
        """Return numbers, rows and bytes of all files, in the order."""
        assert self.order is not None
        options = ScanOptions(with_stats=self._with_statistics)
        planned = plan(
            self.metadata, self.storage, snapshot=self.snapshot, schema=self.schema, options=options, files=range(self.total)
        )  # fmt: skip
        order = self.order
        tasks = sorted(planned.tasks(), key=lambda t: (order.key(t), _number(t)))
        facts = [(_number(t), t.file.record_count, t.file.file_size_in_bytes) for t in tasks]
        table = np.array(facts, np.int64).reshape(-1, 3)
        return table[:, 0], table[:, 1], table[:, 2]


def _number(task: FileScanTask) -> int:
    assert task.number is not None
    return task.number
