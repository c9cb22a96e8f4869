"""Hold what catalogs give and take: tables and views as they were loaded, and the outcomes of
commits.

`catalog.backend` defines what a catalog does with them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from frazil.errors import InvalidInput, StorageError
from frazil.spec.metadata import TableMetadata
from frazil.spec.updates import Requirement, Update
from frazil.spec.view import ViewMetadata
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
    """Hold a table as its catalog had it at one moment. `identifier`: namespace and name; empty for
    a table opened by its location. `metadata_location`: the current metadata file. `storage`: where
    its files are. `config`: the catalog's properties, secrets among them, left out of the repr.
    `told_by`: the server that returned the metadata; None: it was read from the metadata file."""

    identifier: Identifier
    metadata_location: str
    metadata: TableMetadata = field(repr=False)
    storage: Storage = field(repr=False, compare=False)
    config: dict[str, str] = field(default_factory=dict, repr=False, compare=False)
    told_by: ToldBy | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class LoadedView:
    """Hold a view as its catalog had it at one moment. `metadata_location`: its metadata file."""

    identifier: Identifier
    metadata_location: str
    metadata: ViewMetadata = field(repr=False)


@dataclass(frozen=True)
class Committed:
    """Report that a commit was applied. `table`: the new state."""

    table: LoadedTable


@dataclass(frozen=True)
class Conflict:
    """Report that another writer committed first: the commit was certainly not applied, and its
    metadata file is removed. `reason`: what the catalog said, for the error's message."""

    reason: str


@dataclass(frozen=True)
class Unknown:
    """Report that the commit may have been applied. Every file is kept; only loading the table can
    tell. `cause`: the error that hid the outcome."""

    cause: Exception


Outcome = Committed | Conflict | Unknown
ViewOutcome = LoadedView | Conflict | Unknown
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
    """Report the keys of namespace properties that an update removed (`removed`) and set
    (`updated`). `missing`: keys to remove that did not exist."""

    removed: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


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


def shown(name: str, properties: Mapping[str, str]) -> str:
    """Format the name and properties of a back end for its repr, without secrets."""
    return f"{name!r}, {redact(properties)!r}"
