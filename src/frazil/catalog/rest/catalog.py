"""Keep tables in a REST catalog: load them with one request, commit updates and requirements with
one, let the server do the rest.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec

from frazil.catalog import metadata_files
from frazil.catalog.backend import ScanPlanner
from frazil.catalog.base import (
    Committed,
    Conflict,
    Identifier,
    LoadedTable,
    Outcome,
    OutcomeTogether,
    Swap,
    Unclear,
    Unknown,
    check_identifier,
    shown,
)
from frazil.catalog.names import full_name
from frazil.catalog.own_files import check_gc, told_by
from frazil.catalog.reporting import Reporting
from frazil.catalog.reports import MetricsReporter, Report, request_of
from frazil.catalog.rest.errors import certain, raised
from frazil.catalog.rest.http import Answer, Client
from frazil.catalog.rest.namespaces import decoded, named
from frazil.catalog.rest.options import SCAN_PLANNING
from frazil.catalog.rest.planning import ServerPlanner
from frazil.catalog.rest.routes import Routes, routes
from frazil.catalog.rest.settings import settings, told_settings
from frazil.catalog.rest.signer import TableSigner, signing_endpoint
from frazil.catalog.rest.vended import (
    SIGNING,
    StorageCredential,
    TableCredentials,
    holds_secrets,
    holds_token,
    storage_of_prefixes,
    vended,
)
from frazil.catalog.rest.views import RestViews
from frazil.codec import json_nouns
from frazil.codec.json_updates import requirement_to_json, update_to_json
from frazil.codec.metadata_json import decode_metadata
from frazil.errors import (
    CorruptData,
    FrazilError,
    InvalidInput,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import METADATA_PREVIOUS_VERSIONS, STORED_IN_NEW_TABLES
from frazil.spec.snapshot import Snapshots, SnapshotsLater
from frazil.spec.updates import Requirement, SetLocation, Update
from frazil.storage import (
    Credentials,
    RoutedStorage,
    Storage,
    absolute,
    asks_catalog,
    catalog_properties,
    routed,
    storages_by_prefix,
)
from frazil.storage.credentials.parties import marks
from frazil.storage.credentials.precedence import overriding
from frazil.storage.objects.object_options import s3_endpoint

_KEPT = 32
_METRICS = "POST namespaces/{}/tables/{}/metrics"
# what Java's server adds to a staged table's properties without being configured so
_STAMPS = {
    "created-at",
    *STORED_IN_NEW_TABLES,
}


class _LoadTableResult(msgspec.Struct, rename="kebab"):
    metadata: msgspec.Raw
    metadata_location: str | None = None
    config: dict[str, str] | None = None
    storage_credentials: list[StorageCredential] | None = None


class _Vended(msgspec.Struct, rename="kebab"):
    storage_credentials: list[StorageCredential]


class RestBackend(RestViews):
    """Keep tables behind a REST server. Properties: `uri` is the server's address; see
    docs/catalogs.md for the others.

    Nothing is asked before the first call. Loads are remembered by the ETag that the server gives,
    so that a table that has not changed is not sent again. It may be pickled: the copy asks with
    connections of its own.
    """

    kind, writes_metadata_files = "rest", False

    def __init__(self, name: str, properties: Mapping[str, str]):
        self.name, self.properties = name, dict(properties)
        self.client = Client(settings(self.properties))
        self.reporting = Reporting(name, self.properties, self._reporter_to_server)
        self._lock = threading.Lock()
        self._routes: Routes | None = None
        self._kept: OrderedDict[Identifier, tuple[str, LoadedTable]] = OrderedDict()
        self._staged: dict[Identifier, LoadedTable] = {}
        # by the token that a table was loaded with
        self._newer_tokens: OrderedDict[str, str] = OrderedDict()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({shown(self.name, self.properties)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return RestBackend, (self.name, self.properties)

    def close(self) -> None:
        self.reporting.close()
        self.client.close()

    def _reporter_to_server(self, identifier: Identifier) -> MetricsReporter | None:
        """Return the reporter that sends the metrics reports of a table to the server, None where
        the server takes none. The server is not asked before the report is sent."""
        if not self.client.settings.reports_metrics or (
            self._routes is not None and not self._routes.serves(_METRICS)
        ):
            return None
        return partial(self._report, identifier)

    def _report(self, identifier: Identifier, report: Report) -> None:
        if self.routes.serves(_METRICS) and self.client.settings.reports_metrics:
            self._table_answer(
                self.client.request(
                    "POST", f"{self.routes.table(identifier)}/metrics", body=request_of(report)
                ),
                identifier,
            )

    @property
    def routes(self) -> Routes:
        """Return the server's configuration, for which it is asked once."""
        with self._lock:
            if self._routes is None:
                server_routes = routes(self.client, self.properties)
                self.client.change(told_settings(self.properties, server_routes.properties))
                self.client.key_lifetime_s = server_routes.key_lifetime_s
                self._routes = server_routes
            return self._routes

    # --- tables

    def _table_answer(self, answer: Answer, identifier: Identifier) -> Answer:
        name = f"{self.name}.{full_name(identifier)}"
        return self._checked(answer, f"Table {name}", table=name)

    def load(self, identifier: Identifier) -> LoadedTable:
        key = check_identifier(identifier)
        path = self.routes.table(key)
        with self._lock:
            cached, mode = self._kept.get(key), self.client.settings.snapshots
        answer = self.client.request(
            "GET",
            path,
            query={"snapshots": mode},
            headers={"If-None-Match": cached[0]} if cached else None,
        )
        if answer.status == 304 and cached is not None:
            return cached[1]
        if answer.status == 404:
            with self._lock:
                self._kept.pop(key, None)
            raise self._no_table(key, answer)
        table = self._loaded(key, self._table_answer(answer, key))
        if mode == "refs":
            table = self._with_others_later(table)
        # Credentials without an expiry time would be used for as long as the server finds the table
        # unchanged.
        if (etag := answer.headers.get("ETag")) and not self._holds_lasting_secrets(table.storage):
            with self._lock:
                self._kept[key] = (etag, table)
                self._kept.move_to_end(key)
                if len(self._kept) > _KEPT:
                    self._kept.popitem(last=False)
        return table

    def _holds_lasting_secrets(self, storage: Storage) -> bool:
        """Tell whether a table came with credentials without an expiry time."""
        own = self.routes.properties.items()
        lasting = (
            dict(catalog_properties(s)).items() - own
            for s in storages_by_prefix(storage)
            if not asks_catalog(s)
        )
        return any(holds_secrets(Credentials(dict(from_server))) for from_server in lasting)

    def _with_others_later(self, table: LoadedTable) -> LoadedTable:
        """Let a table that was loaded with the snapshots of its refs load the others when they are
        needed.
        """
        state = replace(table.metadata, snapshots=Snapshots())
        later = SnapshotsLater(
            table.metadata.snapshots,
            partial(self.all_snapshots, table.identifier, state, table.metadata.snapshots),
        )
        return replace(table, metadata=replace(table.metadata, snapshots=later))

    def all_snapshots(
        self, identifier: Identifier, state: TableMetadata, known_snapshots: Snapshots
    ) -> Snapshots:
        """Load all snapshots that a table had in the state `state`, which it may have left
        meanwhile.

        `known_snapshots`: those that were loaded before.
        """
        answer = self.client.request(
            "GET", self.routes.table(identifier), query={"snapshots": "all"}
        )
        current = self._loaded(identifier, self._table_answer(answer, identifier)).metadata
        if current.table_uuid != state.table_uuid:
            name = f"{self.name}.{full_name(identifier)}"
            raise NoSuchTableError(
                f"Table {name} was replaced by another one since it was loaded.",
                hint="Load it again.",
                table=name,
            )
        snapshots = current.snapshots
        if (
            current.last_updated_ms != state.last_updated_ms
            or current.last_sequence_number != state.last_sequence_number
        ):
            last_number, last_updated_ms = state.last_sequence_number, state.last_updated_ms
            newer = (
                s.snapshot_id
                for s in snapshots
                if (
                    (s.sequence_number or 0) > last_number
                    if current.format_version > 1
                    else s.timestamp_ms > last_updated_ms
                )
            )
            snapshots = snapshots.without(set(newer) - set(known_snapshots.ids))
        listed = set(snapshots.ids)
        for snapshot in known_snapshots:  # those that have expired meanwhile are kept
            snapshots = snapshots if snapshot.snapshot_id in listed else snapshots.adding(snapshot)
        return snapshots

    def _no_table(self, identifier: Identifier, answer: Answer) -> NoSuchTableError:
        name = f"{self.name}.{full_name(identifier)}"
        with contextlib.suppress(FrazilError):
            if self._is_view(identifier):
                hint = f"load_view({full_name(identifier)!r}) loads it."
                return NoSuchTableError(f"{name} is a view, not a table.", hint=hint, table=name)
        return NoSuchTableError(f"Table does not exist: {name} ({answer.error}).", table=name)

    def _loaded(
        self, identifier: Identifier, answer: Answer, *, staged: bool = False
    ) -> LoadedTable:
        body = decoded(answer, _LoadTableResult, "table")
        location, name = body.metadata_location, f"{self.name}.{full_name(identifier)}"
        if not staged and not location:
            text = f"The catalog's server answers {answer.request_line} without the metadata location of table {name}."
            raise CorruptData(text, table=name)
        try:
            metadata = metadata_files.entering(
                decode_metadata(bytes(body.metadata), file=location or name), location or ""
            )
        except FrazilError as error:
            error.advise(f"The catalog's server answered {answer.request_line} so.")
            raise
        storage = self._storage(
            identifier, metadata.location, body.config or {}, body.storage_credentials or []
        )
        config = {
            **self.properties,
            SCAN_PLANNING.name: self.client.settings.planning,
            **(body.config or {}),
        }
        return LoadedTable(
            identifier, location or "", metadata, storage, config, told_by(self.properties)
        )

    def planner(self, table: LoadedTable) -> ScanPlanner | None:
        """Return the planner that asks the server to plan scans of a table; None where Frazil plans
        them by the manifests.
        """
        return (
            None
            if table.config.get(SCAN_PLANNING.name, "client").strip().lower() == "client"
            else ServerPlanner(self, table)
        )

    def storage_of_plan(
        self, table: LoadedTable, credentials: Sequence[StorageCredential], plan_id: str | None
    ) -> Storage:
        """Return the storage that reads the files of a server's plan by the credentials that came
        with it.
        """
        from_server = {k: v for k, v in table.config.items() if self.properties.get(k) != v}
        return self._storage(
            table.identifier, table.metadata.location, from_server, credentials, plan_id
        )

    def _storage(
        self,
        identifier: Identifier,
        location: str,
        config: Mapping[str, str],
        storage_credentials: Sequence[StorageCredential],
        plan_id: str | None = None,
    ) -> Storage:
        reached_by = partial(self._reached_by, identifier, config, plan_id)
        return storage_of_prefixes(location, config, storage_credentials, reached_by)

    def _reached_by(
        self,
        identifier: Identifier,
        config: Mapping[str, str],
        plan_id: str | None,
        place: str,
        credentials: Credentials,
    ) -> RoutedStorage:
        """Return the storage that reaches the files of a table below a place by the credentials
        that the server gives for it.
        """
        credentials = self._marked(credentials)
        properties = {
            k: v
            for k, v in overriding(self.routes.properties, credentials.properties).items()
            if k not in SIGNING
        }
        own_properties = tuple(sorted(self.properties.items()))
        endpoint = self._signing_endpoint(identifier, {**config, **credentials.properties})
        if endpoint is not None:
            signer = TableSigner(
                self.name,
                own_properties,
                identifier,
                client_of,
                newest_signing_endpoint,
                endpoint,
                self.token_of(config),
            )
            return routed(properties, signer=signer)
        if credentials.expires_ms is None or not holds_secrets(credentials):
            return routed(properties, ends=holds_token(properties, self.properties))
        return routed(
            properties,
            TableCredentials(
                self.name, own_properties, identifier, place, ask_credentials, credentials, plan_id
            ),
        )

    def _marked(self, credentials: Credentials) -> Credentials:
        """Mark what the server alone names and gives among a store's properties, so that no secret
        of the catalog's own goes there.
        """
        # an endpoint of the environment is the catalog's own, too
        own = {
            **self.properties,
            "s3.endpoint": s3_endpoint(self.properties) or "",
        }
        from_server = {**self.routes.from_server, **credentials.properties}
        together = overriding(self.routes.properties, credentials.properties)
        return replace(
            credentials, properties={**credentials.properties, **marks(together, own, from_server)}
        )

    def _signing_endpoint(self, identifier: Identifier, config: Mapping[str, str]) -> str | None:
        """Return where requests for a table's files are signed; None where keys are used."""
        path = (
            f"{self.routes.table(identifier)}/sign"
            if self.routes.lists("POST namespaces/{}/tables/{}/sign")
            else None
        )
        return signing_endpoint(config, self.properties, self.client.settings.uri, path)

    def newest_signing_endpoint(self, identifier: Identifier) -> tuple[str, str | None] | None:
        """Load a table again to learn where requests for its files are signed now, and by which
        token of its own.
        """
        answer = self.client.request(
            "GET", self.routes.table(identifier), query={"snapshots": "refs"}
        )
        if answer.error is not None:
            return None
        config = decoded(answer, _LoadTableResult, "table").config or {}
        endpoint = self._signing_endpoint(identifier, config)
        return None if endpoint is None else (endpoint, self.token_of(config))

    def credentials(
        self, identifier: Identifier, location: str, plan_id: str | None = None
    ) -> Credentials:
        """Ask for new credentials for a table's files, or for those of a plan."""
        key = check_identifier(identifier)
        path = self.routes.table(key)
        if self.routes.lists("GET namespaces/{}/tables/{}/credentials"):
            query = {"planId": plan_id} if plan_id else None
            answer = self._table_answer(
                self.client.request("GET", f"{path}/credentials", query=query), key
            )
            return self._marked(
                vended(location, {}, decoded(answer, _Vended, "credentials").storage_credentials)
            )
        body = decoded(
            self._table_answer(self.client.request("GET", path, query={"snapshots": "refs"}), key),
            _LoadTableResult,
            "table",
        )
        return self._marked(vended(location, body.config or {}, body.storage_credentials or []))

    def table_exists(self, identifier: Identifier) -> bool:
        key = check_identifier(identifier)
        path = self.routes.table(key)
        head = self.routes.lists("HEAD namespaces/{}/tables/{}")
        answer = self.client.request(
            "HEAD" if head else "GET", path, query=None if head else {"snapshots": "refs"}
        )
        if answer.status == 404:
            return False
        self._table_answer(answer, key)
        return True

    def stage_create(self, identifier: Identifier, metadata: TableMetadata) -> LoadedTable:
        key = check_identifier(identifier)
        body = {
            "name": key[-1],
            "schema": json_nouns.schema_to_json(metadata.schema()),
            "partition-spec": json_nouns.spec_to_json(metadata.spec()),
            "write-order": json_nouns.sort_order_to_json(metadata.sort_order()),
            "stage-create": True,
            "properties": {**metadata.properties, "format-version": str(metadata.format_version)},
            **({"location": metadata.location} if metadata.location else {}),
        }
        self._check_namespace(key[:-1])  # Java's server stages tables in any
        path = self.routes.path("namespaces", self.routes.namespace(key[:-1]), "tables")
        answer = self.client.request("POST", path, body=body)
        staged = self._loaded(key, self._table_answer(answer, key), staged=True)
        # The server may give ids of its own to columns; those that files are written with are sent
        # with the creation.
        server_properties = {
            k: v for k, v in staged.metadata.properties.items() if k not in _STAMPS
        }
        staged_metadata = replace(
            metadata,
            location=staged.metadata.location,
            table_uuid=staged.metadata.table_uuid or metadata.table_uuid,
            properties={**server_properties, **metadata.properties},
        )
        created = self._staged[key] = replace(
            staged, metadata_location="", metadata=staged_metadata
        )
        while len(self._staged) > _KEPT:
            self._staged.pop(next(iter(self._staged)), None)
        return created

    def create(
        self,
        identifier: Identifier,
        metadata: TableMetadata,
        *,
        updates: Sequence[Update] = (),
        requirements: Sequence[Requirement] = (),
    ) -> Outcome:
        key = check_identifier(identifier)
        _check_metadata_files(metadata)
        self._check_namespace(key[:-1])
        if not metadata.location:
            place = self.stage_create(key, metadata)
            updates = (*updates, SetLocation(place.metadata.location))
        return self._committed(key, None, updates, requirements)

    def swap(
        self,
        base: LoadedTable,
        metadata: TableMetadata,
        *,
        updates: Sequence[Update] = (),
        requirements: Sequence[Requirement] = (),
    ) -> Outcome:
        _check_metadata_files(metadata)
        return self._committed(base.identifier, base, updates, requirements)

    def _committed(
        self,
        identifier: Identifier,
        base: LoadedTable | None,
        updates: Sequence[Update],
        requirements: Sequence[Requirement],
    ) -> Outcome:
        body = _change(identifier, updates, requirements)
        try:
            answer = self.ask_for_table(
                "POST",
                self.routes.table(identifier),
                identifier,
                base.config if base else {},
                body=body,
            )
        except Unclear as error:
            return Unknown(error)
        if answer.error is not None:
            return self._refused(answer, identifier, base)
        try:
            table = self._loaded(identifier, answer)
        except FrazilError as error:
            return Unknown(error)  # applied, as the status says, but what came of it must be loaded
        if base is None:
            # answers to commits tell nothing of credentials, so those that the table was staged
            # with are kept
            base = self._staged.pop(identifier, None)
        if base is None or base.metadata.location != table.metadata.location:
            return Committed(table)
        return Committed(replace(table, storage=base.storage, config=base.config))

    def swap_together(self, swaps: Sequence[Swap]) -> OutcomeTogether:
        self.routes.check("POST transactions/commit", "commit to several tables at once")
        if not swaps:
            return ()
        for swap in swaps:
            _check_metadata_files(swap.metadata)
        changes = [_change(swap.base.identifier, swap.updates, swap.requirements) for swap in swaps]
        try:
            answer = self.client.request(
                "POST", self.routes.path("transactions", "commit"), body={"table-changes": changes}
            )
        except Unclear as error:
            return Unknown(error)
        if answer.error is not None:
            return self._refused_together(answer, swaps)
        try:
            return tuple(
                Committed(
                    replace(
                        self.load(s.base.identifier), storage=s.base.storage, config=s.base.config
                    )
                )
                for s in swaps
            )
        except FrazilError as error:
            return Unknown(error)  # applied, as the status says, but what came of it must be loaded

    def token_of(self, config: Mapping[str, str]) -> str | None:
        """Return the token that the server has given with a table, or since then in its place, if
        it is one for that table alone.
        """
        token = config.get("token")
        if token == self.properties.get("token"):
            return None
        return self._newer_tokens.get(token or "", token)

    def ask_for_table(
        self,
        method: str,
        path: str,
        identifier: Identifier,
        config: Mapping[str, str],
        *,
        body: object = None,
        repeatable: bool = False,
    ) -> Answer:
        """Call the server by the token that it has given for a table alone, if any. Where it is
        refused (401, 419), the table is loaded again for a new one, by which the call is made once
        more."""
        token = self.token_of(config)
        answer = self.client.request(method, path, body=body, bearer=token, repeatable=repeatable)
        if (
            token is None
            or answer.status not in (401, 419)
            or (newer := self.renewed_token(identifier, config, token)) is None
        ):
            return answer
        return self.client.request(method, path, body=body, bearer=newer, repeatable=repeatable)

    def renewed_token(
        self, identifier: Identifier, config: Mapping[str, str], refused: str
    ) -> str | None:
        """Load a table again for a new token in place of one that was refused; None where there is
        no other.
        """
        answer = self.client.request(
            "GET", self.routes.table(identifier), query={"snapshots": "refs"}
        )
        newer: str | None = (
            None
            if answer.error is not None
            else (decoded(answer, _LoadTableResult, "table").config or {}).get("token")
        )
        if newer is None or newer in (refused, self.properties.get("token")):
            return None
        with self._lock:
            self._newer_tokens[config["token"]] = newer
            while len(self._newer_tokens) > _KEPT:
                self._newer_tokens.popitem(last=False)
        return newer

    def _refused(
        self, answer: Answer, identifier: Identifier, base: LoadedTable | None
    ) -> Conflict | Unknown:
        """Decide what an answer to a commit that reports an error means for it."""
        assert answer.error is not None
        name = f"{self.name}.{full_name(identifier)}"
        error = raised(answer.error, f"Commit to table {name}", table=name)
        if not certain(answer.status):
            return Unknown(error)
        if answer.status == 409 or (answer.status == 404 and base is not None):
            return Conflict(str(answer.error))
        if answer.status in (400, 422) and base is not None:
            # What another commit has changed meanwhile can break a rule of the format, for example
            # a sequence number that is taken.
            try:
                if _differs(self.load(identifier).metadata, base.metadata):
                    return Conflict(str(answer.error))
            except NoSuchTableError:
                return Conflict(str(answer.error))
        raise error

    def _refused_together(self, answer: Answer, swaps: Sequence[Swap]) -> Conflict | Unknown:
        """Decide what a refusal of a commit to several tables means: Conflict or Unknown where it
        means that for one of them.
        """
        errors: list[FrazilError] = []
        for swap in swaps:
            try:
                return self._refused(answer, swap.base.identifier, swap.base)
            except FrazilError as error:
                errors.append(error)
        raise errors[0]

    def drop_table(self, identifier: Identifier, purge: bool = False) -> tuple[str, ...]:
        """Drop a table. `purge`: the server deletes its files, and does not report which of them
        stay. Not every server heeds gc.enabled.
        """
        key = check_identifier(identifier)
        if purge:
            check_gc(self.load(key).metadata, f"{self.name}.{full_name(key)}")
        query = {"purgeRequested": "true" if purge else "false"}
        answer = self.client.request("DELETE", self.routes.table(key), query=query)
        with self._lock:
            self._kept.pop(key, None)
        self._table_answer(answer, key)
        return ()

    def rename_table(self, source: Identifier, target: Identifier) -> None:
        self.routes.check("POST tables/rename", "rename tables")
        body = {"source": named(source), "destination": named(target)}
        answer = self.client.request("POST", self.routes.path("tables", "rename"), body=body)
        with self._lock:
            self._kept.pop(tuple(source), None)
        error = answer.error
        if error is not None and error.status == 409:
            raise TableAlreadyExistsError(
                f"Table already exists: {self.name}.{full_name(target)} ({error}).",
                table=full_name(target),
            )
        if (
            error is not None
            and error.type == "NoSuchNamespaceException"
            and self.table_exists(source)
        ):
            where = full_name(target[:-1])
            raise NoSuchNamespaceError(
                f"Namespace does not exist: {where} ({error}).", namespace=where
            )
        self._table_answer(answer, source)

    def register_table(
        self, identifier: Identifier, metadata_location: str, overwrite: bool = False
    ) -> LoadedTable:
        self.routes.check("POST namespaces/{}/register", "register tables")
        location = absolute(metadata_location)
        if not metadata_files.is_metadata_file(location):
            raise InvalidInput(
                f"{location} is no metadata file: its name ends in .metadata.json.", file=location
            )
        key = check_identifier(identifier)
        body = {
            "name": key[-1],
            "metadata-location": location,
            **({"overwrite": True} if overwrite else {}),
        }
        answer = self.client.request(
            "POST",
            self.routes.path("namespaces", self.routes.namespace(key[:-1]), "register"),
            body=body,
        )
        return self._loaded(key, self._table_answer(answer, key))


def _change(
    identifier: Identifier, updates: Sequence[Update], requirements: Sequence[Requirement]
) -> dict[str, Any]:
    """Return the body of a request that commits to a table."""
    return {
        "identifier": named(identifier),
        "requirements": [requirement_to_json(r) for r in requirements],
        "updates": [update_to_json(u) for u in updates],
    }


def _differs(now: TableMetadata, base: TableMetadata) -> bool:
    """Tell whether a table has changed in what rules of the format depend on. Its metadata location
    does not tell that: some servers give another one with each answer; nor do its properties, to
    which some servers add the state of the whole catalog."""
    return replace(now, properties={}, metadata_log=()) != replace(
        base, properties={}, metadata_log=()
    )


def _check_metadata_files(metadata: TableMetadata) -> None:
    """Check the properties by which the server writes metadata files, since not every server does.
    Raises ValidationError.
    """
    metadata_files.wants_gzip(metadata)
    METADATA_PREVIOUS_VERSIONS.of(metadata.properties)


@functools.lru_cache(maxsize=16)
def _opened(name: str, properties: tuple[tuple[str, str], ...]) -> RestBackend:
    return RestBackend(name, dict(properties))


def client_of(name: str, properties: tuple[tuple[str, str], ...]) -> Client:
    """Return the client of a catalog's server, in whatever process it is needed."""
    backend = _opened(name, properties)
    _ = backend.routes  # the server's configuration counts
    return backend.client


def newest_signing_endpoint(
    name: str, properties: tuple[tuple[str, str], ...], identifier: Identifier
) -> tuple[str, str | None] | None:
    """Ask a catalog's server where it signs requests for a table now, and by which token of the
    table's own.
    """
    return _opened(name, properties).newest_signing_endpoint(identifier)


def ask_credentials(
    name: str,
    properties: tuple[tuple[str, str], ...],
    identifier: Identifier,
    location: str,
    plan_id: str | None = None,
) -> Credentials:
    """Ask a catalog's server for new credentials, in whatever process they are needed."""
    return _opened(name, properties).credentials(identifier, location, plan_id)
