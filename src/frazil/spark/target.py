"""What `format("iceberg").load(x)` means: a table, one of its metadata tables, a snapshot, or the rows appended between two."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from frazil.catalog import CatalogBackend, LoadedTable, load_backend
from frazil.catalog.configuration import DEFAULT_CATALOG, configured_names
from frazil.catalog.path import load_location
from frazil.errors import InvalidInput, NoSuchTableError, Unsupported
from frazil.expr.nodes import Predicate
from frazil.scan.changelog import ChangelogPlan, plan_changes
from frazil.scan.changelog_range import ChangeRange
from frazil.scan.incremental import plan_appends
from frazil.scan.options import SPLIT_OPTIONS, ScanOptions
from frazil.scan.plan import Plan, plan
from frazil.scan.snapshot_ref import resolve, selector_options
from frazil.scan.suffixes import CHANGES, is_suffix, read_suffixes, split_location
from frazil.spec.schema import Schema
from frazil.spec.snapshot import Snapshot

_SELECTORS = ("snapshot-id", "as-of-timestamp", "branch", "tag", "versionasof", "timestampasof")
_RANGE = ("start-snapshot-id", "end-snapshot-id", "start-timestamp", "end-timestamp")
_HINTS = ("vectorization-enabled", "batch-size", "locality", "aggregate-push-down-enabled")  # how rows are read, never which
_REFUSED = {
    "stream-from-timestamp": "it belongs to streams", "file-scan-task-set-id": "it belongs to Java's compaction",
    "scan-task-set-id": "it belongs to Java's compaction",
}  # fmt: skip
_CATALOG = "catalog."


@dataclass(frozen=True)
class ReadRequest:
    """Options of a read, checked. `selectors`: keyword arguments of `scan.snapshot_ref.resolve`; times are those of a changelog."""

    path: str
    selectors: Mapping[str, Any] = field(default_factory=dict)
    start: int | None = None
    end: int | None = None
    start_ms: int | None = None
    end_ms: int | None = None
    split: Mapping[str, str] = field(default_factory=dict)
    catalog: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Target:
    """A request resolved against a table. `metadata_table`: one of the 16, `changes` for its changelog, None for the table's rows."""

    name: str
    loaded: LoadedTable
    request: ReadRequest
    metadata_table: str | None = None
    selectors: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_incremental(self) -> bool:
        return self.request.start is not None

    @property
    def is_changelog(self) -> bool:
        return self.metadata_table == CHANGES

    def plan_changes(self) -> ChangelogPlan:
        """What the changelog's snapshots brought and took away."""
        metadata, request = self.loaded.metadata, self.request
        branch = request.selectors.get("branch")
        chosen = ChangeRange(request.start, request.end, request.start_ms, request.end_ms, branch)
        options = ScanOptions.of(request.split, metadata.properties)
        return plan_changes(metadata, self.loaded.storage, chosen.snapshots(metadata), options=options)

    def snapshot_and_schema(self) -> tuple[Snapshot | None, Schema]:
        if self.is_incremental:
            return None, self.loaded.metadata.schema()
        return resolve(self.loaded.metadata, **self.selectors)

    def plan(self, predicate: Predicate | None = None, *, case_sensitive: bool = True, zone: str = "UTC") -> Plan:
        """Files to read, with the deletes that apply to them."""
        metadata, storage = self.loaded.metadata, self.loaded.storage
        options = ScanOptions.of(self.request.split, metadata.properties)
        if self.is_incremental:
            return plan_appends(
                metadata, storage, from_snapshot_id_exclusive=self.request.start, to_snapshot_id_inclusive=self.request.end,
                row_filter=predicate, case_sensitive=case_sensitive, zone=zone, options=options,
            )  # fmt: skip
        snapshot, schema = self.snapshot_and_schema()
        return plan(
            metadata,
            storage,
            snapshot=snapshot,
            schema=schema,
            row_filter=predicate,
            case_sensitive=case_sensitive,
            zone=zone,
            options=options,
        )


def read_request(options: Mapping[str, Any]) -> ReadRequest:
    """Options of `format("iceberg")`, in any case, `_` for `-`. Raises InvalidInput for unknown and contradictory ones, Unsupported
    for Java's that are not served."""
    given = {str(k).lower().replace("_", "-"): str(v) for k, v in options.items() if v is not None}
    path = given.pop("path", "")
    if not path:
        raise InvalidInput('format("iceberg") needs a table: load("db.events") or load("/path/to/events").')
    catalog = {str(k)[len(_CATALOG) :]: str(v) for k, v in options.items() if str(k).lower().startswith(_CATALOG)}
    for key in given:
        if reason := _REFUSED.get(key) or ("it belongs to streams" if key.startswith(("streaming-", "async-")) else None):
            raise Unsupported(f"Read option {key!r} is not supported here: {reason}.")
        if not key.startswith(_CATALOG) and key not in (*_SELECTORS, *_RANGE, *_HINTS, *SPLIT_OPTIONS):
            known = ", ".join(sorted((*_SELECTORS, *_RANGE, *_HINTS, *SPLIT_OPTIONS, "catalog.<key>")))
            raise InvalidInput(f"Unknown read option {key!r}.", hint=f"Known: {known}.")
    selectors = selector_options({k: v for k, v in given.items() if k in _SELECTORS})
    split = {k: v for k, v in given.items() if k in SPLIT_OPTIONS}
    start, end, start_ms, end_ms = (_number(given, k) for k in _RANGE)
    request = ReadRequest(path, selectors, start, end, start_ms, end_ms, split, catalog)
    if re.split(r"[.#,]", path.lower())[-1] != CHANGES:
        _check_rows(request)
    return request


def _check_rows(request: ReadRequest) -> None:
    """What the rows of a table do not take, and its changelog does."""
    if request.start_ms is not None or request.end_ms is not None:
        key = "end-timestamp" if request.start_ms is None else "start-timestamp"
        raise Unsupported(f"Read option {key!r} is not supported here: it belongs to changelogs, as in load('db.events.changes').")
    if request.start is None and request.end is not None:
        raise InvalidInput("Cannot set only end-snapshot-id for incremental scans. Please, set start-snapshot-id too.")
    if request.start is not None and request.selectors:
        text = f"Cannot set start-snapshot-id and end-snapshot-id for incremental scans when {', '.join(request.selectors)} is set."
        raise InvalidInput(text)


def _number(given: Mapping[str, str], key: str) -> int | None:
    if (text := given.get(key)) is None:
        return None
    if not text.strip().lstrip("+-").isdigit():
        raise InvalidInput(f"Option {key} takes a whole number, not {text!r}.")
    return int(text)


def locate(request: ReadRequest, spark_conf: Mapping[str, str]) -> Target:
    """The table of a request. `spark_conf`: the session's catalog settings (empty where there is no session to ask).

    Raises NoSuchTableError, InvalidInput for selectors that contradict each other.
    """
    if "/" in request.path:
        location, suffixes = split_location(request.path)
        _, loaded = load_location(location, dict(request.catalog))
        return _with_suffixes(Target(location, loaded, request, None, request.selectors), suffixes)
    parts = tuple(request.path.replace("`", "").split("."))
    known = {*configured_names(spark_conf), *([DEFAULT_CATALOG] if len(parts) > 2 else [])}
    catalog = parts[0] if len(parts) > 1 and parts[0] in known else None
    properties: dict[str, Any] = dict(request.catalog)
    backend = load_backend(catalog, spark_conf=spark_conf, **properties)
    rest = parts[1:] if catalog else parts
    if len(rest) < 2 or not all(rest):
        raise InvalidInput(f"{request.path!r} is no table identifier: it has a namespace and a name, as in db.events.")
    try:
        return _in_catalog(backend, rest, request)
    except NoSuchTableError:
        if catalog or len(rest) < 3 or not properties:
            raise
        return _in_catalog(load_backend(rest[0], spark_conf=spark_conf, **properties), rest[1:], request)  # the options are that catalog's


def _in_catalog(backend: CatalogBackend, rest: tuple[str, ...], request: ReadRequest) -> Target:
    """A table, or with the name of a metadata table, branch, … behind it what that means."""
    try:
        return _with_suffixes(Target(request.path, backend.load(rest), request, None, request.selectors), [])
    except NoSuchTableError:
        if len(rest) < 3 or not is_suffix(rest[-1]):
            raise
        return _with_suffixes(Target(request.path, backend.load(rest[:-1]), request, None, request.selectors), [rest[-1]])


def _with_suffixes(target: Target, texts: list[str]) -> Target:
    follows = set(target.selectors) == {"branch"} and [t.lower() for t in texts] == [CHANGES]
    found = read_suffixes(texts, target.name, {} if follows else target.selectors)
    if found.view != CHANGES:
        _check_rows(target.request)
        if found.view is not None and target.request.start is not None:
            raise InvalidInput(f"The metadata table {found.view} has no incremental reads.", table=target.name)
    return Target(target.name, target.loaded, target.request, found.view, found.selectors)
