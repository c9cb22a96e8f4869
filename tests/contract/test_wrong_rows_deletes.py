"""Traps about deletes beyond those that the golden tables hold, and damage, with and without Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import frazil
from frazil.arrow.deletes.write_deletes import (
    FileDeletes,
    write_equality_deletes,
    write_position_deletes,
)
from frazil.arrow.write.conform import conform
from frazil.arrow.write.write_options import write_options
from frazil.arrow.write.write_rows import WriteContext, write
from frazil.commit.actions import RowDelta
from frazil.commit.table_commit import commit
from frazil.errors import CorruptData, NoSuchFileError
from frazil.spec.manifest import DataFile
from tests.builders.catalogs import catalog_of
from tests.contract import doors
from tests.golden import Golden

Read = Callable[[Any], list[dict[str, Any]]]


@pytest.fixture(params=["arrow", pytest.param("spark", marks=pytest.mark.spark)])
def read(request: pytest.FixtureRequest) -> Read:
    """Rows of a table, or of its changelog, through one door."""
    if request.param == "arrow":
        return lambda scan: scan.to_arrow().to_pylist()
    session = request.getfixturevalue("plain_spark")
    return lambda scan: doors.collect(scan.to_spark(session)).to_pylist()


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Any]:
    """`make([(1, "a"), …], …)`: a path table of columns id and s, with a file for each batch and
    partition.
    """
    catalog = catalog_of("path", tmp_path, "gone")

    def table(*batches: list[tuple[Any, Any]], **arguments: Any) -> Any:
        made = catalog.create_table(
            f"db.t{len(catalog.list_tables('db'))}", "id bigint, s string", **arguments
        )
        for rows in batches:
            made.append(frame(rows))
        return made

    return table


def frame(rows: list[tuple[Any, Any]]) -> pa.Table:
    return pa.table(
        {
            "id": pa.array([r[0] for r in rows], pa.int64()),
            "s": pa.array([r[1] for r in rows], pa.string()),
        }
    )


def add_deletes(
    table: Any, write: Callable[[WriteContext], Any], *, data: list[Any] | None = None
) -> Any:
    """Commits delete files as another writer would."""
    base = table._loaded
    files = write(WriteContext.of(base.metadata, base.storage, write_options({})))
    commit(table._backend, base, [RowDelta(added_deletes=files, added=data or [])])
    table.refresh()
    return files


def test_equality_deletes_of_a_null_partition_reach_the_rows_of_that_partition_only(
    read: Read, make: Callable[..., Any]
) -> None:
    table = make([(1, None), (2, None), (1, "a"), (2, "a")], partition_by=["s"])
    add_deletes(table, lambda c: write_equality_deletes(frame([(1, None)]).to_batches(), c, [1]))
    assert sorted(map(repr, ((r["id"], r["s"]) for r in read(table.scan())))) == [
        "(1, 'a')",
        "(2, 'a')",
        "(2, None)",
    ]
    assert table.scan().count() == 3


@pytest.mark.parametrize("form", ["", "file:", "file://"])
def test_position_deletes_name_their_file_in_any_form(
    read: Read, make: Callable[..., Any], form: str
) -> None:
    table = make([(n, "x") for n in range(5)])
    file = next(iter(table.scan().plan_files())).file
    other = replace(
        file, file_path=form + file.file_path.removeprefix("file://").removeprefix("file:")
    )
    add_deletes(
        table,
        lambda c: write_position_deletes(
            [FileDeletes(other, np.array([0, 3]))], c, granularity="partition"
        ),
    )
    assert sorted(r["id"] for r in read(table.scan())) == [1, 2, 4]


def test_deletes_of_files_that_are_gone_delete_nothing(
    read: Read, make: Callable[..., Any]
) -> None:
    table = make([(1, "x")], [(2, "x")])
    gone = replace(next(iter(table.scan().plan_files())).file, file_path="/nowhere/else.parquet")
    for granularity in ("file", "partition"):
        add_deletes(
            table,
            lambda c, g=granularity: write_position_deletes(
                [FileDeletes(gone, np.array([0]))], c, granularity=g
            ),
        )
    assert sorted(r["id"] for r in read(table.scan())) == [1, 2]
    assert [t.inserted for t in table.changes().plan_files() if t.other is not None] in (
        [],
        [False] * 2,
    )
    assert {r["_change_type"] for r in read(table.changes())} == {"INSERT"}


def test_an_equality_delete_spares_rows_of_its_own_snapshot_and_of_later_ones(
    read: Read, make: Callable[..., Any]
) -> None:
    table = make([(1, "old"), (2, "old")])
    context = WriteContext.of(table.metadata, table.io, write_options({}))
    data = write(conform(frame([(1, "same")]), context.schema), context)
    add_deletes(
        table, lambda c: write_equality_deletes(frame([(1, "")]).to_batches(), c, [1]), data=data
    )
    table.append(frame([(1, "later")]))
    assert sorted((r["id"], r["s"]) for r in read(table.scan())) == [
        (1, "later"),
        (1, "same"),
        (2, "old"),
    ]
    gone = [
        (r["_change_type"], r["id"], r["s"])
        for r in read(table.changes(identifier_columns=["id"]))
        if r["_change_ordinal"] == 1
    ]
    assert sorted(gone) == [("UPDATE_AFTER", 1, "same"), ("UPDATE_BEFORE", 1, "old")]


def test_changelogs_bear_delete_files_and_keys_that_occur_twice(read: Read, golden: Golden) -> None:
    rows = read(
        frazil.load_table(golden["changelog_mor"].metadata_file).changes(identifier_columns=["id"])
    )
    assert sorted((r["id"], r["s"]) for r in rows if r["_change_type"] == "UPDATE_AFTER") == [
        (3, "u"),
        (4, "m"),
    ]
    rows = read(
        frazil.load_table(golden["changelog_cow"].metadata_file).changes(identifier_columns=["id"])
    )
    assert len(rows) == 20 and sum(r["_change_type"] == "UPDATE_BEFORE" for r in rows) == 2


# Damage
# --------------------------------------------------------------------------------------------------------------------------------


def damaged(delete: DataFile, how: str) -> None:
    """Cuts the file, changes one byte or removes it; of a vector's file in the vector, since
    nothing else of it is read.
    """
    file = Path(delete.file_path.removeprefix("file://").removeprefix("file:"))
    held = bytearray(file.read_bytes())
    middle = (
        len(held) // 2
        if delete.content_offset is None
        else delete.content_offset + (delete.content_size_in_bytes or 0) // 2
    )
    if how == "gone":
        file.unlink()
        return
    if how == "cut":
        held = held[:middle]
    else:
        if delete.content_offset is None:  # in the last page of a Parquet file, before its footer
            middle = len(held) - 8 - int.from_bytes(held[-8:-4], "little") - 3
        held[middle] ^= 0x41
    file.write_bytes(bytes(held))


@pytest.mark.parametrize(
    ("version", "how"),
    [(2, "cut"), (2, "flipped"), (2, "gone"), (3, "cut"), (3, "flipped"), (3, "gone")],
)
def test_damaged_delete_files_are_named_and_no_row_comes(
    read: Read, make: Callable[..., Any], version: int, how: str
) -> None:
    table = make([(n, "x") for n in range(50)], format_version=version)
    table.delete("id % 7 = 3", mode="merge-on-read")
    (delete,) = next(iter(table.scan().plan_files())).delete_files
    damaged(delete, how)
    for scan in (table.scan(), table.changes(start_snapshot_id=table.snapshots()[0].snapshot_id)):
        with pytest.raises(Exception, match=Path(delete.file_path).name) as told:
            read(scan)
        assert (
            isinstance(told.value, CorruptData | NoSuchFileError)
            or "CorruptData" in str(told.value)
            or "NoSuchFileError" in str(told.value)
        )
