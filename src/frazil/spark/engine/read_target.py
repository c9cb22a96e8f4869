"""Read `format("iceberg").load(…)`: check its options, find the table, metadata table, changelog,
snapshot or range of appends, and in a prepared session read it as a DataFrame on Spark's own
Parquet scan.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from frazil.catalog import CatalogBackend, LoadedTable
from frazil.catalog.backend import planner_of, reporter_of
from frazil.errors import InvalidInput, Unsupported
from frazil.ops.find_table import FoundTable, find_table
from frazil.ops.reading import ChangelogReading, RowsReading
from frazil.ops.session import Session
from frazil.scan import options as scan
from frazil.scan.changelog_range import ChangelogRange
from frazil.scan.inspect import metadata_table
from frazil.scan.snapshot_ref import CHANGES, tagged_snapshot_id, to_milliseconds
from frazil.spark.engine.engine import engine_on
from frazil.spark.host.settings import session_zone
from frazil.spark.read.view_refresh import follow
from frazil.spec.metadata import TableMetadata
from frazil.spec.options import BOOLEAN, INTEGER, TEXT, Option, OptionTable, ValueKind

Finds = Callable[[str, Mapping[str, Any]], FoundTable]
"""Find the table of a name or location in a session, with the properties that options give."""
_CATALOG = "catalog."
_VERSION = ValueKind(str, "text")
_HOSTS = "Spark chooses the hosts of its tasks; set spark.locality.wait"
_SELECTORS = (
    Option("snapshot-id", INTEGER, None, "snapshot_id", "The snapshot with this id is read.", "the current snapshot"),
    Option("as-of-timestamp", INTEGER, None, "as_of",
        "The snapshot that was current at this time is read; the time is in milliseconds since 1970.", "the current snapshot"),
    Option("versionAsOf", _VERSION, None, "version",
        "The snapshot with this id, or of this branch or tag, is read.", "the current snapshot"),
    Option("timestampAsOf", _VERSION, None, "as_of",
        "The snapshot that was current at this time is read; the time is ISO text, or in seconds since 1970.", "the current snapshot"),
    Option("branch", TEXT, None, "branch", "This branch is read. A changelog takes the option as well.", "main"),
    Option("tag", TEXT, None, "tag", "The snapshot of this tag is read.", "the current snapshot"),
)  # fmt: skip
_START = "The rows are read that append snapshots added after this one; in a changelog, the changes after it."
_END = "They are read up to this snapshot, which is included."
_RANGE = (
    Option("start-snapshot-id", INTEGER, None, "start", _START, "the whole snapshot is read; in a changelog all changes"),
    Option("end-snapshot-id", INTEGER, None, "end", _END, "the current snapshot"),
    Option("start-timestamp", INTEGER, None, "start_ms",
        "The changes after this time are read, in milliseconds since 1970. Only changelogs take the option.", "the first change"),
    Option("end-timestamp", INTEGER, None, "end_ms",
        "The changes up to this time are read, in milliseconds since 1970. Only changelogs take the option.", "the last change"),
)  # fmt: skip
_TAGS = (
    Option("start-tag", TEXT, None, "start_tag", "This is `start-snapshot-id` by a tag.", "with `end-tag`: the first snapshot"),
    Option("end-tag", TEXT, None, "end_tag", "This is `end-snapshot-id` by a tag.", "the current snapshot"),
)  # fmt: skip
_STREAMS = "it belongs to streams"
OPTIONS = OptionTable("read option", (
    *scan.OPTIONS.options, *_SELECTORS, *_RANGE, *_TAGS, scan.VECTORIZATION,
    Option("locality", BOOLEAN, False, fixed=True, why=_HOSTS, text="Spark chooses the hosts of its tasks, so `true` is refused."),
), {
    **dict.fromkeys(("stream-from-timestamp", "streaming-*", "async-*"), _STREAMS),
    **dict.fromkeys(("file-scan-task-set-id", "scan-task-set-id"), "it belongs to Java's compaction"),
    "batch-size": "set spark.sql.parquet.columnarReaderBatchSize",
}, (Option("catalog.<key>", TEXT, None, text="This is a property of the catalog, for sessions that are not prepared."),))  # fmt: skip
STATE_OPTIONS = tuple(o.name.lower() for o in (*_SELECTORS, *_RANGE))
"""The read options that choose which rows a table shows."""


@dataclass(frozen=True)
class ReadRequest:
    """Hold the checked options of a read. `selectors`: keyword arguments of
    `scan.snapshot_ref.resolve`; `start` and `end`: snapshot ids; `start_tag` and `end_tag`: tags in
    their place; `start_ms` and `end_ms`: times of a changelog, in milliseconds since 1970."""

    path: str
    selectors: Mapping[str, Any] = field(default_factory=dict)
    start: int | None = None
    end: int | None = None
    start_ms: int | None = None
    end_ms: int | None = None
    split: Mapping[str, str] = field(default_factory=dict)
    catalog: Mapping[str, str] = field(default_factory=dict)
    start_tag: str | None = None
    end_tag: str | None = None

    @property
    def is_range(self) -> bool:
        """Tell whether the rows that were appended between two snapshots are asked for."""
        return any(bound is not None for bound in (self.start, self.start_tag, self.end_tag))

    def with_ids(self, metadata: TableMetadata) -> ReadRequest:
        """Put the ids of snapshots in the place of tags. Raises NoSuchRefError, and InvalidInput
        for a branch.
        """
        start = (
            self.start
            if self.start_tag is None
            else tagged_snapshot_id(metadata, self.start_tag, "start-tag")
        )
        end = (
            self.end
            if self.end_tag is None
            else tagged_snapshot_id(metadata, self.end_tag, "end-tag")
        )
        return replace(self, start=start, end=end)


@dataclass(frozen=True)
class ReadTarget:
    """Hold a request and the table that it asks for.

    `metadata_table`: its name (`changes` for a changelog), None for the table's rows. `backend`:
    the catalog that has the table; None: the table was read from one metadata file.
    """

    name: str
    loaded: LoadedTable
    request: ReadRequest
    metadata_table: str | None = None
    selectors: Mapping[str, Any] = field(default_factory=dict)
    backend: CatalogBackend | None = field(default=None, repr=False, compare=False)

    @property
    def is_changelog(self) -> bool:
        """Return whether the changelog is asked for."""
        return self.metadata_table == CHANGES

    def reading(self) -> RowsReading:
        """Return the reading of the table's rows: of one snapshot, or those appended between two."""
        loaded, request = self.loaded, self.request
        appends = (request.start, request.end) if request.is_range else None
        reporter, planner = (
            reporter_of(self.backend, loaded.identifier),
            planner_of(self.backend, loaded),
        )
        return RowsReading(
            loaded.metadata,
            loaded.storage,
            self.selectors,
            appends,
            options=request.split,
            reporter=reporter,
            planner=planner,
        )

    def changelog(self) -> ChangelogReading:
        """Return the reading of the changelog: the rows that the chosen snapshots inserted and
        deleted.
        """
        request = self.request
        chosen = ChangelogRange(
            request.start,
            request.end,
            request.start_ms,
            request.end_ms,
            request.selectors.get("branch"),
        )
        return ChangelogReading(
            self.loaded.metadata, self.loaded.storage, chosen, options=request.split
        )

    def metadata_rows(self) -> pa.Table:
        """Return the rows of the metadata table that is asked for."""
        assert self.metadata_table is not None
        loaded = self.loaded
        snapshot = self.reading().snapshot_and_schema()[0] if self.selectors else None
        return metadata_table(
            self.metadata_table,
            loaded.metadata,
            loaded.storage,
            metadata_location=loaded.metadata_location,
            snapshot_id=snapshot.snapshot_id if snapshot else None,
        )


def named_table(options: Mapping[str, Any]) -> tuple[ReadRequest, dict[str, Any]]:
    """Split the options of `format("iceberg")` into the table that they name, with the properties
    of its catalog, and the others. Raises InvalidInput where they name none.
    """
    names = {str(k): str(k).lower() for k in options}
    path = next((str(v) for k, v in options.items() if v and names[str(k)] == "path"), "")
    if not path:
        raise InvalidInput(
            'format("iceberg") needs a table: load("db.events") or load("/path/to/events").'
        )
    catalog = {
        k[len(_CATALOG) :]: str(options[k]) for k, n in names.items() if n.startswith(_CATALOG)
    }
    rest = {k: options[k] for k, n in names.items() if n != "path" and not n.startswith(_CATALOG)}
    return ReadRequest(path, catalog=catalog), rest


def read_request(options: Mapping[str, Any], zone: str = "UTC") -> ReadRequest:
    """Check the options of `format("iceberg")`. `zone`: of times without an offset.

    Raises InvalidInput for unknown and contradictory options, Unsupported for options of Java
    Iceberg that Frazil does not serve.
    """
    request, rest = named_table(options)
    values = OPTIONS.read(rest)
    for tag, *others in (
        ("start-tag", "start-snapshot-id", "start-timestamp"),
        ("end-tag", "end-snapshot-id", "end-timestamp"),
    ):
        if tag in values and (other := next((o for o in others if o in values), None)):
            raise InvalidInput(
                f"Read options {tag!r} and {other!r} both say where an incremental read {tag.removesuffix('-tag')}s.",
                hint="Give one of them.",
            )
    request = replace(
        request,
        selectors=_selectors(values, zone),
        split={name: str(values[name]) for name in scan.SPLIT_OPTIONS if name in values},
        **{o.field: values[o.name] for o in (*_RANGE, *_TAGS) if o.name in values},
    )
    if re.split(r"[.#,]", request.path.lower())[-1] != CHANGES:
        _check_rows(request)
    return request


def _selectors(values: Mapping[str, Any], zone: str) -> dict[str, int | str]:
    """Return the keyword arguments of `resolve` that options give. As in Spark, a number as
    `timestampAsOf` counts seconds; a text without an offset is in `zone`.
    """
    if "as-of-timestamp" in values and "timestampAsOf" in values:
        raise InvalidInput(
            "Cannot use as-of-timestamp and timestampAsOf together: each selects a snapshot."
        )
    selectors = {o.field: values[o.name] for o in _SELECTORS if o.name in values}
    if (time := values.get("timestampAsOf")) is not None:
        seconds = time.lstrip("+-").isdigit()
        selectors["as_of"] = int(time) * 1000 if seconds else to_milliseconds(time, zone)
    return selectors


def _check_rows(request: ReadRequest) -> None:
    """Refuse options that only a changelog takes, and ranges that contradict each other. Raises
    Unsupported and InvalidInput.
    """
    if request.start_ms is not None or request.end_ms is not None:
        key = "end-timestamp" if request.start_ms is None else "start-timestamp"
        raise Unsupported(
            f"Read option {key!r} is not supported here: it belongs to changelogs, as in load('db.events.changes')."
        )
    if request.start is None and request.start_tag is None and request.end is not None:
        raise InvalidInput(
            "Cannot set only end-snapshot-id for incremental scans. Please, set start-snapshot-id too."
        )
    if request.is_range and request.selectors:
        names = (
            "start-snapshot-id and end-snapshot-id"
            if request.start is not None
            else "start-tag and end-tag"
        )
        text = (
            f"Cannot set {names} for incremental scans when {', '.join(request.selectors)} is set."
        )
        raise InvalidInput(text)


def locate(request: ReadRequest, spark_conf: Mapping[str, str]) -> ReadTarget:
    """Load the table of a request. `spark_conf`: the session's catalog settings, empty where there
    is no session.

    Raises NoSuchTableError, and InvalidInput for selectors that contradict each other.
    """
    return target_of(find_table(request.path, request.catalog, spark_conf), request)


def target_of(
    found: FoundTable, request: ReadRequest, selectors: Mapping[str, Any] | None = None
) -> ReadTarget:
    """Join a request with the table that was found and the suffixes of its name. `selectors`: of
    the snapshot; default: the request's. Raises InvalidInput where options contradict suffixes.
    """
    selectors = request.selectors if selectors is None else selectors
    follows = set(selectors) == {"branch"} and [t.lower() for t in found.suffixes] == [CHANGES]
    chosen = found.selected({} if follows else selectors)
    if chosen.view != CHANGES:
        _check_rows(request)
        if chosen.view is not None and request.is_range:
            raise InvalidInput(
                f"The metadata table {chosen.view} has no incremental reads.", table=found.place
            )
        if chosen.view is not None and (split := list(request.split)):
            text = f"Read option {split[0]!r} means nothing to the metadata table {chosen.view}, which is read as a whole."
            raise InvalidInput(text, hint="Leave it out.", table=found.place)
    return ReadTarget(
        found.place,
        found.loaded,
        request.with_ids(found.loaded.metadata),
        chosen.view,
        chosen.selectors,
        found.backend,
    )


def load(spark: Session, options: Mapping[str, Any], find: Finds) -> DataFrame:
    """Return the DataFrame that read options ask for; options have the names of Java Iceberg.
    Raises as `read_request`, `find` and `target_of` do.
    """
    request = read_request(options, session_zone(spark))
    return frame_of(spark, target_of(find(request.path, request.catalog), request))


def frame_of(spark: Session, target: ReadTarget) -> DataFrame:
    """Return a DataFrame of a target: a metadata table is small and read at once, the table's rows
    and its changelog are read lazily.
    """
    engine = engine_on(spark)
    if target.is_changelog:
        return engine.read_changelog(target.changelog())
    if target.metadata_table is not None:
        frame = engine.shown(target.metadata_rows())
        if not target.reading().may_follow:
            return frame
        reread = lambda metadata, storage: engine.shown(
            replace(
                target, loaded=replace(target.loaded, metadata=metadata, storage=storage)
            ).metadata_rows()
        )
        followed: DataFrame = follow(spark, frame, target.loaded.metadata, reread)
        return followed
    return engine.read(target.reading())
