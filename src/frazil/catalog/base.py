"""Define the protocol of catalog back ends: look up a table's current metadata by name, and replace
it by compare-and-swap.

The steps that add a type of catalog are in `catalog.load`.
"""

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
class ToldBy:
    """Describe a server that tells the metadata of tables. `is_here`: it runs on this machine.
    `deletable`: directories below which files may be deleted on its word (catalog property
    `deletable-locations`)."""

    is_here: bool = False
    deletable: tuple[str, ...] = ()


@dataclass(frozen=True)
class LoadedTable:
    """Hold a table as its catalog had it at one moment. `config`: the catalog's properties, secrets
    among them, left out of the repr. `told_by`: the server that has told the metadata; None: it was
    read from the metadata file."""

    identifier: Identifier
    metadata_location: str
    metadata: TableMetadata = field(repr=False)
    storage: Storage = field(repr=False, compare=False)
    config: dict[str, str] = field(default_factory=dict, repr=False, compare=False)
    told_by: ToldBy | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Committed:
    """Report that a commit was applied. `table`: the new state."""

    table: LoadedTable


@dataclass(frozen=True)
class Conflict:
    """Report that another writer committed first: the commit was certainly not applied, and its
    metadata file is removed.
    """

    reason: str


@dataclass(frozen=True)
class Unknown:
    """Report that the commit may have been applied. Every file is kept; only loading the table can
    tell.
    """

    cause: Exception


Outcome = Committed | Conflict | Unknown
OutcomeTogether = tuple[Committed, ...] | Conflict | Unknown
"""The outcome of a commit to several tables: the new states in their order, or that no table was
changed, or that all may have been.
"""


class Unclear(StorageError):
    """Report that the connection or the disk failed while a catalog was being changed, so that the
    change may have been applied.
    """


@dataclass(frozen=True)
class Swap:
    """Describe the change of one table in a commit to several: the arguments of
    `CatalogBackend.swap`.
    """

    base: LoadedTable
    metadata: TableMetadata
    updates: Sequence[Update] = ()
    requirements: Sequence[Requirement] = ()


@dataclass(frozen=True)
class PropertiesUpdateSummary:
    """Report the keys of namespace properties that an update removed and set. `missing`: keys to
    remove that did not exist.
    """

    removed: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


class CatalogBackend(Protocol):
    """Look up, create, commit and drop tables, and manage namespaces. A back end returns data,
    never a Table.

    `properties` may hold secrets; show them only through `storage.redact`.

    `create` and `swap` return an outcome. If they raise an error instead, nothing was applied and
    no file is left. Both receive the change in two forms: the complete new `metadata`, which a
    catalog that points to metadata files stores, and the `updates` that lead to it with their
    `requirements`, which is what a REST catalog is sent. A catalog that keeps metadata itself may
    apply the updates to a newer state than `base` as long as the requirements hold; so callers read
    from the outcome what was committed. Views are a protocol of their own (`catalog.views`); a view
    of the same name makes `create` a conflict.
    """

    name: str
    properties: dict[str, str]
    writes_metadata_files: bool
    """Whether `create` and `swap` write a metadata file. False: the catalog's server writes it, or
    there is none.
    """

    def load(self, identifier: Identifier) -> LoadedTable:
        """Load the current state of a table. Raises NoSuchTableError, CorruptData."""

    def stage_create(self, identifier: Identifier, metadata: TableMetadata) -> LoadedTable:
        """Prepare a new table before its first files are written; it is not visible before
        `create`.

        The result holds the metadata to start from, with the location of the table's files
        (`metadata.location`; "" lets the catalog choose), its storage and its config, which may
        include credentials for this table; its `metadata_location` is "". Raises
        TableAlreadyExistsError, NoSuchNamespaceError where namespaces must be created first,
        ValidationError for a location that the catalog cannot give the table.
        """

    def create(
        self,
        identifier: Identifier,
        metadata: TableMetadata,
        *,
        updates: Sequence[Update] = (),
        requirements: Sequence[Requirement] = (),
    ) -> Outcome:
        """Create a table, together with its first snapshots. It need not be staged before; a
        location "" lets the catalog choose.

        `updates` build `metadata` from nothing. Conflict: a table or view of that name exists.
        Raises as `stage_create` does.
        """

    def swap(
        self,
        base: LoadedTable,
        metadata: TableMetadata,
        *,
        updates: Sequence[Update] = (),
        requirements: Sequence[Requirement] = (),
    ) -> Outcome:
        """Replace the table's state by `metadata` if it is still `base`. The catalog adds the entry
        for `base` to the metadata log.
        """

    def swap_together(self, swaps: Sequence[Swap]) -> OutcomeTogether:
        """Replace the states of several tables at once: all of them, or none. Each is swapped as
        `swap` does.

        Raises Unsupported where the catalog cannot; so without any swaps the call tells only
        whether it can.
        """

    def table_exists(self, identifier: Identifier) -> bool: ...

    def drop_table(self, identifier: Identifier, purge: bool = False) -> tuple[str, ...]:
        """Drop a table. `purge`: delete its files too, as far as they lie in its own directories;
        returns the paths of those that stay.

        Raises NoSuchTableError.
        """

    def rename_table(self, source: Identifier, target: Identifier) -> None: ...

    def register_table(
        self, identifier: Identifier, metadata_location: str, overwrite: bool = False
    ) -> LoadedTable: ...

    def list_tables(self, namespace: Identifier) -> Identifiers: ...

    def create_namespace(
        self, namespace: Identifier, properties: Mapping[str, str] = {}
    ) -> None: ...

    def drop_namespace(self, namespace: Identifier) -> None: ...

    def list_namespaces(self, parent: Identifier = ()) -> Identifiers: ...

    def namespace_exists(self, namespace: Identifier) -> bool: ...

    def load_namespace_properties(self, namespace: Identifier) -> dict[str, str]: ...

    def update_namespace_properties(
        self,
        namespace: Identifier,
        removals: set[str] | None = None,
        updates: Mapping[str, str] = {},
    ) -> PropertiesUpdateSummary: ...

    def close(self) -> None: ...


def check_namespace(namespace: Sequence[str]) -> Identifier:
    """Return a namespace as a tuple of names. Raises InvalidInput for an empty one, and for names
    that are not safe as directories.
    """
    if isinstance(namespace, str) or not namespace:
        raise InvalidInput(
            f"{namespace!r} is not a namespace.",
            hint="Give a tuple of one or more names, as in ('db',).",
        )
    return tuple(check_name(level, "namespace") for level in namespace)


def check_identifier(identifier: Sequence[str]) -> Identifier:
    """Return a table identifier as a tuple. Raises InvalidInput for names that could lead out of
    the warehouse (`..`, slashes, NUL).
    """
    if isinstance(identifier, str) or len(identifier) < 2:
        raise InvalidInput(
            f"{identifier!r} is not a table identifier: give a namespace and a name, as in db.events."
        )
    return (*check_namespace(identifier[:-1]), check_name(identifier[-1], "table name"))


def option(properties: Mapping[str, str], *names: str, default: str | None = None) -> str | None:
    """Return the value of the first of several properties that is set; `-` and `_` are the same in
    their names.
    """
    return properties.get(spelling(properties, *names), default)


def spelling(properties: Mapping[str, str], *names: str) -> str:
    """Return the name of the first of several properties that is set, as it is spelt there; the
    first name if none is set.
    """
    spellings = (
        s for name in names for s in (name, name.replace("_", "-"), name.replace("-", "_"))
    )
    return next((s for s in spellings if s in properties), names[0])


def flag(properties: Mapping[str, str], *names: str, default: bool) -> bool:
    """Return, as a bool, the value of the first of several properties that is set. Raises
    InvalidInput for a value other than true and false."""
    value = option(properties, *names)
    if value is None:
        return default
    if value.strip().lower() not in ("true", "false"):
        raise InvalidInput(
            f"Catalog property {spelling(properties, *names)} must be true or false, not {value!r}."
        )
    return value.strip().lower() == "true"


def shown(name: str, properties: Mapping[str, str]) -> str:
    """Format the name and properties of a back end for its repr, without secrets."""
    return f"{name!r}, {redact(properties)!r}"


def refuse_together(where: str) -> Unsupported:
    """Return the error for a commit to several tables. `where`: the catalog, as in "Path catalog
    'p'".
    """
    return Unsupported(
        f"{where} cannot commit to several tables at once: each table has a metadata directory of its own.",
        hint="Use a catalog of type sql or rest, or one transaction for each table: t.transaction().",
    )


def refuse_relocation(message: str) -> Unsupported:
    """Return the error for renaming or registering a path table."""
    return Unsupported(
        message,
        hint="A path table is identified by its directory. Use a catalog of type sql for tables that move.",
    )
