"""Check the options of `rewrite_data_files`, which have Java Iceberg's names and defaults (RewriteDataFiles and its planners)."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from frazil.errors import InvalidInput
from frazil.maintain.compact.file_cuts import FileSizes
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import TARGET_FILE_SIZE

STRATEGIES = ("binpack", "sort", "zorder", "hilbert")
JOB_ORDERS = ("none", "bytes-asc", "bytes-desc", "files-asc", "files-desc")
SPLIT_OVERHEAD = 5 << 10  # what Java adds to the size of each split, so that the last one is not tiny
_NO_LIMIT = 2**31 - 1
_TOLERANCE = 0.02  # by which the size of a new file may miss its share of the rows
_ONLY = {
    "compression-factor": ("sort", "zorder", "hilbert"),
    "shuffle-partitions-per-file": ("sort", "zorder", "hilbert"),
    "max-output-size": ("zorder",),
    "var-length-contribution": ("zorder", "hilbert"),
}


@dataclass(frozen=True)
class CompactionOptions:
    """Hold the options, sizes in bytes. `most_at_once`: groups that are rewritten at the same time; None: as many as the runner has slots.

    `commits`: into how many commits partial progress divides the groups; None: one commit for all. `keeps_sequence`: new files take the
    sequence number of the snapshot that was read. `compression`: expected size of new files over that of old ones. `text_bytes`: leading
    bytes of text and binary columns that count in a z-order or Hilbert curve. `key_bytes`: of a z-order value, that count at most.
    """

    target: int
    smallest: int
    largest: int
    min_input_files: int = 5
    group_bytes: int = 100 << 30
    group_files: int = _NO_LIMIT
    most_files: int | None = None
    rewrite_all: bool = False
    delete_files: int = _NO_LIMIT
    delete_ratio: float = 0.3
    commits: int | None = None
    failed_commits: int = 10
    most_at_once: int | None = None
    job_order: str = "none"
    keeps_sequence: bool = True
    output_spec_id: int = 0
    removes_dangling: bool = False
    compression: float = 1.0
    text_bytes: int = 8
    key_bytes: int = _NO_LIMIT
    snapshot_properties: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_target(cls, target: int) -> CompactionOptions:
        """Return the options of a target size of files, all others as by default."""
        return cls(target, int(target * 0.75), max(int(target * 1.8), target + 1))

    @property
    def file_bytes(self) -> int:
        """Return the size at which a new file ends: between the target and the largest allowed, so that no small rest is left."""
        return int(self.target + (self.largest - self.target) * 0.5)

    def files_for(self, size: int) -> int:
        """Return how many files Java would write for `size` bytes of input (SizeBasedFileRewritePlanner)."""
        size = int(size * self.compression)
        whole, rest = divmod(size, self.target)
        if whole == 0:
            return 1
        if rest > self.smallest:
            return whole + 1
        return whole if size / whole < min(1.1 * self.target, self.file_bytes) else whole + (rest > 0)

    def sizes_for(self, size: int) -> FileSizes:
        """Return how large the files may be into which `size` bytes of sorted input go, so that the next rewrite leaves them alone."""
        files = self.files_for(size)
        even = max(1.0, size * self.compression / files)
        return FileSizes(files, (1 + _TOLERANCE) * self.smallest / even, (1 - _TOLERANCE) * self.file_bytes / even)


def compaction_options(given: Mapping[str, Any] | None, metadata: TableMetadata, strategy: str) -> CompactionOptions:
    """Check options as a caller writes them (`-` may be `_`). Raises InvalidInput for unknown names, values that Java refuses too, and
    options that the strategy does not have."""
    texts = _named(given or {}, strategy)
    read = _CompactionOptionReader(texts)
    target = read.whole("target-file-size-bytes", TARGET_FILE_SIZE.of(metadata.properties), 1)
    smallest = read.whole("min-file-size-bytes", int(target * 0.75), 0)
    largest = read.whole("max-file-size-bytes", max(int(target * 1.8), target + 1), 1)
    if not smallest < target < largest:
        text = f"min-file-size-bytes ({smallest}) < target-file-size-bytes ({target}) < max-file-size-bytes ({largest}) does not hold."
        raise InvalidInput(text, hint="Set all three.", table=metadata.location)
    partial = read.flag("partial-progress.enabled", False)
    commits = read.whole("partial-progress.max-commits", 10, 1)
    spec_id = read.whole("output-spec-id", metadata.default_spec_id, 0)
    metadata.spec_by_id(spec_id)
    most = read.whole("max-files-to-rewrite", 0, 1) if "max-files-to-rewrite" in texts else None
    at_once = read.whole("max-concurrent-file-group-rewrites", 5, 1)
    read.whole("shuffle-partitions-per-file", 1, 1)  # rows are sorted without a shuffle, in as little memory as a task has
    return CompactionOptions(
        target, smallest, largest,
        min_input_files=read.whole("min-input-files", 5, 1),
        group_bytes=read.whole("max-file-group-size-bytes", 100 << 30, 1),
        group_files=read.whole("max-file-group-input-files", _NO_LIMIT, 1),
        most_files=most,
        rewrite_all=read.flag("rewrite-all", False),
        delete_files=read.whole("delete-file-threshold", _NO_LIMIT, 0),
        delete_ratio=read.share("delete-ratio-threshold", 0.3),
        commits=commits if partial else None,
        failed_commits=read.whole("partial-progress.max-failed-commits", commits, 0),
        most_at_once=at_once if "max-concurrent-file-group-rewrites" in texts else None,
        job_order=read.choice("rewrite-job-order", "none", JOB_ORDERS),
        keeps_sequence=read.flag("use-starting-sequence-number", True),
        output_spec_id=spec_id,
        removes_dangling=read.flag("remove-dangling-deletes", False),
        compression=read.positive("compression-factor", 1.0),
        text_bytes=read.whole("var-length-contribution", 8, 1),
        key_bytes=read.whole("max-output-size", _NO_LIMIT, 1),
    )  # fmt: skip


_KNOWN = (
    "target-file-size-bytes min-file-size-bytes max-file-size-bytes min-input-files max-file-group-size-bytes max-file-group-input-files "
    "max-files-to-rewrite rewrite-all delete-file-threshold delete-ratio-threshold partial-progress.enabled partial-progress.max-commits "
    "partial-progress.max-failed-commits max-concurrent-file-group-rewrites rewrite-job-order use-starting-sequence-number output-spec-id "
    "remove-dangling-deletes compression-factor shuffle-partitions-per-file var-length-contribution max-output-size"
).split()


def _named(options: Mapping[str, Any], strategy: str) -> dict[str, str]:
    texts: dict[str, str] = {}
    for key, value in options.items():
        name = str(key).strip().lower().replace("_", "-")
        if name not in _KNOWN:
            near = difflib.get_close_matches(name, _KNOWN, 1, 0.8)
            meant = f" Did you mean {near[0]!r}?" if near else ""
            hint = f"The options are {', '.join(sorted(_KNOWN))}."
            raise InvalidInput(f"Unknown option {key!r} of rewrite_data_files.{meant}", hint=hint)
        if value is None:
            continue
        if strategy not in _ONLY.get(name, STRATEGIES):
            hint = f"It belongs to {' and '.join(_ONLY[name])}."
            raise InvalidInput(f"Option {name!r} means nothing for strategy {strategy!r}.", hint=hint)
        if texts.setdefault(name, str(value).strip()) != str(value).strip():
            raise InvalidInput(f"Option {name!r} is given twice, as {texts[name]!r} and as {value!r}.")
    return texts


@dataclass(frozen=True)
class _CompactionOptionReader:
    texts: Mapping[str, str]

    def whole(self, name: str, default: int, least: int) -> int:
        number: int = self._checked(name, default, int, lambda n: n >= least, f"a whole number of at least {least}")
        return number

    def share(self, name: str, default: float) -> float:
        number: float = self._checked(name, default, float, lambda n: 0 < n <= 1, "above 0 and at most 1")
        return number

    def positive(self, name: str, default: float) -> float:
        number: float = self._checked(name, default, float, lambda n: 0 < n < float("inf"), "above 0")
        return number

    def flag(self, name: str, default: bool) -> bool:
        return self.choice(name, str(default).lower(), ("true", "false")) == "true"

    def choice(self, name: str, default: str, choices: tuple[str, ...]) -> str:
        text = self.texts.get(name, default).lower()
        if text not in choices:
            raise InvalidInput(f"Option {name!r} must be one of {', '.join(choices)}, not {self.texts[name]!r}.")
        return text

    def _checked(self, name: str, default: Any, kind: Callable[[str], Any], fits: Callable[[Any], bool], wanted: str) -> Any:
        if name not in self.texts:
            return default
        try:
            value = kind(self.texts[name])
        except ValueError:
            value = None
        if value is None or not fits(value):
            raise InvalidInput(f"Option {name!r} must be {wanted}, not {self.texts[name]!r}.")
        return value
