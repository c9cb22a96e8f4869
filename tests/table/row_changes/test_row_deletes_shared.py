"""Delete files that apply to many data files are decoded once for all files that a change of rows
rewrites or reads.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import frazil
from frazil.arrow.deletes import delete_files

FILES = 6


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize("verb", ["delete", "update", "rewrite_data_files"])
def test_a_delete_file_of_many_data_files_is_decoded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, mode: str
) -> None:
    properties = {
        "format-version": "2",
        "write.delete.mode": "merge-on-read",
        "write.delete.granularity": "partition",
    }
    table = frazil.load_catalog("c", type="path", warehouse=str(tmp_path)).create_table(
        "db.t", "id bigint", properties=properties
    )
    for n in range(FILES):
        table.append(pa.table({"id": range(n * 10, n * 10 + 10)}))
    table.delete("id % 10 = 0")
    assert table.inspect.delete_files().num_rows == 1
    table.set_properties({"write.delete.mode": mode, "write.update.mode": mode})
    decoded = []
    read_file = delete_files._grouped

    def counted(delete, *arguments):  # type: ignore[no-untyped-def]
        decoded.append(delete.file_path)
        return read_file(delete, *arguments)

    monkeypatch.setattr(delete_files, "_grouped", counted)
    if verb == "delete":
        table.delete("id % 10 = 1")
    elif verb == "update":
        table.update({"id": "id + 1000"}, "id % 10 = 1")
    else:
        table.maintenance.rewrite_data_files(options={"rewrite-all": "true"})
    assert len(decoded) == 1
    rest = [i for i in range(FILES * 10) if i % 10 > (0 if verb == "rewrite_data_files" else 1)]
    assert sorted(table.scan().to_arrow().column("id").to_pylist()) == sorted(
        [*rest, *((i + 1000 for i in range(FILES * 10) if i % 10 == 1) if verb == "update" else ())]
    )
