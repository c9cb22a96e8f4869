"""Null structs stay null where the source's struct lacks members of the table's: MERGE and upsert
with schema evolution, at every depth.

As in Spark since 4.1: where the old struct has members that the source lacks, these stay, so that
the new struct is null only where both are.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from frazil.catalog import Catalog
from frazil.table import Table
from tests.builders.catalogs import catalog_of

LONG = pa.int64()


def of_longs(*names: str) -> pa.DataType:
    return pa.struct([(n, LONG) for n in names])


YZ, YX, YZX = of_longs("y", "z"), of_longs("y", "x"), of_longs("y", "z", "x")
TEXT = "struct<y: bigint, z: bigint>"
ONE, NONE, NEW = {"y": 1, "z": 1}, {"y": None, "z": None}, {"y": 5, "z": None, "x": 6}
# name: (type of the column, the table's Arrow type, the source's, old values, new values)
KINDS: dict[str, tuple[str, pa.DataType, pa.DataType, list[Any], list[Any]]] = {
    "struct": (TEXT, YZ, YX, [None, ONE, NONE], [None, {"y": 5, "x": 6}, {"y": None, "x": None}]),
    "nested": (
        f"struct<t: {TEXT}, u: bigint>", pa.struct([("t", YZ), ("u", LONG)]), pa.struct([("t", YX)]),
        [None, {"t": None, "u": 1}, {"t": ONE, "u": 1}], [None, {"t": None}, {"t": {"y": 5, "x": 6}}],
    ),
    "list": (f"array<{TEXT}>", pa.list_(YZ), pa.list_(YZX), [None, [None, ONE]], [None, [], [None, NEW]]),
    "map": (
        f"map<string, {TEXT}>", pa.map_(pa.string(), YZ), pa.map_(pa.string(), YZX),
        [None, [("k", None)], [("k", ONE)]], [None, [], [("k", None), ("l", NEW)]],
    ),
    "list in a struct": (
        f"struct<l: array<{TEXT}>, u: bigint>", pa.struct([("l", pa.list_(YZ)), ("u", LONG)]), pa.struct([("l", pa.list_(YZX))]),
        [None, {"l": None, "u": 1}, {"l": [None, ONE], "u": 1}], [None, {"l": None}, {"l": [None, NEW]}],
    ),
}  # fmt: skip


def merged(old: Any, new: Any, type_: pa.DataType) -> Any:
    """The rule: members of both, null where the source's is null and nothing is left of the old
    one.
    """
    if pa.types.is_struct(type_) and "l" in [f.name for f in type_]:
        if old is None and new is None:
            return None
        return {"l": (new or {}).get("l"), "u": (old or {}).get("u")}
    if pa.types.is_struct(type_) and type_.get_field_index("t") >= 0:
        if old is None and new is None:
            return None
        return {
            "t": merged((old or {}).get("t"), (new or {}).get("t"), YZ),
            "u": (old or {}).get("u"),
        }
    if pa.types.is_struct(type_):
        return (
            None
            if old is None and new is None
            else {"y": (new or {}).get("y"), "z": (old or {}).get("z"), "x": (new or {}).get("x")}
        )
    return new


def pairs_of(kind: str) -> list[tuple[Any, Any]]:
    *_, old, new = KINDS[kind]
    return list(itertools.product(old, new))


def table_and_source(catalog: Catalog, kind: str) -> tuple[Table, pa.Table]:
    text, of_table, of_source, *_ = KINDS[kind]
    pairs = pairs_of(kind)
    t = catalog.create_table("db.t", f"id bigint, s {text}")
    t.append(
        pa.table(
            {
                "id": pa.array(range(len(pairs)), LONG),
                "s": pa.array([old for old, _ in pairs], of_table),
            }
        )
    )
    new = [n for _, n in pairs]
    return t, pa.table(
        {"id": pa.array(range(len(pairs) + 1), LONG), "s": pa.array([*new, None], of_source)}
    )


def check(t: Table, kind: str) -> None:
    values = dict(zip(*t.refresh().scan().to_arrow().to_pydict().values(), strict=True))
    assert values.pop(len(pairs_of(kind))) is None, "the row that was inserted"
    assert values == {
        n: merged(old, new, KINDS[kind][1]) for n, (old, new) in enumerate(pairs_of(kind))
    }


def change(t: Table, how: str, source: Any, mode: str = "copy-on-write") -> None:
    if how == "upsert":
        t.upsert(source, join_cols=["id"], merge_schema=True, mode=mode)
        return
    merge = t.merge(source, on="target.id = source.id").with_schema_evolution()
    merge.when_matched_update_all().when_not_matched_insert_all().execute(mode=mode)


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize("how", ["merge", "upsert"])
@pytest.mark.parametrize("kind", KINDS)
def test_null_structs_stay_null_where_the_source_lacks_members(
    tmp_path: Path, kind: str, how: str, mode: str
) -> None:
    t, source = table_and_source(catalog_of("memory", tmp_path), kind)
    change(t, how, source, mode)
    check(t, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_null_structs_stay_null_in_frames_that_are_appended_with_other_members(
    tmp_path: Path, kind: str
) -> None:
    t, source = table_and_source(catalog_of("memory", tmp_path), kind)
    t.delete("true")
    t.append(source, merge_schema=True)
    values = t.refresh().scan().to_arrow()["s"].to_pylist()
    assert values == [merged(None, v, KINDS[kind][1]) for v in source["s"].to_pylist()]


def test_a_null_struct_with_a_required_member_stays_null(tmp_path: Path) -> None:
    t = catalog_of("memory", tmp_path).create_table(
        "db.t", "id bigint, s struct<y: bigint not null, z: bigint>"
    )
    old = pa.struct([pa.field("y", LONG, False), ("z", LONG)])
    t.append(pa.table({"id": [1, 2], "s": pa.array([None, {"y": 1, "z": 2}], old)}))
    source = pa.table(
        {"id": [1, 2], "s": pa.array([None, {"y": 7}], pa.struct([pa.field("y", LONG, False)]))}
    )
    change(t, "merge", source)
    assert sorted(t.refresh().scan().to_arrow().to_pylist(), key=str) == [
        {"id": 1, "s": None},
        {"id": 2, "s": {"y": 7, "z": 2}},
    ]


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["nested", "list in a struct"])
def test_null_structs_stay_null_in_changes_by_spark(spark: Any, tmp_path: Path, kind: str) -> None:
    catalog = catalog_of("path", tmp_path)
    t, source = table_and_source(catalog, kind)
    change(t, "merge" if kind == "nested" else "upsert", spark.createDataFrame(source).coalesce(1))
    check(t, kind)
