"""Manifests and lists in which any type may be null in Avro's sense, as DuckDB 1.4 wrote them: a
union is read by its branch.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import fastavro
import pytest

from frazil.codec import avro_arrow
from frazil.codec.manifest import decode_manifest, decode_manifests
from frazil.codec.manifest_list import decode_manifest_list, encode_manifest_list
from frazil.errors import CorruptData
from frazil.spec.manifest import FieldSummary, ManifestFile
from frazil.spec.partitioning import PartitionField, PartitionSpec
from frazil.spec.transforms import IdentityTransform
from tests.codec.made import entry, manifest
from tests.codec.test_manifest import comparable, encoded

Optional = Callable[[Any], list[Any]]


@pytest.fixture(params=["native", "python"], autouse=True)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(
        avro_arrow, "NATIVE_FROM_BYTES", 0 if request.param == "native" else 1 << 60
    )
    return str(request.param)


def null_first(type_: Any) -> list[Any]:
    return ["null", type_]


def null_last(type_: Any) -> list[Any]:
    return [type_, "null"]


def rewritten(
    data: bytes,
    optional: Optional,
    top: bool = False,
    change: Callable[[dict[str, Any]], Any] = lambda _: None,
) -> bytes:
    """The file again, with each type in a union with null: fields, items, keys and values, with
    `top` the entries themselves.
    """
    reader = fastavro.reader(io.BytesIO(data))
    records: list[Any] = list(reader)
    header = {k: v for k, v in reader.metadata.items() if not k.startswith("avro.")}

    def everywhere(type_: Any) -> Any:
        if isinstance(type_, list):
            return optional(everywhere(next(t for t in type_ if t != "null")))
        if isinstance(type_, dict) and "fields" in type_:
            return {
                **type_,
                "fields": [{**f, "type": nullable(f["type"])} for f in type_["fields"]],
            }
        if isinstance(type_, dict) and "items" in type_:
            plain = {k: v for k, v in type_.items() if k not in ("items", "logicalType")}
            return {**plain, "items": nullable(type_["items"])}
        return type_

    def nullable(type_: Any) -> Any:
        inside = everywhere(type_)
        return inside if isinstance(inside, list) else optional(inside)

    for record in records:
        change(record)
    schema = everywhere(json.loads(reader.metadata["avro.schema"]))
    for f in schema["fields"]:  # a default must be of the first branch
        f.pop("default", None)
    out = io.BytesIO()
    fastavro.writer(
        out,
        fastavro.parse_schema(_without_defaults(optional(schema) if top else schema)),
        records,
        metadata=header,
    )
    return out.getvalue()


def _without_defaults(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_defaults(s) for s in schema]
    if isinstance(schema, dict):
        return {k: _without_defaults(v) for k, v in schema.items() if k != "default"}
    return schema


SPEC = PartitionSpec(
    PartitionField(1, 1000, IdentityTransform(), "p"),
    PartitionField(2, 1001, IdentityTransform(), "q"),
)
STATISTICS: dict[str, Any] = {
    "value_counts": {1: 5, 2: 6},
    "lower_bounds": {2: b"x"},
    "upper_bounds": {2: b"y"},
    "split_offsets": (4, 99),
}


@pytest.mark.parametrize("top", [False, True])
@pytest.mark.parametrize("optional", [null_first, null_last])
def test_a_manifest_in_which_everything_may_be_null_is_read_as_one_in_which_nothing_may(
    optional: Optional, top: bool
) -> None:
    files = [
        entry(
            f"{n}.parquet",
            status=n % 3,
            rows=n,
            partition=(n, f"q{n}" if n % 2 else None),
            **STATISTICS,
        )
        for n in range(40)
    ]
    data = encoded(files, SPEC)
    m = manifest(sequence_number=7, added_snapshot_id=9, first_row_id=100)
    plain, loose = decode_manifest(data, m), decode_manifest(rewritten(data, optional, top), m)
    assert comparable(loose) == comparable(plain)
    assert [comparable(t) for t in decode_manifests([(rewritten(data, optional, top), m)] * 2)] == [
        comparable(plain)
    ] * 2


def test_a_partition_that_is_null_as_a_whole_has_null_for_each_field_and_null_items_say_nothing() -> (
    None
):
    def change(record: dict[str, Any]) -> None:
        if record["data_file"]["record_count"] % 2:
            record["data_file"]["partition"] = None
            record["data_file"]["lower_bounds"] = [
                None,
                {"key": 1, "value": None},
                {"key": None, "value": b"z"},
                {"key": 2, "value": b"x"},
            ]
            record["data_file"]["split_offsets"] = [None, 4]

    data = encoded(
        [entry(f"{n}.parquet", rows=n, partition=(n, "q"), **STATISTICS) for n in range(40)], SPEC
    )
    table = decode_manifest(rewritten(data, null_first, change=change), manifest())
    assert table["partition"].to_pylist() == [
        {"1000": None, "1001": None} if n % 2 else {"1000": n, "1001": "q"} for n in range(40)
    ]
    assert table["lower_bounds"].to_pylist() == [[{"key": 2, "value": b"x"}]] * 40
    assert table["split_offsets"].to_pylist() == [[4] if n % 2 else [4, 99] for n in range(40)]
    assert table["file_path"].to_pylist() == [f"{n}.parquet" for n in range(40)]


def test_an_entry_without_a_file_is_damage_that_is_named() -> None:
    data = encoded([entry(f"{n}.parquet", rows=n) for n in range(40)])
    bad = rewritten(
        data,
        null_first,
        change=lambda r: r.update(
            data_file=r["data_file"] if r["data_file"]["record_count"] != 30 else None
        ),
    )
    with pytest.raises(CorruptData, match="An entry in manifest m0.avro has no file_path"):
        decode_manifest(bad, manifest())
    with pytest.raises(CorruptData):
        decode_manifest(rewritten(data, null_first)[:-40], manifest())


def test_the_native_reader_takes_manifests_whose_records_alone_may_be_null(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if engine == "native":
        monkeypatch.setattr(avro_arrow, "read_records", None)  # what Python would read by
    data = encoded(
        [entry(f"{n}.parquet", rows=n, partition=(n, "q"), **STATISTICS) for n in range(40)], SPEC
    )
    reader = fastavro.reader(io.BytesIO(data))
    schema = json.loads(reader.metadata["avro.schema"])
    file = next(f for f in schema["fields"] if f["name"] == "data_file")
    partition = next(f for f in file["type"]["fields"] if f["name"] == "partition")
    partition["type"], file["type"] = ["null", partition["type"]], ["null", file["type"]]
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(schema), list(reader))
    assert comparable(decode_manifest(out.getvalue(), manifest())) == comparable(
        decode_manifest(data, manifest())
    )


@pytest.mark.parametrize("top", [False, True])
@pytest.mark.parametrize("optional", [null_first, null_last])
def test_a_manifest_list_in_which_everything_may_be_null_is_read_as_one_in_which_nothing_may(
    optional: Optional, top: bool
) -> None:
    summaries = (FieldSummary(True, None, b"a", b"b"), FieldSummary(False, False, b"c", None))
    listed = [
        ManifestFile(
            manifest_path=f"m{n}.avro",
            manifest_length=9,
            partition_spec_id=0,
            content=n % 2,
            sequence_number=n,
            min_sequence_number=n,
            added_snapshot_id=5,
            added_files_count=1,
            existing_files_count=0,
            deleted_files_count=0,
            added_rows_count=10,
            existing_rows_count=0,
            deleted_rows_count=0,
            partitions=summaries,
        )
        for n in range(5)
    ]
    data = encode_manifest_list(listed, snapshot_id=5, parent_snapshot_id=None, sequence_number=5)
    assert decode_manifest_list(rewritten(data, optional, top)) == tuple(listed)

    def lacking(record: dict[str, Any]) -> None:
        record["partitions"][0] = None
        record["partitions"][1]["contains_null"] = None

    (first, *_) = decode_manifest_list(rewritten(data, optional, top, lacking))
    assert first.partitions == (FieldSummary(None), FieldSummary(None, False, b"c", None))
    again = encode_manifest_list([first], snapshot_id=6, parent_snapshot_id=5, sequence_number=6)
    assert decode_manifest_list(again)[0].partitions == (
        FieldSummary(True),
        FieldSummary(True, False, b"c", None),
    )
