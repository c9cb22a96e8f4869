"""Java Iceberg's procedures, argument by argument: names, positions and defaults of arguments and
options, and the columns of results.

The lists are those of Java Iceberg's Spark module (procedures/*.java, actions/*.java, version
1.12). Where a default of ours differs, the reason stands beside it, and docs/procedures.md tells
users.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import pyarrow as pa
import pytest

import frazil
from frazil.catalog import Catalog
from frazil.errors import (
    InvalidInput,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    TableAlreadyExistsError,
    Unsupported,
    ValidationException,
)
from frazil.maintain.compact.options import CompactionOptions, compaction_options
from frazil.maintain.compact.procedure import RewriteDataFilesResult
from frazil.maintain.migration.add_files import AddFilesResult
from frazil.maintain.migration.new_tables import MigrateTableResult, SnapshotTableResult
from frazil.maintain.migration.register import RegisterTableResult
from frazil.maintain.orphans.remove_orphan_files import OrphanFilesResult
from frazil.maintain.position_deletes.delete_groups import (
    DeleteRewriteOptions,
    delete_rewrite_options,
)
from frazil.maintain.position_deletes.rewrite_position_delete_files import (
    RewritePositionDeleteFilesResult,
)
from frazil.maintain.procedure import ProcedureResult
from frazil.maintain.rewrite_manifests import RewriteManifestsResult
from frazil.maintain.rewrite_table_path.table_path import RewriteTablePathResult
from frazil.maintain.snapshots.expire_snapshots import ExpireSnapshotsResult
from frazil.maintain.snapshots.move_snapshots import (
    AncestorsResult,
    FastForwardResult,
    MovedSnapshotResult,
    PickedSnapshotResult,
)
from frazil.maintain.stats.partition_stats import PartitionStatsResult
from frazil.maintain.stats.table_stats import TableStatsResult
from frazil.table import Table
from frazil.table.maintenance import MaintenanceTable

REQUIRED = inspect.Parameter.empty
UNSET = None
"""Java leaves the argument out: a table property or the procedure decides, as None does in ours."""


@dataclass(frozen=True)
class Procedure:
    """`arguments`: Java's after `table`, in their order, with our defaults. `differs`: our default
    where Java has another, as Java's value. `named`: our name of an argument, where it is another
    one."""

    call: Callable[..., Any]
    arguments: dict[str, Any]
    columns: tuple[str, ...]
    result: type[ProcedureResult]
    differs: dict[str, Any] | None = None
    named: dict[str, str] | None = None


# ours: None, one thread for each core; Java's one thread reads footers one after the other
ONE_PER_CORE = {"parallelism": 1}
M = MaintenanceTable
PROCEDURES: dict[str, Procedure] = {
    "rollback_to_snapshot": Procedure(
        M.rollback_to_snapshot, {"snapshot_id": REQUIRED}, ("previous_snapshot_id", "current_snapshot_id"), MovedSnapshotResult
    ),
    "rollback_to_timestamp": Procedure(
        M.rollback_to_timestamp, {"timestamp": REQUIRED}, ("previous_snapshot_id", "current_snapshot_id"), MovedSnapshotResult
    ),
    "set_current_snapshot": Procedure(
        M.set_current_snapshot, {"snapshot_id": UNSET, "ref": UNSET}, ("previous_snapshot_id", "current_snapshot_id"), MovedSnapshotResult
    ),
    "cherrypick_snapshot": Procedure(
        M.cherrypick_snapshot, {"snapshot_id": REQUIRED}, ("source_snapshot_id", "current_snapshot_id"), PickedSnapshotResult
    ),
    "publish_changes": Procedure(
        M.publish_changes, {"wap_id": REQUIRED}, ("source_snapshot_id", "current_snapshot_id"), PickedSnapshotResult
    ),
    "fast_forward": Procedure(
        M.fast_forward, {"branch": REQUIRED, "to": REQUIRED}, ("branch_updated", "previous_ref", "updated_ref"), FastForwardResult
    ),
    "expire_snapshots": Procedure(
        M.expire_snapshots,
        {"older_than": UNSET, "retain_last": UNSET, "max_concurrent_deletes": UNSET, "stream_results": UNSET, "snapshot_ids": UNSET,
         "clean_expired_metadata": UNSET},
        ("deleted_data_files_count", "deleted_position_delete_files_count", "deleted_equality_delete_files_count",
         "deleted_manifest_files_count", "deleted_manifest_lists_count", "deleted_statistics_files_count"),
        ExpireSnapshotsResult,
    ),
    "remove_orphan_files": Procedure(
        M.remove_orphan_files,
        {"older_than": UNSET, "location": UNSET, "dry_run": False, "max_concurrent_deletes": UNSET, "file_list_view": UNSET,
         "equal_schemes": UNSET, "equal_authorities": UNSET, "prefix_mismatch_mode": "ERROR", "prefix_listing": False,
         "stream_results": False},
        ("orphan_file_location",), OrphanFilesResult,
    ),
    "rewrite_data_files": Procedure(
        M.rewrite_data_files, {"strategy": UNSET, "sort_order": UNSET, "options": UNSET, "where": UNSET, "branch": UNSET},
        ("rewritten_data_files_count", "added_data_files_count", "rewritten_bytes_count", "failed_data_files_count",
         "removed_delete_files_count"),
        RewriteDataFilesResult,
    ),
    "rewrite_manifests": Procedure(
        M.rewrite_manifests, {"use_caching": False, "spec_id": UNSET, "sort_by": UNSET},
        ("rewritten_manifests_count", "added_manifests_count"), RewriteManifestsResult,
    ),
    "rewrite_position_delete_files": Procedure(
        M.rewrite_position_delete_files, {"options": UNSET, "where": UNSET},
        ("rewritten_delete_files_count", "added_delete_files_count", "rewritten_bytes_count", "added_bytes_count"),
        RewritePositionDeleteFilesResult,
    ),
    "snapshot": Procedure(
        Catalog.snapshot,
        {"source_table": REQUIRED, "table": REQUIRED, "location": UNSET, "properties": {}, "parallelism": UNSET,
         "ignore_missing_files": False},
        ("imported_files_count",), SnapshotTableResult, differs=ONE_PER_CORE, named={"table": "identifier"},
    ),
    # the table keeps its name in Java; ours may give the new table another one, after the old one's
    "migrate": Procedure(
        Catalog.migrate,
        {"table": REQUIRED, "identifier": UNSET, "properties": {}, "drop_backup": False, "backup_table_name": UNSET, "parallelism": UNSET,
         "ignore_missing_files": False},
        ("migrated_files_count",), MigrateTableResult, differs=ONE_PER_CORE, named={"table": "source_table"},
    ),
    "add_files": Procedure(
        M.add_files, {"source_table": REQUIRED, "partition_filter": UNSET, "check_duplicate_files": True, "parallelism": UNSET},
        ("added_files_count", "changed_partition_count"), AddFilesResult, differs=ONE_PER_CORE,
    ),
    # PyIceberg's metadata_location and overwrite are positional before it
    "register_table": Procedure(
        Catalog.register_table, {"table": REQUIRED, "metadata_location": UNSET, "overwrite": False, "metadata_file": UNSET},
        ("current_snapshot_id", "total_records_count", "total_data_files_count"), RegisterTableResult, named={"table": "identifier"},
    ),
    "ancestors_of": Procedure(M.ancestors_of, {"snapshot_id": UNSET}, ("snapshot_id", "timestamp"), AncestorsResult),
    "compute_table_stats": Procedure(
        M.compute_table_stats, {"snapshot_id": UNSET, "columns": UNSET}, ("statistics_file",), TableStatsResult
    ),
    "compute_partition_stats": Procedure(
        M.compute_partition_stats, {"snapshot_id": UNSET}, ("partition_statistics_file",), PartitionStatsResult
    ),
    "rewrite_table_path": Procedure(
        M.rewrite_table_path,
        {"source_prefix": REQUIRED, "target_prefix": REQUIRED, "start_version": UNSET, "end_version": UNSET, "staging_location": UNSET,
         "create_file_list": True},
        ("latest_version", "file_list_location", "rewritten_manifest_file_paths_count", "rewritten_delete_file_paths_count"),
        RewriteTablePathResult,
    ),
}  # fmt: skip
OURS = {"convert_equality_deletes", "recommend", "auto"}


@pytest.mark.parametrize("name", sorted(PROCEDURES))
def test_arguments_have_the_names_the_order_and_the_defaults_of_javas(name: str) -> None:
    wanted = PROCEDURES[name]
    parameters = list(inspect.signature(wanted.call).parameters.values())[1:]
    found = {p.name: p.default for p in parameters[: len(wanted.arguments)]}
    assert found == {
        (wanted.named or {}).get(n, n): default for n, default in wanted.arguments.items()
    }
    assert list(found) == [(wanted.named or {}).get(n, n) for n in wanted.arguments]
    names = {p.name: p for p in parameters}
    assert "progress" in names or name == "register_table"
    assert "dry_run" in names and (
        name == "remove_orphan_files" or names["dry_run"].kind is inspect.Parameter.KEYWORD_ONLY
    )
    for argument, of_java in (wanted.differs or {}).items():
        assert names[argument].default != of_java


@pytest.mark.parametrize("name", sorted(PROCEDURES))
def test_results_have_the_columns_of_javas_in_their_order(name: str) -> None:
    assert tuple(PROCEDURES[name].result().to_arrow().column_names) == PROCEDURES[name].columns


def test_every_procedure_is_in_the_table() -> None:
    public = {
        n
        for n, f in vars(MaintenanceTable).items()
        if inspect.isfunction(f) and not n.startswith("_")
    }
    of_tables = {n for n, p in PROCEDURES.items() if not p.call.__qualname__.startswith("Catalog.")}
    assert public == of_tables | OURS


def test_the_changelog_view_is_refused_with_the_call_to_use(home: Catalog) -> None:
    t = home.create_table("db.t", "id bigint")
    with pytest.raises(AttributeError, match="create_changelog_view") as caught:
        t.maintenance.create_changelog_view()
    assert "createOrReplaceTempView" in str(caught.value)


# --- options: Java's name -> (our field, Java's default)

GB = 1 << 30
MOST = 2**31 - 1
SIZES = {
    "target-file-size-bytes": ("target", None),  # the table property
    "min-file-size-bytes": ("smallest", 0.75),  # of the target
    "max-file-size-bytes": ("largest", 1.8),
    "min-input-files": ("min_input_files", 5),
    "rewrite-all": ("rewrite_all", False),
    "max-file-group-size-bytes": ("group_bytes", 100 * GB),
    "max-file-group-input-files": (
        "group_files",
        MOST,
    ),  # Java: Long.MAX_VALUE, which is as unlimited
    "max-concurrent-file-group-rewrites": (
        "most_at_once",
        5,
    ),  # ours: None, all slots of the runner
    "partial-progress.enabled": ("commits", False),  # None: not enabled
    "partial-progress.max-commits": ("commits", 10),
    "rewrite-job-order": ("job_order", "none"),
}
OF_DATA_FILES = {
    **SIZES,
    "partial-progress.max-failed-commits": ("failed_commits", 10),  # as many as max-commits
    "use-starting-sequence-number": ("keeps_sequence", True),
    "delete-file-threshold": ("delete_files", MOST),
    "delete-ratio-threshold": ("delete_ratio", 0.3),
    "output-spec-id": ("output_spec_id", None),  # the table's
    "remove-dangling-deletes": ("removes_dangling", False),
    "max-files-to-rewrite": ("most_files", None),
}
OF_SORTS = {"compression-factor": ("compression", 1.0), "shuffle-partitions-per-file": (None, 1)}
OF_CURVES = {"max-output-size": ("key_bytes", MOST), "var-length-contribution": ("text_bytes", 8)}
APART = {
    "max-concurrent-file-group-rewrites",
    "partial-progress.enabled",
    "partial-progress.max-commits",
}


def compared(
    options: CompactionOptions | DeleteRewriteOptions, known: dict[str, Any], target: int
) -> None:
    for name, (field, default) in known.items():
        if field is None or name in APART or default is None:
            continue
        wanted = (
            int(default * target)
            if name in ("min-file-size-bytes", "max-file-size-bytes")
            else default
        )
        assert getattr(options, field) == wanted, name
    assert options.most_at_once is None and options.commits is None


def test_options_of_rewrite_data_files_have_javas_names_and_defaults(home: Catalog) -> None:
    t = home.create_table("db.t", "id bigint", properties={"write.target-file-size-bytes": "1000"})
    for strategy, known in (
        ("binpack", OF_DATA_FILES),
        ("sort", OF_DATA_FILES | OF_SORTS),
        ("zorder", OF_DATA_FILES | OF_SORTS | OF_CURVES),
    ):
        found = compaction_options({}, t.metadata, strategy)
        compared(found, known, 1000)
        assert (found.target, found.output_spec_id, found.most_files) == (
            1000,
            t.metadata.default_spec_id,
            None,
        )
        with pytest.raises(InvalidInput, match="Unknown option") as caught:
            compaction_options({"no-such-option": 1}, t.metadata, strategy)
        listed = str(caught.value)
        assert all(name in listed for name in known)
        for name in (OF_DATA_FILES | OF_SORTS | OF_CURVES).keys() - known.keys():
            with pytest.raises(InvalidInput, match=f"{name}.* means nothing to {strategy}"):
                compaction_options({name: 1}, t.metadata, strategy)
    partial = compaction_options(
        {"partial-progress.enabled": True, "partial-progress.max-commits": 4}, t.metadata, "binpack"
    )
    assert (partial.commits, partial.failed_commits) == (4, 4)


def test_options_of_rewrite_position_delete_files_have_javas_names_and_defaults(
    home: Catalog,
) -> None:
    t = home.create_table(
        "db.t",
        "id bigint",
        properties={"write.delete.target-file-size-bytes": "1000"},
        format_version=2,
    )
    compared(delete_rewrite_options({}, t.metadata), SIZES, 1000)
    with pytest.raises(InvalidInput, match="Unknown option") as caught:
        delete_rewrite_options({"output-spec-id": 0}, t.metadata)
    assert set(str(caught.value).split("Known: ")[1].rstrip(".").split(", ")) == set(SIZES)
    newest = home.create_table("db.v3", "id bigint", format_version=3)
    assert delete_rewrite_options({}, newest.metadata).rewrite_all, (
        "Java's sizes count there, too; ours take all that is left of version 2"
    )


@pytest.mark.parametrize(
    "name, value",
    [
        ("min-input-files", 0),
        ("max-file-group-size-bytes", 0),
        ("max-file-group-input-files", 0),
        ("delete-file-threshold", -1),
        ("delete-ratio-threshold", 0),
        ("delete-ratio-threshold", 1.5),
        ("max-files-to-rewrite", 0),
        ("max-concurrent-file-group-rewrites", 0),
        ("target-file-size-bytes", 0),
        ("min-file-size-bytes", -1),
        ("rewrite-job-order", "name"),
        ("output-spec-id", 7),
    ],
)
def test_values_that_java_refuses_are_refused(home: Catalog, name: str, value: Any) -> None:
    t = home.create_table("db.t", "id bigint")
    with pytest.raises((InvalidInput, frazil.errors.ValidationError)):
        t.maintenance.rewrite_data_files(options={name: value}, dry_run=True)


# --- what this list has brought to light


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("expire_snapshots", {"snapshot_ids": 5}, "snapshot_ids must be a list of whole numbers, not 5"),
    ("expire_snapshots", {"snapshot_ids": "5"}, "snapshot_ids must be a list of whole numbers, not '5'"),
    ("expire_snapshots", {"snapshot_ids": ["first"]}, "snapshot_ids must be a whole number, not 'first'"),
    ("expire_snapshots", {"retain_last": "all"}, "retain_last must be a whole number, not 'all'"),
    *(("rewrite_data_files", {"strategy": "sort", "sort_order": order}, "sort_order is a text, a list of columns")
      for order in (b"id", (1,), {"id": None, 1: None}, 5)),
    ("rewrite_table_path", {"source_prefix": "/a", "target_prefix": "/b", "staging_location": 5}, "staging_location must be a text"),
    ("add_files", {"source_table": "parquet.`x`", "parallelism": 1.5}, "parallelism must be a whole number, not 1.5"),
    ("add_files", {"source_table": "parquet.`x`", "partition_filter": "a=1"}, "partition_filter must be a dict, not 'a=1'"),
    *((name, {"where": "nope = 1"}, "Cannot find column 'nope'")
      for name in ("rewrite_data_files", "rewrite_position_delete_files", "convert_equality_deletes")),
]  # fmt: skip


@pytest.mark.parametrize("name, arguments, message", WRONG)
def test_wrong_arguments_are_refused_by_name_also_where_there_is_nothing_to_do(
    home: Catalog, name: str, arguments: dict[str, Any], message: str
) -> None:
    t = home.create_table("db.t", "id bigint")
    with pytest.raises((InvalidInput, frazil.errors.ValidationError), match=message):
        getattr(t.maintenance, name)(**arguments)


def test_numbers_may_be_given_as_text(home: Catalog) -> None:
    t, _ = registered(home)
    ids = [s.snapshot_id for s in t.snapshots()]
    later = {"older_than": "2099-01-01", "dry_run": True}
    assert t.maintenance.expire_snapshots(retain_last="2", **later).snapshot_ids == (ids[0],)  # type: ignore[call-overload]
    assert t.maintenance.expire_snapshots(
        snapshot_ids=[str(ids[1])], dry_run=True
    ).snapshot_ids == (ids[1],)  # type: ignore[list-item]


def test_manifests_are_not_sorted_by_nothing(home: Catalog) -> None:
    t = home.create_table("db.t", "id bigint", partition_by=["id"])
    with pytest.raises(InvalidInput, match="sort_by must not be empty when provided"):
        t.maintenance.rewrite_manifests(sort_by=[])


def test_a_wap_id_of_two_snapshots_is_not_published(home: Catalog) -> None:
    t = home.create_table("db.t", "id bigint", properties={"write.wap.enabled": "true"})
    staged = [t.append(pa.table({"id": [n]}), wap_id="w").snapshot_id for n in range(2)]
    with pytest.raises(ValidationException, match="non-unique WAP ID") as caught:
        t.maintenance.publish_changes("w")
    assert all(str(s) in str(caught.value) for s in staged)


def registered(home: Catalog) -> tuple[Table, str]:
    t = home.create_table("db.t", "id bigint")
    for n in range(3):
        t.append(pa.table({"id": [n, n]}))
    return t, t.metadata_location


def test_register_table_reports_what_java_does(home: Catalog) -> None:
    t, file = registered(home)
    planned = home.register_table("db.again", metadata_file=file, dry_run=True)
    assert not home.table_exists("db.again") and planned.dry_run
    done = home.register_table("db.again", metadata_file=file)
    wanted = {
        "current_snapshot_id": [t.current_snapshot().snapshot_id],
        "total_records_count": [6],
        "total_data_files_count": [3],
    }  # type: ignore[union-attr]
    assert done.to_arrow().to_pydict() == planned.to_arrow().to_pydict() == wanted
    assert home.load_table("db.again").to_arrow().num_rows == 6
    assert {
        f.name: getattr(done, f.name) for f in fields(done) if f.name not in ("seconds", "dry_run")
    } == {
        f.name: getattr(planned, f.name)
        for f in fields(planned)
        if f.name not in ("seconds", "dry_run")
    }


def test_an_empty_table_is_registered_without_numbers(home: Catalog) -> None:
    file = home.create_table("db.t", "id bigint").metadata_location
    assert home.register_table("db.again", metadata_file=file).to_arrow().to_pylist() == [
        {"current_snapshot_id": None, "total_records_count": None, "total_data_files_count": None}
    ]


def test_the_dry_run_of_register_table_refuses_what_the_real_run_does(
    home: Catalog, tmp_path: Any
) -> None:
    t, file = registered(home)
    for dry_run in (True, False):
        with pytest.raises(TableAlreadyExistsError):
            home.register_table("db.t", metadata_file=file, dry_run=dry_run)
        with pytest.raises(NoSuchNamespaceError):
            home.register_table("none.t", metadata_file=file, dry_run=dry_run)
        with pytest.raises(InvalidInput, match="no metadata file"):
            home.register_table(
                "db.x", metadata_file=f"{t.location()}/data/x.parquet", dry_run=dry_run
            )
        with pytest.raises(frazil.errors.FrazilError, match="none"):
            home.register_table(
                "db.x", metadata_file=f"{t.location()}/metadata/none.metadata.json", dry_run=dry_run
            )
        paths = frazil.load_catalog("p", type="path", warehouse=str(tmp_path / "p"))
        if dry_run:
            paths.create_namespace("db")
        with pytest.raises(Unsupported, match="cannot be registered in path catalog"):
            paths.register_table("db.x", metadata_file=file, dry_run=dry_run)
    assert (
        home.register_table(
            "db.t", metadata_file=file, overwrite=True, dry_run=True
        ).total_records_count
        == 6
    )
    assert home.register_table("db.t", file, overwrite=True, dry_run=True).dry_run, (
        "also with PyIceberg's name"
    )
    with pytest.raises(InvalidInput, match="once"):
        home.register_table("db.x", file, metadata_file=file)  # type: ignore[call-overload]
    with pytest.raises(NamespaceAlreadyExistsError):
        home.create_namespace("db")
