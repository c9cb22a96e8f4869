from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.codec.manifest import decode_manifest, entries_from_table
from frazil.codec.manifest_list import decode_manifest_list
from frazil.codec.single_value import escape, partition_path
from frazil.spec.partitioning import PartitionField, PartitionSpec
from frazil.spec.schema import Schema
from frazil.spec.transforms import BucketTransform, DayTransform, IdentityTransform, VoidTransform
from frazil.spec.types import BinaryType, DoubleType, NestedField, StringType, TimestampType
from tests.codec.made import current_metadata, local
from tests.golden import Golden, names


@pytest.mark.parametrize(
    "text,expected",
    [
        ("data#1", "data%231"),
        ("a b", "a+b"),
        ("a+b", "a%2Bb"),
        ("~", "%7E"),
        ("A-Za.z_0*9", "A-Za.z_0*9"),
        ("é/=%", "%C3%A9%2F%3D%25"),
        ("", ""),
        ("😀", "%F0%9F%98%80"),
    ],
)
def test_text_is_escaped_as_java_does(text: str, expected: str) -> None:
    assert escape(text) == expected


@given(st.text())
def test_no_text_gives_a_second_path_element(text: str) -> None:
    assert set(escape(text)).isdisjoint("/=")


def test_values_are_joined_in_the_order_of_the_spec() -> None:
    schema = Schema(
        NestedField(1, "s", StringType()),
        NestedField(2, "ts", TimestampType()),
        NestedField(3, "b", BinaryType()),
        NestedField(4, "d", DoubleType()),
    )
    fields = [
        (1, IdentityTransform(), "data#1"),
        (2, DayTransform(), "ts_day"),
        (2, BucketTransform(4), "n"),
        (3, IdentityTransform(), "b"),
        (4, IdentityTransform(), "d"),
        (1, VoidTransform(), "v"),
    ]
    spec = PartitionSpec(
        *(PartitionField(source, 1000 + i, t, name) for i, (source, t, name) in enumerate(fields))
    )
    values: tuple[Any, ...] = ("val#1", 17486, 3, b"\x00\xff", 1.5, None)
    assert (
        partition_path(spec, schema, values)
        == "data%231=val%231/ts_day=2017-11-16/n=3/b=AP8%3D/d=1.5/v=null"
    )
    assert partition_path(PartitionSpec(), schema, ()) == ""


@pytest.mark.parametrize(
    "name", [n for n in names(deletes=None, partitioned=True) if not n.startswith("py_")]
)
def test_golden_data_files_lie_where_we_would_put_them(golden: Golden, name: str) -> None:
    metadata, checked = current_metadata(golden, name), 0
    if metadata.properties.get("write.object-storage.enabled") == "true":
        return
    snapshot = metadata.current_snapshot()
    if snapshot is None or snapshot.manifest_list is None:
        return
    for m in decode_manifest_list(local(snapshot.manifest_list).read_bytes()):
        spec = metadata.spec_by_id(m.partition_spec_id)
        schema = next(
            (
                s
                for s in (metadata.schema(), *metadata.schemas)
                if all(f.source_id in s.by_id for f in spec.fields)
            ),
            metadata.schema(),
        )
        for e in entries_from_table(decode_manifest(local(m.manifest_path).read_bytes(), m), spec):
            folder = e.data_file.file_path.rpartition("/")[0]
            if (
                "/data" in folder
                and "/import/" not in folder
                and "=" in folder
                and e.data_file.file_format != "puffin"
            ):
                assert folder.endswith("/" + partition_path(spec, schema, e.data_file.partition)), (
                    folder
                )
                checked += 1
    assert checked or not any("=" in str(f) for f in golden[name].expected["files"])
