"""Store the namespaces of a SQL catalog.

A namespace exists if it has a property (each new one gets `exists=true`), a table, or a namespace
within it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping

from frazil.catalog.base import Identifier, check_namespace
from frazil.catalog.names import full_name
from frazil.catalog.sql import statements
from frazil.catalog.sql.database import Database, DuplicateKey, SqlStatement
from frazil.errors import (
    CommitFailedException,
    FrazilError,
    InvalidInput,
    NamespaceNotEmptyError,
)

_MARK, _SHOWN, _TRIES = "exists", 5, 10


def joined(namespace: Identifier) -> str:
    """Return a namespace as the database stores it: its levels joined by dots. Raises InvalidInput
    for a level that has a dot.
    """
    for level in check_namespace(namespace):
        if "." in level:
            raise InvalidInput(f"A namespace of a SQL catalog cannot hold a dot: {level!r}.")
    if len(text := ".".join(namespace)) > 255:
        raise InvalidInput(f"A namespace has at most 255 characters, not {len(text)}.")
    return text


class SqlNamespaces:
    """Store namespaces in the rows of iceberg_namespace_properties."""

    def __init__(self, catalog: str, database: Database):
        self.catalog, self.database = catalog, database

    def _values(self, namespace: Identifier) -> dict[str, str]:
        return {"catalog": self.catalog, "namespace": joined(namespace)}

    def _all(self) -> set[Identifier]:
        """Return all namespaces, including their parents."""
        rows = self.database.query(statements.ALL_NAMESPACES, {"catalog": self.catalog})
        namespaces = [tuple(str(r[0]).split(".")) for r in rows if r[0]]
        return {
            namespace[:depth] for namespace in namespaces for depth in range(1, len(namespace) + 1)
        }

    def get(self, namespace: Identifier) -> dict[str, str] | None:
        if any("." in level for level in namespace):
            return None
        values = self._values(namespace)
        rows = self.database.query(statements.PROPERTIES, values)
        stored = {str(key): str(value) for n, key, value in rows if n == values["namespace"]}
        if not stored and namespace not in self._all():
            return None
        stored.pop(_MARK, None)
        return stored

    def create(self, namespace: Identifier, properties: Mapping[str, str]) -> bool:
        values = self._values(namespace)
        steps = [_adding(values, k, v) for k, v in ({_MARK: "true"} | dict(properties)).items()]
        if self.get(namespace) is not None:
            return False
        try:
            self.database.execute(steps)
        except DuplicateKey:
            return False
        return True

    def change(
        self, namespace: Identifier, removals: set[str], updates: Mapping[str, str]
    ) -> dict[str, str] | None:
        # The mark is set with every change: PyIceberg gives none to a namespace with properties,
        # which would go with the last of them.
        values, added = self._values(namespace), {**updates, _MARK: "true"}
        steps: list[SqlStatement] = [
            (statements.DROP_PROPERTY, values | {"key": key})
            for key in sorted(removals | set(added))
        ]
        steps += [_adding(values, key, value) for key, value in added.items()]
        for _ in range(_TRIES):
            if (before := self.get(namespace)) is None:
                return None
            try:
                self.database.execute(steps)
                return before
            except DuplicateKey:  # another process has set the same key in the meantime
                continue
        name = full_name(namespace)
        raise CommitFailedException(
            f"Properties of namespace {name} kept changing.", namespace=name
        )

    def drop(self, namespace: Identifier) -> bool:
        if self.get(namespace) is None:
            return False
        values, name = self._values(namespace), full_name(namespace)
        inside = self.database.query(statements.ANY_IN_NAMESPACE, values)
        children = [*self.list(namespace)]
        if inside or children:
            contents = f"it holds {len(inside)} tables or views and {len(children)} namespaces"
            raise NamespaceNotEmptyError(
                f"Namespace {name} is not empty: {contents}.", namespace=name
            )
        self.database.execute([(statements.DROP_NAMESPACE, values)])
        return True

    def list(self, parent: Identifier) -> Iterable[Identifier]:
        depth = len(parent)
        return (n for n in self._all() if len(n) == depth + 1 and n[:depth] == parent)

    def hint(self, namespace: Identifier) -> str | None:
        """Return a hint if the database holds nothing under this catalog's name but holds other
        catalogs, whose tables it does not show.
        """
        with contextlib.suppress(FrazilError):
            names = sorted({str(r[0]) for r in self.database.query(statements.CATALOGS, {})})
            if names and self.catalog not in names:
                shown = ", ".join(map(repr, names[:_SHOWN])) + (
                    ", …" if len(names) > _SHOWN else ""
                )
                return f"The database holds no catalog named {self.catalog!r}, but {shown}: load the catalog under that name."
        return None


def _adding(values: Mapping[str, str], key: str, value: str) -> SqlStatement:
    if not key or len(key) > 255:
        raise InvalidInput(f"The key of a namespace property has 1 to 255 characters: {key!r}.")
    if len(value) > 1000:
        raise InvalidInput(
            f"The value of namespace property {key!r} has more than 1000 characters."
        )
    return statements.ADD_PROPERTY, {**values, "key": key, "value": value}
