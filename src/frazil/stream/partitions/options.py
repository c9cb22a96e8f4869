"""Parse the options of partition commit, by Flink's names and with Flink's defaults; options that
are not honoured are refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from frazil.catalog.hive.options import OF_ACCESS
from frazil.errors import InvalidInput, Unsupported
from frazil.spec.options import (
    BOOLEAN,
    DURATION,
    NAMES,
    SIZE,
    TEXT,
    Option,
    OptionTable,
    ValueKind,
    folded,
    matching,
    one_of,
)
from frazil.stream.partitions.callables import loaded
from frazil.stream.partitions.zones import zone_of

PROCESS_TIME, PARTITION_TIME, IDLE = TRIGGERS = ("process-time", "partition-time", "idle")
SUCCESS_FILE, TAG, PROPERTY, MERGE, CUSTOM, METASTORE = POLICIES = (
    "success-file",
    "tag",
    "property",
    "merge",
    "custom",
    "metastore",
)
_COMMIT, _EXTRACTOR = "sink.partition-commit.", "partition.time-extractor."
_NEED_POLICIES = ("partition.default-name", "watermark-column", "watermark-delay")
_REFUSED = {
    "sink.rolling-policy.file-size": "a file's size is chosen by target-file-size-bytes",
    "sink.rolling-policy.rollover-interval": "every micro-batch closes its files: choose the query's trigger interval",
    "sink.rolling-policy.inactivity-interval": "every micro-batch closes its files: choose the query's trigger interval",
    "sink.rolling-policy.check-interval": "every micro-batch closes its files: choose the query's trigger interval",
    "compaction.parallelism": "the policy merge works in the driver's process",
    "sink.shuffle-by-partition.enable": "rows are shuffled by partition with distribution-mode=hash",
    "sink.parallelism": "tasks are as many as the frame has partitions: call repartition on it",
    "partition.idle-time-to-done": "give sink.partition-commit.trigger=idle and sink.partition-commit.delay",
    "partition.time-interval": "give it as sink.partition-commit.delay",
    "partition.mark-done-action": "give sink.partition-commit.policy.kind",
    "partition.mark-done-action.mode": "give sink.partition-commit.trigger",
    "partition.mark-done.recover-from-state": "leave it out: pending partitions are committed with the data, so a restart knows them",
    "partition.end-input-to-done": "give sink.partition-commit.end-input",
    "partition.timestamp-pattern": "give it as partition.time-extractor.timestamp-pattern",
    "partition.timestamp-formatter": "give it as partition.time-extractor.timestamp-formatter",
}


@dataclass(frozen=True)
class PartitionCommitOptions:
    """Hold the options of partition commit. `policies`: kinds of policies in the order in which
    they run; none: no partition commit.

    `custom`: the functions to call where `policies` lists custom: the caller's, or that of
    `policy_class`, which is made once. `on_unparsable`: `fail`, or
    `warn` to leave out partitions whose time cannot be determined, with a warning. `merge_target`:
    bytes of the files that merge makes; None: the table's target file size. `metastore_uri`,
    `metastore_table`: where the policy metastore adds partitions; the table as `database.table`.
    `metastore_access`: the properties of a Hive catalog that tell who asks there.
    """

    policies: tuple[str, ...]
    trigger: str
    delay_ms: int
    zone: str
    end_input: bool
    success_file: str
    custom: tuple[Callable[[Any], object], ...]
    policy_class: str | None
    policy_parameters: tuple[str, ...]
    extractor_class: str | None
    timestamp_pattern: str | None
    timestamp_formatter: str | None
    on_unparsable: str
    default_name: str
    watermark_column: str | None
    watermark_delay_ms: int
    merge_target: int | None
    metastore_uri: str | None
    metastore_table: str | None
    metastore_access: tuple[tuple[str, str], ...] = field(repr=False)  # a password among them

    @property
    def enabled(self) -> bool:
        return bool(self.policies)

    @property
    def needs_watermark(self) -> bool:
        """Tell whether the streaming query must have a watermark."""
        return self.enabled and self.trigger == PARTITION_TIME and self.watermark_column is None


def _kinds(given: object) -> tuple[str, ...]:
    words = given.split(",") if isinstance(given, str) else NAMES.read(given) if given else ()
    kinds = (word.strip().lower() for word in words if word.strip())
    return tuple(one_of(*POLICIES).read(MERGE if kind == "merge-files" else kind) for kind in kinds)


def _stripped(given: object) -> str | None:
    return str(given).strip() or None


def _zone(given: object) -> str:
    if zone_of(zone := TEXT.read(given)) is None:
        raise ValueError(zone)
    return zone


def _parameters(given: object) -> tuple[str, ...]:
    return tuple(p for p in given.split(";") if p) if isinstance(given, str) else NAMES.read(given)


_KINDS = ValueKind(
    _kinds, f"one of {', '.join(POLICIES)}, or several with commas between them", as_given=True
)
_TEXT = ValueKind(_stripped, "text")
_ZONE = ValueKind(_zone, "a time zone such as UTC or Europe/Berlin", as_given=True)
_FILE_NAME = matching(r"(?!\.{1,2}$)[^/]+", "the name of a file", str, as_given=True)
_PARAMETERS = ValueKind(_parameters, "texts with ; between them, or a list of texts", as_given=True)
_EXTRACTOR_KIND = Option(f"{_EXTRACTOR}kind", one_of("default", "custom"), None,
    text="The time of a partition is found by Frazil, or by `partition.time-extractor.class`.", otherwise="as the class is given or not",
    origin="Flink")  # fmt: skip
OPTIONS = OptionTable("option of partition commit", (
    Option(f"{_COMMIT}policy.kind", _KINDS, (), "policies",
        "These policies announce a partition, in this order and with commas between them, see [below](#what-policies).",
        "there is no partition commit", origin="Flink"),
    Option(f"{_COMMIT}trigger", one_of(*TRIGGERS), PROCESS_TIME, "trigger",
        "This trigger decides when a partition is complete, see [below](#when-triggers).", origin="Flink"),
    Option(f"{_COMMIT}delay", DURATION, 0, "delay_ms", "The trigger waits for this time.", origin="Flink"),
    Option(f"{_COMMIT}end-input", BOOLEAN, False, "end_input",
        "`true`: all remaining partitions are committed when bounded input ends.", origin="Frazil"),
    Option(f"{_COMMIT}watermark-time-zone", _ZONE, "UTC", "zone", "Local times of partitions are in this zone.", origin="Flink"),
    Option("watermark-column", _TEXT, None, "watermark_column",
        "The watermark is the newest value of this column in the committed files.", "the watermark of the query", origin="Frazil"),
    Option("watermark-delay", DURATION, 0, "watermark_delay_ms",
        "The watermark of the column is earlier than its newest value by this time.", origin="Frazil"),
    _EXTRACTOR_KIND,
    Option(f"{_EXTRACTOR}class", _TEXT, None, "extractor_class",
        "This callable (`module:callable`) finds the time of a partition, from its keys and values.", origin="Flink"),
    Option(f"{_EXTRACTOR}timestamp-pattern", _TEXT, None, "timestamp_pattern",
        "The time of a partition is this text, in which `$key` stands for the value of a key.", "the first value", origin="Flink"),
    Option(f"{_EXTRACTOR}timestamp-formatter", _TEXT, None, "timestamp_formatter",
        "The text has this form, a pattern of Java's DateTimeFormatter.", "`y-M-d[ H:m:s[.f]]`", origin="Flink"),
    Option(f"{_EXTRACTOR}on-unparsable", one_of("fail", "warn"), "fail", "on_unparsable",
        "This happens to a partition whose time cannot be determined: the batch fails, or a warning is logged and the partition is "
        "never announced.", origin="Frazil"),
    Option(f"{_COMMIT}success-file.name", _FILE_NAME, "_SUCCESS", "success_file",
        "The policy success-file writes a file of this name.", origin="Flink"),
    Option(f"{_COMMIT}policy.class", _TEXT, None, "policy_class",
        "The policy custom calls this (`module:callable`, or a class with a method `commit`).", origin="Flink"),
    Option(f"{_COMMIT}policy.class.parameters", _PARAMETERS, (), "policy_parameters",
        "The class of the policy custom is made with these texts, which have `;` between them.", origin="Flink"),
    Option("compaction.file-size", SIZE, None, "merge_target", "The policy merge makes files of about this size.",
        "the table's target file size", origin="Flink"),
    Option("partition.default-name", TEXT, "__DEFAULT_PARTITION__", "default_name",
        "Functions get this text for a partition value that is null.", origin="Flink"),
    Option(f"{_COMMIT}metastore.uri", _TEXT, None, "metastore_uri",
        "The policy metastore adds partitions in the Hive Metastore at this address.", origin="Frazil"),
    Option(f"{_COMMIT}metastore.table", _TEXT, None, "metastore_table",
        "The policy metastore adds them to this table, as in `db.events`.", origin="Frazil"),
    *(Option(f"{_COMMIT}metastore.{o.name}", ValueKind(str, "text"), None, secret=True, origin="Frazil",
        text="With these properties of [Hive catalogs](catalogs.md#hive-metastore) the policy asks that metastore.", otherwise="see there")
      for o in OF_ACCESS),
), _REFUSED)  # fmt: skip
_OF_POLICY = {
    SUCCESS_FILE: f"{_COMMIT}success-file.name",
    MERGE: "compaction.file-size",
    METASTORE: f"{_COMMIT}metastore.",
}
"""How the options begin that mean something to one policy only."""
_AUTO_COMPACTION = OptionTable(
    "option of partition commit",
    (Option("auto-compaction", BOOLEAN, False, text="Compaction by the policy merge."),),
)


def is_partition_option(name: str) -> bool:
    """Tell whether an option belongs to partition commit; `_` is taken for `-` and, since keywords
    have no dots, for `.`.
    """
    begins = folded(name).startswith(
        ("sink-partition-commit-", "partition-time-extractor-", "sink-rolling-policy-")
    ) or name.lower().startswith("partition.")
    return begins or OPTIONS.knows(name) or _AUTO_COMPACTION.knows(name)


def partition_commit_options(
    options: Mapping[str, Any], policies: Sequence[Callable[[Any], object]] = ()
) -> PartitionCommitOptions:
    """Parse the options of partition commit. `policies`: functions to call where the policy kind
    lists custom.

    Raises InvalidInput for unknown, wrong or contradictory options, for policies that are not
    functions or cannot be imported, and Unsupported for options of
    Flink that have no meaning here; both name the option and what to write instead.
    """
    automatic = {k: v for k, v in options.items() if _AUTO_COMPACTION.knows(k)}
    if any(_AUTO_COMPACTION.read(automatic).values()):
        hint = "Give sink.partition-commit.policy.kind=merge."
        raise Unsupported(
            "The option auto-compaction is not supported.", hint=hint, option="auto-compaction"
        )
    values = OPTIONS.read({k: v for k, v in options.items() if k not in automatic})
    if not isinstance(policies, Sequence) or not all(callable(p) for p in policies):
        raise InvalidInput(
            f"policies must be a list of functions, not {policies!r}.", option="policies"
        )
    if policies and f"{_COMMIT}policy.kind" not in values:
        kinds: tuple[str, ...] = (CUSTOM,)
    else:
        kinds = values.get(f"{_COMMIT}policy.kind", ())
    if len(set(kinds)) < len(kinds):
        raise InvalidInput(
            f"{_COMMIT}policy.kind names a policy twice: {', '.join(kinds)}.",
            option=f"{_COMMIT}policy.kind",
        )
    access = tuple(
        (o.name, value)
        for o in OF_ACCESS
        if (value := values.get(f"{_COMMIT}metastore.{o.name}")) is not None
    )
    fields = {**OPTIONS.fields(values), "policies": kinds}
    parsed = PartitionCommitOptions(custom=tuple(policies), metastore_access=access, **fields)
    _check(
        parsed,
        values,
        _EXTRACTOR_KIND.of(values) or ("default" if parsed.extractor_class is None else "custom"),
    )
    if parsed.policy_class is None:
        return parsed
    of_class = loaded(
        parsed.policy_class, f"{_COMMIT}policy.class", "commit", parsed.policy_parameters
    )
    return replace(parsed, custom=(of_class,))


def _check(
    options: PartitionCommitOptions, option_values: Mapping[str, Any], extractor_kind: str
) -> None:
    """Refuse options that contradict each other or would have no effect."""
    kind = _COMMIT + "policy.kind"
    if not options.policies:
        if useless := [
            n for n in option_values if n.startswith((_COMMIT, _EXTRACTOR)) or n in _NEED_POLICIES
        ]:
            hint = f"Name the policies, for example {kind}=success-file."
            raise InvalidInput(
                f"{', '.join(useless)} has no effect without {kind}.", hint=hint, option=kind
            )
    has_class = options.policy_class is not None
    if CUSTOM in options.policies and has_class == bool(options.custom):
        text = (
            "is given twice, as policies= and as"
            if has_class
            else "has nothing to run: neither policies= nor"
        )
        raise InvalidInput(
            f"The policy custom {text} {_COMMIT}policy.class.",
            hint="Give one of the two.",
            option=kind,
        )
    if CUSTOM not in options.policies and (has_class or options.custom):
        name = _COMMIT + "policy.class" if has_class else "policies"
        raise InvalidInput(
            f"{name} has no effect: {kind} does not list custom.",
            hint=f"Add custom to {kind}.",
            option=name,
        )
    if options.policy_parameters and not has_class:
        raise InvalidInput(
            f"{_COMMIT}policy.class.parameters needs {_COMMIT}policy.class.",
            option=_COMMIT + "policy.class.parameters",
        )
    for policy, begin in _OF_POLICY.items():
        useless = [n for n in option_values if n.startswith(begin)]
        if useless and policy not in options.policies:
            raise InvalidInput(
                f"{', '.join(useless)} has no effect: {kind} does not list {policy}.", option=kind
            )
    if METASTORE in options.policies and (
        not options.metastore_uri or "." not in (options.metastore_table or "")
    ):
        text = f"The policy metastore needs {_COMMIT}metastore.uri and {_COMMIT}metastore.table."
        raise InvalidInput(
            text,
            hint='As in "thrift://host:9083" and "db.events".',
            option=_COMMIT + "metastore.uri",
        )
    _check_times(options, option_values, extractor_kind)


def _check_times(
    options: PartitionCommitOptions, option_values: Mapping[str, Any], extractor_kind: str
) -> None:
    if (extractor_kind == "custom") != (options.extractor_class is not None):
        text = f"{_EXTRACTOR}kind={extractor_kind} {'needs' if options.extractor_class is None else 'contradicts'} {_EXTRACTOR}class."
        raise InvalidInput(
            text, hint='A class is "module:callable", with kind=custom.', option=_EXTRACTOR + "kind"
        )
    if options.extractor_class and (options.timestamp_pattern or options.timestamp_formatter):
        text = (
            f"{_EXTRACTOR}class contradicts {_EXTRACTOR}timestamp-pattern and timestamp-formatter."
        )
        raise InvalidInput(
            text, hint="A custom extractor finds the time by itself.", option=_EXTRACTOR + "class"
        )
    if options.watermark_delay_ms and not options.watermark_column:
        raise InvalidInput(
            "watermark-delay needs watermark-column.",
            hint="The query's own watermark has its delay in withWatermark.",
        )
    if options.enabled and options.trigger != PARTITION_TIME:
        of_time = (
            _COMMIT + "watermark-time-zone",
            "watermark-column",
            *(n for n in OPTIONS.names if n.startswith(_EXTRACTOR)),
        )
        if useless := [n for n in of_time if n in option_values]:
            text = f"{', '.join(useless)} has no effect with {_COMMIT}trigger={options.trigger}."
            raise InvalidInput(
                text, hint=f"Give {_COMMIT}trigger={PARTITION_TIME}.", option=useless[0]
            )
