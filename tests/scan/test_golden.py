"""Plans and metadata tables of tables that Java, PyIceberg and Flink wrote, against what Java said
of them.
"""

import datetime as dt
import json
import math
import re
from decimal import Decimal

import pytest

from frazil.expr.parse import parse
from frazil.scan.inspect import (
    METADATA_TABLES,
    TIME_TRAVEL_TABLES,
    metadata_table,
    metadata_table_schema,
)
from frazil.scan.manifests import clear_caches
from frazil.scan.plan import plan
from tests.builders.golden_metadata import opened
from tests.golden import names


@pytest.fixture(autouse=True)
def _cold():
    clear_caches()


def relative(path, root):
    return re.sub("/+", "/", str(path).removeprefix("file:")).removeprefix(str(root)).lstrip("/")


def shown(value):
    """As the expectations write values."""
    match value:
        case dt.datetime():
            return value.replace(tzinfo=None).isoformat(timespec="microseconds")
        case dt.date() | dt.time():
            return value.isoformat()
        case bytes():
            return value.hex()
        case Decimal():
            return str(value)
        case dict():
            return {str(k): shown(v) for k, v in value.items()}
        case list() if value and isinstance(value[0], tuple):
            return {str(k): shown(v) for k, v in value}
        case list():
            return [shown(v) for v in value]
        case float() if not math.isfinite(value):
            return str(value)
    return value


@pytest.mark.parametrize("name", names(deletes=None))
def test_files_are_those_that_java_lists(golden, name):
    table, metadata, storage = opened(golden, name)
    listed = table.expected.get("files", [])
    by_offset = any("content_offset" in f for f in listed)
    expected = {(f["file_path"], f.get("content_offset") if by_offset else None): f for f in listed}
    found, numbers = {}, {}
    for row in metadata_table("files", metadata, storage).to_pylist():
        row["file_path"] = relative(row["file_path"], table.root)
        found[row["file_path"], row["content_offset"] if by_offset else None] = shown(row)
    for row in metadata_table("entries", metadata, storage).to_pylist():
        path = relative(row["data_file"]["file_path"], table.root)
        if row["status"] != 2:
            numbers.setdefault(path, set()).add(row["sequence_number"])
    assert found.keys() == expected.keys()
    for place, want in expected.items():
        got = found[place]
        for key, value in want.items():
            if key == "referenced_data_file" and value is not None:
                assert relative(got[key], table.root) == relative(value, table.root)
            elif key == "sequence_number":
                assert value in numbers[place[0]]
            else:
                assert close(got[key], value), (key, got[key], value)


def close(got, want):
    """Equal, with Java's way of writing numbers, dates and times set aside."""
    if isinstance(want, dict) and isinstance(got, dict):
        return got.keys() == want.keys() and all(close(got[k], want[k]) for k in want)
    if got == want or (got is None and want == {}) or (got == [] and want == {}):
        return True
    texts = [
        json.dumps(v).strip('"').replace("T", " ").replace("+00:00", "").removesuffix("Z")
        for v in (got, want)
    ]
    texts = [t.rstrip("0").rstrip(".") if "." in t else t for t in texts]
    if texts[0] == texts[1]:
        return True
    try:
        return float(got) == float(want)
    except (TypeError, ValueError):
        return False


@pytest.mark.parametrize("name", names(deletes=None))
def test_manifests_are_those_that_java_lists(golden, name):
    table, metadata, storage = opened(golden, name)
    if "manifests" not in table.expected or "metadata table manifests" in (
        table.expected.get("java_fails_on") or ()
    ):
        pytest.skip("Java could not list them")
    found = metadata_table("manifests", metadata, storage).to_pylist()
    for row in found:
        row["path"] = relative(row["path"], table.root)
    assert sorted(found, key=lambda r: r["path"]) == sorted(
        table.expected["manifests"], key=lambda r: r["path"]
    )


@pytest.mark.parametrize("name", names(deletes=None))
def test_partitions_are_those_that_java_lists(golden, name):
    table, metadata, storage = opened(golden, name)
    expected = table.expected.get("partitions")
    if expected is None:
        pytest.skip("Java could not list them")
    found = [shown(r) for r in metadata_table("partitions", metadata, storage).to_pylist()]
    key = lambda r: (
        json.dumps(r.get("partition"), sort_keys=True, default=str),
        r.get("spec_id", 0),
    )
    found, expected = sorted(found, key=key), sorted(expected, key=key)
    assert len(found) == len(expected), (found, expected)
    for got, want in zip(found, expected, strict=True):
        assert close(got, want), (got, want)


@pytest.mark.parametrize("name", names(deletes=None))
def test_every_metadata_table_opens_with_the_columns_it_promises(golden, name):
    table, metadata, storage = opened(golden, name)
    for kind in METADATA_TABLES:
        found = metadata_table(kind, metadata, storage, metadata_location=table.metadata_file)
        found.validate(full=True)
        assert found.schema.equals(metadata_table_schema(kind, metadata)), kind
    for snapshot in metadata.snapshots:
        counts = next(
            (
                s
                for s in table.snapshots()
                if s.get("snapshot_id", s.get("id")) == snapshot.snapshot_id
            ),
            {},
        )
        for kind in TIME_TRAVEL_TABLES:
            found = metadata_table(kind, metadata, storage, snapshot_id=snapshot.snapshot_id)
            if kind in ("data_files", "delete_files") and kind in counts:
                assert found.num_rows == counts[kind]


@pytest.mark.parametrize("name", names())
def test_no_filter_loses_rows_and_wholly_matching_files_hold_no_others(golden, name):
    table, metadata, storage = opened(golden, name)
    for wanted in table.expected.get("filters", []):
        found = plan(
            metadata,
            storage,
            snapshot=metadata.current_snapshot(),
            row_filter=parse(wanted["sql"]),
            schema=metadata.schema(),
        )
        assert found.matched_records <= wanted["count"] <= found.total_records, wanted
        assert not found.has_deletes


@pytest.mark.parametrize("name", names(deletes=True))
def test_a_snapshot_with_deletes_says_so(golden, name):
    table, metadata, storage = opened(golden, name)
    found = plan(metadata, storage, snapshot=metadata.current_snapshot(), schema=metadata.schema())
    counts = table.expected["counts"]
    assert found.has_deletes and len(found) == counts["data_files"]
    report = found.report
    assert (report.positional_delete_files, report.equality_delete_files, report.dvs) == (
        counts["position_delete_files"],
        counts["equality_delete_files"],
        counts["dvs"],
    )
    assert report.indexed_delete_files == sum(
        counts[k] for k in ("position_delete_files", "equality_delete_files", "dvs")
    )
    assert report.result_delete_files == sum(len(t.delete_files) for t in found.tasks())
    assert "delete files" in str(found.explain())
