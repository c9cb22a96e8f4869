"""How row-level changes are made, by Java Iceberg's table properties: write.<kind>.mode, write.<kind>.isolation-level, granularity."""

from __future__ import annotations

from typing import Literal, TypeAlias

from frazil.arrow.write.write_options import WriteOptions, meaningless
from frazil.commit.known_properties import DISTRIBUTIONS
from frazil.errors import InvalidInput, ValidationError
from frazil.spec.metadata import TableMetadata

Mode: TypeAlias = Literal["copy-on-write", "merge-on-read"]
Kind: TypeAlias = Literal["delete", "update", "merge"]
COPY_ON_WRITE: Mode = "copy-on-write"
MERGE_ON_READ: Mode = "merge-on-read"


OF_DELETES = ("delete_format", "target_delete_file_size_bytes", "delete_granularity")


def mode_of(kind: Kind, metadata: TableMetadata, given: str | None = None, options: WriteOptions | None = None) -> Mode:
    """The mode given, else the table's, else copy-on-write. Raises InvalidInput for another and for options of delete files where none
    can be written, ValidationError for merge-on-read on v1."""
    key = f"write.{kind}.mode"
    found = str(given if given is not None else metadata.properties.get(key, COPY_ON_WRITE)).lower()
    if found not in (COPY_ON_WRITE, MERGE_ON_READ):
        what = "mode" if given is not None else key
        raise InvalidInput(f"{what} is {COPY_ON_WRITE} or {MERGE_ON_READ}, not {found!r}.", table=metadata.location)
    if found == MERGE_ON_READ and metadata.format_version < 2:
        raise ValidationError(
            f"Table {metadata.location} has format version 1, which has no delete files; {kind} cannot be merge-on-read.",
            hint="Use mode='copy-on-write', or t.upgrade(format_version=2).", table=metadata.location,
        )  # fmt: skip
    for name in (n for n in OF_DELETES if options is not None and options.asks_for(n)):
        if found == COPY_ON_WRITE:
            where = f"to a {kind} that is {COPY_ON_WRITE}: it writes no delete files"
            raise meaningless(name, where, f"mode={MERGE_ON_READ!r} or the property {key} says otherwise.")
        if metadata.format_version >= 3 and getattr(options, name) != "file":
            raise meaningless(name, "from format version 3 on: rows are deleted by deletion vectors, one a data file")
    return found


def isolation_of(kind: Kind, metadata: TableMetadata, options: WriteOptions) -> str:
    """serializable (the default) or snapshot: the option, else the table's property."""
    key = f"write.{kind}.isolation-level"
    found = options.isolation_level or metadata.properties.get(key, "serializable").lower()
    if found not in ("serializable", "snapshot"):
        raise InvalidInput(f"{key} is serializable or snapshot, not {found!r}.", table=metadata.location)
    return found


def distribution_of(kind: Kind, metadata: TableMetadata, options: WriteOptions) -> str | None:
    """none, hash or range: the option, else the table's write.<kind>.distribution-mode; None: nobody says."""
    if not options.use_table_distribution_and_ordering:
        return "none"
    key = f"write.{kind}.distribution-mode"
    found = options.distribution_mode or metadata.properties.get(key)
    if found is not None and found.lower() not in DISTRIBUTIONS:
        raise InvalidInput(f"{key} is none, hash or range, not {found!r}.", table=metadata.location)
    return found and found.lower()


def granularity_of(metadata: TableMetadata, options: WriteOptions) -> str:
    """Position delete files of v2: one a data file (`file`, the default of Java's Spark writer), or one a partition and task."""
    found = options.delete_granularity or metadata.properties.get("write.delete.granularity", "file").lower()
    if found not in ("file", "partition"):
        raise InvalidInput(f"write.delete.granularity is file or partition, not {found!r}.", table=metadata.location)
    return found
