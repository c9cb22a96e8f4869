"""Check the options of one write, which have Java Iceberg's names (SparkWriteOptions), before
anything is written.

To add an option:
- make it an entry of `OPTIONS`, with its verbs and the field of `WriteOptions` that holds it; where
  a session may set it, `spark.host.settings` lists it in `_WRITE`;
- honour it where it acts: files in `arrow.write.write_context` (what they have in common),
  `arrow.write.write_rows` (`Rolling`: where a file ends), `spark.write.write_frame` (which writer)
  and `spark.write.spark_writer` (Spark's), distribution and order of rows in `spark.write.layout`,
  checks of rows in `arrow.write.conform` and `spark.write.conform_frame`, changes of rows in
  `rows.modes` and `ops.step`, schema and commit in `ops.stage` and `ops.merge`;
- refuse it by `meaningless` where it would have no effect: for a verb by its entry, otherwise where
  it would have acted (`ops.target`, `ops.step`, `ops.merge`, `rows.modes`,
  `arrow.write.write_context`, `spark.write.write_frame`);
- say in tests/contract/test_options.py what it means and what it changes: that test fails for a
  field without an effect; `python -m tests.docs.test_option_tables` writes docs/options.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from frazil.errors import InvalidInput
from frazil.spec.options import (
    BOOLEAN,
    INTEGER,
    NAME,
    NATURAL,
    POSITIVE,
    TEXT,
    Option,
    OptionTable,
    ValueKind,
    folded,
    one_of,
)
from frazil.spec.properties import DISTRIBUTIONS, FORMATS, GRANULARITIES, ISOLATION_LEVELS

Verb: TypeAlias = Literal[
    "append", "overwrite", "dynamic_partition_overwrite", "delete", "update", "merge"
]


@dataclass(frozen=True)
class WriteOptions:
    """Hold the options of one write, sizes in bytes; `OPTIONS` has their defaults. None: the
    table's properties decide, then Java's defaults.
    """

    write_format: str | None
    delete_format: str | None
    target_file_size_bytes: int | None
    target_delete_file_size_bytes: int | None
    distribution_mode: str | None
    fanout_enabled: bool | None
    use_table_distribution_and_ordering: bool
    advisory_partition_size: int | None
    compression_codec: str | None
    compression_level: str | None
    compression_strategy: str | None
    check_nullability: bool
    check_ordering: bool
    merge_schema: bool
    output_spec_id: int | None
    output_sort_order_id: int | None
    overwrite_mode: str | None
    isolation_level: str | None
    validate_from_snapshot_id: int | None
    delete_granularity: str | None
    branch: str | None
    wap_id: str | None
    snapshot_properties: Mapping[str, str] = field(default_factory=dict)
    of_session: frozenset[str] = frozenset()
    """Names of options that come from the settings of the session: they are used where they apply
    and ignored elsewhere.
    """
    named_for: str = ""
    """Begins the operation's id in the names of files: the query and the batch of a stream. Not for
    callers to set.
    """

    def asks_for(self, name: str) -> bool:
        """Tell whether the caller gave this option, not the session."""
        return getattr(self, name) is not None and name not in self.of_session


LEVELS = {"zstd": (-7, 22), "gzip": (0, 9), "zlib": (0, 9), "deflate": (0, 9), "brotli": (0, 11)}
_KEY = "upsert takes its key as join_cols: t.upsert(frame, join_cols=['id']); merge takes a condition, on='target.id = source.id'."
_FILTER = (
    "overwrite takes a filter as overwrite_filter='…', delete and update take it as where='…'."
)
_LAYOUT = "A table knows its own partitioning: catalog.create_table(…, partition_by=[…]), or t.update_spec()."
_HABITS = {  # arguments of other products, and what does the same here
    **dict.fromkeys(
        ("on", "key", "keys", "key_columns", "primary_key", "primary_keys", "identifier_fields"),
        _KEY,
    ),
    **dict.fromkeys(
        (
            "where",
            "filter",
            "condition",
            "predicate",
            "row_filter",
            "replace_where",
            "replacewhere",
        ),
        _FILTER,
    ),
    **dict.fromkeys(("partition_by", "partitionby", "partitioned_by"), _LAYOUT),
    "mode": "append() adds rows, overwrite() replaces them; of a merge, execute(mode=…) takes copy-on-write or merge-on-read.",
    **dict.fromkeys(
        ("overwrite_schema", "overwriteschema"), "catalog.replace_table_transaction(name, frame)."
    ),
    "schema_mode": "merge_schema=True adds the columns that only the frame has.",
}
_WITH_FRAME: tuple[Verb, ...] = ("append", "overwrite", "dynamic_partition_overwrite", "merge")
_CHECKED: tuple[Verb, ...] = ("append", "overwrite", "dynamic_partition_overwrite")
_WITH_ROWS: tuple[Verb, ...] = (*_WITH_FRAME, "update")
_DELETING: tuple[tuple[Verb, ...], str] = (
    ("overwrite", "delete", "update", "merge"),
    "it writes no delete files",
)
_CONFLICTING: tuple[tuple[Verb, ...], str] = (
    ("dynamic_partition_overwrite", *_DELETING[0]),
    "an append conflicts with nothing",
)
_LEVEL = ValueKind(lambda text: str(INTEGER.read(text)), INTEGER.description)
OPTIONS = OptionTable("write option", (
    Option("write-format", one_of(*FORMATS), None, "write_format", "Data files are written in this format.",
        "`write.format.default`, parquet"),
    Option("delete-format", one_of(*FORMATS), None, "delete_format",
        "Delete files are written in this format. The option is refused where none are written, and for deletion vectors (version 3).",
        "`write.delete.format.default`, the format of data files", *_DELETING),
    Option("target-file-size-bytes", POSITIVE, None, "target_file_size_bytes", "A data file is closed at this size, in bytes.",
        "`write.target-file-size-bytes`, 512 MB"),
    Option("target-delete-file-size-bytes", POSITIVE, None, "target_delete_file_size_bytes",
        "A delete file is closed at this size, in bytes. The option is refused as `delete-format` is.",
        "`write.delete.target-file-size-bytes`, 64 MB", *_DELETING),
    Option("distribution-mode", one_of(*DISTRIBUTIONS), None, "distribution_mode",
        "Spark shuffles rows in this way before they are written. `upsert` takes only none; for streams by key see "
        "[streams-sink.md](streams-sink.md#which-task-writes-a-row).",
        "`write.distribution-mode`: range when sorted, hash when partitioned, else none. Of `update` and `merge`: "
        "`write.update.distribution-mode`, `write.merge.distribution-mode`",
        _WITH_ROWS, "rewritten files keep their order, and partitions together"),
    Option("fanout-enabled", BOOLEAN, None, "fanout_enabled",
        "`true`: a task keeps a writer open for each partition, whatever memory it has. `false`: as many as fit into half of its memory, "
        "and it sorts the rows of further partitions. Without Spark rows are always sorted.", "`write.spark.fanout.enabled`, false"),
    Option("use-table-distribution-and-ordering", BOOLEAN, True, "use_table_distribution_and_ordering",
        "`false`: rows are written in the order of the frame."),
    Option("advisory-partition-size", POSITIVE, None, "advisory_partition_size",
        "A task has about this many bytes after Spark's shuffle (at least 1 MB). The option is refused without Spark, by `upsert`, and "
        "where rows are not shuffled.", "computed", _WITH_ROWS, "it shuffles nothing"),
    Option("compression-codec", NAME, None, "compression_codec", "Files of this write are compressed with this codec.",
        "`write.<format>.compression-codec`, zstd for Parquet"),
    Option("compression-level", _LEVEL, None, "compression_level", "The codec compresses at this level. Zstd, gzip and brotli have levels.",
        "`write.<format>.compression-level`"),
    Option("compression-strategy", one_of("speed", "compression"), None, "compression_strategy",
        "ORC files are compressed for speed, or for a small size.", "`write.orc.compression-strategy`, speed"),
    Option("check-nullability", BOOLEAN, True, "check_nullability",
        "It has no effect: nulls in required columns are found while rows are written.", "", _CHECKED, "its values are checked row by row"),
    Option("check-ordering", BOOLEAN, True, "check_ordering", "It has no effect: columns are matched by name.", "",
        _CHECKED, "its columns are assigned by name"),
    Option("merge-schema", BOOLEAN, False, "merge_schema", "`true`: columns that only the frame has are added to the table.", "",
        _WITH_FRAME, "it has no frame that could add columns", ("mergeSchema",)),
    Option("output-spec-id", NATURAL, None, "output_spec_id", "New files have the partition spec with this id.", "the current one"),
    Option("output-sort-order-id", NATURAL, None, "output_sort_order_id", "New files have the sort order with this id.", "the current one"),
    Option("overwrite-mode", one_of("static", "dynamic"), None, "overwrite_mode",
        '`dynamic`: `mode("overwrite")` replaces only the partitions that the frame has rows for.', "`static`",
        ("overwrite", "dynamic_partition_overwrite"), "it overwrites nothing"),
    Option("isolation-level", one_of(*ISOLATION_LEVELS), None, "isolation_level",
        "This level decides which concurrent commits are conflicts.",
        "overwrites: no commit is a conflict; `delete`, `update` and `merge`: the table property `write.delete.isolation-level` and so on",
        *_CONFLICTING),
    Option("validate-from-snapshot-id", NATURAL, None, "validate_from_snapshot_id",
        "Commits after this snapshot may be conflicts. An overwrite takes it only together with `isolation-level`.",
        "the snapshot that was read", *_CONFLICTING),
    Option("delete-granularity", one_of(*GRANULARITIES), None, "delete_granularity",
        "A position delete file holds the deletes of one data file, or of a partition. The option is refused as `delete-format` is.",
        "`write.delete.granularity`, file", *_DELETING),
    Option("branch", TEXT, None, "branch",
        "The write commits to this branch. Python's calls create one that does not exist; Spark's writers and SQL refuse it.", "main"),
    Option("wap-id", NAME, None, "wap_id", "The snapshot is staged under this id (table property `write.wap.enabled`).",
        "the session's `spark.wap.id`"),
), {
    **dict.fromkeys(("shred-variants", "variant-inference-buffer-size"), "variants are written unshredded"),
    "use-merge-append-for-streaming": "commits of streams merge manifests as those of batches do",
    **dict.fromkeys(("rewritten-file-scan-task-set-id", "scan-task-set-id"), "it is internal to compaction in Java Iceberg"),
    "handle-timestamp-without-timezone": "timestamps without a zone are written as they are",
    "use-timestamp-without-timezone-in-new-tables": "the types of the schema decide it",
}, (Option("snapshot-property.<name>", TEXT, None, text="A property of this name is added to the summary of the snapshot."),))  # fmt: skip


def is_write_option(key: str) -> bool:
    """Tell whether writes know an option, be it to refuse it, in any spelling of its name."""
    name = folded(key)
    return OPTIONS.knows(key) or name.startswith("snapshot-property-") or _python(name) in _HABITS


def write_options(
    raw_options: Mapping[str, Any],
    verb: Verb | None = None,
    session_settings: Mapping[str, Any] = {},
) -> WriteOptions:
    """Check options as a caller writes them (`target-file-size-bytes`, `target_file_size_bytes`,
    `mergeSchema`, `snapshot-property.k`).

    `verb`: the operation that they are for. `session_settings`: the settings of the session, over
    which the caller's options take precedence; those that do not apply to the verb are ignored.
    Raises InvalidInput for an unknown option, an invalid value, or an option that has no effect on
    the verb, Unsupported for an option of Java Iceberg that Frazil does not support.
    """
    parsed, properties = _checked(raw_options, verb)
    from_session, session_properties = _checked(
        session_settings, None, "The setting 'spark.sql.iceberg.{}'"
    )
    applying = {o.name for o in OPTIONS.options if o.means_something_to(verb)}
    from_session = {k: v for k, v in from_session.items() if k not in parsed and k in applying}
    options = WriteOptions(
        **OPTIONS.fields({**from_session, **parsed}),
        snapshot_properties={**session_properties, **properties},
        of_session=frozenset(map(_python, from_session)),
    )
    if verb is not None:
        _check_verb(options, parsed, verb)
    return options


def _check_verb(options: WriteOptions, parsed: Mapping[str, Any], verb: Verb) -> None:
    if verb == "dynamic_partition_overwrite" and options.overwrite_mode == "static":
        raise InvalidInput(
            "Write option 'overwrite-mode' is 'static', but the operation overwrites partitions dynamically."
        )
    if (
        "validate-from-snapshot-id" in parsed
        and verb in ("overwrite", "dynamic_partition_overwrite")
        and options.isolation_level is None
    ):
        hint = "Set isolation-level to serializable or snapshot."
        raise meaningless("validate_from_snapshot_id", f"to {verb} without isolation-level", hint)
    if not options.use_table_distribution_and_ordering:
        for name in ("distribution-mode", "output-sort-order-id"):
            if parsed.get(name) not in (None, "none"):
                both = f"{name!r} and 'use-table-distribution-and-ordering'=false"
                raise InvalidInput(f"Write options {both} contradict each other.")


def meaningless(name: str, where: str, hint: str = "Leave it out.") -> InvalidInput:
    """Make the error for an option that cannot have an effect."""
    return InvalidInput(
        f"{OPTIONS.label(name.replace('_', '-'))} means nothing {where}.", hint=hint
    )


def check_level(codec: str, level: str, key: str) -> int:
    """Check a compression level against the range of its codec. `key`: the property that sets it,
    for the error. Raises InvalidInput.
    """
    low, high = LEVELS[codec]
    if not level.strip().lstrip("+-").isdigit() or not low <= int(level) <= high:
        raise InvalidInput(
            f"{key} of {codec} must be a whole number from {low} to {high}, not {level!r}."
        )
    return int(level)


def _python(name: str) -> str:
    return name.replace("-", "_")


def _checked(
    options: Mapping[str, Any], verb: Verb | None, label: str | None = None
) -> tuple[dict[str, Any], dict[str, str]]:
    """Parse options; returns them by their names, without those that are None, and the properties
    of the snapshot's summary.
    """
    properties: dict[str, str] = {}
    rest: dict[str, Any] = {}
    for key, value in options.items():
        head, dot, name = key.partition(".")
        if dot and folded(head) == "snapshot-property":
            if not name:
                raise InvalidInput(
                    f"{OPTIONS.label(key)} lacks the property's name, as in snapshot-property.job."
                )
            properties[name] = str(value)
        elif instead := _HABITS.get(_python(folded(key))):
            raise InvalidInput(f"There is no argument or write option {key!r}.", hint=instead)
        else:
            rest[key] = value
    return OPTIONS.read(rest, verb, label), properties
