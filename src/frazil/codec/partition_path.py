"""Name the directories of partitions by their values, as Java does (spec, "Partition Transforms";
Java's PartitionSpec.partitionToPath).
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote_plus

from frazil.codec.single_value import human_string
from frazil.spec.partitioning import PartitionSpec
from frazil.spec.schema import Schema
from frazil.spec.types import StringType


def escape(text: str) -> str:
    """Encode text as java.net.URLEncoder does: `A-Za-z0-9.-*_` stay, a blank becomes `+`, other
    characters `%XX` of their UTF-8.
    """
    return quote_plus(text, safe="*", errors="replace").replace("~", "%7E")


def partition_path(spec: PartitionSpec, schema: Schema, values: tuple[Any, ...]) -> str:
    """Make the path of a partition, like `a=1/b=null`, of values in the order of the spec's fields;
    empty for a spec without fields.
    """
    parts = []
    for f, value in zip(spec.fields, values, strict=True):
        source = schema.by_id.get(f.source_id)
        text = human_string(f.transform, source.field_type if source else StringType(), value)
        parts.append(f"{escape(f.name)}={escape(text)}")
    return "/".join(parts)
