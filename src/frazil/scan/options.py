"""Read the options of scan planning and their defaults (table properties read.split.*)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from frazil.errors import InvalidInput
from frazil.spec.properties import SPLIT_ADAPTIVE, SPLIT_LOOKBACK, SPLIT_OPEN_FILE_COST, SPLIT_SIZE, TableProperty

MIN_ADAPTIVE_SPLIT = 16 * 1024 * 1024
SPLIT_OPTIONS = ("split-size", "lookback", "file-open-cost")


@dataclass(frozen=True)
class SplitOptions:
    """Control how files are split and combined: target bytes, bins kept open, the least bytes that a file weighs. `adaptive`: use smaller
    splits when there would be fewer splits than slots."""

    split_size: int = SPLIT_SIZE.default
    lookback: int = SPLIT_LOOKBACK.default
    open_file_cost: int = SPLIT_OPEN_FILE_COST.default
    adaptive: bool = SPLIT_ADAPTIVE.default

    def __post_init__(self) -> None:
        if self.split_size <= 0:
            raise InvalidInput(f"Split size must be > 0: {self.split_size}")
        if self.lookback <= 0:
            raise InvalidInput(f"Split planning lookback must be > 0: {self.lookback}")
        if self.open_file_cost < 0:
            raise InvalidInput(f"File open cost must be >= 0: {self.open_file_cost}")


@dataclass(frozen=True)
class ScanOptions:
    """Hold the options of planning. `workers`: threads that read manifests; `with_stats`: keep counts and bounds in the planned files, so
    that each `DataFile` has them."""

    workers: int = field(default_factory=lambda: default_workers())
    with_stats: bool = False
    split: SplitOptions = SplitOptions()

    @classmethod
    def of(cls, options: Mapping[str, str] | None, properties: Mapping[str, str], *, with_stats: bool = False) -> ScanOptions:
        """Parse read options (Java's names; `_` for `-` is allowed) and table properties. Raises InvalidInput for an unknown option."""
        option_values: dict[str, str] = {}
        for key, value in (options or {}).items():
            name = str(key).lower().replace("_", "-")
            if name not in SPLIT_OPTIONS:
                chosen = "To select a snapshot, use the arguments of scan(): snapshot_id, branch, tag, as_of."
                raise InvalidInput(f"Unknown read option: {name}.", hint=f"Known options: {', '.join(SPLIT_OPTIONS)}. {chosen}")
            if value is not None and option_values.setdefault(name, str(value)) != str(value):
                raise InvalidInput(f"Read option {name} is given twice, as {option_values[name]} and as {value}.")
        return cls(with_stats=with_stats, split=split_options(properties, option_values))


_planning_threads: ContextVar[int | None] = ContextVar("frazil_planning_threads", default=None)


@contextmanager
def planning_threads(count: int | None) -> Iterator[None]:
    """Bound the threads that read manifests in what runs inside; None: as everywhere. An operation that plans in many places, such as a
    stream's source, says it once by this."""
    before = _planning_threads.set(count)
    try:
        yield
    finally:
        _planning_threads.reset(before)


def default_workers() -> int:
    """Return the number of planning threads: that of `planning_threads`, else by Java's rule `ICEBERG_WORKER_NUM_THREADS`, else the number
    of cores, at least 2."""
    if (chosen := _planning_threads.get()) is not None:
        return chosen
    text = os.environ.get("ICEBERG_WORKER_NUM_THREADS", "")
    return max(1, int(text)) if text.isdigit() else max(2, os.cpu_count() or 2)


def workers_are_given() -> bool:
    """Tell whether the number of planning threads was configured."""
    return _planning_threads.get() is not None or os.environ.get("ICEBERG_WORKER_NUM_THREADS", "").isdigit()


def split_options(properties: Mapping[str, str], options: Mapping[str, str] | None = None) -> SplitOptions:
    """Read split options from table properties (read.split.*) and from read options (split-size, lookback, file-open-cost), which win.

    An explicit split-size turns adaptive sizes off, as in Java.
    """
    option_values = {k.lower(): v for k, v in (options or {}).items()}

    def number(option: str, otherwise: TableProperty[int, int]) -> int:
        if option not in option_values:
            return otherwise.of(properties)
        text = str(option_values[option]).strip()
        if not text.lstrip("+-").isdigit():
            raise InvalidInput(f"{option} must be a whole number, not {text!r}.")
        return int(text)

    return SplitOptions(
        number("split-size", SPLIT_SIZE),
        number("lookback", SPLIT_LOOKBACK),
        number("file-open-cost", SPLIT_OPEN_FILE_COST),
        SPLIT_ADAPTIVE.of(properties) and "split-size" not in option_values,
    )


def adjusted_split_size(scan_size: int, parallelism: int, split_size: int) -> int:
    """Adapt the split size as Java does: when there would be fewer splits than slots, splits get smaller, but not below 16 MB."""
    if parallelism <= 0:
        raise InvalidInput(f"Parallelism must be > 0: {parallelism}")
    if -(-scan_size // split_size) >= parallelism:
        return split_size
    return max(scan_size // parallelism, min(MIN_ADAPTIVE_SPLIT, split_size))
