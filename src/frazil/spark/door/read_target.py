"""Resolve `format("iceberg").load(…)`: check its options and find the table, metadata table,
changelog, snapshot or range of appends.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from frazil.catalog import CatalogBackend, LoadedTable
from frazil.catalog.backend import planner_of, reporter_of
from frazil.errors import InvalidInput, Unsupported
from frazil.ops.named import FoundTable, find_table
from frazil.ops.reading import RowsReading
from frazil.ops.reading_changelog import ChangelogReading
from frazil.scan.changelog_range import ChangelogRange
from frazil.scan.inspect import metadata_table
from frazil.scan.options import SPLIT_OPTIONS
from frazil.scan.read_hints import VECTORIZATION, VECTORIZED, ReadHint, check_hints
from frazil.scan.snapshot_ref import selector_options, tagged_snapshot_id
from frazil.scan.suffixes import CHANGES
from frazil.spec.metadata import TableMetadata

_SELECTORS = ("snapshot-id", "as-of-timestamp", "branch", "tag", "versionasof", "timestampasof")
_TAGS = ("start-tag", "end-tag")
_RANGE = ("start-snapshot-id", "end-snapshot-id", "start-timestamp", "end-timestamp")
STATE_OPTIONS = (*_SELECTORS, *_RANGE)
"""The read options that choose which rows a table shows."""
_HINTS = {
    VECTORIZATION: VECTORIZED, "aggregate-push-down-enabled": ReadHint(False, "Spark computes aggregates from the rows"),
    "locality": ReadHint(False, "Spark chooses the hosts of its tasks; set spark.locality.wait"),
}  # fmt: skip
_REFUSED = {
    "stream-from-timestamp": "it belongs to streams", "file-scan-task-set-id": "it belongs to Java's compaction",
    "scan-task-set-id": "it belongs to Java's compaction", "batch-size": "set spark.sql.parquet.columnarReaderBatchSize",
}  # fmt: skip
_KNOWN = (*_SELECTORS, *_RANGE, *_TAGS, *_HINTS, *SPLIT_OPTIONS)
_CATALOG = "catalog."


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


def read_request(options: Mapping[str, Any], zone: str = "UTC") -> ReadRequest:
    """Check the options of `format("iceberg")`, whose names may be in any case and with `_` for
    `-`. `zone`: of times without an offset.

    Raises InvalidInput for unknown and contradictory options, Unsupported for options of Java
    Iceberg that Frazil does not serve.
    """
    by_name = _by_name(options)
    path = by_name.pop("path", "")
    if not path:
        raise InvalidInput(
            'format("iceberg") needs a table: load("db.events") or load("/path/to/events").'
        )
    catalog = {
        str(k)[len(_CATALOG) :]: str(v)
        for k, v in options.items()
        if str(k).lower().startswith(_CATALOG)
    }
    for key in by_name:
        if reason := _REFUSED.get(key) or (
            "it belongs to streams" if key.startswith(("streaming-", "async-")) else None
        ):
            raise Unsupported(f"Read option {key!r} is not supported here: {reason}.")
        if not key.startswith(_CATALOG) and key not in _KNOWN:
            names = ", ".join(sorted((*_KNOWN, "catalog.<key>")))
            near = difflib.get_close_matches(key, _KNOWN, 1, 0.8)
            raise InvalidInput(
                f"Unknown read option {key!r}.{f' Did you mean {near[0]!r}?' if near else ''}",
                hint=f"Known: {names}.",
            )
    check_hints(by_name, _HINTS)
    selectors = selector_options({k: v for k, v in by_name.items() if k in _SELECTORS}, zone)
    split = {k: v for k, v in by_name.items() if k in SPLIT_OPTIONS}
    start, end, start_ms, end_ms = (_number(by_name, k) for k in _RANGE)
    for tag, *others in (
        ("start-tag", "start-snapshot-id", "start-timestamp"),
        ("end-tag", "end-snapshot-id", "end-timestamp"),
    ):
        if (
            tag in by_name
            and (other := next((o for o in others if o in by_name), None)) is not None
        ):
            text = f"Read options {tag!r} and {other!r} both say where an incremental read {'starts' if tag == 'start-tag' else 'ends'}."
            raise InvalidInput(text, hint="Give one of them.")
    request = ReadRequest(
        path,
        selectors,
        start,
        end,
        start_ms,
        end_ms,
        split,
        catalog,
        *(by_name.get(tag) for tag in _TAGS),
    )
    if re.split(r"[.#,]", path.lower())[-1] != CHANGES:
        _check_rows(request)
    return request


def _by_name(options: Mapping[str, Any]) -> dict[str, str]:
    """Return options by their names in lower case with dashes. Raises InvalidInput for an option
    with two different values.
    """
    by_name: dict[str, str] = {}
    for key, value in options.items():
        name = str(key).lower().replace("_", "-")
        if (
            value is not None
            and by_name.setdefault(name, str(value)) != str(value)
            and not name.startswith(_CATALOG)
        ):
            raise InvalidInput(
                f"Read option {name!r} is given twice, as {by_name[name]!r} and as {str(value)!r}.",
                hint="Give it once.",
            )
    return by_name


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


def _number(options: Mapping[str, str], key: str) -> int | None:
    """Return the whole number of an option, None where it is not given. Raises InvalidInput for
    another text.
    """
    if (text := options.get(key)) is None:
        return None
    if not text.strip().lstrip("+-").isdigit():
        raise InvalidInput(f"Option {key} takes a whole number, not {text!r}.")
    return int(text)


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
        if chosen.view is not None and (split := [k for k in SPLIT_OPTIONS if k in request.split]):
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
