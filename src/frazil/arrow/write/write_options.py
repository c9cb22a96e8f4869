"""Check the options of one write, which have Java Iceberg's names (SparkWriteOptions), before
anything is written.

To add an option:
- make it a field of `WriteOptions` and an entry of `OPTIONS`, with its verbs, and a row in
  docs/options.md; where a session may set it, `spark.host.settings` lists it in `_WRITE`;
- honour it where it acts: files in `arrow.write.write_context` (Arrow) and
  `spark.write.spark_writer` (Spark's writer), distribution and order of rows in
  `spark.write.layout`, checks of rows in `arrow.write.conform` and `spark.write.conform_frame`,
  changes of rows in `rows.modes` and `ops.step`, schema and commit in `ops.stage` and `ops.merge`;
- refuse it by `meaningless` where it would have no effect: for a verb by its entry, otherwise where
  it would have acted (`ops.target`, `ops.step`, `ops.merge`, `rows.modes`,
  `arrow.write.write_context`, `spark.write.write_frame`);
- say in tests/contract/test_options.py what it means and what it changes: that test fails for a
  field without an effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeAlias

from frazil.errors import InvalidInput
from frazil.spec.kinds import BOOLEAN, INTEGER, NAME, NATURAL, POSITIVE, TEXT, ValueKind, one_of
from frazil.spec.options import Option, OptionTable, folded
from frazil.spec.properties import DISTRIBUTIONS, FORMATS, GRANULARITIES, ISOLATION_LEVELS

Verb: TypeAlias = Literal[
    "append", "overwrite", "dynamic_partition_overwrite", "delete", "update", "merge"
]
_REFUSED = {
    "shred-variants": "variants are written unshredded",
    "variant-inference-buffer-size": "variants are written unshredded",
    "use-merge-append-for-streaming": "commits of streams merge manifests as those of batches do",
    "rewritten-file-scan-task-set-id": "it is internal to compaction in Java Iceberg",
    "scan-task-set-id": "it is internal to compaction in Java Iceberg",
    "handle-timestamp-without-timezone": "timestamps without a zone are written as they are",
    "use-timestamp-without-timezone-in-new-tables": "the types of the schema decide it",
}


@dataclass(frozen=True)
class WriteOptions:
    """Hold the options of one write, sizes in bytes. None: the table's properties decide, then
    Java's defaults.
    """

    write_format: str | None = None
    delete_format: str | None = None
    target_file_size_bytes: int | None = None
    target_delete_file_size_bytes: int | None = None
    distribution_mode: str | None = None
    fanout_enabled: bool | None = None
    use_table_distribution_and_ordering: bool = True
    advisory_partition_size: int | None = None
    compression_codec: str | None = None
    compression_level: str | None = None
    compression_strategy: str | None = None
    check_nullability: bool = True
    check_ordering: bool = True
    merge_schema: bool = False
    output_spec_id: int | None = None
    output_sort_order_id: int | None = None
    overwrite_mode: str | None = None
    isolation_level: str | None = None
    validate_from_snapshot_id: int | None = None
    delete_granularity: str | None = None
    branch: str | None = None
    wap_id: str | None = None
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
_DEFAULTS = {f.name: f.default for f in fields(WriteOptions)}


def _option(
    name: str, kind: ValueKind[Any], verbs: tuple[Verb, ...] = (), why: str = "", *aliases: str
) -> Option[Any, Any]:
    return Option(name, kind, _DEFAULTS[_field(name)], verbs=verbs, why=why, aliases=aliases)


def _field(name: str) -> str:
    return name.replace("-", "_")


_OPTIONS = (
    _option("write-format", one_of(*FORMATS)),
    _option("delete-format", one_of(*FORMATS), *_DELETING),
    _option("target-file-size-bytes", POSITIVE),
    _option("target-delete-file-size-bytes", POSITIVE, *_DELETING),
    _option(
        "distribution-mode",
        one_of(*DISTRIBUTIONS),
        _WITH_ROWS,
        "rewritten files keep their order, and partitions together",
    ),
    _option("fanout-enabled", BOOLEAN),
    _option("use-table-distribution-and-ordering", BOOLEAN),
    _option("advisory-partition-size", POSITIVE, _WITH_ROWS, "it shuffles nothing"),
    _option("compression-codec", NAME),
    _option(
        "compression-level", ValueKind(lambda text: str(INTEGER.read(text)), INTEGER.description)
    ),
    _option("compression-strategy", one_of("speed", "compression")),
    _option("check-nullability", BOOLEAN, _CHECKED, "its values are checked row by row"),
    _option("check-ordering", BOOLEAN, _CHECKED, "its columns are assigned by name"),
    _option(
        "merge-schema",
        BOOLEAN,
        _WITH_FRAME,
        "it has no frame that could add columns",
        "mergeschema",
    ),
    _option("output-spec-id", NATURAL),
    _option("output-sort-order-id", NATURAL),
    _option(
        "overwrite-mode",
        one_of("static", "dynamic"),
        ("overwrite", "dynamic_partition_overwrite"),
        "it overwrites nothing",
    ),
    _option("isolation-level", one_of(*ISOLATION_LEVELS), *_CONFLICTING),
    _option("validate-from-snapshot-id", NATURAL, *_CONFLICTING),
    _option("delete-granularity", one_of(*GRANULARITIES), *_DELETING),
    _option("branch", TEXT),
    _option("wap-id", NAME),
)
_LISTED = (*sorted(o.name for o in _OPTIONS), "snapshot-property.<name>")
OPTIONS = OptionTable("write option", _OPTIONS, _REFUSED, _LISTED)


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
    applying = {_field(o.name) for o in _OPTIONS if o.means_something_to(verb)}
    from_session = {k: v for k, v in from_session.items() if k not in parsed and k in applying}
    properties = {**session_properties, **properties}
    options = WriteOptions(
        **from_session, **parsed, snapshot_properties=properties, of_session=frozenset(from_session)
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
        "validate_from_snapshot_id" in parsed
        and verb in ("overwrite", "dynamic_partition_overwrite")
        and options.isolation_level is None
    ):
        hint = "Set isolation-level to serializable or snapshot."
        raise meaningless("validate_from_snapshot_id", f"to {verb} without isolation-level", hint)
    if not options.use_table_distribution_and_ordering:
        for name in ("distribution_mode", "output_sort_order_id"):
            if parsed.get(name) not in (None, "none"):
                both = f"{_dashed(name)!r} and 'use-table-distribution-and-ordering'=false"
                raise InvalidInput(f"Write options {both} contradict each other.")


def meaningless(name: str, where: str, hint: str = "Leave it out.") -> InvalidInput:
    """Make the error for an option that cannot have an effect."""
    return InvalidInput(f"Write option {_dashed(name)!r} means nothing {where}.", hint=hint)


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


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def _checked(
    options: Mapping[str, Any], verb: Verb | None, label: str | None = None
) -> tuple[dict[str, Any], dict[str, str]]:
    """Parse options; returns them by their Python names, without those that are None, and the
    properties of the snapshot's summary.
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
        elif instead := _HABITS.get(_field(folded(key))):
            raise InvalidInput(f"There is no argument or write option {key!r}.", hint=instead)
        else:
            rest[key] = value
    return {
        _field(name): value for name, value in OPTIONS.read(rest, verb, label).items()
    }, properties
