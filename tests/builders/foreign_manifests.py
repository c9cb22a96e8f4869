"""Manifests and manifest lists as other writers leave them: rewritten in place by fastavro, so that
Frazil reads what it did not write.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro

from frazil.scan.manifests import clear_caches
from frazil.table import Table

Records = list[dict[str, Any]]
Change = Callable[[Records, Any, dict[str, str]], tuple[Records, Any, dict[str, str]]]


def rewritten(path: str | Path, change: Change) -> None:
    """Write an Avro file again with what `change` makes of its records, schema and metadata
    (without avro.*).
    """
    with open(path, "rb") as file:
        reader = fastavro.reader(file)
        records: Any = list(reader)
        metadata = {k: v for k, v in reader.metadata.items() if not k.startswith("avro.")}
        schema = json.loads(reader.metadata["avro.schema"])
    records, schema, metadata = change(records, schema, metadata)
    with open(path, "wb") as file:
        fastavro.writer(
            file, fastavro.parse_schema(schema), records, metadata=metadata, codec="deflate"
        )
    clear_caches()  # which hold the list that the commit wrote


def records_changed(path: str | Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Write an Avro file again after `change` was applied to each record."""

    def each(
        records: Records, schema: Any, metadata: dict[str, str]
    ) -> tuple[Records, Any, dict[str, str]]:
        for record in records:
            change(record)
        return records, schema, metadata

    rewritten(path, each)


def manifest_list(table: Table) -> str:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return str(snapshot.manifest_list).removeprefix("file://")


def avro_files(table: Table) -> Iterator[tuple[str, bool]]:
    """The manifests of a table, then its lists: (path, whether it is a list)."""
    folder = Path(table.location().removeprefix("file://")) / "metadata"
    for path in sorted(folder.glob("*.avro"), key=lambda p: p.name.startswith("snap-")):
        yield str(path), path.name.startswith("snap-")


def lengths_corrected(path: str) -> None:
    """Write a manifest list again with the lengths that its manifests have now."""
    records_changed(
        path,
        lambda m: m.update(
            manifest_length=os.path.getsize(m["manifest_path"].removeprefix("file://"))
        ),
    )
