"""A dry run of each procedure changes nothing, and promises the numbers of the real run, whatever
kind of table it is run on.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from frazil.catalog import Catalog
from tests.builders.files_on_disk import files_below
from tests.maintain.laid import KINDS, Laid
from tests.maintain.support import LATER, numbers

ALL = {"rewrite-all": "true"}
MADE = {
    "statistics_file",
    "ndv",
    "partition_statistics_file",
    "file_list_location",
    "staging_location",
}
"""Names of files, and what is known only when they are made."""


def files(options: dict[str, str], *order: str, **more: Any) -> Callable[..., Any]:
    return lambda t, **dry: t.maintenance.rewrite_data_files(
        *order, options={**ALL, **options}, runner="in-process", **more, **dry
    )


def deletes(verb: str, **more: Any) -> Callable[..., Any]:
    return lambda t, **dry: getattr(t.maintenance, verb)(runner="in-process", **more, **dry)


MODERN = {"partial-progress.enabled": "true", "remove-dangling-deletes": "true"}
PROCEDURES: dict[str, Callable[..., Any]] = {
    "expire_snapshots": lambda t, **dry: t.maintenance.expire_snapshots(older_than=LATER, clean_expired_metadata=True, **dry),
    "expire_snapshots, some kept": lambda t, **dry: t.maintenance.expire_snapshots(LATER, 3, **dry),
    "expire_snapshots, one": lambda t, **dry: t.maintenance.expire_snapshots(snapshot_ids=[t.snapshots()[0].snapshot_id], **dry),
    "remove_orphan_files": lambda t, **dry: t.maintenance.remove_orphan_files(**dry),
    "rewrite_manifests": lambda t, **dry: t.maintenance.rewrite_manifests(**dry),
    "rewrite_manifests, first spec": lambda t, **dry: t.maintenance.rewrite_manifests(spec_id=0, **dry),
    "rewrite_data_files": files({}),
    "rewrite_data_files, by their sizes": lambda t, **dry: t.maintenance.rewrite_data_files(runner="in-process", **dry),
    "rewrite_data_files, with deletes": files({"rewrite-all": "false", "delete-file-threshold": "1", "remove-dangling-deletes": "true"}),
    "rewrite_data_files, many deleted": files({"rewrite-all": "false", "delete-ratio-threshold": "0.1"}),
    "rewrite_data_files, one partition": files({"remove-dangling-deletes": "true"}, where="p = 'a'"),
    "rewrite_data_files, the other one": files({"remove-dangling-deletes": "true"}, where="p = 'b'"),
    "rewrite_data_files, own deletes only": files({}, where="p = 'a'"),
    "rewrite_data_files, new sequence number": files({"use-starting-sequence-number": "false"}),
    "rewrite_data_files, partial progress": files(MODERN),
    "rewrite_data_files, some": files({"max-files-to-rewrite": "3", "partial-progress.enabled": "true"}),
    "rewrite_data_files, first spec": files({"output-spec-id": "0", "remove-dangling-deletes": "true"}),
    "rewrite_data_files, sorted": files({}, "sort", "v, id"),
    "rewrite_data_files, z-order": files({}, "zorder", "zorder(v, id)"),
    "rewrite_data_files, hilbert": files(MODERN, "hilbert", "hilbert(v, id)"),
    "rewrite_position_delete_files": deletes("rewrite_position_delete_files", options=ALL),
    "rewrite_position_delete_files, by their sizes": deletes("rewrite_position_delete_files"),
    "rewrite_position_delete_files, one partition": deletes("rewrite_position_delete_files", where="p = 'a'", options=ALL),
    "rewrite_position_delete_files, partial progress": deletes(
        "rewrite_position_delete_files", options={**ALL, "partial-progress.enabled": "true"}
    ),
    "convert_equality_deletes": deletes("convert_equality_deletes"),
    "convert_equality_deletes, one partition": deletes("convert_equality_deletes", where="p = 'a'"),
    "compute_table_stats": lambda t, **dry: t.maintenance.compute_table_stats(runner="in-process", **dry),
    "compute_table_stats, one column": lambda t, **dry: t.maintenance.compute_table_stats(columns=["id"], runner="in-process", **dry),
    "compute_partition_stats": lambda t, **dry: t.maintenance.compute_partition_stats(**dry),
    "rewrite_table_path": lambda t, **dry: t.maintenance.rewrite_table_path(t.location(), "/elsewhere", **dry),
    "rewrite_table_path, what is new": lambda t, **dry: t.maintenance.rewrite_table_path(t.location(), "/elsewhere", "v3.metadata.json", **dry),
}  # fmt: skip
ON_BRANCHES: dict[str, Callable[..., Any]] = {
    "rewrite_data_files": files({}, branch="dev"),
    "rewrite_data_files, dangling": files(
        {"remove-dangling-deletes": "true"}, where="p = 'a'", branch="dev"
    ),
    "rewrite_position_delete_files": deletes(
        "rewrite_position_delete_files", options=ALL, branch="dev"
    ),
    "convert_equality_deletes": deletes("convert_equality_deletes", branch="dev"),
}
CHANGES = {
    "v1": "expire_snapshots remove_orphan_files rewrite_data_files rewrite_manifests",
    "v2 positions by file": "rewrite_position_delete_files rewrite_data_files",
    "v2 positions by partition": "rewrite_position_delete_files rewrite_data_files",
    "v2 equality deletes": "convert_equality_deletes rewrite_data_files",
    "v2 evolved": "rewrite_manifests convert_equality_deletes rewrite_position_delete_files rewrite_data_files",
    "v3 vectors": "convert_equality_deletes rewrite_data_files",
    "v3 mixed deletes": "rewrite_position_delete_files convert_equality_deletes",
    "v3 evolved": "rewrite_manifests convert_equality_deletes rewrite_data_files",
}
"""Procedures that must have something to do, so that their numbers say something."""


def promised(result: Any) -> dict[str, Any]:
    return {k: v for k, v in numbers(result).items() if k not in MADE}


FEW = ("v2 mixed deletes", "v3 evolved")


@pytest.mark.parametrize(
    "kind", [kind if kind in FEW else pytest.param(kind, marks=pytest.mark.soak) for kind in KINDS]
)
def test_dry_runs_promise_what_real_runs_do(tmp_path: Path, kind: str) -> None:
    laid, changing = Laid(tmp_path, KINDS[kind]), CHANGES.get(kind, "").split()
    refs = laid.rows_of_refs()
    for name, procedure in {
        **PROCEDURES,
        **({f"{n}, dev": p for n, p in ON_BRANCHES.items()} if "dev" in refs else {}),
    }.items():
        t = laid.again()
        before = files_below(laid.root)
        planned = promised(procedure(t, dry_run=True))
        assert files_below(laid.root) == before, name
        done = promised(procedure(t))
        if (
            "evolved" in kind
            and "added_data_files_count" in done
            and name != "rewrite_data_files, first spec"
        ):
            # The rows of an earlier spec tell only when they are read how many partitions of the
            # present one they belong to.
            assert done.pop("added_data_files_count") >= planned.pop("added_data_files_count"), name
        assert done == planned, name
        assert laid.rows_of_refs() == refs, name
        assert name not in changing or files_below(laid.root) != before, f"{name} had nothing to do"


def test_dry_runs_of_imports_promise_what_real_runs_do(home: Catalog, tmp_path: Path) -> None:
    frame = pa.table(
        {
            "id": range(30),
            "day": [dt.date(2026, 1, 1 + i % 3) for i in range(30)],
            "k": [None if i % 5 == 0 else i % 2 for i in range(30)],
        }
    )
    pq.write_to_dataset(frame, tmp_path / "source", partition_cols=["day", "k"])
    source, t = (
        str(tmp_path / "source"),
        home.create_table("db.t", "id bigint, day date, k int", partition_by=["day", "k"]),
    )
    calls: list[Callable[..., Any]] = [
        lambda **dry: t.maintenance.add_files(source, {"day": "2026-01-02"}, **dry),
        lambda **dry: home.add_files("db.t", source, {"day": "2026-01-03"}, **dry),
        lambda **dry: home.snapshot(source, "db.snap", **dry),
        lambda **dry: home.register_table(
            "db.again", metadata_file=t.refresh().metadata_location, **dry
        ),
        lambda **dry: home.migrate(source, "db.moved", **dry),
    ]
    for number, call in enumerate(calls):
        before, tables = files_below(tmp_path), home.list_tables("db")
        planned = numbers(call(dry_run=True))
        assert (files_below(tmp_path), home.list_tables("db")) == (before, tables), number
        done = numbers(call())
        assert done == planned and any(done.values()), number
