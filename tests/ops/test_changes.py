"""Changes as values: what their texts show, and that an operation logs them."""

from __future__ import annotations

import logging

import pyarrow as pa
import pytest

import frazil
from frazil.expr.nodes import EqualTo, Reference
from frazil.ops.changes import AddFiles, AppendRows, DataChange, DeleteRows, MergeRows, UpdateRows
from frazil.rows.clauses import Merge, matched_delete, matched_update

ROWS = pa.table({"id": [4711], "card": ["4000-1234"]})
GONE = matched_delete("source.id > 1")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (AppendRows(ROWS), "AppendRows(branch=main, frame=Table[id, card])"),
        (
            AppendRows(ROWS.to_pylist(), options={"branch": "audit", "compression-codec": "zstd"}),
            "AppendRows(branch=audit, frame=list)",
        ),
        (AppendRows(ROWS.to_pydict()), "AppendRows(branch=main, frame=dict[id, card])"),
        (
            AddFiles(["/a.parquet"], again=True),
            "AddFiles(branch=main, file_paths=list[/a.parquet], again=True)",
        ),
        (
            DeleteRows("id = 1", mode="merge-on-read"),
            "DeleteRows(branch=main, mode=merge-on-read, where=id = 1)",
        ),
        (
            UpdateRows({"card": "'4000-1234'"}, EqualTo(Reference("id"), 1)),
            "UpdateRows(branch=main, set=dict[card], where=(id = 1))",
        ),
        (
            MergeRows(ROWS, Merge("target.id = source.id", (GONE,))),
            "MergeRows(branch=main, frame=Table[id, card], merge=Merge[when matched and source.id > 1 then delete])",
        ),
        (
            MergeRows(ROWS, Merge("true", (matched_update({"card": "'4000-1234'"}),))),
            "MergeRows(branch=main, frame=Table[id, card], merge=Merge[when matched then update])",
        ),
    ],
)
def test_the_text_of_a_change_has_conditions_and_columns_but_no_values(
    change: DataChange, text: str
) -> None:
    assert repr(change) == text and "4711" not in text and "4000-1234" not in text


def test_an_operation_logs_each_change(caplog: pytest.LogCaptureFixture) -> None:
    catalog = frazil.load_catalog("logged", type="memory")
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", ROWS.schema)
    with caplog.at_level(logging.DEBUG, "frazil.ops"), table.transaction() as tx:
        tx.append(ROWS)
        tx.delete("id = 1")
    assert [r.getMessage().partition(": ")[2] for r in caplog.records] == [
        "AppendRows(branch=main, frame=Table[id, card])",
        "DeleteRows(branch=main, where=id = 1)",
    ]
    facts = [(vars(r)["table"], vars(r)["operation"]) for r in caplog.records]
    assert facts == [(table._name, "write")] * 2
