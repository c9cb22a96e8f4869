"""Explain a scan plan as a tree of facts: the files that were skipped, by which statistics, and
what became of every delete file.

Data files are counted; `Explanation.why` explains one of them (`explain_file`). Which are read is
decided by `scan.prune.file_pruner`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from frazil.errors import InvalidInput
from frazil.scan.deletes import DeleteEntries, DeleteIndex
from frazil.scan.explain.delete_report import EXPLAINED, ExplainedDeletes, Reason
from frazil.scan.explain.explain_deletes import (
    DataFiles,
    compared_deletes_explained,
    data_files,
    row_of,
    unread_deletes_explained,
)
from frazil.scan.explain.explain_file import ExplainedFile
from frazil.scan.report import PlannedByServer, PlanReport
from frazil.scan.tasks import PlannedFiles
from frazil.spec.fact_tree import FactNode, ShownAsTree, leaves
from frazil.spec.metadata import TableMetadata
from frazil.spec.shown import count_text, size_text

_FEW = 3  # delete files that the text names


@dataclass(frozen=True, repr=False)
class Explanation(ShownAsTree):
    """Explain one scan plan: `str()` is the text, `report` the counters, `deletes` what became of
    each delete file.

    Text and deletes are computed when they are first asked for, so that a plan that nobody explains
    pays nothing.
    """

    report: PlanReport
    _metadata: TableMetadata
    _groups: tuple[PlannedFiles, ...]
    _idle: Callable[[], Iterable[tuple[Reason, DeleteEntries]]]
    _file: Callable[[str], ExplainedFile]
    _by_server: PlannedByServer | None = None

    def why(self, file_path: str) -> ExplainedFile:
        """Explain why the scan reads a data file or skips it: what each condition of the filter can
        be on its rows, and by which metadata.

        The manifest that lists the file is read again. Raises InvalidInput when the snapshot does
        not have the file, Unsupported when a catalog's server planned the scan, NoSuchFileError and
        CorruptData as planning does.
        """
        return self._file(file_path)

    @cached_property
    def deletes(self) -> ExplainedDeletes:
        """Explain every live delete file of the snapshot: to how many of the planned data files it
        applies, or why to none.

        Empty for a scan of appended files, to which deletes do not apply.

        A sequence of `ExplainedDelete`, with `applied`, `dropped`, `reasons` and `to_arrow()`.
        Delete manifests that planning skipped are read now. Raises NoSuchFileError when they have
        expired since, CorruptData when they are damaged.
        """
        return self._with_idle(self._compared)

    def deletes_of(self, file_path: str) -> ExplainedDeletes:
        """Explain every delete file for one data file: `data_files` is 1 where it applies, else
        `reason` says why it does not apply.

        Raises InvalidInput when the plan does not read that file; otherwise as `deletes` does.
        """
        row = row_of(file_path, self._groups)
        if row is None:
            hint = "The filter skipped it, or the snapshot does not have it; plan_files() lists the files that are read."
            raise InvalidInput(
                f"The scan of {self.report.table} does not read {file_path}.",
                hint=hint,
                file=file_path,
            )
        return self._with_idle(self._compare(row))

    @cached_property
    def tree(self) -> FactNode:
        """Return the explanation as a tree of facts, which text and HTML are made from."""
        report = self.report
        if report.snapshot_id is None:
            return FactNode(f"Scan of {report.table}: no snapshot, no rows")
        before = " before deletes" if report.data_files_with_deletes else ""
        facts = (
            ("filter", report.filter),
            self._where(),
            (
                "files",
                f"{report.result_data_files:,} of {report.result_data_files + report.skipped_data_files:,} kept; "
                f"skipped {report.skipped_by_partition:,} by partition values, {report.skipped_by_statistics:,} by counts and bounds",
            ),
            (
                "match wholly",
                f"{report.wholly_matching_files:,} of the kept files (none of their rows is tested)",
            ),
            (
                "to read",
                f"{report.total_records:,} rows{before}, {size_text(report.total_file_size_in_bytes)}",
            ),
            ("planned in", f"{report.total_planning_duration / 1e6:.1f} ms"),
        )
        has_deletes = report.total_delete_manifests or (self._by_server and self._index is not None)
        return FactNode(
            f"Scan of {report.table}, snapshot {report.snapshot_id}",
            facts,
            tuple(self._delete_nodes()) if has_deletes else (),
        )

    @property
    def lines(self) -> tuple[str, ...]:
        """Return the lines of the text."""
        return tuple(str(self).split("\n"))

    def _where(self) -> tuple[str, str]:
        """Say where the files were found: in manifests, or in the plan of a catalog's server."""
        report, served = self.report, self._by_server
        if served is None:
            skipped = f"{report.skipped_data_manifests:,} skipped by partition summaries"
            return (
                "manifests",
                f"{report.scanned_data_manifests:,} of {report.total_data_manifests:,} read, {skipped}",
            )
        plan = f"plan {served.plan_id}, " if served.plan_id else ""
        requests = count_text(served.requests, "request")
        return "planned by", f"the catalog's server {served.server}: {plan}{requests}"

    def _delete_nodes(self) -> Iterator[FactNode]:
        report, deletes = self.report, self._compared
        if self._by_server is None:
            read = f"{report.scanned_delete_manifests:,} of {report.total_delete_manifests:,} read"
            yield FactNode(f"delete manifests: {read}, {report.skipped_delete_manifests:,} skipped")
        if not deletes:
            return
        applied, dropped = deletes.applied, deletes.dropped
        positions, equality = report.positional_delete_files, report.equality_delete_files
        kinds = (
            f"{positions:,} of positions, {equality:,} of equality, {report.dvs:,} deletion vectors"
        )
        reached = f"{len(applied):,} apply to {report.data_files_with_deletes:,} files"
        yield FactNode(
            f"delete files: {len(deletes):,} ({kinds}); {'' if deletes.exact else 'at most '}{reached}",
            (),
            leaves(applied.lines(_FEW)),
        )
        if self._by_server is None:  # a server names no others
            pairs = report.delete_pairs_ruled_out
            ruled_out = (
                f"; bounds and counts ruled out {pairs:,} pairs of data file and delete file"
            )
            yield FactNode(
                f"not applied: {len(dropped):,} delete files{ruled_out if pairs else ''}",
                (),
                leaves(dropped.lines(_FEW)),
            )

    @cached_property
    def _compared(self) -> ExplainedDeletes:
        return self._compare(None)

    def _compare(self, row: int | None) -> ExplainedDeletes:
        """Explain the delete files that planning compared with all data files, or with the one
        numbered `row`."""
        if self._index is None:
            return ExplainedDeletes(EXPLAINED.empty_table())
        return compared_deletes_explained(self._metadata, self._index, self._data, row)

    @cached_property
    def _index(self) -> DeleteIndex | None:
        return next((g.deletes for g in self._groups if isinstance(g.deletes, DeleteIndex)), None)

    @cached_property
    def _data(self) -> DataFiles | None:
        return None if self._index is None else data_files(self._groups, self._index)

    def _with_idle(self, explained: ExplainedDeletes) -> ExplainedDeletes:
        for reason, entries in self._idle():
            explained = explained.together(
                unread_deletes_explained(self._metadata, entries, reason)
            )
        return explained
