"""What a catalog is to the rooms above: names to current metadata, and one compare-and-swap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from frazil.errors import InvalidInput, StorageError, Unsupported
from frazil.spec.metadata import TableMetadata
from frazil.spec.updates import Requirement, Update
from frazil.storage import Storage, check_name, redact

Identifier = tuple[str, ...]
Identifiers = list[Identifier]


@dataclass(frozen=True)
class LoadedTable:
    """A table as a catalog showed it at one moment. `config` holds the catalog's properties, secrets among them: it is not shown."""

    identifier: Identifier
    metadata_location: str
    metadata: TableMetadata = field(repr=False)
    storage: Storage = field(repr=False, compare=False)
    config: dict[str, str] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Committed:
    table: LoadedTable


@dataclass(frozen=True)
class Conflict:
    """Another writer was first: definitely not applied, and nothing of the try is left."""

    reason: str


@dataclass(frozen=True)
class Unknown:
    """It may be applied. Every file is kept; look at the table to tell."""

    cause: Exception


Outcome = Committed | Conflict | Unknown


class Unclear(StorageError):
    """The connection or the disk failed while a catalog was being changed: the change may be applied."""


@dataclass(frozen=True)
class PropertiesUpdateSummary:
    """Keys of a namespace's properties by what became of them; `missing`: to be removed, but not there."""

    removed: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


class CatalogBackend(Protocol):
    """A catalog as the rooms above use it. It hands out data, never a Table.

    `properties` hold secrets: show them through `storage.redact`.

    `create` and `swap` answer with an outcome; when they raise instead, nothing was applied and nothing is left. Both are told what to do
    in two ways: as the complete new `metadata`, which a catalog that points to metadata files stores, and as the `updates` that lead to it
    with the `requirements` under which they may be applied, which is what a REST catalog is sent. A catalog that keeps metadata itself may
    apply the updates to a newer state than `base`, as long as the requirements hold; so what was committed is read from the outcome.
    Views are not part of this protocol; a view of the same name makes `create` a conflict.
    """

    name: str
    properties: dict[str, str]
    writes_metadata_files: bool
    """Whether `create` and `swap` write a metadata file beside the manifests. False: a server does, or none is written."""

    def load(self, identifier: Identifier) -> LoadedTable:
        """Raises NoSuchTableError, CorruptData."""

    def stage_create(self, identifier: Identifier, metadata: TableMetadata) -> LoadedTable:
        """Prepare a new table before its first files are written; nothing of it is visible until `create`.

        The answer says where the table's files go (`metadata.location` as given, or chosen here when it is ""), its storage and config
        (a catalog may hand out credentials for this table) and the metadata to start from; `metadata_location` is "". Raises
        TableAlreadyExistsError, NoSuchNamespaceError where namespaces must be made first, ValidationError for a location it cannot have.
        """

    def create(
        self, identifier: Identifier, metadata: TableMetadata, *, updates: Sequence[Update] = (), requirements: Sequence[Requirement] = ()
    ) -> Outcome:
        """Make a table visible, in one step with its first snapshots. Need not be staged; a location "" is chosen here.

        `updates` make `metadata` from nothing. Conflict: a table or view of that name exists. Raises as `stage_create`.
        """

    def swap(
        self, base: LoadedTable, metadata: TableMetadata, *, updates: Sequence[Update] = (), requirements: Sequence[Requirement] = ()
    ) -> Outcome:
        """Make `metadata` the table's state if `base` still is. The metadata log is kept up here; `metadata` need not hold it."""

    def table_exists(self, identifier: Identifier) -> bool: ...

    def drop_table(self, identifier: Identifier, purge: bool = False) -> tuple[str, ...]:
        """`purge`: with its files, as far as they lie in its own places; answers with those that stay."""

    def rename_table(self, source: Identifier, target: Identifier) -> None: ...

    def register_table(self, identifier: Identifier, metadata_location: str, overwrite: bool = False) -> LoadedTable: ...

    def list_tables(self, namespace: Identifier) -> Identifiers: ...

    def create_namespace(self, namespace: Identifier, properties: Mapping[str, str] = {}) -> None: ...

    def drop_namespace(self, namespace: Identifier) -> None: ...

    def list_namespaces(self, parent: Identifier = ()) -> Identifiers: ...

    def namespace_exists(self, namespace: Identifier) -> bool: ...

    def load_namespace_properties(self, namespace: Identifier) -> dict[str, str]: ...

    def update_namespace_properties(
        self, namespace: Identifier, removals: set[str] | None = None, updates: Mapping[str, str] = {}
    ) -> PropertiesUpdateSummary: ...

    def close(self) -> None: ...


def check_namespace(namespace: Sequence[str]) -> Identifier:
    if isinstance(namespace, str) or not namespace:
        raise InvalidInput(f"{namespace!r} is no namespace: it is a tuple of one name or more.")
    return tuple(check_name(level, "namespace") for level in namespace)


def check_identifier(identifier: Sequence[str]) -> Identifier:
    """A namespace and a table's name. Refuses what could climb out of the warehouse (`..`, slashes, NUL)."""
    if isinstance(identifier, str) or len(identifier) < 2:
        raise InvalidInput(f"{identifier!r} is no table identifier: it has a namespace and a name, as in db.events.")
    return (*check_namespace(identifier[:-1]), check_name(identifier[-1], "table name"))


def option(properties: Mapping[str, str], *names: str, default: str | None = None) -> str | None:
    """The first that is set of several spellings; `-` and `_` are the same in them."""
    for name in names:
        for spelling in (name, name.replace("_", "-"), name.replace("-", "_")):
            if spelling in properties:
                return properties[spelling]
    return default


def flag(properties: Mapping[str, str], *names: str, default: bool) -> bool:
    value = option(properties, *names)
    if value is None:
        return default
    if value.strip().lower() not in ("true", "false"):
        raise InvalidInput(f"Catalog property {names[0]} must be true or false, not {value!r}.")
    return value.strip().lower() == "true"


def shown(name: str, properties: Mapping[str, str]) -> str:
    """For the repr of a back end."""
    return f"{name!r}, {redact(properties)!r}"


def refuse_relocation(what: str) -> Unsupported:
    return Unsupported(what, hint="A path table is its directory; use a catalog (type=sql) for tables that move.")
