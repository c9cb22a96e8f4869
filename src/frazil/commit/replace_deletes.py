"""Define the action that replaces delete files by others that delete the same rows: maintenance of
position and equality deletes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from frazil.commit import conflicts
from frazil.commit.actions import RowDelta
from frazil.commit.context import Context
from frazil.commit.history import SAME_ROWS
from frazil.commit.produce import SnapshotTarget
from frazil.spec.manifest import DataFileContent
from frazil.spec.metadata import TableMetadata
from frazil.spec.updates import Update


@dataclass(frozen=True, kw_only=True)
class ReplaceDeletes(RowDelta):
    """Replace delete files by others, so that the table's rows stay as they are; `removed`: data
    files without any row left.

    Every file to remove must still be there, and so must every data file in `referenced`. No data
    file may have been added to which a removed equality delete file still applies: compaction adds
    files under the sequence number of the state that it read. A commit that fails one of these
    checks is to be worked out again on the newest state.

    Where equality deletes become position deletes, the snapshot is an "overwrite", not a "replace":
    other writers look for new position deletes in such snapshots only, and a compaction that began
    before the equality deletes were committed must not miss them.
    """

    check_deleted_files: bool = True

    def apply(self, metadata: TableMetadata, context: Context) -> Sequence[Update]:
        if self._equality_numbers:
            conflicts.no_older_data_files(
                self.history(metadata, context), max(self._equality_numbers)
            )
        return super().apply(metadata, context)

    @property
    def target(self) -> SnapshotTarget:
        target = super().target
        more = {SAME_ROWS: "true"} if self._operation() == "overwrite" else {}
        return replace(target, properties={**more, **target.properties})

    @property
    def _equality_numbers(self) -> list[int]:
        equality_deletes = (
            f for f in self.removed_deletes if f.content == DataFileContent.EQUALITY_DELETES
        )
        return [f.data_sequence_number or 0 for f in equality_deletes]

    def _operation(self) -> str:
        return "overwrite" if self._adds_deletions or self.removed else "replace"

    @property
    def _adds_deletions(self) -> bool:
        return bool(self.added_deletes) and any(
            f.data_sequence_number is None for f in self.added_deletes
        )
