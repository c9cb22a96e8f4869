"""Check the options of a streaming write before the query starts: write modes, keys, order, row
kinds, rewinds, and the options of append.

Names are those of Flink and Spark (`write-mode`, `key-columns`, `upsert-strategy`, …); `_` may be
written for `-`. Options that are not about the stream itself are passed on to the write, which
checks them (`arrow.write.write_options`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from frazil.arrow.deletes.write_deletes import check_equality_ids
from frazil.arrow.write.write_options import Verb, write_options
from frazil.commit.done_once import REWINDS
from frazil.errors import InvalidInput, NoSuchRefError, Unsupported
from frazil.spec.metadata import TableMetadata
from frazil.spec.partitioning import field_of_other_column
from frazil.spec.properties import UPSERT_ENABLED
from frazil.spec.schema import Schema
from frazil.stream.partitions.options import is_partition_option

MODES = ("append", "overwrite", "complete", "upsert", "cdc")
_VERBS: dict[str, Verb] = {
    "append": "append",
    "overwrite": "dynamic_partition_overwrite",
    "complete": "overwrite",
}
LOOKUP, EQUALITY_DELETES = "lookup", "equality-deletes"
STRATEGIES = (LOOKUP, EQUALITY_DELETES)
OP_COLUMNS = ("op", "_change_type", "row_kind")
"""Columns that are looked for, in this order, when cdc is not told which column holds the kind of a
row.
"""
_KEYED = ("key_columns", "order_column", "upsert_strategy")
_OWN = (
    "mode",
    "write_mode",
    "op_column",
    "on_rewind",
    "max_continuous_empty_commits",
    "write_parallelism",
    *_KEYED,
)
_FLINK = {
    "upsert_enabled": "write-mode=upsert",
    "overwrite_enabled": "write-mode=overwrite",
    "equality_field_columns": "key-columns",
    "flink.max_continuous_empty_commits": "max-continuous-empty-commits",
    "uid_suffix": "nothing: queries are told apart by their ids",
    "table_refresh_interval": "nothing: every batch loads the table",
    "flink.manifests.location": "nothing: no manifest is written before the commit",
    "range_distribution_statistics_type": "distribution-mode=range: Spark samples the rows of each batch",
    "range_distribution_sort_key_base_weight": "distribution-mode=range: Spark samples the rows of each batch",
}
_FLINK_MAINTENANCE = "flink_maintenance."
_FLINK_TASKS = {
    "rewrite": "maintenance.rewrite", "expire_snapshots": "maintenance.expire", "delete_orphan_files": "maintenance.orphans",
    "convert_equality_deletes": "maintenance.convert",
}  # fmt: skip
_FLINK_TASK_OPTIONS = {  # by Flink's names; those that are not here have the same name, or none
    "enabled": "enabled",
    "schedule.commit_count": "every-commits",
    "schedule.data_file_count": "every-data-files",
    "schedule.data_file_size": "every-data-file-size",
    "schedule.interval_second": "every-interval, a duration such as '600 s'",
    "max_snapshot_age_seconds": "max-snapshot-age, a duration such as '3 d'",
    "min_age_seconds": "min-age, a duration such as '3 d'",
    "retain_last": "retain-last",
    "clean_expired_metadata": "clean-expired-metadata",
    "partial_progress.enabled": "partial-progress.enabled",
    "partial_progress.max_commits": "partial-progress.max-commits",
    "location": "location",
    "prefix_mismatch_mode": "prefix-mismatch-mode",
}
_PARTITION_COMMIT = (
    "sink.partition-commit.",
    "partition.time-extractor.",
    "partition.",
    "maintenance.",
)
_NO_EFFECT = {  # of the options of a merge, those that equality deletes have no use for
    "isolation_level": "they read no rows, so nothing that others commit can contradict them",
    "validate_from_snapshot_id": "they read no rows, so nothing that others commit can contradict them",
    "delete_granularity": "it is about position deletes",
}


@dataclass(frozen=True)
class SinkOptions:
    """Hold the checked options of one streaming write. `write`: options of the write itself, as the
    caller gave them.

    `max_empty`: of so many consecutive batches without rows, the last one sets its mark
    nevertheless. `tasks`: how many tasks write the rows of a batch, by key in upsert and cdc; None:
    as the write itself decides. `makes_branch`: in a table without snapshots, the branch is made.
    """

    mode: str = "append"
    key_columns: tuple[str, ...] = ()
    order_column: str | None = None
    op_column: str | None = None
    strategy: str = LOOKUP
    on_rewind: str = "fail"
    max_empty: int = 10
    write: Mapping[str, Any] = field(default_factory=dict)
    tasks: int | None = None
    makes_branch: bool = False

    @property
    def verb(self) -> Verb:
        return _VERBS.get(self.mode, "merge")

    @property
    def keyed(self) -> bool:
        return self.mode in ("upsert", "cdc")


def sink_options(option_values: Mapping[str, Any], *, mode: str | None = None) -> SinkOptions:
    """Check the options of a streaming write. `mode`: the write mode, if it is given apart from the
    options.

    Raises InvalidInput for values that are not valid and for options that contradict each other,
    and Unsupported for options of other engines that have no meaning here.
    """
    own, rest = _parted(option_values)
    modes = {
        str(m).lower()
        for m in (mode, own.pop("mode", None), own.pop("write_mode", None))
        if m is not None
    }
    if len(modes) > 1:
        raise InvalidInput(f"write-mode is given twice, as {' and as '.join(sorted(modes))}.")
    chosen = modes.pop() if modes else "append"
    if chosen not in MODES:
        hint = (
            "Spark's output mode is .outputMode(…); merge-on-read and copy-on-write are table properties."
            if "-" in chosen
            else None
        )
        raise InvalidInput(
            f"write-mode must be one of {', '.join(MODES)}, not {chosen!r}.", hint=hint
        )
    options = SinkOptions(chosen, write=rest)
    if "key_columns" in own:
        options = replace(options, key_columns=_names("key-columns", own["key_columns"]))
    if "order_column" in own:
        options = replace(
            options, order_column=_names("order-column", own["order_column"], single=True)[0]
        )
    if "op_column" in own:
        options = replace(options, op_column=_names("op-column", own["op_column"], single=True)[0])
    if "upsert_strategy" in own:
        options = replace(
            options, strategy=_choice("upsert-strategy", own["upsert_strategy"], STRATEGIES)
        )
    if "on_rewind" in own:
        options = replace(options, on_rewind=_choice("on-rewind", own["on_rewind"], REWINDS))
    if "max_continuous_empty_commits" in own:
        options = replace(
            options,
            max_empty=_number("max-continuous-empty-commits", own["max_continuous_empty_commits"]),
        )
    if "write_parallelism" in own:
        options = _spread(options, _number("write-parallelism", own["write_parallelism"]))
    _check_mode(options, own)
    return options


def _spread(options: SinkOptions, tasks: int) -> SinkOptions:
    """Let so many tasks write a batch. Of rows that are written as they are, each task gets an
    equal share, which a shuffle by partition or sort order would distribute anew. Raises
    InvalidInput for options that ask for such a shuffle."""
    if options.keyed:
        return replace(options, tasks=tasks)
    asked = write_options(options.write, options.verb)
    for name in ("distribution_mode", "advisory_partition_size"):
        if asked.asks_for(name) and getattr(asked, name) != "none":
            text = f"Options 'write-parallelism' and {name.replace('_', '-')!r} both say how rows are distributed to tasks."
            raise InvalidInput(text, hint="Give one of them.")
    rest = {
        k: v for k, v in options.write.items() if k.lower().replace("-", "_") != "distribution_mode"
    }
    return replace(options, tasks=tasks, write={**rest, "distribution-mode": "none"})


def named_mode(option_values: Mapping[str, Any]) -> str | None:
    """Find the write mode that the options name; None if they leave the choice to the table."""
    return next(
        (
            str(v).lower()
            for k, v in option_values.items()
            if k.lower().replace("-", "_") in ("write_mode", "mode") and v
        ),
        None,
    )


def mode_of_table(option_values: Mapping[str, Any], metadata: TableMetadata) -> str:
    """Choose the write mode of a stream that names none: append, and upsert where the table
    property write.upsert.enabled is true, as in Flink. Raises InvalidInput where neither the table
    nor the options name the keys of an upsert."""
    if not UPSERT_ENABLED.of(metadata.properties):
        return "append"
    keyed = any(
        k.lower().replace("-", "_") == "key_columns" and v is not None
        for k, v in option_values.items()
    )
    if not keyed and not metadata.schema().identifier_field_names():
        raise InvalidInput(
            f"The table property {UPSERT_ENABLED.name} is true, and the table has no identifier fields, which would be the keys.",
            hint="Say write-mode=upsert with key-columns, or write-mode=append.",
            table=metadata.location,
        )
    return "upsert"


def _parted(option_values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split options into the stream's own, by their Python names, and all others, as they are."""
    own: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for key, value in option_values.items():
        name = key.lower().replace("-", "_")
        if instead := _FLINK.get(name) or _instead_of_maintenance(name):
            raise Unsupported(
                f"Option {key!r} of Flink is not an option here.", hint=f"Use {instead}."
            )
        if key.lower().startswith("partition.") and not is_partition_option(key):
            raise InvalidInput(
                f"Unknown option of partition commit: {key!r}.",
                hint="docs/partition-commit.md lists them.",
            )
        if key.lower().startswith(_PARTITION_COMMIT):
            hint = "frazil.install(spark) before the stream starts, or t.write_stream(…), takes options of partition commit and upkeep."
            raise Unsupported(f"Option {key!r} is not supported here.", hint=hint)
        if name not in _OWN:
            _refuse_misspelled(key)
            rest[key] = value
        elif value is not None and own.setdefault(name, value) != value:
            raise InvalidInput(f"Option {key!r} is given twice, as {own[name]!r} and as {value!r}.")
    return own, rest


def _refuse_misspelled(key: str) -> None:
    """Raise InvalidInput for a name that is nearly one of the stream's own options (`writeMode`),
    of which the write's options, that are checked later, know nothing."""
    compact = re.sub(r"[-_.]", "", key.lower())
    if (own := next((o for o in _OWN if o.replace("_", "") == compact), None)) is not None:
        raise InvalidInput(
            f"Unknown option of a streaming write: {key!r}. Did you mean {own.replace('_', '-')!r}?"
        )


def _instead_of_maintenance(name: str) -> str | None:
    """Return what to write instead of Flink's options of maintenance, whatever comes after their
    prefix; None for other options.
    """
    if not name.startswith(_FLINK_MAINTENANCE):
        return None
    task, _, word = name.removeprefix(_FLINK_MAINTENANCE).partition(".")
    if name.endswith(".rate_limit_seconds"):
        return "maintenance.rate-limit, a duration such as '60 s'"
    if task in _FLINK_TASKS:
        same_option = _FLINK_TASK_OPTIONS.get(word)
        return (
            f"{_FLINK_TASKS[task]}.{same_option}"
            if same_option
            else f"the options {_FLINK_TASKS[task]}.… (docs/maintenance.md)"
        )
    if task.startswith("lock"):
        return "nothing: a lease in the table keeps its owners apart (maintenance.lease-duration)"
    return "the options maintenance.<task>.… (docs/maintenance.md)"


def _check_mode(options: SinkOptions, own: Mapping[str, Any]) -> None:
    """Raise InvalidInput for options that the mode has no use for."""
    mode = options.mode
    if not options.keyed:
        for name in _KEYED:
            if name in own:
                dashed = name.replace("_", "-")
                raise InvalidInput(
                    f"Option {dashed!r} means nothing in write-mode={mode}.",
                    hint="write-mode: upsert or cdc.",
                )
    if mode != "cdc" and "op_column" in own:
        raise InvalidInput(
            f"Option 'op-column' means nothing in write-mode={mode}.",
            hint="write-mode=cdc reads the kinds of rows.",
        )
    checked = write_options(options.write, options.verb)
    if not options.keyed:
        if mode == "complete" and checked.overwrite_mode == "dynamic":
            text = (
                "overwrite-mode=dynamic contradicts write-mode=complete, which replaces all rows."
            )
            raise InvalidInput(text, hint="Use write-mode=overwrite.")
        return
    if checked.distribution_mode == "range":
        text = f"Option 'distribution-mode'=range means nothing in write-mode={mode}: ranges of a sort order may part the rows of a key."
        raise InvalidInput(
            text, hint="hash brings the rows of a partition together, none shuffles by key alone."
        )
    if checked.asks_for("advisory_partition_size"):
        text = f"Option 'advisory-partition-size' means nothing in write-mode={mode}, whose tasks hold their rows in memory."
        hint = "The session's spark.sql.adaptive.advisoryPartitionSizeInBytes bounds what a task gets; tasks are as large as that with "
        raise InvalidInput(
            text, hint=f"{hint}spark.sql.adaptive.coalescePartitions.parallelismFirst=false."
        )
    if options.strategy == EQUALITY_DELETES:
        for name, why in _NO_EFFECT.items():
            if checked.asks_for(name):
                raise InvalidInput(
                    f"Option {name.replace('_', '-')!r} means nothing to equality deletes: {why}.",
                    hint="Leave it out.",
                )


# The table
# -------------------------------------------------------------------------------------------------------------------------------


def check_table(options: SinkOptions, metadata: TableMetadata, case_sensitive: bool = True) -> None:
    """Check that the table can take what the stream will write. Raises NoSuchRefError, InvalidInput
    and Unsupported, which say what to change."""
    check_branch(options, metadata)
    if not options.keyed:
        return
    if metadata.format_version < 2:
        raise Unsupported(
            f"write-mode={options.mode} needs format version 2 or later; the table has version {metadata.format_version}.",
            hint="t.upgrade(2) changes no data file.",
            table=metadata.location,
        )
    ids = key_ids(options, metadata.schema(), case_sensitive)
    if options.strategy == EQUALITY_DELETES:
        check_partitions(metadata, metadata.default_spec_id, ids)
    elif write_options(options.write, options.verb).distribution_mode == "hash":
        if (
            field := field_of_other_column(metadata.spec_by_id(metadata.default_spec_id), ids)
        ) is not None:
            raise InvalidInput(
                f"distribution-mode=hash: partition field {field.name} is made of no key column, so the rows of a key may be of several "
                "partitions, and only a shuffle by key brings them together.",
                hint="Leave the option out, or add the column to key-columns.",
                table=metadata.location,
            )


def check_branch(options: SinkOptions, metadata: TableMetadata) -> None:
    """Check that the branch that the options name exists: a stream does not make one of a name that
    was misspelt. (A branch of write-audit-publish is made, and so is that of a table which a stream
    into many tables has just made.)

    Raises NoSuchRefError, and InvalidInput for a tag.
    """
    branch = next(
        (v for k, v in options.write.items() if k.lower() == "branch" and v is not None), None
    )
    if branch is None or (
        options.makes_branch and metadata.current_snapshot_id is None and not metadata.refs
    ):
        return
    try:
        metadata.existing_branch_head(str(branch))
    except NoSuchRefError as error:
        error.advise(
            f"A stream writes to a branch that exists: t.manage_snapshots().create_branch(…, {branch!r}) makes it."
        )
        raise


def key_ids(options: SinkOptions, schema: Schema, case_sensitive: bool = True) -> tuple[int, ...]:
    """Return the field ids of the key columns. Raises InvalidInput when there are none, or when one
    cannot be a key.
    """
    names = options.key_columns or tuple(
        n for n in schema.column_names if n in schema.identifier_field_names()
    )
    if not names:
        raise InvalidInput(
            f"write-mode={options.mode} needs keys: the table has no identifier fields.",
            hint="Give key-columns, as in t.write_stream(frame, mode='upsert', key_columns=['id']), or set identifier fields.",
        )
    tops = {f.name: f.field_id for f in schema.fields}
    names = names if case_sensitive else tuple(_stored_name(n, tops) for n in names)
    if len(set(names)) < len(names):
        raise InvalidInput(f"key-columns names a column twice: {', '.join(names)}.")
    for name in names:  # in any order: that of the table's columns is used
        if name not in tops:
            if schema.get_field(name, False) is not None and "." in name:
                raise Unsupported(
                    f"key-columns: {name!r} is inside a struct.",
                    hint="Keys of a stream are columns at the top.",
                )
            raise InvalidInput(
                f"Missing required equality field column '{name}' in table schema {', '.join(tops)}",
                hint="key-columns names its columns.",
            )
    return check_equality_ids(schema, [i for n, i in tops.items() if n in names])


def _stored_name(name: str, columns: Iterable[str]) -> str:
    """Find the one column that a name means where case does not count; the name itself where there
    is none, or more than one.
    """
    alike = [c for c in columns if c.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else name


def check_partitions(metadata: TableMetadata, spec_id: int, ids: Sequence[int]) -> None:
    """Check that the keys determine the partition, without which an equality delete cannot find the
    row in its old partition.
    """
    if (field := field_of_other_column(metadata.spec_by_id(spec_id), ids)) is not None:
        name = metadata.schema().find_column_name(field.source_id) or field.name
        raise InvalidInput(
            f"upsert-strategy=equality-deletes: the partition field {field.name} is made of {name}, which is no key column, so a row "
            "that moves to another partition would stay in the old one as well.",
            hint="upsert-strategy=lookup moves rows between partitions; or add the column to key-columns.",
            table=metadata.location,
        )


# Values
# ----------------------------------------------------------------------------------------------------------------------------------


def _names(label: str, value: Any, single: bool = False) -> tuple[str, ...]:
    parts = (
        [p.strip() for p in value.split(",")]
        if isinstance(value, str)
        else list(value)
        if isinstance(value, Sequence)
        else [value]
    )
    if not parts or not all(isinstance(p, str) and p for p in parts) or (single and len(parts) > 1):
        wanted = (
            "the name of a column"
            if single
            else "a list of column names, or names with commas between them"
        )
        raise InvalidInput(f"{label} is {wanted}, not {value!r}.")
    return tuple(parts)


def _choice(label: str, value: Any, choices: Sequence[str]) -> str:
    text = str(value).strip().lower()
    if text not in choices:
        raise InvalidInput(f"{label} must be one of {', '.join(choices)}, not {value!r}.")
    return text


def _number(label: str, value: Any) -> int:
    try:
        number = int(str(value))
    except ValueError:
        number = 0
    if number < 1:
        raise InvalidInput(f"{label} must be a whole number above 0, not {value!r}.")
    return number
