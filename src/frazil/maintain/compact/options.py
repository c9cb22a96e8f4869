"""Check the options of `rewrite_data_files`, which have Java Iceberg's names and defaults
(RewriteDataFiles and its planners).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from frazil.errors import InvalidInput
from frazil.maintain.compact.file_cuts import FileSizes
from frazil.spec.metadata import TableMetadata
from frazil.spec.options import (
    BOOLEAN,
    FACTOR,
    NATURAL,
    POSITIVE,
    SHARE,
    Option,
    OptionTable,
    one_of,
)
from frazil.spec.properties import TARGET_FILE_SIZE

STRATEGIES = ("binpack", "sort", "zorder", "hilbert")
# what Java adds to the size of each split, so that the last one is not tiny
SPLIT_OVERHEAD = 5 << 10
_NO_LIMIT = 2**31 - 1
_TOLERANCE = 0.02  # by which the size of a new file may miss its share of the rows


@dataclass(frozen=True)
class CompactionOptions:
    """Hold the options, sizes in bytes. `most_at_once`: groups that are rewritten at the same time;
    None: as many as the runner has slots.

    `commits`: into how many commits partial progress divides the groups; None: one commit for all.
    `keeps_sequence`: new files take the sequence number of the snapshot that was read.
    `compression`: expected size of new files over that of old ones. `text_bytes`: leading bytes of
    text and binary columns that count in a z-order or Hilbert curve. `key_bytes`: of a z-order
    value, that count at most.
    """

    target: int
    smallest: int
    largest: int
    min_input_files: int
    group_bytes: int
    group_files: int
    most_files: int | None
    rewrite_all: bool
    delete_files: int
    delete_ratio: float
    commits: int | None
    failed_commits: int
    most_at_once: int | None
    job_order: str
    keeps_sequence: bool
    output_spec_id: int
    removes_dangling: bool
    compression: float
    text_bytes: int
    key_bytes: int
    snapshot_properties: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_target(cls, target: int) -> CompactionOptions:
        """Return the options of a target size of files, all others as by default."""
        return cls(*sizes_of({}, target), commits=None, **OPTIONS.fields({_SPEC_ID.name: 0}))

    @property
    def file_bytes(self) -> int:
        """Return the size at which a new file ends: between the target and the largest allowed, so
        that no small rest is left.
        """
        return int(self.target + (self.largest - self.target) * 0.5)

    def files_for(self, size: int) -> int:
        """Return how many files Java would write for `size` bytes of input
        (SizeBasedFileRewritePlanner).
        """
        size = int(size * self.compression)
        whole, rest = divmod(size, self.target)
        if whole == 0:
            return 1
        if rest > self.smallest:
            return whole + 1
        return (
            whole if size / whole < min(1.1 * self.target, self.file_bytes) else whole + (rest > 0)
        )

    def sizes_for(self, size: int) -> FileSizes:
        """Return how large the files may be into which `size` bytes of sorted input go, so that the
        next rewrite leaves them alone.
        """
        files = self.files_for(size)
        even = max(1.0, size * self.compression / files)
        return FileSizes(
            files,
            (1 + _TOLERANCE) * self.smallest / even,
            (1 - _TOLERANCE) * self.file_bytes / even,
        )


# The options that the rewrite of position delete files has, too.
TARGET = Option("target-file-size-bytes", POSITIVE, None, text="New files have about this size, in bytes.",
    otherwise="`write.target-file-size-bytes`, 512 MB; of delete files `write.delete.target-file-size-bytes`, 64 MB")  # fmt: skip
SMALLEST = Option("min-file-size-bytes", NATURAL, None, text="Smaller files are rewritten.", otherwise="75 % of the target")  # fmt: skip
LARGEST = Option("max-file-size-bytes", POSITIVE, None, text="Larger files are rewritten.", otherwise="180 % of the target")  # fmt: skip
PARTIAL = Option("partial-progress.enabled", BOOLEAN, False,
    text="`true`: the result is committed in several parts; if one fails, the others go on.")  # fmt: skip
COMMITS = Option(
    "partial-progress.max-commits",
    POSITIVE,
    10,
    text="With partial progress there are at most this many commits.",
)
MIN_INPUT_FILES = Option("min-input-files", POSITIVE, 5, "min_input_files",
    "A group with this many files is rewritten, also if it holds less than the target size.")  # fmt: skip
REWRITE_ALL = Option("rewrite-all", BOOLEAN, False, "rewrite_all", "`true`: all files are rewritten, whatever their size.",
    "`false`; of delete files in format version 3 `true`, unless an option about sizes is given")  # fmt: skip
SHARED = (
    REWRITE_ALL, TARGET, SMALLEST, LARGEST, MIN_INPUT_FILES,
    Option("max-file-group-size-bytes", POSITIVE, 100 << 30, "group_bytes", "A group holds at most this many bytes."),
    Option("max-file-group-input-files", POSITIVE, _NO_LIMIT, "group_files", "A group holds at most this many files.", "no limit"),
    PARTIAL, COMMITS,
    Option("max-concurrent-file-group-rewrites", POSITIVE, None, "most_at_once",
        "At most this many groups are rewritten at the same time.", "as many as there are slots"),
    Option("rewrite-job-order", one_of("none", "bytes-asc", "bytes-desc", "files-asc", "files-desc"), "none", "job_order",
        "Groups are rewritten in this order."),
)  # fmt: skip

_SORTS, _CURVES = STRATEGIES[1:], STRATEGIES[2:]
_FAILED_COMMITS = Option("partial-progress.max-failed-commits", NATURAL, COMMITS.default, "failed_commits",
    "More failed commits than this raise an error at the end.", "`partial-progress.max-commits`")  # fmt: skip
_SPEC_ID = Option(
    "output-spec-id",
    NATURAL,
    None,
    "output_spec_id",
    "New files have the partition spec with this id.",
    "the current one",
)
OPTIONS = OptionTable("option of rewrite_data_files", (
    *SHARED, _FAILED_COMMITS, _SPEC_ID,
    Option("max-files-to-rewrite", POSITIVE, None, "most_files", "At most this many files are rewritten.", "no limit"),
    Option("delete-file-threshold", NATURAL, _NO_LIMIT, "delete_files",
        "A file to which this many delete files apply is rewritten.", "no limit"),
    Option("delete-ratio-threshold", SHARE, 0.3, "delete_ratio", "A file of which this share of the rows is deleted is rewritten."),
    Option("use-starting-sequence-number", BOOLEAN, True, "keeps_sequence",
        "`true`: new files keep the sequence number of the snapshot that was read, so that equality deletes that are committed meanwhile "
        "apply to them."),
    Option("remove-dangling-deletes", BOOLEAN, False, "removes_dangling",
        "`true`: delete files that then apply to no data file are removed."),
    Option("compression-factor", FACTOR, 1.0, "compression",
        "New files are expected to have this share of the size of the old ones.", "estimated from a part of the rows", _SORTS),
    Option("shuffle-partitions-per-file", POSITIVE, 1, text="It has no effect: one task writes each file.", verbs=_SORTS),
    Option("var-length-contribution", POSITIVE, 8, "text_bytes",
        "This many bytes of texts and binaries count in a curve.", verbs=_CURVES),
    Option("max-output-size", POSITIVE, _NO_LIMIT, "key_bytes",
        "A place on a z-order curve has at most this many bytes.", "8", ("zorder",)),
))  # fmt: skip


def compaction_options(
    given: Mapping[str, Any] | None, metadata: TableMetadata, strategy: str
) -> CompactionOptions:
    """Check options as a caller writes them. Raises InvalidInput for unknown names, values that
    Java refuses too, and options that the strategy does not have."""
    values = OPTIONS.read(given or {}, strategy)
    commits = COMMITS.of(values)
    values = {_FAILED_COMMITS.name: commits, _SPEC_ID.name: metadata.default_spec_id, **values}
    metadata.spec_by_id(values[_SPEC_ID.name])
    sizes = sizes_of(values, TARGET_FILE_SIZE.of(metadata.properties), metadata.location)
    return CompactionOptions(
        *sizes, commits=commits if PARTIAL.of(values) else None, **OPTIONS.fields(values)
    )


def sizes_of(
    values: Mapping[str, Any], usual: int, table: str | None = None
) -> tuple[int, int, int]:
    """Return the target, smallest and largest size of files that options give, else Java's: the
    `usual` target and shares of it. Raises InvalidInput where they are not in this order."""
    target = TARGET.of(values) or usual
    smallest = values.get(SMALLEST.name, int(target * 0.75))
    largest = LARGEST.of(values) or max(int(target * 1.8), target + 1)
    if not smallest < target < largest:
        text = f"min-file-size-bytes ({smallest}) < target-file-size-bytes ({target}) < max-file-size-bytes ({largest}) does not hold."
        raise InvalidInput(text, hint="Set all three.", table=table)
    return target, smallest, largest
