"""Why one data file is read or skipped: held against planning itself on tables of other engines,
and against the rows of small files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import frazil
from frazil.codec.metadata_json import decode_metadata
from frazil.errors import InvalidInput
from frazil.expr.parse import parse
from frazil.scan.explain.explain_file import BY_PARTITION, BY_STATISTICS, BY_SUMMARIES
from frazil.scan.manifests import clear_caches
from frazil.scan.plan import plan
from frazil.storage import storage_for
from tests.golden import names
from tests.scan.deleting import BY_S, PLAIN, SCHEMA, File, planned
from tests.scan.made import MadeFile, data_file


@pytest.mark.parametrize("name", names())
def test_a_file_of_another_engine_is_explained_as_planning_decides(golden: Any, name: str) -> None:
    clear_caches()
    table = golden[name]
    metadata = decode_metadata(Path(table.metadata_file).read_bytes(), table.metadata_file)
    storage, snapshot = storage_for(metadata.location, {}), metadata.current_snapshot()
    scans = lambda text: plan(
        metadata, storage, snapshot=snapshot, schema=metadata.schema(), row_filter=parse(text)
    )
    every = scans("TRUE").paths()[:20]
    for text in ("TRUE", *(f["sql"] for f in table.expected.get("filters", [])[:6])):
        found = scans(text)
        tasks = {t.file.file_path: t for t in found.tasks()}
        for path in every:
            why = found.explain().why(path)
            assert (why.is_read, why.skipped_by is None) == (path in tasks, path in tasks), (
                text,
                str(why),
            )
            assert all("TRUE" in c.outcomes for c in why.conditions) or not why.is_read, str(why)
            assert not why.matches_wholly or all(c.outcomes == ("TRUE",) for c in why.conditions), (
                str(why)
            )


def made(path: str, ids: range, s: str, spec: Any = PLAIN) -> File:
    rows = tuple({1: i, 2: float(i), 3: s} for i in ids)
    return File(
        data_file(path, MadeFile(rows), spec, SCHEMA, (s,) if spec is BY_S else ()), 1, spec, rows
    )


def test_the_text_names_each_condition_its_outcomes_and_what_is_known() -> None:
    found = planned(
        [made("/t/data/a", range(1, 6), "a"), made("/t/data/b", range(50, 60), "b")],
        [],
        "id > 3 AND s IN ('a', 'c')",
    ).explain()
    assert str(found.why("file:///t/data/a")).splitlines() == [
        "/t/data/a (5 rows) is read: nothing that the metadata says excludes that the filter is TRUE for some row",
        "  (id > 3L) can be TRUE or FALSE: id between 1 and 5, without nulls (counts and bounds)",
        "  (s in ('a', 'c')) can be TRUE: s = a, without nulls (counts and bounds)",
    ]
    skipped = found.why("/t/data/b")
    assert (skipped.is_read, skipped.skipped_by, skipped.record_count) == (False, BY_STATISTICS, 10)
    assert [c.decided_by for c in skipped.conditions] == [None, BY_STATISTICS]
    assert (
        "is skipped, by counts and bounds" in str(skipped)
        and "is skipped, by counts" in skipped._repr_html_()
    )


def test_partition_values_and_summaries_are_named_when_they_decide() -> None:
    files = [made("/t/data/a", range(5), "a", BY_S), made("/t/data/c", range(5), "c", BY_S)]
    assert planned(files, [], "s = 'c'").explain().why("/t/data/a").skipped_by == BY_PARTITION
    assert planned(files, [], "s = 'z'").explain().why("/t/data/a").skipped_by == BY_SUMMARIES
    whole = planned(files, [], "s = 'c'").explain().why("/t/data/c")
    assert whole.matches_wholly and "is read: the filter is TRUE for every row" in str(whole)


def test_a_scan_without_a_filter_says_so_and_an_unknown_file_is_an_error() -> None:
    found = planned([made("/t/data/a", range(5), "a")], []).explain()
    assert str(found.why("/t/data/a")) == "/t/data/a (5 rows) is read: the scan has no filter"
    with pytest.raises(InvalidInput, match="does not have the data file /t/data/x") as raised:
        found.why("/t/data/x")
    assert "inspect.files" in str(raised.value)


def test_appended_files_are_explained_even_if_they_are_gone_since(tmp_path: Path) -> None:
    catalog = frazil.load_catalog("c", type="path", warehouse=str(tmp_path))
    table = catalog.create_table("db.t", "id bigint")
    start = table.append([{"id": 1}]).snapshot_id
    path = table.append([{"id": 7}]) and next(
        t.file.file_path for t in table.scan(row_filter="id = 7").plan_files()
    )
    end = table.current_snapshot().snapshot_id  # type: ignore[union-attr]
    table.delete("id = 7")
    scan = table.incremental_append_scan(
        from_snapshot_id_exclusive=start, to_snapshot_id_inclusive=end, row_filter="id > 8"
    )
    assert scan.explain().why(path).skipped_by == BY_STATISTICS
    with pytest.raises(InvalidInput):
        table.scan().explain().why(path)


def test_a_file_from_before_the_range_is_not_explained_though_its_manifest_was_merged(
    tmp_path: Path,
) -> None:
    catalog = frazil.load_catalog("c", type="path", warehouse=str(tmp_path))
    table = catalog.create_table(
        "db.t", "id bigint", properties={"commit.manifest.min-count-to-merge": "2"}
    )
    start = table.append([{"id": 1}]).snapshot_id
    (before,) = [t.file.file_path for t in table.scan().plan_files()]
    table.append([{"id": 7}])
    assert table.inspect.manifests().num_rows == 1
    scan = table.incremental_append_scan(from_snapshot_id_exclusive=start)
    (added,) = [t.file.file_path for t in scan.plan_files()]
    assert scan.explain().why(added).is_read and table.scan().explain().why(before).is_read
    with pytest.raises(InvalidInput, match="does not have the data file"):
        scan.explain().why(before)
