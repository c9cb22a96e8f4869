"""Read the mode of a row-level change from Java's table properties: write.<kind>.mode, isolation
level, distribution and granularity.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, cast

from frazil.arrow.write.write_options import WriteOptions, meaningless
from frazil.errors import InvalidInput, ValidationError
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import (
    CHANGE_DISTRIBUTION,
    CHANGE_ISOLATION,
    CHANGE_MODE,
    DELETE_GRANULARITY,
)
from frazil.spec.properties import COPY_ON_WRITE as COPY_ON_WRITE
from frazil.spec.properties import MERGE_ON_READ as MERGE_ON_READ

Mode: TypeAlias = Literal["copy-on-write", "merge-on-read"]
Kind: TypeAlias = Literal["delete", "update", "merge"]


OF_DELETES = ("delete_format", "target_delete_file_size_bytes", "delete_granularity")


def mode_of(
    kind: Kind,
    metadata: TableMetadata,
    requested: str | None = None,
    options: WriteOptions | None = None,
) -> Mode:
    """Return the mode asked for, else the table's, else copy-on-write. Raises InvalidInput for an
    unknown mode and for options of delete files where none are written, ValidationError for
    merge-on-read on a v1 table."""
    of_table = CHANGE_MODE[kind]
    mode = str(requested).lower() if requested is not None else of_table.of(metadata.properties)
    if mode != COPY_ON_WRITE and mode != MERGE_ON_READ:
        raise InvalidInput(
            f"mode must be {COPY_ON_WRITE} or {MERGE_ON_READ}, not {mode!r}.",
            table=metadata.location,
        )
    if mode == MERGE_ON_READ and metadata.format_version < 2:
        raise ValidationError(
            f"Table {metadata.location} has format version 1, which has no delete files; {kind} cannot be merge-on-read.",
            hint="Use mode='copy-on-write', or t.upgrade(format_version=2).",
            table=metadata.location,
        )
    for name in (n for n in OF_DELETES if options is not None and options.asks_for(n)):
        if mode == COPY_ON_WRITE:
            where = f"to a {kind} that is {COPY_ON_WRITE}: it writes no delete files"
            raise meaningless(
                name,
                where,
                f"mode={MERGE_ON_READ!r} or the property {of_table.name} says otherwise.",
            )
        if metadata.format_version >= 3 and getattr(options, name) != "file":
            raise meaningless(
                name,
                "from format version 3 on: rows are deleted by deletion vectors, one per data file",
            )
    return cast(Mode, mode)


def isolation_of(kind: Kind, metadata: TableMetadata, options: WriteOptions) -> str:
    """Return the isolation level, serializable (the default) or snapshot: the option, else the
    table's property.
    """
    return options.isolation_level or CHANGE_ISOLATION[kind].of(metadata.properties)


def distribution_of(kind: Kind, metadata: TableMetadata, options: WriteOptions) -> str | None:
    """Return the distribution mode (none, hash or range): the option, else the table's
    write.<kind>.distribution-mode; None: not set.
    """
    if not options.use_table_distribution_and_ordering:
        return "none"
    return options.distribution_mode or CHANGE_DISTRIBUTION[kind].of(metadata.properties)


def granularity_of(metadata: TableMetadata, options: WriteOptions) -> str:
    """Return the granularity of v2 position delete files: one per data file (`file`, as Java's
    Spark writer), or one per partition and task."""
    return options.delete_granularity or DELETE_GRANULARITY.of(metadata.properties)
