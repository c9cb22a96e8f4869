"""Manage the namespaces of the SQL catalog.

A namespace exists if it has a property (each new one gets `exists=true`), a table, or a namespace
within it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from frazil.catalog import sql_statements
from frazil.catalog.base import Identifier, Identifiers, PropertiesUpdateSummary, check_namespace
from frazil.catalog.database import Database, DuplicateKey, SqlStatement
from frazil.catalog.names import full_name
from frazil.errors import (
    CommitFailedException,
    FrazilError,
    InvalidInput,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
)
from frazil.storage import place_of

_MARK, _SHOWN = "exists", 5


class SqlNamespaces:
    """Create, list and drop namespaces in a SQL database; a part of SqlBackend."""

    name: str
    properties: dict[str, str]
    database: Database

    def _joined(self, namespace: Identifier) -> str:
        """Return a namespace as the database stores it: its levels joined by dots. Raises
        InvalidInput for a level that has a dot.
        """
        for level in check_namespace(namespace):
            if "." in level:
                raise InvalidInput(f"A namespace of a SQL catalog cannot hold a dot: {level!r}.")
        if len(joined := ".".join(namespace)) > 255:
            raise InvalidInput(f"A namespace has at most 255 characters, not {len(joined)}.")
        return joined

    def _values(self, namespace: Identifier) -> dict[str, str]:
        return {"catalog": self.name, "namespace": self._joined(namespace)}

    def _all(self) -> set[Identifier]:
        """Return all namespaces, including their parents."""
        rows = self.database.query(sql_statements.ALL_NAMESPACES, {"catalog": self.name})
        namespaces = [tuple(str(r[0]).split(".")) for r in rows if r[0]]
        return {
            namespace[:depth] for namespace in namespaces for depth in range(1, len(namespace) + 1)
        }

    def namespace_exists(self, namespace: Identifier) -> bool:
        if any("." in level for level in check_namespace(namespace)):
            return False
        values = self._values(namespace)
        if any(
            r[0] == values["namespace"]
            for r in self.database.query(sql_statements.PROPERTIES, values)
        ):
            return True
        return tuple(namespace) in self._all()

    def _check_exists(self, namespace: Identifier) -> None:
        if not self.namespace_exists(namespace):
            text = f"Namespace does not exist: {full_name(namespace)}."
            raise NoSuchNamespaceError(text, hint=self._elsewhere(), namespace=full_name(namespace))

    def _elsewhere(self) -> str | None:
        """Return a hint if the database holds nothing under this catalog's name but holds other
        catalogs, whose tables it does not show.
        """
        with contextlib.suppress(FrazilError):
            names = sorted({str(r[0]) for r in self.database.query(sql_statements.CATALOGS, {})})
            if names and self.name not in names:
                shown = ", ".join(map(repr, names[:_SHOWN])) + (
                    ", …" if len(names) > _SHOWN else ""
                )
                return f"The database holds no catalog named {self.name!r}, but {shown}: load the catalog under that name."
        return None

    def create_namespace(self, namespace: Identifier, properties: Mapping[str, str] = {}) -> None:
        values, properties = self._values(namespace), _placed(properties)
        exists = NamespaceAlreadyExistsError(
            f"Namespace already exists: {full_name(namespace)}.", namespace=full_name(namespace)
        )
        if self.namespace_exists(namespace):
            raise exists
        try:
            self.database.execute(
                [_adding(values, k, v) for k, v in ({_MARK: "true"} | dict(properties)).items()]
            )
        except DuplicateKey:
            raise exists from None

    def drop_namespace(self, namespace: Identifier) -> None:
        self._check_exists(namespace)
        inside = self.database.query(sql_statements.ANY_IN_NAMESPACE, self._values(namespace))
        children = self.list_namespaces(namespace)
        if inside or children:
            contents = f"it holds {len(inside)} tables or views and {len(children)} namespaces"
            raise NamespaceNotEmptyError(
                f"Namespace {full_name(namespace)} is not empty: {contents}.",
                namespace=full_name(namespace),
            )
        self.database.execute([(sql_statements.DROP_NAMESPACE, self._values(namespace))])

    def list_namespaces(self, parent: Identifier = ()) -> Identifiers:
        """Return the namespaces directly within a namespace; (): the top-level ones."""
        if parent:
            self._check_exists(parent)
        depth = len(parent)
        return sorted(n for n in self._all() if len(n) == depth + 1 and n[:depth] == tuple(parent))

    def _stored_properties(self, namespace: Identifier) -> dict[str, str]:
        values = self._values(namespace)
        rows = self.database.query(sql_statements.PROPERTIES, values)
        return {
            str(k): str(v)
            for stored_namespace, k, v in rows
            if stored_namespace == values["namespace"] and k != _MARK
        }

    def load_namespace_properties(self, namespace: Identifier) -> dict[str, str]:
        self._check_exists(namespace)
        return self._stored_properties(namespace)

    def update_namespace_properties(
        self,
        namespace: Identifier,
        removals: set[str] | None = None,
        updates: Mapping[str, str] = {},
    ) -> PropertiesUpdateSummary:
        removals, updates = set(removals or ()), _placed(updates)
        if both := sorted(removals & set(updates)):
            raise InvalidInput(
                f"A namespace property cannot be set and removed at once: {', '.join(both)}."
            )
        self._check_exists(namespace)
        values = self._values(namespace)
        # The mark is set with every change: PyIceberg gives none to a namespace with properties,
        # which would go with the last of them.
        added = {**updates, _MARK: "true"}
        for _ in range(10):
            before = self._stored_properties(namespace)
            steps: list[SqlStatement] = [
                (sql_statements.DROP_PROPERTY, values | {"key": k})
                for k in sorted(removals | set(added))
            ]
            try:
                self.database.execute([*steps, *(_adding(values, k, v) for k, v in added.items())])
                break
            except DuplicateKey:  # another process has set the same key in the meantime
                continue
        else:
            raise CommitFailedException(
                f"Properties of namespace {full_name(namespace)} kept changing.",
                namespace=full_name(namespace),
            )
        return PropertiesUpdateSummary(
            removed=tuple(sorted(removals & set(before))),
            updated=tuple(sorted(updates)),
            missing=tuple(sorted(removals - set(before))),
        )


def _placed(properties: Mapping[str, str]) -> dict[str, str]:
    """Return namespace properties with an absolute `location`, below which new tables are created."""
    location = properties.get("location")
    return (
        dict(properties)
        if location is None
        else {**properties, "location": place_of(location, "property location of a namespace")}
    )


def _adding(values: Mapping[str, str], key: str, value: object) -> SqlStatement:
    if not key or len(key) > 255:
        raise InvalidInput(f"The key of a namespace property has 1 to 255 characters: {key!r}.")
    if len(str(value)) > 1000:
        raise InvalidInput(
            f"The value of namespace property {key!r} has more than 1000 characters."
        )
    return sql_statements.ADD_PROPERTY, {**values, "key": key, "value": str(value)}
