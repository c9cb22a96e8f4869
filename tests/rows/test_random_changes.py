"""Random scripts of append, delete, update and overwrite, in both modes, against a Python model; in v3 the lineage of every row as well."""

from __future__ import annotations

import os
import tempfile

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import frazil
from tests.rows.model_of_rows import CONDITIONS, SCHEMA, SETTINGS, same

LONG = bool(os.environ.get("FRAZIL_SOAK"))
pytestmark = [pytest.mark.soak] if LONG else []
TYPES = pa.schema(
    [("k", pa.int64()), ("id", pa.int64()), ("x", pa.float64()), ("s", pa.string()), ("p", pa.int32()),
     ("t", pa.struct([("a", pa.int32()), ("b", pa.string())]))]
)  # fmt: skip
maybe = lambda values: st.one_of(st.none(), st.sampled_from(values))
ROW = st.fixed_dictionaries({
    "id": maybe([1, 2, 3, 4, 7, -5]), "x": maybe([0.0, -0.0, 1.0, 1.5, -2.0, float("nan"), float("inf")]), "s": maybe(["a", "ab", "b", ""]),
    "p": maybe([0, 1, 2]), "t": maybe([{"a": 2, "b": "q"}, {"a": None, "b": "r"}, {"a": 5, "b": None}]),
})  # fmt: skip
MODES = st.sampled_from(["copy-on-write", "merge-on-read"])
STEP = st.one_of(
    st.tuples(st.just("append"), st.lists(ROW, min_size=1, max_size=6)),
    st.tuples(st.just("delete"), st.sampled_from(CONDITIONS), MODES),
    st.tuples(st.just("update"), st.sampled_from(CONDITIONS), st.sampled_from(SETTINGS), MODES),
    st.tuples(st.just("overwrite"), st.sampled_from(CONDITIONS[:12]), st.lists(ROW, max_size=2)),
)
TABLE = st.fixed_dictionaries({
    "format_version": st.sampled_from([1, 2, 3]), "partition_by": st.sampled_from([[], ["p"], ["bucket(2, id)"], ["truncate(1, s)", "p"]]),
    "properties": st.fixed_dictionaries({
        "write.format.default": st.sampled_from(["parquet", "parquet", "orc", "avro"]),
        "write.delete.granularity": st.sampled_from(["file", "partition"]), "write.delete.mode": MODES,
    }),
})  # fmt: skip


class Model:
    """Rows by key; in v3 what lineage each must have, once the table has told it."""

    def __init__(self) -> None:
        self.rows: dict[int, dict] = {}
        self.lineage: dict[int, tuple[int, int]] = {}
        self.next = 0

    def fresh(self, rows: list[dict]) -> list[dict]:
        found = [{"k": self.next + i, **r} for i, r in enumerate(rows)]
        self.next += len(found)
        self.rows |= {r["k"]: r for r in found}
        return found

    def matching(self, condition) -> list[int]:
        return [k for k, r in self.rows.items() if condition.holds(r) is True]


def apply(table, model: Model, step) -> None:
    v1 = table.format_version == 1
    match step:
        case ("append", rows):
            table.append(pa.Table.from_pylist(model.fresh(rows), TYPES))
        case ("delete", condition, mode):
            gone = model.matching(condition)
            result = table.delete(condition.text, mode="copy-on-write" if v1 else mode)
            assert result.rows_deleted == len(gone) and (result.snapshot_id is not None) == bool(gone)
            model.rows = {k: r for k, r in model.rows.items() if k not in gone}
        case ("update", condition, setting, mode):
            hit = model.matching(condition)
            result = table.update(setting.given, condition.text, mode="copy-on-write" if v1 else mode)
            assert result.rows_updated == len(hit) and (result.snapshot_id is not None) == bool(hit)
            model.rows |= {k: {**model.rows[k], **setting.change(model.rows[k])} for k in hit}
            for k in hit:
                row_id = model.lineage.get(k, (None, None))[0]
                model.lineage[k] = (row_id, table.last_sequence_number)
        case ("overwrite", condition, rows):
            gone = model.matching(condition)
            model.rows = {k: r for k, r in model.rows.items() if k not in gone}
            table.overwrite(pa.Table.from_pylist(model.fresh(rows), TYPES), condition.text)


def check(table, model: Model) -> None:
    assert same(table.to_arrow().to_pylist(), list(model.rows.values()))
    assert table.scan().count() == len(model.rows)
    if table.format_version < 3:
        return
    found = table.scan(selected_fields=("k", "_row_id", "_last_updated_sequence_number")).to_arrow().to_pylist()
    assert len({r["_row_id"] for r in found}) == len(found) and None not in {r["_row_id"] for r in found}
    for r in found:
        known = model.lineage.setdefault(r["k"], (r["_row_id"], r["_last_updated_sequence_number"]))
        assert known == (r["_row_id"], r["_last_updated_sequence_number"]), r


@settings(max_examples=400 if LONG else 25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(TABLE, st.lists(ROW, min_size=4, max_size=12), st.lists(STEP, min_size=1, max_size=6))
def test_random_changes_leave_the_rows_and_lineage_of_the_model(options, first, steps):
    with tempfile.TemporaryDirectory() as home:
        if options["format_version"] == 1:
            properties = {**options["properties"], "write.delete.mode": "copy-on-write"}
            options = {**options, "properties": properties}
        catalog = frazil.load_catalog("c", type="path", warehouse=home)
        catalog.create_namespace("db")
        table, model = catalog.create_table("db.t", SCHEMA, **options), Model()
        half = len(first) // 2
        for rows in (first[:half], first[half:]):
            apply(table, model, ("append", rows))
        check(table, model)
        for step in steps:
            apply(table, model, step)
            check(table, model)
