"""Java's chain for compactions does what the procedure does."""

from __future__ import annotations

from pathlib import Path

import pytest

import frazil
from frazil.errors import InvalidInput
from tests.builders.catalogs import catalog_of
from tests.maintain.compacting import rows, table_of


def test_a_chain_compacts_as_the_procedure(tmp_path: Path) -> None:
    table = table_of(catalog_of("path", tmp_path), "t", 2, partition_by=["p"])
    before = rows(table)
    action = (
        frazil.Actions.for_table(table)
        .rewrite_data_files()
        .option("min-input-files", 2)
        .filter("p = 'p1'")
        .filter("id < 80")
    )
    planned = action.execute(dry_run=True)
    assert planned.rewritten_data_files_count == 2 and len(table.snapshots()) == 6
    done = action.sort("id DESC").target_size_in_bytes(1 << 20).execute()
    assert (done.rewritten_data_files_count, done.added_data_files_count) == (2, 1) and rows(
        table
    ) == before
    assert (
        sorted(done.removed_files) == sorted(planned.removed_files) and len(done.added_files) == 1
    )
    whole = (
        frazil.Actions.for_table(table)
        .rewrite_data_files()
        .options({"rewrite-all": True})
        .z_order("x", "s")
        .execute()
    )
    assert whole.rewritten_data_files_count == 17 and rows(table) == before


def test_a_chain_of_a_branch_leaves_the_others(tmp_path: Path) -> None:
    table = table_of(catalog_of("path", tmp_path), "t", 2)
    with table.manage_snapshots() as ms:
        ms.create_branch(table.current_snapshot().snapshot_id, "b")
    head = table.current_snapshot().snapshot_id
    done = frazil.Actions.for_table(table).rewrite_data_files().bin_pack().to_branch("b").execute()
    assert (
        done.rewritten_data_files_count == 6
        and table.refresh().current_snapshot().snapshot_id == head
    )


def test_a_chain_refuses_what_java_refuses(tmp_path: Path) -> None:
    table = table_of(catalog_of("memory", tmp_path), "t", 2, files=1)
    action = frazil.Actions.for_table(table).rewrite_data_files()
    with pytest.raises(InvalidInput, match="Must use only one rewriter type"):
        action.bin_pack().sort("id")
    with pytest.raises(InvalidInput, match="min-input-file"):
        action.option("min-input-file", 2).execute()
    with pytest.raises(InvalidInput, match="takes a table, not 'db.t'"):
        frazil.Actions.for_table("db.t")  # type: ignore[arg-type]
