"""Check the options of `rewrite_position_delete_files`, which have the names and defaults of Java Iceberg (RewritePositionDeleteFiles)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from frazil.errors import InvalidInput
from frazil.ops.arguments import mapping
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import DELETE_TARGET_FILE_SIZE

JOB_ORDERS = ("none", "bytes-asc", "bytes-desc", "files-asc", "files-desc")
_SMALLEST, _LARGEST = 0.75, 1.8  # of the target size
_SIZES = ("target-file-size-bytes", "min-file-size-bytes", "max-file-size-bytes", "min-input-files", "rewrite-all")


@dataclass(frozen=True)
class DeleteRewriteOptions:
    """Hold the options, sizes in bytes. `commits`: commits at most, with partial progress; None: one for all. `most_at_once`: groups that
    are rewritten at the same time; None: as many as the runner has slots."""

    target: int
    smallest: int
    largest: int
    min_input_files: int = 5
    group_bytes: int = 100 << 30
    group_files: int = 2**31 - 1
    rewrite_all: bool = False
    commits: int | None = None
    most_at_once: int | None = None
    job_order: str = "none"

    def is_candidate(self, size: int) -> bool:
        return self.rewrite_all or not self.smallest <= size <= self.largest

    def is_worth_it(self, count: int, size: int) -> bool:
        """Tell whether a group of files is rewritten (SizeBasedFileRewritePlanner)."""
        several = count > 1 and (count >= self.min_input_files or size > self.target)
        return self.rewrite_all or several or size > self.largest


def delete_rewrite_options(options: Mapping[str, Any] | None, metadata: TableMetadata) -> DeleteRewriteOptions:
    """Check options as a caller writes them (`_` may stand for `-`). Raises InvalidInput for unknown names and values that Java refuses.

    In a table of format version 3, where vectors replace position delete files, all of these are rewritten unless an option about sizes is
    given.
    """
    texts = {k.strip().lower().replace("_", "-"): str(v).strip() for k, v in mapping("options", options).items() if v is not None}
    for name in texts:
        if name not in _KNOWN:
            raise InvalidInput(f"Unknown option {name!r} of rewrite_position_delete_files.", hint=f"The options are {', '.join(_KNOWN)}.")
    whole = _DeleteOptionReader(texts).whole
    target = whole("target-file-size-bytes", DELETE_TARGET_FILE_SIZE.of(metadata.properties), 1)
    smallest = whole("min-file-size-bytes", int(target * _SMALLEST), 0)
    largest = whole("max-file-size-bytes", max(int(target * _LARGEST), target + 1), 1)
    if not smallest < target < largest:
        text = f"min-file-size-bytes ({smallest}) < target-file-size-bytes ({target}) < max-file-size-bytes ({largest}) does not hold."
        raise InvalidInput(text, hint="Set all three.", table=metadata.location)
    commits = whole("partial-progress.max-commits", 10, 1)
    at_once = whole("max-concurrent-file-group-rewrites", 5, 1)
    order = texts.get("rewrite-job-order", "none").lower()
    if order not in JOB_ORDERS:
        raise InvalidInput(f"Option 'rewrite-job-order' is one of {', '.join(JOB_ORDERS)}, not {order!r}.")
    leftovers = metadata.format_version >= 3 and not any(name in texts for name in _SIZES)
    return DeleteRewriteOptions(
        target, smallest, largest,
        min_input_files=whole("min-input-files", 5, 1),
        group_bytes=whole("max-file-group-size-bytes", 100 << 30, 1),
        group_files=whole("max-file-group-input-files", 2**31 - 1, 1),
        rewrite_all=_DeleteOptionReader(texts).flag("rewrite-all", leftovers),
        commits=commits if _DeleteOptionReader(texts).flag("partial-progress.enabled", False) else None,
        most_at_once=at_once if "max-concurrent-file-group-rewrites" in texts else None,
        job_order=order,
    )  # fmt: skip


_KNOWN = (
    *_SIZES, "max-file-group-size-bytes", "max-file-group-input-files", "partial-progress.enabled", "partial-progress.max-commits",
    "max-concurrent-file-group-rewrites", "rewrite-job-order",
)  # fmt: skip


@dataclass(frozen=True)
class _DeleteOptionReader:
    texts: Mapping[str, str]

    def whole(self, name: str, default: int, least: int) -> int:
        text = self.texts.get(name)
        if text is None:
            return default
        if not text.lstrip("+-").isdigit() or int(text) < least:
            raise InvalidInput(f"Option {name!r} is a whole number, {least} or more, not {text!r}.")
        return int(text)

    def flag(self, name: str, default: bool) -> bool:
        text = self.texts.get(name, str(default)).lower()
        if text not in ("true", "false"):
            raise InvalidInput(f"Option {name!r} is true or false, not {text!r}.")
        return text == "true"
