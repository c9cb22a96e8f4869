"""Define what a store of pointers does for `PointerCatalog`: two protocols of a few calls, of which
the SQL database, the Hive Metastore and others have each their own implementation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from frazil.catalog.base import Identifier, LoadedTable, LoadedView

Noun = Literal["table", "view"]
State = LoadedTable | LoadedView


def noun_of(state: State) -> Noun:
    return "view" if isinstance(state, LoadedView) else "table"


@dataclass(frozen=True)
class Stored:
    """Hold what a store has under a name: the metadata file (`location`) of a table or view, or
    (`noun` None) something else, which is left alone. `described`: what it is, as in "a view of
    Hive"."""

    noun: Noun | None
    location: str = ""
    described: str = ""


class PointerStore(Protocol):
    """Store pointers to metadata files under names, of tables and views alike: no two of them have
    the same name. Each call is atomic.

    A call that changes a pointer raises Unclear where it may have been applied; any other error
    means that it certainly was not.
    """

    def get(self, identifier: Identifier) -> Stored | None:
        """Return what a name stands for now; None: nothing."""

    def insert(self, new: State) -> bool:
        """Let a new name point to the metadata file of `new`. False: the name is taken."""

    def move(self, new: State, old: str, base: Callable[[], State]) -> bool:
        """Point to the metadata file of `new`, if the pointer still names the file `old`. False: it
        does not. `base`: returns the state of that file, for stores that keep more than pointers."""

    def move_together(self, moves: Sequence[tuple[LoadedTable, str]]) -> bool:
        """Move the pointers of several tables, each on condition of its old file: all, or none and
        return False. Raises Unsupported, also for no moves, where the store cannot."""

    def delete(self, noun: Noun, identifier: Identifier, old: str | None) -> bool:
        """Remove the name of a table or view, if it points to the file `old` (None: whatever it
        points to). False: there is none."""

    def rename(
        self, noun: Noun, source: Identifier, target: Identifier, state: Callable[[], State]
    ) -> bool:
        """Give a table or view another name; its pointer stays. False: there is none, or it has
        changed meanwhile. `state`: loads it. Raises TableAlreadyExistsError where the new name is
        taken."""

    def list(self, noun: Noun, namespace: Identifier) -> Iterable[str]:
        """Return the names of the tables or of the views in a namespace."""

    def check(self, noun: Noun, identifier: Identifier, location: str) -> None:
        """Raise an error for what the store cannot hold, before a metadata file is written."""

    def close(self) -> None: ...


class NamespaceStore(Protocol):
    """Store namespaces with their properties."""

    def get(self, namespace: Identifier) -> dict[str, str] | None:
        """Return the properties of a namespace; None: it does not exist. New tables lie below its
        property `location`."""

    def create(self, namespace: Identifier, properties: Mapping[str, str]) -> bool:
        """Create a namespace. False: it exists."""

    def change(
        self, namespace: Identifier, removals: set[str], updates: Mapping[str, str]
    ) -> dict[str, str] | None:
        """Remove and set properties, and return those from before; None: there is no such
        namespace."""

    def drop(self, namespace: Identifier) -> bool:
        """Drop a namespace. False: there is none. Raises NamespaceNotEmptyError."""

    def list(self, parent: Identifier) -> Iterable[Identifier]:
        """Return the namespaces directly within a namespace; (): the top-level ones."""

    def hint(self, namespace: Identifier) -> str | None:
        """Return why a namespace may not be found, for messages; None: nothing is known."""
