"""Check the options of `rewrite_position_delete_files`, which have the names and defaults of Java
Iceberg (RewritePositionDeleteFiles).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from frazil.maintain.compact.options import (
    COMMITS,
    LARGEST,
    MIN_INPUT_FILES,
    PARTIAL,
    REWRITE_ALL,
    SHARED,
    SMALLEST,
    TARGET,
    sizes_of,
)
from frazil.ops.arguments import mapping
from frazil.spec.metadata import TableMetadata
from frazil.spec.options import OptionTable
from frazil.spec.properties import DELETE_TARGET_FILE_SIZE

_SIZES = (TARGET, SMALLEST, LARGEST, MIN_INPUT_FILES, REWRITE_ALL)


@dataclass(frozen=True)
class DeleteRewriteOptions:
    """Hold the options, sizes in bytes. `commits`: commits at most, with partial progress; None:
    one for all. `most_at_once`: groups that are rewritten at the same time; None: as many as the
    runner has slots."""

    target: int
    smallest: int
    largest: int
    min_input_files: int
    group_bytes: int
    group_files: int
    rewrite_all: bool
    commits: int | None
    most_at_once: int | None
    job_order: str

    def is_candidate(self, size: int) -> bool:
        return self.rewrite_all or not self.smallest <= size <= self.largest

    def is_worth_it(self, count: int, size: int) -> bool:
        """Tell whether a group of files is rewritten (SizeBasedFileRewritePlanner)."""
        several = count > 1 and (count >= self.min_input_files or size > self.target)
        return self.rewrite_all or several or size > self.largest


OPTIONS = OptionTable("option of rewrite_position_delete_files", SHARED)


def delete_rewrite_options(
    options: Mapping[str, Any] | None, metadata: TableMetadata
) -> DeleteRewriteOptions:
    """Check options as a caller writes them. Raises InvalidInput for unknown names and values that
    Java refuses.

    In a table of format version 3, where vectors replace position delete files, all of these are
    rewritten unless an option about sizes is given.
    """
    values = OPTIONS.read(mapping("options", options))
    leftovers = metadata.format_version >= 3 and not any(option.name in values for option in _SIZES)
    sizes = sizes_of(values, DELETE_TARGET_FILE_SIZE.of(metadata.properties), metadata.location)
    commits = COMMITS.of(values) if PARTIAL.of(values) else None
    return DeleteRewriteOptions(
        *sizes, commits=commits, **OPTIONS.fields({REWRITE_ALL.name: leftovers, **values})
    )
