"""View metadata as JSON: the view specification's own example, everything that a view may hold, and
what is none.
"""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.codec.view_json import decode_view, encode_view
from frazil.errors import CorruptData, FrazilError, Unsupported
from frazil.spec.schema import Schema
from frazil.spec.types import DateType, IntegerType, LongType, NestedField
from frazil.spec.view import (
    OtherRepresentation,
    SQLViewRepresentation,
    ViewHistoryEntry,
    ViewMetadata,
    ViewVersion,
)

# "Appendix A: An Example" of the view specification
EXAMPLE: dict[str, Any] = {
    "view-uuid": "fa6506c3-7681-40c8-86dc-e36561f83385",
    "format-version": 1,
    "location": "s3://bucket/warehouse/default.db/event_agg",
    "current-version-id": 2,
    "properties": {"comment": "Daily event counts"},
    "versions": [
        {
            "version-id": n,
            "timestamp-ms": at,
            "schema-id": 1,
            "default-catalog": "prod",
            "default-namespace": ["default"],
            "summary": {"engine-name": "Spark", "engine-version": "3.3.2"},
            "representations": [
                {
                    "type": "sql",
                    "sql": f"SELECT\n    COUNT(1), CAST(event_ts AS DATE)\nFROM {name}\nGROUP BY 2",
                    "dialect": "spark",
                }
            ],
        }
        for n, at, name in [(1, 1573518431292, "events"), (2, 1573518981593, "prod.default.events")]
    ],
    "schemas": [
        {
            "schema-id": 1,
            "type": "struct",
            "fields": [
                {
                    "id": 1,
                    "name": "event_count",
                    "required": False,
                    "type": "int",
                    "doc": "Count of events",
                },
                {"id": 2, "name": "event_date", "required": False, "type": "date"},
            ],
        }
    ],
    "version-log": [
        {"timestamp-ms": 1573518431292, "version-id": 1},
        {"timestamp-ms": 1573518981593, "version-id": 2},
    ],
}


def test_the_example_of_the_specification_is_read_and_written_as_it_is() -> None:
    view = decode_view(json.dumps(EXAMPLE).encode())
    assert (
        view.current_version().queries["spark"].sql.endswith("FROM prod.default.events\nGROUP BY 2")
    )
    assert (
        view.current_version().default_catalog == "prod"
        and view.current_version().default_namespace == ("default",)
    )
    fields = (
        NestedField(1, "event_count", IntegerType(), doc="Count of events"),
        NestedField(2, "event_date", DateType()),
    )
    assert view.schema() == Schema(*fields) and view.version_log[1] == ViewHistoryEntry(
        1573518981593, 2
    )
    assert json.loads(encode_view(view)) == EXAMPLE
    assert json.loads(gzip.decompress(encode_view(view, gzipped=True))) == EXAMPLE
    assert decode_view(encode_view(view, gzipped=True)) == view


def test_what_a_newer_writer_adds_is_kept() -> None:
    newer = json.loads(json.dumps(EXAMPLE)) | {"later": [1]}
    newer["versions"][1] |= {"storage-table": {"namespace": ["default"], "name": "stored"}}
    newer["versions"][1]["representations"] += [
        {"type": "plan", "nodes": [1, 2]},
        {"type": "sql", "sql": "x", "dialect": "trino", "hint": 1},
    ]
    view = decode_view(json.dumps(newer).encode())
    assert view.current_version().representations[1] == OtherRepresentation(
        {"type": "plan", "nodes": [1, 2]}
    )
    assert view.current_version().queries.keys() == {"spark", "trino"}
    assert json.loads(encode_view(view)) == newer


_TEXTS = st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2)
_SQL = st.builds(SQLViewRepresentation, st.text(max_size=20), st.text(max_size=5))
_VERSIONS = st.builds(
    ViewVersion,
    version_id=st.integers(1, 2**31 - 1),
    schema_id=st.just(3),
    timestamp_ms=st.integers(0, 2**53),
    representations=st.lists(_SQL, max_size=3).map(tuple),
    default_namespace=st.lists(st.text(max_size=4), max_size=3).map(tuple),
    default_catalog=st.none() | st.text(max_size=4),
    summary=_TEXTS,
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(_VERSIONS, min_size=1, max_size=4, unique_by=lambda v: v.version_id),
    _TEXTS,
    st.booleans(),
    st.data(),
)
def test_every_view_is_read_as_it_was_written(
    versions: list[ViewVersion], properties: dict[str, str], zipped: bool, data: st.DataObject
) -> None:
    current = data.draw(st.sampled_from(versions)).version_id
    log = tuple(ViewHistoryEntry(v.timestamp_ms, v.version_id) for v in versions)
    schema = Schema(NestedField(1, "id", LongType()), schema_id=3)
    view = ViewMetadata("u", "/w/v", (schema,), current, tuple(versions), log, properties)
    assert decode_view(encode_view(view, zipped)) == view


@pytest.mark.parametrize(
    "change, told",
    [
        ({"format-version": 2}, "format version 2"),
        ({"current-version-id": 7}, "current version 7"),
        ({"schemas": []}, "current schema with id 1"),
        ({"versions": EXAMPLE["versions"] * 2}, "version id occurs twice"),
        ({"version-log": {}}, "version-log"),
        ({"view-uuid": 1}, "view-uuid"),
        ({"location": None}, "location"),
        ({"properties": {"a": []}}, "properties"),
    ],
)
def test_what_is_no_view_is_told(change: dict[str, Any], told: str) -> None:
    with pytest.raises((CorruptData, Unsupported), match=told):
        decode_view(json.dumps(EXAMPLE | change).encode(), "v.metadata.json")


@given(st.integers(0, 500), st.sampled_from([b"", b"\x00", b"[", b"1e999", b'"']))
@settings(max_examples=100, deadline=None)
def test_damaged_bytes_are_typed_errors(at: int, put: bytes) -> None:
    data = json.dumps(EXAMPLE).encode()
    try:
        decode_view(data[:at] + put + data[at + 3 :], "v.metadata.json")
    except FrazilError as error:
        assert isinstance(error, CorruptData | Unsupported), error
