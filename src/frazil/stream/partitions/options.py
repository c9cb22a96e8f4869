"""Parse the options of partition commit, by Flink's names and with Flink's defaults; options that are not honoured are refused by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from frazil.catalog.hive import ACCESS_PROPERTIES
from frazil.errors import InvalidInput, Unsupported
from frazil.spec.kinds import DURATION, size_in_bytes
from frazil.stream.partitions.zones import zone_of

PROCESS_TIME, PARTITION_TIME, IDLE = TRIGGERS = ("process-time", "partition-time", "idle")
SUCCESS_FILE, TAG, PROPERTY, MERGE, CUSTOM, METASTORE = POLICIES = ("success-file", "tag", "property", "merge", "custom", "metastore")
_COMMIT, _EXTRACTOR = "sink.partition-commit.", "partition.time-extractor."
_KNOWN = (
    *(_COMMIT + n for n in ("trigger", "delay", "watermark-time-zone", "success-file.name", "end-input")),
    *(_COMMIT + "policy." + n for n in ("kind", "class", "class.parameters")),
    *(_EXTRACTOR + n for n in ("kind", "class", "timestamp-pattern", "timestamp-formatter", "on-unparsable")),
    *(_COMMIT + "metastore." + n for n in ("uri", "table", *ACCESS_PROPERTIES)),
    "partition.default-name", "watermark-column", "watermark-delay", "compaction.file-size",
)  # fmt: skip
_NEED_POLICIES = ("partition.default-name", "watermark-column", "watermark-delay")
_REFUSED = {
    "sink.rolling-policy.file-size": "A file's size is chosen by target-file-size-bytes.",
    "sink.rolling-policy.rollover-interval": "Every micro-batch closes its files: choose the query's trigger interval.",
    "sink.rolling-policy.inactivity-interval": "Every micro-batch closes its files: choose the query's trigger interval.",
    "sink.rolling-policy.check-interval": "Every micro-batch closes its files: choose the query's trigger interval.",
    "compaction.parallelism": "The policy merge works in the driver's process.",
    "sink.shuffle-by-partition.enable": "Rows are shuffled by partition with distribution-mode=hash.",
    "sink.parallelism": "Tasks are as many as the frame has partitions: call repartition on it.",
    "partition.idle-time-to-done": "Give sink.partition-commit.trigger=idle and sink.partition-commit.delay.",
    "partition.time-interval": "Give it as sink.partition-commit.delay.",
    "partition.mark-done-action": "Give sink.partition-commit.policy.kind.",
    "partition.mark-done-action.mode": "Give sink.partition-commit.trigger.",
    "partition.mark-done.recover-from-state": "Leave it out: pending partitions are committed with the data, so a restart knows them.",
    "partition.end-input-to-done": "Give sink.partition-commit.end-input.",
    "partition.timestamp-pattern": "Give it as partition.time-extractor.timestamp-pattern.",
    "partition.timestamp-formatter": "Give it as partition.time-extractor.timestamp-formatter.",
}


@dataclass(frozen=True)
class PartitionCommitOptions:
    """Hold the options of partition commit. `policies`: kinds of policies in the order in which they run; none: no partition commit.

    `custom`: the functions to call where `policies` lists custom. `on_unparsable`: `fail`, or `warn` to leave out partitions whose time
    cannot be determined, with a warning. `merge_target`: bytes of the files that merge makes; None: the table's target file size.
    `metastore_uri`, `metastore_table`: where the policy metastore adds partitions; the table as `database.table`. `metastore_access`: the
    properties of a Hive catalog that tell who asks there.
    """

    policies: tuple[str, ...] = ()
    trigger: str = PROCESS_TIME
    delay_ms: int = 0
    zone: str = "UTC"
    end_input: bool = False
    success_file: str = "_SUCCESS"
    custom: tuple[Callable[[Any], object], ...] = ()
    policy_class: str | None = None
    policy_parameters: tuple[str, ...] = ()
    extractor_class: str | None = None
    timestamp_pattern: str | None = None
    timestamp_formatter: str | None = None
    on_unparsable: str = "fail"
    default_name: str = "__DEFAULT_PARTITION__"
    watermark_column: str | None = None
    watermark_delay_ms: int = 0
    merge_target: int | None = None
    metastore_uri: str | None = None
    metastore_table: str | None = None
    metastore_access: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # a password among them

    @property
    def enabled(self) -> bool:
        return bool(self.policies)

    @property
    def needs_watermark(self) -> bool:
        """Tell whether the streaming query must have a watermark."""
        return self.enabled and self.trigger == PARTITION_TIME and self.watermark_column is None


def _folded(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


_BY_FOLDED = {_folded(n): n for n in (*_KNOWN, *_REFUSED, "auto-compaction")}


def is_partition_option(name: str) -> bool:
    """Tell whether an option belongs to partition commit; `_` is taken for `-` and, since keywords have no dots, for `.`."""
    folded = _folded(name)
    return folded in _BY_FOLDED or folded.startswith(("sink-partition-commit-", "partition-time-extractor-", "sink-rolling-policy-"))


def partition_commit_options(options: Mapping[str, Any], policies: Sequence[Callable[[Any], object]] = ()) -> PartitionCommitOptions:
    """Parse the options of partition commit. `policies`: functions to call where the policy kind lists custom.

    Raises InvalidInput for unknown, wrong or contradictory options, and Unsupported for options of Flink that have no meaning here; both
    name the option and what to write instead.
    """
    option_values = _by_name(options)
    for name, instead in _REFUSED.items():
        if name in option_values:
            raise Unsupported(f"The option {name} is not supported.", hint=instead, option=name)
    if "auto-compaction" in option_values and _flag("auto-compaction", option_values.pop("auto-compaction")):
        raise Unsupported(
            "The option auto-compaction is not supported.", hint="Give sink.partition-commit.policy.kind=merge.", option="auto-compaction"
        )
    take = option_values.get
    kinds = _kinds(take(_COMMIT + "policy.kind"), policies)
    parsed = PartitionCommitOptions(
        policies=kinds,
        trigger=_one_of(_COMMIT + "trigger", take(_COMMIT + "trigger", PROCESS_TIME), TRIGGERS),
        delay_ms=DURATION.parse(_COMMIT + "delay", take(_COMMIT + "delay", "0 s"), option=_COMMIT + "delay"),
        zone=_zone(str(take(_COMMIT + "watermark-time-zone", "UTC"))),
        end_input=_flag(_COMMIT + "end-input", take(_COMMIT + "end-input", False)),
        success_file=_file_name(str(take(_COMMIT + "success-file.name", "_SUCCESS"))),
        custom=tuple(policies),
        policy_class=_text(take(_COMMIT + "policy.class")),
        policy_parameters=tuple(p for p in str(take(_COMMIT + "policy.class.parameters", "")).split(";") if p),
        extractor_class=_text(take(_EXTRACTOR + "class")),
        timestamp_pattern=_text(take(_EXTRACTOR + "timestamp-pattern")),
        timestamp_formatter=_text(take(_EXTRACTOR + "timestamp-formatter")),
        on_unparsable=_one_of(_EXTRACTOR + "on-unparsable", take(_EXTRACTOR + "on-unparsable", "fail"), ("fail", "warn")),
        default_name=str(take("partition.default-name", "__DEFAULT_PARTITION__")),
        watermark_column=_text(take("watermark-column")),
        watermark_delay_ms=DURATION.parse("watermark-delay", take("watermark-delay", "0 s"), option="watermark-delay"),
        merge_target=None if take("compaction.file-size") is None else _size("compaction.file-size", take("compaction.file-size")),
        metastore_uri=_text(take(_COMMIT + "metastore.uri")),
        metastore_table=_text(take(_COMMIT + "metastore.table")),
        metastore_access=tuple((n, str(value)) for n in ACCESS_PROPERTIES if (value := take(f"{_COMMIT}metastore.{n}")) is not None),
    )
    _check(parsed, option_values, str(take(_EXTRACTOR + "kind", "custom" if _EXTRACTOR + "class" in option_values else "default")))
    return parsed


def _by_name(options: Mapping[str, Any]) -> dict[str, Any]:
    option_values: dict[str, Any] = {}
    for key, value in options.items():
        name = _BY_FOLDED.get(_folded(key))
        if name is None:
            raise InvalidInput(f"Unknown option of partition commit: {key}.", hint=f"There are: {', '.join(_KNOWN)}.", option=key)
        if name in option_values:
            raise InvalidInput(f"The option {name} is given twice.", option=name)
        if value is not None:
            option_values[name] = value
    return option_values


def _kinds(value: Any, policies: Sequence[Any]) -> tuple[str, ...]:
    """Parse the list of policies; without one, functions of the caller mean custom."""
    name = _COMMIT + "policy.kind"
    if value is None:
        return (CUSTOM,) if policies else ()
    kinds = tuple(k.strip().lower() for k in (value.split(",") if isinstance(value, str) else value) if k.strip())
    kinds = tuple(MERGE if k == "merge-files" else k for k in kinds)
    for kind in kinds:
        _one_of(name, kind, POLICIES)
    if len(set(kinds)) < len(kinds):
        raise InvalidInput(f"{name} names a policy twice: {', '.join(kinds)}.", option=name)
    return kinds


def _check(options: PartitionCommitOptions, option_values: Mapping[str, Any], extractor_kind: str) -> None:
    """Refuse options that contradict each other or would have no effect."""
    kind = _COMMIT + "policy.kind"
    if not options.policies:
        if useless := [n for n in option_values if n.startswith((_COMMIT, _EXTRACTOR)) or n in _NEED_POLICIES]:
            hint = f"Name the policies, for example {kind}=success-file."
            raise InvalidInput(f"{', '.join(useless)} has no effect without {kind}.", hint=hint, option=kind)
    has_class = options.policy_class is not None
    if CUSTOM in options.policies and has_class == bool(options.custom):
        text = "is given twice, as policies= and as" if has_class else "has nothing to run: neither policies= nor"
        raise InvalidInput(f"The policy custom {text} {_COMMIT}policy.class.", hint="Give one of the two.", option=kind)
    if CUSTOM not in options.policies and (has_class or options.custom):
        name = _COMMIT + "policy.class" if has_class else "policies"
        raise InvalidInput(f"{name} has no effect: {kind} does not list custom.", hint=f"Add custom to {kind}.", option=name)
    if options.policy_parameters and not has_class:
        raise InvalidInput(f"{_COMMIT}policy.class.parameters needs {_COMMIT}policy.class.", option=_COMMIT + "policy.class.parameters")
    if SUCCESS_FILE not in options.policies and _COMMIT + "success-file.name" in option_values:
        raise InvalidInput(f"{_COMMIT}success-file.name has no effect: {kind} does not list success-file.", option=kind)
    if MERGE not in options.policies and options.merge_target is not None:
        raise InvalidInput(f"compaction.file-size has no effect: {kind} does not list merge.", option="compaction.file-size")
    if useless := [n for n in option_values if n.startswith(_COMMIT + "metastore.")]:
        if METASTORE not in options.policies:
            raise InvalidInput(f"{', '.join(useless)} has no effect: {kind} does not list metastore.", option=kind)
    if METASTORE in options.policies and (not options.metastore_uri or "." not in (options.metastore_table or "")):
        text = f"The policy metastore needs {_COMMIT}metastore.uri and {_COMMIT}metastore.table."
        raise InvalidInput(text, hint='As in "thrift://host:9083" and "db.events".', option=_COMMIT + "metastore.uri")
    _check_times(options, option_values, extractor_kind)


def _check_times(options: PartitionCommitOptions, option_values: Mapping[str, Any], extractor_kind: str) -> None:
    _one_of(_EXTRACTOR + "kind", extractor_kind, ("default", "custom"))
    if (extractor_kind == "custom") != (options.extractor_class is not None):
        text = f"{_EXTRACTOR}kind={extractor_kind} {'needs' if options.extractor_class is None else 'contradicts'} {_EXTRACTOR}class."
        raise InvalidInput(text, hint='A class is "module:callable", with kind=custom.', option=_EXTRACTOR + "kind")
    if options.extractor_class and (options.timestamp_pattern or options.timestamp_formatter):
        text = f"{_EXTRACTOR}class contradicts {_EXTRACTOR}timestamp-pattern and timestamp-formatter."
        raise InvalidInput(text, hint="A custom extractor finds the time by itself.", option=_EXTRACTOR + "class")
    if options.watermark_delay_ms and not options.watermark_column:
        raise InvalidInput("watermark-delay needs watermark-column.", hint="The query's own watermark has its delay in withWatermark.")
    if options.enabled and options.trigger != PARTITION_TIME:
        of_time = (_COMMIT + "watermark-time-zone", "watermark-column", *(n for n in _KNOWN if n.startswith(_EXTRACTOR)))
        if useless := [n for n in of_time if n in option_values]:
            text = f"{', '.join(useless)} has no effect with {_COMMIT}trigger={options.trigger}."
            raise InvalidInput(text, hint=f"Give {_COMMIT}trigger={PARTITION_TIME}.", option=useless[0])


def _one_of(name: str, value: Any, choices: Sequence[str]) -> str:
    text = str(value).strip().lower()
    if text not in choices:
        raise InvalidInput(f"{name} must be one of {', '.join(choices)}, not {value!r}.", option=name)
    return text


def _flag(name: str, value: Any) -> bool:
    return _one_of(name, value, ("true", "false")) == "true"


def _text(value: Any) -> str | None:
    return None if value is None or not str(value).strip() else str(value).strip()


def _size(name: str, value: Any) -> int:
    try:
        size = size_in_bytes(str(value))
    except ValueError:
        size = 0
    if size <= 0:
        raise InvalidInput(f"{name} must be a size, not {value!r}.", hint="For example 128MB.", option=name)
    return size


def _zone(zone: str) -> str:
    if zone_of(zone) is None:
        name = _COMMIT + "watermark-time-zone"
        raise InvalidInput(f"{name} must be a time zone, not {zone!r}.", hint="For example UTC or Europe/Berlin.", option=name)
    return zone


def _file_name(file_name: str) -> str:
    if not file_name or "/" in file_name or file_name in (".", ".."):
        name = _COMMIT + "success-file.name"
        raise InvalidInput(f"{name} must be the name of a file, not {file_name!r}.", option=name)
    return file_name
