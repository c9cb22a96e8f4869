"""Entries of files as manifests have them, for tests that never open the files; and files of other
writers in a table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from frazil.catalog import Catalog
from frazil.codec.single_value import to_bytes
from frazil.commit.actions import Append, RowDelta
from frazil.commit.table_commit import commit
from frazil.spec.manifest import DataFile
from frazil.spec.schema import DELETE_FILE_PATH_ID
from frazil.spec.types import LongType
from frazil.table import Table


def data_file(
    n: int,
    low: int = 0,
    high: int = 9,
    *,
    p: Any = None,
    spec_id: int = 0,
    rows: int = 10,
    location: str = "/data",
    **more: Any,
) -> DataFile:
    """A data file that `n` names; its ids (field 1) are low..high. `p`: its partition values, one
    or a tuple.
    """
    partition = () if p is None else p if isinstance(p, tuple) else (p,)
    return DataFile(
        file_path=f"{location}/f{n:05d}.parquet",
        file_format="parquet",
        record_count=rows,
        file_size_in_bytes=100 + n,
        partition=partition,
        spec_id=spec_id,
        value_counts={1: rows},
        null_value_counts={1: 0},
        lower_bounds={1: to_bytes(LongType(), low)},
        upper_bounds={1: to_bytes(LongType(), high)},
        **more,
    )


def listed_again(t: Table) -> int:
    """Commit the table's data files once more, as other writers may, which Frazil itself refuses;
    returns the snapshot's id.
    """
    files = tuple(task.file for task in t.scan().plan_files())
    commit(t._writable(), t._loaded, [Append(files=files)])
    return t.refresh().metadata.snapshots[-1].snapshot_id


def taken_as_it_is(t: Table, path: Path, rows: int, **more: Any) -> None:
    """Commit a data or delete file that another writer made, of any format."""
    file = DataFile(
        file_path=str(path),
        file_format=path.suffix[1:],
        record_count=rows,
        file_size_in_bytes=path.stat().st_size,
        **more,
    )
    action = RowDelta(added_deletes=(file,)) if file.content else Append(files=(file,))
    commit(t._writable(), t.refresh()._loaded, [action])
    t.refresh()


def by_another_writer(catalog: Catalog, t: Table, name: str = "db.foreign") -> Table:
    """The same table under another name, whose snapshots do not say that Frazil wrote them."""
    current = Path(t.metadata_location.removeprefix("file://"))
    metadata = json.loads(current.read_text())
    for snapshot in metadata["snapshots"]:
        del snapshot["summary"]["iceberg-version"]
    foreign = current.with_name("90000-foreign.metadata.json")
    foreign.write_text(json.dumps(metadata))
    return catalog.register_table(name, str(foreign))


def vector(
    n: int, path: str = "/v.puffin", offset: int = 4, p: Any = None, rows: int = 1
) -> DataFile:
    """A deletion vector of the data file `n`, at an offset of a Puffin file."""
    return DataFile(
        content=1,
        file_path=path,
        file_format="puffin",
        record_count=rows,
        file_size_in_bytes=500,
        referenced_data_file=data_file(n).file_path,
        content_offset=offset,
        content_size_in_bytes=40,
        partition=() if p is None else (p,),
    )


def positions(
    n: int | None, path: str = "/p.parquet", p: Any = None, rows: int = 1, by_bounds: bool = False
) -> DataFile:
    """A position delete file; of the data file `n` (named, or told by its bounds), or of several."""
    name = data_file(n).file_path if n is not None else None
    low, high = (name or "/data/a").encode(), (name or "/data/z").encode()
    return DataFile(
        content=1,
        file_path=path,
        file_format="parquet",
        record_count=rows,
        file_size_in_bytes=50,
        partition=() if p is None else (p,),
        referenced_data_file=None if by_bounds else name,
        lower_bounds={DELETE_FILE_PATH_ID: low},
        upper_bounds={DELETE_FILE_PATH_ID: high},
    )


def keys(
    low: int,
    high: int,
    path: str = "/e.parquet",
    p: Any = None,
    spec_id: int = 0,
    ids: tuple[int, ...] = (1,),
) -> DataFile:
    """An equality delete file of two rows whose ids are low and high."""
    return DataFile(
        content=2,
        file_path=path,
        file_format="parquet",
        record_count=2,
        file_size_in_bytes=30,
        equality_ids=ids,
        sort_order_id=0,
        spec_id=spec_id,
        partition=() if p is None else (p,),
        value_counts={1: 2},
        null_value_counts={1: 0},
        lower_bounds={1: to_bytes(LongType(), low)},
        upper_bounds={1: to_bytes(LongType(), high)},
    )
