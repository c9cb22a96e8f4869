"""Define the protocol of catalogs that keep views, and commit views by compare-and-swap where the
catalog points to a metadata file.

Start at `views_of`. As for tables, a commit's outcome is a value: the view as committed, Conflict
(certainly not applied) or Unknown.
"""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, cast

from frazil.catalog import metadata_files
from frazil.catalog.base import Conflict, Identifier, Identifiers, Unclear, Unknown
from frazil.catalog.names import full_name
from frazil.codec.view_json import decode_view, encode_view
from frazil.errors import (
    CommitFailedException,
    FrazilError,
    NoSuchFileError,
    TableAlreadyExistsError,
    Unsupported,
)
from frazil.spec.view import COMPRESSION, ViewMetadata
from frazil.storage import Storage, normalise
from frazil.storage.locations import metadata_location

_NUMBER = re.compile(r"(\d{1,9})-")


@dataclass(frozen=True)
class LoadedView:
    """Hold a view as its catalog had it at one moment. `metadata_location`: its metadata file."""

    identifier: Identifier
    metadata_location: str
    metadata: ViewMetadata = field(repr=False)


ViewOutcome = LoadedView | Conflict | Unknown


class ViewBackend(Protocol):
    """Look up, create, commit and drop views. The back end of a catalog that keeps views implements
    this protocol beside `CatalogBackend`.

    `create_view` and `swap_view` return an outcome, or raise an error if nothing was applied.
    """

    def load_view(self, identifier: Identifier) -> LoadedView:
        """Load the current state of a view. Raises NoSuchViewError, whose message says if a table
        has that name, and CorruptData.
        """

    def create_view(self, identifier: Identifier, metadata: ViewMetadata) -> ViewOutcome:
        """Create a view; a location "" lets the catalog choose. Conflict: a table or view of that
        name exists.
        """

    def swap_view(self, base: LoadedView, metadata: ViewMetadata) -> ViewOutcome:
        """Replace the view's state by `metadata`."""

    def view_exists(self, identifier: Identifier) -> bool: ...

    def drop_view(self, identifier: Identifier) -> None:
        """Drop a view; its metadata files stay. Raises NoSuchViewError."""

    def rename_view(self, source: Identifier, target: Identifier) -> None: ...

    def register_view(self, identifier: Identifier, metadata_location: str) -> LoadedView: ...

    def list_views(self, namespace: Identifier) -> Identifiers: ...


def views_of(backend: Any) -> ViewBackend:
    """Return a catalog's back end as one that keeps views. Raises Unsupported where it keeps none."""
    if not hasattr(backend, "load_view"):
        text = f"Catalog {backend.name!r} ({type(backend).__name__}) keeps no views."
        raise Unsupported(text, hint="Catalogs of type sql, memory, hive and rest keep views.")
    return cast(ViewBackend, backend)


@contextlib.contextmanager
def telling_views(backend: Any, identifier: Identifier, name: str) -> Iterator[None]:
    """Raise, if a table cannot be created in the block because a view has its name, an error that
    says so. `name`: the table's, for the message."""
    try:
        yield
    except TableAlreadyExistsError as error:
        has_view = False
        with contextlib.suppress(FrazilError):
            has_view = hasattr(backend, "view_exists") and backend.view_exists(identifier)
        if not has_view:
            raise
        hint = f"Choose another name, or drop the view first: drop_view({full_name(identifier)!r})."
        raise TableAlreadyExistsError(
            f"{name} is a view: no table can be created under its name.", hint=hint, table=name
        ) from error


Move = Callable[[LoadedView], bool]
"""Make the catalog's pointer name this view's metadata file; it returns and raises as
`pointer.Move` does.
"""


def write_view(
    base: LoadedView | None,
    view: LoadedView,
    storage: Storage,
    move: Move,
    load: Callable[[], LoadedView],
    conflict: str,
) -> ViewOutcome:
    """Write the next metadata file of a view and move the pointer to it. `base` None: the view is
    new. After a certain failure the file is removed; `conflict` says what another writer must have
    done."""
    written = replace(view, metadata_location=_next_location(base, view.metadata))
    storage.write(written.metadata_location, encode_view(view.metadata, _is_zipped(view.metadata)))
    try:
        won = move(written)
    except Unclear as error:
        with contextlib.suppress(FrazilError):
            if normalise(load().metadata_location) == normalise(written.metadata_location):
                return written
        return Unknown(error)
    except CommitFailedException as error:
        metadata_files.discard(storage, written.metadata_location)
        return Conflict(str(error))
    except FrazilError:
        metadata_files.discard(storage, written.metadata_location)
        raise
    if won:
        return written
    metadata_files.discard(storage, written.metadata_location)
    return Conflict(conflict)


def read_view(
    pointer: Callable[[], str | None], storage_of: Callable[[str], Storage], identifier: Identifier
) -> LoadedView | None:
    """Read the metadata file that a pointer names; None: there is no pointer. The pointer is read
    again when its file is gone.
    """
    location = pointer()
    while location is not None:
        try:
            data = metadata_files.read_bytes(storage_of(location), location)
            return LoadedView(tuple(identifier), location, decode_view(data, location))
        except NoSuchFileError as error:
            newer = pointer()
            if newer == location:
                text = f"The metadata file of view {full_name(identifier)} is missing: {location}."
                raise NoSuchFileError(text, view=full_name(identifier), file=location) from error
            location = newer
    return None


def _is_zipped(metadata: ViewMetadata) -> bool:
    """Tell whether the metadata file is compressed: by default it is, as Java's."""
    return metadata.properties.get(COMPRESSION, "gzip").strip().lower() == "gzip"


def _next_location(base: LoadedView | None, metadata: ViewMetadata) -> str:
    number = 0
    if base is not None:
        match = _NUMBER.match(base.metadata_location.rpartition("/")[2])
        number = int(match[1]) + 1 if match else 1
    name = f"{number:05d}-{uuid.uuid4()}{'.gz' if _is_zipped(metadata) else ''}.metadata.json"
    return metadata_location(metadata.location.rstrip("/"), metadata.properties, name)
