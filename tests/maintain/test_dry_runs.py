"""A dry run of each procedure changes nothing, and promises the numbers of the real run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builders.files_on_disk import files_below
from tests.maintain.laid import Laid
from tests.maintain.support import LATER, numbers

ALL = {"rewrite-all": "true"}
MADE = {"statistics_file", "ndv", "partition_statistics_file", "file_list_location", "staging_location"}
"""Names of files, and what is known only when they are made."""


def files(options: dict[str, str], *order: str, **more: Any) -> Callable[..., Any]:
    return lambda t, **dry: t.maintenance.rewrite_data_files(*order, options={**ALL, **options}, runner="in-process", **more, **dry)


PROCEDURES: dict[str, Callable[..., Any]] = {
    "expire_snapshots": lambda t, **dry: t.maintenance.expire_snapshots(older_than=LATER, clean_expired_metadata=True, **dry),
    "remove_orphan_files": lambda t, **dry: t.maintenance.remove_orphan_files(**dry),
    "rewrite_manifests": lambda t, **dry: t.maintenance.rewrite_manifests(**dry),
    "rewrite_data_files": files({}),
    "rewrite_data_files, one partition": files({"remove-dangling-deletes": "true"}, where="p = 'a'"),
    "rewrite_data_files, the other one": files({"remove-dangling-deletes": "true"}, where="p = 'b'"),
    "rewrite_data_files, own deletes only": files({}, where="p = 'a'"),
    "rewrite_data_files, new sequence number": files({"use-starting-sequence-number": "false"}),
    "rewrite_data_files, partial progress": files({"partial-progress.enabled": "true", "remove-dangling-deletes": "true"}),
    "rewrite_data_files, sorted": files({}, "sort", "v, id"),
    "rewrite_position_delete_files": lambda t, **dry: t.maintenance.rewrite_position_delete_files(options=ALL, runner="in-process", **dry),
    "convert_equality_deletes": lambda t, **dry: t.maintenance.convert_equality_deletes(runner="in-process", **dry),
    "compute_table_stats": lambda t, **dry: t.maintenance.compute_table_stats(runner="in-process", **dry),
    "compute_partition_stats": lambda t, **dry: t.maintenance.compute_partition_stats(**dry),
    "rewrite_table_path": lambda t, **dry: t.maintenance.rewrite_table_path(t.location(), "/elsewhere", **dry),
}  # fmt: skip


@pytest.mark.parametrize("version", [2, 3])
def test_dry_runs_promise_what_real_runs_do(tmp_path: Path, version: int) -> None:
    laid = Laid(tmp_path, version)
    for name, procedure in PROCEDURES.items():
        t = laid.again()
        before = files_below(laid.root)
        planned = numbers(procedure(t, dry_run=True))
        assert files_below(laid.root) == before, name
        done = numbers(procedure(t))
        assert {k: v for k, v in done.items() if k not in MADE} == {k: v for k, v in planned.items() if k not in MADE}, name
        assert laid.rows() == laid.rows_before, name
