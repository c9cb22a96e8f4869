"""Keep views behind a REST server: load them, send the updates that lead from one state to the
next, and let the server do the rest.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import msgspec

from frazil.catalog import metadata_files
from frazil.catalog.backend import ViewBackend
from frazil.catalog.base import (
    Conflict,
    Identifier,
    Identifiers,
    LoadedView,
    Unclear,
    Unknown,
    ViewOutcome,
    check_identifier,
)
from frazil.catalog.names import full_name
from frazil.catalog.rest.errors import certain, raised
from frazil.catalog.rest.http import Answer
from frazil.catalog.rest.namespaces import RestNamespaces, TableNames, decoded, named, names_within
from frazil.codec import json_nouns
from frazil.codec.view_json import decode_view, version_to_json
from frazil.errors import (
    CorruptData,
    FrazilError,
    InvalidInput,
    NoSuchNamespaceError,
    NoSuchViewError,
    ViewAlreadyExistsError,
)
from frazil.spec.updates import LAST_ADDED
from frazil.spec.view import ViewMetadata
from frazil.storage import absolute

_VIEW = "namespaces/{}/views/{}"


class _LoadViewResult(msgspec.Struct, rename="kebab"):
    metadata: msgspec.Raw
    metadata_location: str


class RestViews(RestNamespaces):
    """Create, commit and drop views on the server; a part of RestBackend."""

    @property
    def views(self) -> ViewBackend:
        return self

    def _view_path(self, identifier: Identifier) -> str:
        namespace = self.routes.namespace(check_identifier(identifier)[:-1])
        return self.routes.path("namespaces", namespace, "views", quote(identifier[-1], safe=""))

    def _view_answer(self, answer: Answer, identifier: Identifier) -> Answer:
        name = f"{self.name}.{full_name(identifier)}"
        error = answer.error
        if error is not None and error.status == 409 and error.type != "CommitFailedException":
            raise ViewAlreadyExistsError(
                f"Table or view already exists: {name} ({error}).", view=name
            )
        if error is not None and error.status == 404 and error.type in ("", "NoSuchViewException"):
            raise NoSuchViewError(f"View does not exist: {name} ({error}).", view=name)
        return self._checked(answer, f"View {name}", view=name)

    def _loaded_view(self, identifier: Identifier, answer: Answer) -> LoadedView:
        body = decoded(answer, _LoadViewResult, "view")
        return LoadedView(
            tuple(identifier),
            body.metadata_location,
            decode_view(bytes(body.metadata), file=body.metadata_location),
        )

    def load_view(self, identifier: Identifier) -> LoadedView:
        path = self._view_path(identifier)
        self.routes.check(f"GET {_VIEW}", "load views")
        return self._loaded_view(
            identifier, self._view_answer(self.client.request("GET", path), identifier)
        )

    def view_exists(self, identifier: Identifier) -> bool:
        path, head = self._view_path(identifier), self.routes.lists(f"HEAD {_VIEW}")
        self.routes.check(f"GET {_VIEW}", "load views")
        answer = self.client.request("HEAD" if head else "GET", path)
        if answer.status == 404:
            return False
        self._view_answer(answer, identifier)
        return True

    def _is_view(self, identifier: Identifier) -> bool:
        """Tell whether a name is a view's, where the server says that it keeps views."""
        return self.routes.lists(f"GET {_VIEW}") and self.view_exists(identifier)

    def create_view(self, identifier: Identifier, metadata: ViewMetadata) -> ViewOutcome:
        self.routes.check("POST namespaces/{}/views", "create views")
        key = check_identifier(identifier)
        self._check_namespace(key[:-1])  # Java's server creates views in any
        body = {
            "name": key[-1],
            "schema": json_nouns.schema_to_json(metadata.schema()),
            "view-version": version_to_json(metadata.current_version()),
            "properties": metadata.properties,
            **({"location": metadata.location} if metadata.location else {}),
        }
        answer = self._change(
            "POST", self.routes.path("namespaces", self.routes.namespace(key[:-1]), "views"), body
        )
        if isinstance(answer, Unknown):
            return answer
        error = answer.error
        if error is not None and error.status == 409:
            return Conflict(str(error))
        return self._outcome(key, answer)

    def swap_view(self, base: LoadedView, metadata: ViewMetadata) -> ViewOutcome:
        self.routes.check(f"POST {_VIEW}", "change views")
        body = {
            "identifier": named(base.identifier),
            "requirements": [{"type": "assert-view-uuid", "uuid": base.metadata.view_uuid}],
            "updates": view_updates(base.metadata, metadata),
        }
        answer = self._change("POST", self._view_path(base.identifier), body)
        if isinstance(answer, Unknown):
            return answer
        if answer.status in (404, 409):
            return Conflict(str(answer.error))
        return self._outcome(base.identifier, answer)

    def _change(self, method: str, path: str, body: dict[str, Any]) -> Answer | Unknown:
        try:
            return self.client.request(method, path, body=body)
        except Unclear as error:
            return Unknown(error)

    def _outcome(self, identifier: Identifier, answer: Answer) -> ViewOutcome:
        """Decide what an answer to a commit means, as for tables: an error of the server leaves it
        open whether the view was changed.
        """
        if answer.error is not None and not certain(answer.status):
            return Unknown(
                raised(answer.error, f"Commit to view {self.name}.{full_name(identifier)}")
            )
        self._view_answer(answer, identifier)
        try:
            return self._loaded_view(identifier, answer)
        except FrazilError as error:
            return Unknown(error)  # applied, as the status says, but what came of it must be loaded

    def drop_view(self, identifier: Identifier) -> None:
        self.routes.check(f"DELETE {_VIEW}", "drop views")
        self._view_answer(self.client.request("DELETE", self._view_path(identifier)), identifier)

    def rename_view(self, source: Identifier, target: Identifier) -> None:
        self.routes.check("POST views/rename", "rename views")
        body = {"source": named(source), "destination": named(target)}
        answer = self.client.request("POST", self.routes.path("views", "rename"), body=body)
        error = answer.error
        if error is not None and error.type == "NoSuchNamespaceException":
            where = full_name(target[:-1])
            raise NoSuchNamespaceError(
                f"Namespace does not exist: {where} ({error}).", namespace=where
            )
        self._view_answer(answer, target if answer.status == 409 else source)

    def register_view(self, identifier: Identifier, metadata_location: str) -> LoadedView:
        self.routes.check("POST namespaces/{}/register-view", "register views")
        location, key = absolute(metadata_location), check_identifier(identifier)
        if not metadata_files.is_metadata_file(location):
            raise InvalidInput(
                f"{location} is no metadata file: its name ends in .metadata.json.", file=location
            )
        path = self.routes.path("namespaces", self.routes.namespace(key[:-1]), "register-view")
        answer = self.client.request(
            "POST", path, body={"name": key[-1], "metadata-location": location}
        )
        return self._loaded_view(key, self._view_answer(answer, key))

    def list_views(self, namespace: Identifier) -> Identifiers:
        self.routes.check("GET namespaces/{}/views", "list views")
        pages = self._pages(
            self._namespace_path(namespace, "views"), TableNames, {}, tuple(namespace)
        )
        return names_within(pages, namespace)


def view_updates(base: ViewMetadata, metadata: ViewMetadata) -> list[dict[str, Any]]:
    """Return the updates that lead from one state of a view to a later one, as JSON: at most one
    schema and one version are new.

    What is new is named as the last added, since the server may give it another id beside a change
    of somebody else.
    """
    updates: list[dict[str, Any]] = []
    if set_to := {k: v for k, v in metadata.properties.items() if base.properties.get(k) != v}:
        updates.append({"action": "set-properties", "updates": set_to})
    if removals := sorted(base.properties.keys() - metadata.properties.keys()):
        updates.append({"action": "remove-properties", "removals": removals})
    schema_ids, version_ids = (
        {s.schema_id for s in base.schemas},
        {v.version_id for v in base.versions},
    )
    schemas = [s for s in metadata.schemas if s.schema_id not in schema_ids]
    versions = [v for v in metadata.versions if v.version_id not in version_ids]
    if len(schemas) > 1 or len(versions) > 1:
        raise CorruptData("A change of a view adds one schema and one version at most.")
    for schema in schemas:
        updates.append(
            {
                "action": "add-schema",
                "schema": json_nouns.schema_to_json(schema),
                "last-column-id": schema.highest_field_id,
            }
        )
    for version in versions:
        added = {
            **version_to_json(version),
            "schema-id": LAST_ADDED if schemas else version.schema_id,
        }
        updates.append({"action": "add-view-version", "view-version": added})
    if metadata.current_version_id != base.current_version_id:
        current = LAST_ADDED if versions else metadata.current_version_id
        updates.append({"action": "set-current-view-version", "view-version-id": current})
    return updates
