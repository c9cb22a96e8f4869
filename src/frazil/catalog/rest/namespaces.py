"""Manage the namespaces of a REST catalog: list (page by page), create, load, change their
properties, drop.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from frazil.catalog.base import (
    Identifier,
    Identifiers,
    PropertiesUpdateSummary,
    check_identifier,
    check_namespace,
)
from frazil.catalog.names import full_name
from frazil.catalog.options import value
from frazil.catalog.rest.errors import raised
from frazil.catalog.rest.http import MAX_NAMES, Answer, Client
from frazil.catalog.rest.options import PAGE_SIZE
from frazil.catalog.rest.routes import Routes
from frazil.errors import (
    CorruptData,
    FrazilError,
    InvalidInput,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
)

log = logging.getLogger(__name__)
_MAX_PAGES = 100_000
# one after the other without a new name: some servers leave out names that are not to be seen
_MAX_IDLE_PAGES = 100
_MAX_NAMES = 10_000_000
T = TypeVar("T")


class _Namespaces(msgspec.Struct, rename="kebab"):
    namespaces: list[list[str]]
    next_page_token: str | None = None


class _TableName(msgspec.Struct):
    namespace: list[str]
    name: str


class TableNames(msgspec.Struct, rename="kebab"):
    """Hold a page of the names of tables or views."""

    identifiers: list[_TableName]
    next_page_token: str | None = None


class _Properties(msgspec.Struct):
    properties: dict[str, str] | None = None


class _Summary(msgspec.Struct):
    updated: list[str] = []
    removed: list[str] = []
    missing: list[str] | None = None


class RestNamespaces:
    """Create, list and drop namespaces on the server; a part of RestBackend."""

    name: str
    properties: dict[str, str]
    client: Client

    @property
    def routes(self) -> Routes:
        raise NotImplementedError

    def _checked(self, answer: Answer, subject: str, **facts: str) -> Answer:
        """Return the answer, or raise the error that it reports."""
        if answer.error is not None:
            raise raised(answer.error, subject, **facts)
        return answer

    def _namespace_answer(self, answer: Answer, namespace: Identifier) -> Answer:
        return self._checked(
            answer, f"Namespace {self.name}.{full_name(namespace)}", namespace=full_name(namespace)
        )

    def _namespace_path(self, namespace: Identifier, *segments: str) -> str:
        return self.routes.path(
            "namespaces", self.routes.namespace(check_namespace(namespace)), *segments
        )

    def _pages(
        self, path: str, kind: type[T], query: Mapping[str, str], namespace: Identifier
    ) -> Iterator[T]:
        """Yield the pages of a list. Raises CorruptData where page tokens come for ever."""
        size = value(self.routes.properties, PAGE_SIZE)
        page_query = {**query, **({"pageToken": "", "pageSize": str(size)} if size else {})}
        seen: set[str] = set()
        listed, idle = set[tuple[str, ...]](), 0
        for _ in range(_MAX_PAGES):
            answer = self.client.request("GET", path, query=page_query, most=MAX_NAMES)
            self._namespace_answer(answer, namespace) if namespace else self._checked(
                answer, f"Namespaces of {self.name}"
            )
            page: Any = decoded(answer, kind, "list")
            yield page
            token = page.next_page_token
            if not token:
                return
            names = (
                page.namespaces
                if isinstance(page, _Namespaces)
                else ((*n.namespace, n.name) for n in page.identifiers)
            )
            count = len(listed)
            listed |= {tuple(name) for name in names}
            idle = 0 if len(listed) > count else idle + 1
            if token in seen or idle >= _MAX_IDLE_PAGES:
                same = (
                    "the same page again and again"
                    if token in seen
                    else f"{idle} pages without a new name, and more to come"
                )
                raise CorruptData(
                    f"The server of catalog {self.name} gives {same}.",
                    hint="Ask who runs the server.",
                )
            if len(listed) > _MAX_NAMES:
                text = f"The server of catalog {self.name} lists more than {_MAX_NAMES:,} names."
                raise CorruptData(text, hint="Ask who runs the server.")
            seen.add(token)
            page_query = {**page_query, "pageToken": token}
        raise CorruptData(
            f"The server of catalog {self.name} lists more than {_MAX_PAGES} pages.",
            hint="Ask who runs the server.",
        )

    def list_namespaces(self, parent: Identifier = ()) -> Identifiers:
        query = {"parent": self.routes.parent(check_namespace(parent))} if parent else {}
        pages = self._pages(self.routes.path("namespaces"), _Namespaces, query, tuple(parent))
        depth = len(parent) + 1  # some servers list deeper ones, too
        namespaces = sorted(
            {
                tuple(n)
                for page in pages
                for n in page.namespaces
                if len(n) == depth and _is_same(n[:-1], parent)
            }
        )
        if parent and not namespaces:
            self._check_namespace(parent)  # some servers list nothing in one that is not there
        return namespaces

    def list_tables(self, namespace: Identifier) -> Identifiers:
        pages = self._pages(
            self._namespace_path(namespace, "tables"), TableNames, {}, tuple(namespace)
        )
        tables = names_within(pages, namespace)
        if not tables:
            self._check_namespace(namespace)
        return tables

    def namespace_exists(self, namespace: Identifier) -> bool:
        head = self.routes.lists("HEAD namespaces/{}")
        answer = self.client.request("HEAD" if head else "GET", self._namespace_path(namespace))
        if answer.status == 404:
            return False
        self._namespace_answer(answer, namespace)
        return True

    def _check_namespace(self, namespace: Identifier) -> None:
        if not self.namespace_exists(namespace):
            where = full_name(namespace)
            hint = "Create it with create_namespace first."
            raise NoSuchNamespaceError(
                f"Namespace does not exist: {where}.", hint=hint, namespace=where
            )

    def create_namespace(self, namespace: Identifier, properties: Mapping[str, str] = {}) -> None:
        body = {"namespace": list(check_namespace(namespace)), "properties": dict(properties)}
        self.routes.namespace(tuple(namespace))  # raises for a level that holds the separator
        self._namespace_answer(
            self.client.request("POST", self.routes.path("namespaces"), body=body), namespace
        )

    def drop_namespace(self, namespace: Identifier) -> None:
        if not self.namespace_exists(namespace):
            # some servers answer 204 for those that are not there
            raise NoSuchNamespaceError(
                f"Namespace does not exist: {self.name}.{full_name(namespace)}.",
                namespace=full_name(namespace),
            )
        inner: Identifiers = []
        with contextlib.suppress(FrazilError):  # some servers know no namespaces within others
            inner = self.list_namespaces(namespace)
        if inner:  # Java's server would drop it all the same
            text = f"Namespace {self.name}.{full_name(namespace)} is not empty: it holds {len(inner)} namespaces."
            raise NamespaceNotEmptyError(text, namespace=full_name(namespace))
        answer = self.client.request("DELETE", self._namespace_path(namespace))
        if answer.status == 409:  # whatever type the server gives the error
            text = f"Namespace {self.name}.{full_name(namespace)} is not empty ({answer.error})."
            raise NamespaceNotEmptyError(text, namespace=full_name(namespace))
        self._namespace_answer(answer, namespace)

    def load_namespace_properties(self, namespace: Identifier) -> dict[str, str]:
        answer = self._namespace_answer(
            self.client.request("GET", self._namespace_path(namespace)), namespace
        )
        return decoded(answer, _Properties, "namespace").properties or {}

    def update_namespace_properties(
        self,
        namespace: Identifier,
        removals: set[str] | None = None,
        updates: Mapping[str, str] = {},
    ) -> PropertiesUpdateSummary:
        removals = set(removals or ())
        if both := sorted(removals & set(updates)):
            raise InvalidInput(
                f"A namespace property cannot be set and removed at once: {', '.join(both)}."
            )
        body = {"removals": sorted(removals), "updates": dict(updates)}
        answer = self.client.request(
            "POST", self._namespace_path(namespace, "properties"), body=body
        )
        summary = decoded(self._namespace_answer(answer, namespace), _Summary, "summary")
        # some servers name properties that the request did not
        removed, missing = (
            removals & set(summary.removed),
            removals & set(summary.missing or ()),
        )
        return PropertiesUpdateSummary(
            tuple(sorted(removed)),
            tuple(sorted(set(updates) & set(summary.updated))),
            tuple(sorted(missing)),
        )


def names_within(pages: Iterable[TableNames], namespace: Identifier) -> Identifiers:
    """Return the names on pages that are a namespace's own, as the server spells them: some ignore
    case. Others are left out; but for those of namespaces within it, which some servers list too,
    that is logged."""
    identifiers: set[Identifier] = set()
    for place, name in ((tuple(t.namespace), t.name) for page in pages for t in page.identifiers):
        if _is_same(place, namespace):
            identifiers.add((*place, name))
        elif not _is_same(place[: len(namespace)], namespace):
            log.warning(
                "The server lists %s in namespace %s, which is left out.",
                full_name((*place, name)),
                full_name(namespace),
            )
    return sorted(identifiers)


def _is_same(namespace: Sequence[str], other: Sequence[str]) -> bool:
    return [level.casefold() for level in namespace] == [level.casefold() for level in other]


def named(identifier: Identifier) -> dict[str, Any]:
    """Return a table's name as JSON."""
    *namespace, name = check_identifier(identifier)
    return {"namespace": namespace, "name": name}


def decoded(answer: Answer, kind: type[T], expected: str) -> T:
    """Decode an answer's JSON. Raises CorruptData for one that is something else."""
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        text = f"The catalog's server answers {answer.request_line} with no valid {expected}: {str(error)[:200]}"
        raise CorruptData(text, hint="Ask who runs the server.") from None
