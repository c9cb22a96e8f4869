"""Define the options of a streaming write, and check them before the query starts: write modes,
keys, order, row kinds, rewinds, and the options of append.

Names are those of Flink and Spark (`write-mode`, `key-columns`, `upsert-strategy`, …). Options that
are not about the stream itself are passed on to the write, which checks them
(`arrow.write.write_options`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from frazil.arrow.deletes.write_deletes import check_equality_ids
from frazil.arrow.write import write_options as write
from frazil.arrow.write.write_options import Verb, is_write_option, write_options
from frazil.commit.done_once import REWINDS
from frazil.errors import InvalidInput, NoSuchRefError, Unsupported
from frazil.spec.metadata import TableMetadata
from frazil.spec.options import (
    NAMES,
    POSITIVE,
    Option,
    OptionTable,
    ValueKind,
    folded,
    matching,
    one_of,
)
from frazil.spec.partitioning import field_of_other_column
from frazil.spec.properties import UPSERT_ENABLED
from frazil.spec.schema import Schema

MODES = ("append", "overwrite", "complete", "upsert", "cdc")
_VERBS: dict[str, Verb] = {
    "append": "append",
    "overwrite": "dynamic_partition_overwrite",
    "complete": "overwrite",
}
LOOKUP, EQUALITY_DELETES = "lookup", "equality-deletes"
STRATEGIES = (LOOKUP, EQUALITY_DELETES)
OP_COLUMNS = ("op", "_change_type", "row_kind")
"""Columns that cdc looks for, in this order, where no option names the one that holds the kind of a
row.
"""
_KEYED = ("upsert", "cdc")
_BY_KEY = "it has no keys"
_SAMPLED = "use distribution-mode=range: Spark samples the rows of each batch"
_PREPARED = "frazil.install(spark) before the stream starts, or t.write_stream(…), takes options of partition commit and upkeep"
_FLINK_TASKS = {
    "rewrite": "maintenance.rewrite", "expire-snapshots": "maintenance.expire", "delete-orphan-files": "maintenance.orphans",
    "convert-equality-deletes": "maintenance.convert",
}  # fmt: skip
_FLINK_TASK_OPTIONS = {  # by Flink's names; those that are not here have the same name, or none
    "enabled": "enabled",
    "schedule.commit-count": "every-commits",
    "schedule.data-file-count": "every-data-files",
    "schedule.data-file-size": "every-data-file-size",
    "schedule.interval-second": "every-interval, a duration such as '600 s'",
    "max-snapshot-age-seconds": "max-snapshot-age, a duration such as '3 d'",
    "min-age-seconds": "min-age, a duration such as '3 d'",
    "retain-last": "retain-last",
    "clean-expired-metadata": "clean-expired-metadata",
    "partial-progress.enabled": "partial-progress.enabled",
    "partial-progress.max-commits": "partial-progress.max-commits",
    "location": "location",
    "prefix-mismatch-mode": "prefix-mismatch-mode",
}
_FLINK_MAINTENANCE = {
    "*rate-limit-seconds": "use maintenance.rate-limit, a duration such as '60 s'",
    **{f"{task}.{word}": f"use {ours}.{option}"
       for task, ours in _FLINK_TASKS.items() for word, option in _FLINK_TASK_OPTIONS.items()},
    **{f"{task}.*": f"use the options {ours}.… (docs/maintenance.md)" for task, ours in _FLINK_TASKS.items()},
    "lock*": "leave it out: a lease in the table keeps its owners apart (maintenance.lease-duration)",
    "*": "use the options maintenance.<task>.… (docs/maintenance.md)",
}  # fmt: skip


def _mode(text: str) -> str:
    if "-" in text:
        raise InvalidInput("copy-on-write and merge-on-read are table properties")
    return one_of(*MODES).read(text)


_MODE = Option(
    "write-mode", ValueKind(_mode, one_of(*MODES).description, choices=MODES), "append", "mode",
    "A batch changes the table in this way, see above.",
    "`append`; `complete` in output mode complete; `upsert` where the table property `write.upsert.enabled` is true and the keys are known "
    "(identifier fields or `key-columns`; otherwise the query is refused)",
    aliases=("mode",), origin="Frazil (Flink: `upsert-enabled`, `overwrite-enabled`)",
)  # fmt: skip
_KEYS = Option(
    "key-columns", NAMES, (), "key_columns",
    "Rows with the same values in these top-level columns are versions of one row: a list, or text with commas between the names. They are "
    "matched by the session's case sensitivity, and have no float, double or nested type. Null is a key like any other.",
    "the identifier fields", _KEYED, _BY_KEY, origin="Flink: equality field columns",
)  # fmt: skip
_TASKS = Option(
    "write-parallelism", POSITIVE, None, "tasks",
    "This many tasks write a batch, each an equal share of the rows (`distribution-mode=none`), in keyed modes all rows of its keys. In "
    "keyed modes it may be combined with `distribution-mode=hash`: then one task writes each partition.",
    "as `append` decides; in keyed modes as many as there are slots, more for large batches", origin="Flink",
)  # fmt: skip
OPTIONS = OptionTable("option of a streaming write", (
    _MODE, _KEYS,
    Option("order-column", matching("[^,]+", "the name of a column", str), None, "order_column",
        "Of several rows of a batch with one key the one with the greatest value in this column is the last; of equal ones the later in "
        "the frame, and null is the least. A later batch replaces an earlier one, whatever its values.",
        "the order of rows in the frame; `_change_ordinal` of an Iceberg changelog", _KEYED, _BY_KEY, origin="Frazil"),
    Option("op-column", matching("[^,]+", "the name of a column", str), None, "op_column",
        "This column has the kinds of rows. It is stored only if the table has it, and so is the order column.",
        "the first of `op`, `_change_type`, `row_kind`", ("cdc",), "its rows have no kinds", origin="Frazil"),
    Option("upsert-strategy", one_of(*STRATEGIES), LOOKUP, "strategy",
        "`lookup` finds the keys in the table and writes position deletes (version 2) or deletion vectors (version 3): reads stay fast, "
        "and rows may move between partitions. `equality-deletes` writes the keys without looking for them: batches are cheapest, and "
        "reads are slower until compaction; the columns of the partitioning must be among the keys.",
        "", _KEYED, _BY_KEY, origin="Frazil (Flink always writes equality deletes)"),
    Option("on-rewind", one_of(*REWINDS), "fail", "on_rewind",
        "This is done when a batch comes before the last one committed, or is another one with its number, as after a checkpoint was "
        "restored from a backup: the query fails, skips the batch with a warning, or rewrites it and goes on from there (while another "
        "driver of the same query is still alive, rows are doubled).", origin="Frazil"),
    Option("max-continuous-empty-commits", POSITIVE, 10, "max_empty",
        "After this many batches in a row without rows, the mark is set without a snapshot.", origin="Flink"),
    _TASKS,
), {
    "upsert-enabled": "use write-mode=upsert", "overwrite-enabled": "use write-mode=overwrite",
    "equality-field-columns": "use key-columns", "flink.max-continuous-empty-commits": "use max-continuous-empty-commits",
    "uid-suffix": "leave it out: each query has an id of its own",
    "table-refresh-interval": "leave it out: every batch loads the table",
    "flink.manifests.location": "leave it out: no manifest is written before the commit",
    "range-distribution-statistics-type": _SAMPLED, "range-distribution-sort-key-base-weight": _SAMPLED,
    **{f"flink-maintenance.{name}": reason for name, reason in _FLINK_MAINTENANCE.items()},
    **dict.fromkeys(("sink.partition-commit.*", "partition.*", "maintenance.*"), _PREPARED),
}, write.OPTIONS.listed)  # fmt: skip
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

    mode: str
    key_columns: tuple[str, ...]
    order_column: str | None
    op_column: str | None
    strategy: str
    on_rewind: str
    max_empty: int
    write: Mapping[str, Any]
    tasks: int | None = None
    makes_branch: bool = False

    @property
    def verb(self) -> Verb:
        return _VERBS.get(self.mode, "merge")

    @property
    def keyed(self) -> bool:
        return self.mode in _KEYED


def sink_options(option_values: Mapping[str, Any], *, mode: str | None = None) -> SinkOptions:
    """Check the options of a streaming write. `mode`: the write mode, if it is given apart from the
    options.

    Raises InvalidInput for values that are not valid and for options that contradict each other,
    and Unsupported for options of other engines that have no meaning here.
    """
    rest = {k: v for k, v in option_values.items() if is_write_option(k) and not OPTIONS.find(k)}
    own = {k: v for k, v in option_values.items() if k not in rest}
    named = named_mode(own)
    if mode is not None:
        mode = _MODE.kind.parse(_MODE.name, mode)
        if named not in (None, mode):
            raise InvalidInput(f"write-mode is given twice, as {mode} and as {named}.")
    chosen = mode or named or _MODE.default
    values = {**OPTIONS.read(own, chosen), _MODE.name: chosen}
    options = SinkOptions(write=rest, **OPTIONS.fields(values))
    if _TASKS.name in values:
        options = _spread(options)
    _check_write(options)
    return options


def named_mode(option_values: Mapping[str, Any]) -> str | None:
    """Find the write mode that the options name; None if they leave the choice to the table."""
    own = {k: v for k, v in option_values.items() if OPTIONS.find(k) is _MODE}
    mode: str | None = OPTIONS.read(own).get(_MODE.name)
    return mode


def mode_of_table(option_values: Mapping[str, Any], metadata: TableMetadata) -> str:
    """Choose the write mode of a stream that names none: append, and upsert where the table
    property write.upsert.enabled is true, as in Flink. Raises InvalidInput where neither the table
    nor the options name the keys of an upsert."""
    if not UPSERT_ENABLED.of(metadata.properties):
        return "append"
    if _KEYS.given(option_values) is None and not metadata.schema().identifier_field_names():
        raise InvalidInput(
            f"The table property {UPSERT_ENABLED.name} is true, and the table has no identifier fields, which would be the keys.",
            hint="Say write-mode=upsert with key-columns, or write-mode=append.",
            table=metadata.location,
        )
    return "upsert"


def _spread(options: SinkOptions) -> SinkOptions:
    """Let each task write an equal share of rows that are written as they are, which a shuffle by
    partition or sort order would distribute anew. Raises InvalidInput for options that ask for such
    a shuffle."""
    if options.keyed:
        return options
    asked = write_options(options.write, options.verb)
    for name in ("distribution_mode", "advisory_partition_size"):
        if asked.asks_for(name) and getattr(asked, name) != "none":
            text = f"Options 'write-parallelism' and {name.replace('_', '-')!r} both say how rows are distributed to tasks."
            raise InvalidInput(text, hint="Give one of them.")
    rest = {k: v for k, v in options.write.items() if folded(k) != "distribution-mode"}
    return replace(options, write={**rest, "distribution-mode": "none"})


def _check_write(options: SinkOptions) -> None:
    """Check the options of the write itself. Raises InvalidInput for those that the mode has no use
    for.
    """
    mode = options.mode
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
# --------------------------------------------------------------------------------------------------


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
    branch = write.OPTIONS.named("branch").given(options.write)
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
