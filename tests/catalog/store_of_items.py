"""A catalog over a table of items with conditional writes, as DynamoDB has them: what a type of
catalog needs beyond `PointerCatalog`. The items are kept in memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from frazil.catalog.base import Identifier, LoadedTable
from frazil.catalog.pointer import Noun, PointerCatalog, State, Stored, noun_of
from frazil.errors import NamespaceNotEmptyError, TableAlreadyExistsError

Key, Item = tuple[str, Identifier], dict[str, Any]
Write = tuple[Key, Item | None, Callable[[Item | None], bool]]
"""A key, its new item (None: removed), and the condition on the one that it has."""


@dataclass
class Items:
    by_key: dict[Key, Item] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def write(self, *writes: Write) -> bool:
        """Make all writes at once; none where a condition does not hold."""
        with self.lock:
            if not all(holds(self.by_key.get(key)) for key, _, holds in writes):
                return False
            for key, item, _ in writes:
                self.by_key.pop(key, None)
                self.by_key |= {} if item is None else {key: item}
            return True


def points(noun: Noun, to: str | None) -> Callable[[Item | None], bool]:
    return lambda item: item is not None and item["noun"] == noun and to in (None, item["location"])


def is_free(item: Item | None) -> bool:
    return item is None


def item_of(state: State) -> Item:
    return {"noun": noun_of(state), "location": state.metadata_location}


class ItemPointers:
    def __init__(self, items: Items):
        self.items = items

    def get(self, identifier: Identifier) -> Stored | None:
        item = self.items.by_key.get(("name", identifier))
        return None if item is None else Stored(item["noun"], item["location"])

    def insert(self, new: State) -> bool:
        return self.items.write((("name", new.identifier), item_of(new), is_free))

    def move(self, new: State, old: str, base: Callable[[], State]) -> bool:
        return self.items.write((("name", new.identifier), item_of(new), points(noun_of(new), old)))

    def move_together(self, moves: Sequence[tuple[LoadedTable, str]]) -> bool:
        return self.items.write(
            *((("name", t.identifier), item_of(t), points("table", old)) for t, old in moves)
        )

    def delete(self, noun: Noun, identifier: Identifier, old: str | None) -> bool:
        return self.items.write((("name", identifier), None, points(noun, old)))

    def rename(
        self, noun: Noun, source: Identifier, target: Identifier, state: Callable[[], State]
    ) -> bool:
        if (item := self.items.by_key.get(("name", source))) is None:
            return False
        renamed = self.items.write(
            (("name", source), None, points(noun, item["location"])),
            (("name", target), item, is_free),
        )
        if not renamed and ("name", target) in self.items.by_key:
            raise TableAlreadyExistsError("The new name is taken.")
        return renamed

    def list(self, noun: Noun, namespace: Identifier) -> Iterable[str]:
        return [
            name[-1]
            for (kind, name), item in list(self.items.by_key.items())
            if kind == "name" and name[:-1] == namespace and item["noun"] == noun
        ]

    def check(self, noun: Noun, identifier: Identifier, location: str) -> None:
        """It holds all names."""

    def close(self) -> None:
        """It has no connection."""


class ItemNamespaces:
    def __init__(self, items: Items):
        self.items = items

    def get(self, namespace: Identifier) -> dict[str, str] | None:
        item = self.items.by_key.get(("namespace", namespace))
        return None if item is None else dict(item)

    def create(self, namespace: Identifier, properties: Mapping[str, str]) -> bool:
        return self.items.write((("namespace", namespace), dict(properties), is_free))

    def change(
        self, namespace: Identifier, removals: set[str], updates: Mapping[str, str]
    ) -> dict[str, str] | None:
        while (before := self.get(namespace)) is not None:
            after = {k: v for k, v in before.items() if k not in removals} | dict(updates)
            if self.items.write((("namespace", namespace), after, before.__eq__)):
                return before
        return None

    def drop(self, namespace: Identifier) -> bool:
        if any(
            name != namespace and name[: len(namespace)] == namespace
            for _, name in list(self.items.by_key)
        ):
            raise NamespaceNotEmptyError("The namespace is not empty.")
        return self.items.write((("namespace", namespace), None, lambda item: item is not None))

    def list(self, parent: Identifier) -> Iterable[Identifier]:
        depth = len(parent)
        names = [name for kind, name in list(self.items.by_key) if kind == "namespace"]
        return {name[: depth + 1] for name in names if name[:depth] == parent} - {parent}

    def hint(self, namespace: Identifier) -> str | None:
        return None


def catalog_of_items(name: str, properties: Mapping[str, str], items: Items) -> PointerCatalog:
    """A catalog of these items; the property `warehouse` is the directory of its tables."""
    return PointerCatalog(
        "items",
        name,
        properties,
        ItemPointers(items),
        ItemNamespaces(items),
        warehouse=properties["warehouse"],
    )
