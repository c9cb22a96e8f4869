"""Check the options of one write, which have Java Iceberg's names (SparkWriteOptions), before anything is written.

To add an option:
- make it a field of `WriteOptions`, with its values in `_CHOICES` and its verbs in `_VERBS`, and a row in docs/options.md; where a session
  may set it, `spark.host.settings` lists it in `_WRITE`;
- honour it where it acts: files in `arrow.write.write_context` (Arrow) and `spark.write.spark_writer` (Spark's writer), distribution and
  order of rows in `spark.write.layout`, checks of rows in `arrow.write.conform` and `spark.write.conform_frame`, changes of rows in
  `rows.modes` and `ops.step`, schema and commit in `ops.stage` and `ops.merge`;
- refuse it by `meaningless` where it would have no effect: for a verb in `_VERBS`, otherwise where it would have acted (`ops.target`,
  `ops.step`, `ops.merge`, `rows.modes`, `arrow.write.write_context`, `spark.write.write_frame`);
- say in tests/contract/test_options.py what it means and what it changes: that test fails for a field without an effect.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeAlias

from frazil.errors import InvalidInput, Unsupported
from frazil.spec.properties import DISTRIBUTIONS, FORMATS, GRANULARITIES, ISOLATION_LEVELS

Verb: TypeAlias = Literal["append", "overwrite", "dynamic_partition_overwrite", "delete", "update", "merge"]
_TRUE, _FALSE = ("true", "1", "yes"), ("false", "0", "no")
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
    """Hold the options of one write, sizes in bytes. None: the table's properties decide, then Java's defaults."""

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
    """Names of options that come from the settings of the session: they are used where they apply and ignored elsewhere."""
    named_for: str = ""
    """Begins the operation's id in the names of files: the query and the batch of a stream. Not for callers to set."""

    def asks_for(self, name: str) -> bool:
        """Tell whether the caller gave this option, not the session."""
        return getattr(self, name) is not None and name not in self.of_session


_CHOICES = {
    "compression_strategy": ("speed", "compression"),
    "write_format": FORMATS,
    "delete_format": FORMATS,
    "distribution_mode": DISTRIBUTIONS,
    "overwrite_mode": ("static", "dynamic"),
    "isolation_level": ISOLATION_LEVELS,
    "delete_granularity": GRANULARITIES,
}
LEVELS = {"zstd": (-7, 22), "gzip": (0, 9), "zlib": (0, 9), "deflate": (0, 9), "brotli": (0, 11)}
_ALIASES = {"mergeschema": "merge_schema"}
_KEY = "upsert takes its key as join_cols: t.upsert(frame, join_cols=['id']); merge takes a condition, on='target.id = source.id'."
_FILTER = "overwrite takes a filter as overwrite_filter='…', delete and update take it as where='…'."
_LAYOUT = "A table knows its own partitioning: catalog.create_table(…, partition_by=[…]), or t.update_spec()."
_HABITS = {  # arguments of other products, and what does the same here
    **dict.fromkeys(("on", "key", "keys", "key_columns", "primary_key", "primary_keys", "identifier_fields"), _KEY),
    **dict.fromkeys(("where", "filter", "condition", "predicate", "row_filter", "replace_where", "replacewhere"), _FILTER),
    **dict.fromkeys(("partition_by", "partitionby", "partitioned_by"), _LAYOUT),
    "mode": "append() adds rows, overwrite() replaces them; of a merge, execute(mode=…) takes copy-on-write or merge-on-read.",
    **dict.fromkeys(("overwrite_schema", "overwriteschema"), "catalog.replace_table_transaction(name, frame)."),
    "schema_mode": "merge_schema=True adds the columns that only the frame has.",
}
_OWN = ("snapshot_properties", "of_session", "named_for")
_KINDS = {f.name: str(f.type) for f in fields(WriteOptions) if f.name not in _OWN}
_WITH_FRAME: tuple[Verb, ...] = ("append", "overwrite", "dynamic_partition_overwrite", "merge")
_CHECKED: tuple[Verb, ...] = ("append", "overwrite", "dynamic_partition_overwrite")
_WITH_ROWS: tuple[Verb, ...] = (*_WITH_FRAME, "update")
_WITH_DELETES: tuple[Verb, ...] = ("overwrite", "delete", "update", "merge")
_WITH_CONFLICTS: tuple[Verb, ...] = ("overwrite", "dynamic_partition_overwrite", "delete", "update", "merge")
_VERBS: dict[str, tuple[tuple[Verb, ...], str]] = {  # an option that is not listed applies to every verb
    "distribution_mode": (_WITH_ROWS, "rewritten files keep their rows in order, those of a partition together"),
    "advisory_partition_size": (_WITH_ROWS, "it shuffles nothing"),
    "check_nullability": (_CHECKED, "its values are checked row by row"),
    "check_ordering": (_CHECKED, "its columns are assigned by name"),
    "merge_schema": (_WITH_FRAME, "it has no frame that could add columns"),
    "overwrite_mode": (("overwrite", "dynamic_partition_overwrite"), "it overwrites nothing"),
    "isolation_level": (_WITH_CONFLICTS, "an append conflicts with nothing"),
    "validate_from_snapshot_id": (_WITH_CONFLICTS, "an append conflicts with nothing"),
    "delete_format": (_WITH_DELETES, "it writes no delete files"),
    "target_delete_file_size_bytes": (_WITH_DELETES, "it writes no delete files"),
    "delete_granularity": (_WITH_DELETES, "it writes no delete files"),
}


def write_options(raw_options: Mapping[str, Any], verb: Verb | None = None, session_settings: Mapping[str, Any] = {}) -> WriteOptions:
    """Check options as a caller writes them (`target-file-size-bytes`, `target_file_size_bytes`, `mergeSchema`, `snapshot-property.k`).

    `verb`: the operation that they are for. `session_settings`: the settings of the session, over which the caller's options take
    precedence; those that do not apply to the verb are ignored. Raises InvalidInput for an unknown option, an invalid value, or an option
    that has no effect on the verb, Unsupported for an option of Java Iceberg that Frazil does not support.
    """
    parsed, properties = _checked(raw_options, "Write option {!r}")
    from_session, session_properties = _checked(session_settings, "The setting 'spark.sql.iceberg.{}'")
    from_session = {k: v for k, v in from_session.items() if k not in parsed and (verb is None or verb in _verbs(k))}
    properties = {**session_properties, **properties}
    options = WriteOptions(**from_session, **parsed, snapshot_properties=properties, of_session=frozenset(from_session))
    if verb is not None:
        _check_verb(options, parsed, verb)
    return options


def _verbs(name: str) -> tuple[str, ...]:
    every: tuple[str, ...] = (*_WITH_FRAME, *_WITH_CONFLICTS)
    return _VERBS[name][0] if name in _VERBS else every


def _check_verb(options: WriteOptions, parsed: Mapping[str, Any], verb: Verb) -> None:
    for name in parsed:
        if verb not in _verbs(name):
            raise meaningless(name, f"to {verb}: {_VERBS[name][1]}")
    if verb == "dynamic_partition_overwrite" and options.overwrite_mode == "static":
        raise InvalidInput("Write option 'overwrite-mode' is 'static', but the operation overwrites partitions dynamically.")
    if "validate_from_snapshot_id" in parsed and verb in ("overwrite", "dynamic_partition_overwrite") and options.isolation_level is None:
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
    """Check a compression level against the range of its codec. `key`: the property that sets it, for the error. Raises InvalidInput."""
    low, high = LEVELS[codec]
    if not level.strip().lstrip("+-").isdigit() or not low <= int(level) <= high:
        raise InvalidInput(f"{key} of {codec} must be a whole number from {low} to {high}, not {level!r}.")
    return int(level)


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def _checked(options: Mapping[str, Any], label: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Parse options; returns them by their Python names, without those that are None, and the properties of the snapshot's summary."""
    parsed: dict[str, Any] = {}
    properties: dict[str, str] = {}
    for key, value in options.items():
        head, dot, rest = key.partition(".")
        name = head.lower().replace("-", "_")
        if name == "snapshot_property" and dot:
            if not rest:
                raise InvalidInput(f"{label.format(key)} lacks the property's name, as in snapshot-property.job.")
            properties[rest] = str(value)
            continue
        name = _ALIASES.get(name, name) if not dot else key
        if reason := _REFUSED.get(_dashed(name)):
            raise Unsupported(f"{label.format(key)} is not supported: {reason}.")
        if instead := _HABITS.get(name):
            raise InvalidInput(f"There is no argument or write option {key!r}.", hint=instead)
        if name not in _KINDS:
            names = ", ".join(sorted(map(_dashed, _KINDS)))
            raise InvalidInput(f"Unknown write option {key!r}.{_meant(name)}", hint=f"Known: {names}, snapshot-property.<name>.")
        if value is None:
            continue
        read = _value(label.format(_dashed(name)), name, value)
        if parsed.setdefault(name, read) != read:
            raise InvalidInput(f"{label.format(_dashed(name))} is given twice, as {parsed[name]!r} and as {read!r}.")
    return parsed, properties


def _meant(name: str) -> str:
    """Suggest the option that a misspelt name may have meant."""
    near = difflib.get_close_matches(name.lower().replace("-", "_"), _KINDS, 1, 0.8)
    return f" Did you mean {_dashed(near[0])!r}?" if near else ""


def _value(label: str, name: str, value: Any) -> Any:
    kind, text = _KINDS[name], str(value).strip()
    if kind.startswith("bool"):
        if text.lower() not in (*_TRUE, *_FALSE):
            raise InvalidInput(f"{label} must be true or false, not {value!r}.")
        return text.lower() in _TRUE
    if kind.startswith("int") or name == "compression_level":
        return _number(label, name, value, text)
    if name in _CHOICES:
        if text.lower() not in _CHOICES[name]:
            raise InvalidInput(f"{label} must be one of {', '.join(_CHOICES[name])}, not {value!r}.")
        return text.lower()
    if not isinstance(value, str) or (not text and name != "branch"):
        raise InvalidInput(f"{label} must be text, not {value!r}.")
    return value


def _number(label: str, name: str, value: Any, text: str) -> Any:
    try:
        number = int(text)
    except ValueError as e:
        raise InvalidInput(f"{label} must be a whole number, not {value!r}.") from e
    if number <= 0 and "size" in name:
        raise InvalidInput(f"{label} must be above 0, not {value!r}.")
    if number < 0 and name.endswith("_id"):
        raise InvalidInput(f"{label} must be an id, not {value!r}.")
    return str(number) if name == "compression_level" else number
