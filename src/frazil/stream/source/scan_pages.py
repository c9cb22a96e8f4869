"""Page the initial scan of a stream: which files of a snapshot a page holds, counted as they are
listed or in an order of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.expr.nodes import Predicate
from frazil.scan.listing.numbering import FileNumbers, number_files
from frazil.scan.manifests import column_of, each, read_manifest, threads_for
from frazil.scan.options import ScanOptions, default_workers
from frazil.scan.plan import Plan, plan
from frazil.scan.tasks import NUMBER, FileScanTask
from frazil.spec.manifest import ManifestFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.schema import Schema
from frazil.spec.snapshot import Snapshot
from frazil.storage import Storage
from frazil.stream.source.added import Numbers, sizes_of
from frazil.stream.source.file_order import FileOrder

_FACTS = ("status", "snapshot_id", "file_path", "record_count", "file_size_in_bytes")


@dataclass(frozen=True)
class ScanPages:
    """Hold the initial scan of one snapshot. `order` None: files are counted as the manifests list
    them, so that a page opens only the manifests of its files; else all manifests are read once,
    and the files counted in that order, of which only the numbers are kept."""

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
        yield self._arranged.rows[first:], self._arranged.bytes[first:]

    def plan(
        self,
        files: range,
        row_filter: Predicate,
        case_sensitive: bool,
        zone: str,
        options: ScanOptions,
    ) -> tuple[Plan, list[FileScanTask]]:
        """Plan a page with the deletes that apply to its files: the plan, and its tasks in their
        order.
        """
        chosen = None if self.order is None else self._arranged.numbers[files.start : files.stop]
        if chosen is not None:
            files = range(int(chosen.min()), int(chosen.max()) + 1) if len(chosen) else range(0)
        planned = plan(
            self.metadata,
            self.storage,
            snapshot=self.snapshot,
            row_filter=row_filter,
            schema=self.schema,
            case_sensitive=case_sensitive,
            zone=zone,
            options=options,
            files=files,
            may_repeat=True,
        )
        if chosen is None:
            return planned, sorted(planned.tasks(), key=_number)
        of_page = pa.array(chosen)
        planned = replace(
            planned,
            groups=tuple(
                g.chosen(pc.is_in(g.table.column(NUMBER), of_page)) for g in planned.groups
            ),
        )
        ranks = {int(n): rank for rank, n in enumerate(chosen)}
        return planned, sorted(planned.tasks(), key=lambda t: ranks[_number(t)])

    def _numbered(self, files: range | None) -> FileNumbers:
        return number_files(self.metadata, self.snapshot, self.storage, files=files)

    @cached_property
    def _arranged(self) -> _Arranged:
        """Return all files in the order, from the columns of the manifests: no object is made per
        file.
        """
        assert self.order is not None
        numbers, order = self._numbered(None), self.order

        def facts(manifest: ManifestFile) -> tuple[Numbers, Numbers, Numbers, Any]:
            entries = numbers.choose(
                read_manifest(self.storage, manifest, (*_FACTS, *order.columns))
            )
            table = numbers.numbered(manifest, entries)
            own, rows, size = (
                column_of(table, name).to_numpy()
                for name in (NUMBER, "record_count", "file_size_in_bytes")
            )
            return own, rows, size, order.keys(table)

        wanted = numbers.wanted()
        file_facts = list(each(facts, wanted, threads_for(wanted, self.storage, default_workers())))
        if not file_facts:
            return _Arranged(*(np.zeros(0, np.int64) for _ in range(3)))
        own, rows, size, keys = (
            np.concatenate(columns) for columns in zip(*file_facts, strict=True)
        )
        # files with equal keys in the order of their numbers
        ranks = np.argsort(keys, kind="stable")
        return _Arranged(own[ranks], rows[ranks], size[ranks])


@dataclass(frozen=True, eq=False)
class _Arranged:
    """Hold numbers, rows and bytes of all files of a snapshot, in an order."""

    numbers: Numbers
    rows: Numbers
    bytes: Numbers


def _number(task: FileScanTask) -> int:
    assert task.number is not None
    return task.number
