"""List every procedure once, as data: its parameters, its output columns, and the Python call that
runs it.

The SQL statement `CALL`, the command line, the upkeep of streams, `auto` and the documents all take
what they know of procedures from `PROCEDURES`; the methods of `t.maintenance` are tested against
it. Parameters and columns of Java Iceberg's procedures have Java's names, order and types, as Spark
writes them; parameters that only Frazil has follow them.

To add a procedure:
- write it as a file of this room (start at `procedure`), and a method of the same name, parameters
  and defaults in `table.maintenance`;
- add an entry to `PROCEDURES`, and a text for each new parameter to `_TEXTS` of `cli.procedures`;
- run `python -m tests.docs.test_procedures`; add its result class to `RESULTS` of
  tests/house/test_public_names.py and write public_names.txt anew; add it to the tables of
  tests/maintain/test_java_arguments.py (`OURS`, if Java lacks it) and test_dry_runs.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

STRING, BOOLEAN, INT, BIGINT, DOUBLE, TIMESTAMP = (
    "STRING",
    "BOOLEAN",
    "INT",
    "BIGINT",
    "DOUBLE",
    "TIMESTAMP",
)
TEXTS, NUMBERS, TEXT_MAP = "ARRAY<STRING>", "ARRAY<BIGINT>", "MAP<STRING, STRING>"
ON_TABLE, ON_MAINTENANCE, ON_CATALOG = "<table>", "<table>.maintenance", "<catalog>"


@dataclass(frozen=True)
class Parameter:
    """Describe a parameter of a procedure. `kind`: its type in SQL. `default`: what it is when it
    is left out; None: the table's properties or the procedure decide. `wide`: Python takes more
    than the kind, and the procedure itself checks it. `python`: its name in Python, where that is
    another one; `ours`: Java does not have it."""

    name: str
    kind: str
    default: object = None
    required: bool = False
    ours: bool = False
    wide: bool = False
    python: str = ""

    @property
    def in_python(self) -> str:
        return self.python or self.name


@dataclass(frozen=True)
class ResultColumn:
    """Describe an output column of a procedure."""

    name: str
    kind: str
    nullable: bool = False


@dataclass(frozen=True)
class StreamTask:
    """Name the task of a stream's upkeep that runs a procedure, and the words of its options
    `maintenance.<name>.<word>` with the parameters that they set. `options`: whether other words
    are entries of the parameter `options`."""

    name: str
    words: Mapping[str, str]
    options: bool = False


@dataclass(frozen=True)
class Procedure:
    """Describe a procedure. `on`: the object whose method runs it. `cure`: whether `auto` may run
    it. `task`: the stream task that does.
    """

    name: str
    text: str
    on: str
    parameters: tuple[Parameter, ...]
    columns: tuple[ResultColumn, ...]
    ours: bool = False
    cure: bool = False
    task: StreamTask | None = None
    call: str = field(default="")

    @property
    def required(self) -> tuple[Parameter, ...]:
        return tuple(p for p in self.parameters if p.required)

    @property
    def in_python(self) -> str:
        """Return the call as it is typed in Python, with `<table>` and `<catalog>` for the objects."""
        if self.call:
            return self.call
        names = [p.in_python for p in self.required if p.name != "table" or self.on == ON_CATALOG]
        rest = len(self.parameters) > len(names) + (self.on != ON_CATALOG)
        return f"{self.on}.{self.name}({', '.join([*names, *(['…'] if rest else [])])})"


def _p(name: str, kind: str = STRING, default: object = None, **more: bool | str) -> Parameter:
    return Parameter(name, kind, default, **more)  # type: ignore[arg-type]


def _columns(*names: str, kind: str = BIGINT, nullable: str = "") -> tuple[ResultColumn, ...]:
    """Return columns of one type; a name may have another one behind a colon. `nullable`: the names
    of those that may be null, or "all".
    """
    parted = [name.partition(":")[::2] for name in names]
    return tuple(
        ResultColumn(n, k or kind, nullable == "all" or n in nullable.split()) for n, k in parted
    )


TABLE = Parameter("table", STRING, required=True)
DRY_RUN = Parameter("dry_run", BOOLEAN, False, ours=True)
_SNAPSHOT = Parameter("snapshot_id", BIGINT)
_MOVED = _columns("previous_snapshot_id", "current_snapshot_id")
_PICKED = _columns("source_snapshot_id", "current_snapshot_id")
_WHERE = Parameter("where", STRING, wide=True)

# those that streams run, in the order in which they run when several are due
PROCEDURES: tuple[Procedure, ...] = (
    Procedure(
        "convert_equality_deletes", "Turn equality deletes into deletion vectors or position deletes.", ON_MAINTENANCE,
        (TABLE, _WHERE, _p("branch"), DRY_RUN),
        _columns("converted_equality_delete_files_count", "added_delete_files_count", "rewritten_delete_files_count",
                 "removed_data_files_count", "deleted_rows_count:BIGINT", kind=INT),
        ours=True, cure=True, task=StreamTask("convert", {"where": "where"}),
    ),
    Procedure(
        "rewrite_data_files", "Rewrite small files, too large ones and files with many deletes to files of the target size.",
        ON_MAINTENANCE,
        (TABLE, _p("strategy"), _p("sort_order", wide=True), _p("options", TEXT_MAP), _WHERE, _p("branch"), DRY_RUN),
        _columns("rewritten_data_files_count", "added_data_files_count", "rewritten_bytes_count:BIGINT", "failed_data_files_count",
                 "removed_delete_files_count", kind=INT),
        cure=True,
        task=StreamTask("rewrite", {"strategy": "strategy", "sort-order": "sort_order", "where": "where"}, options=True),
    ),
    Procedure(
        "rewrite_manifests", "Rewrite manifests, sorted by partition.", ON_MAINTENANCE,
        (TABLE, _p("use_caching", BOOLEAN, False), _p("spec_id", INT), _p("sort_by", TEXTS, wide=True), DRY_RUN),
        _columns("rewritten_manifests_count", "added_manifests_count", kind=INT),
        cure=True, task=StreamTask("manifests", {"spec-id": "spec_id"}),
    ),
    Procedure(
        "expire_snapshots", "Expire snapshots, and delete the files that only they reach.", ON_MAINTENANCE,
        (TABLE, _p("older_than", TIMESTAMP, wide=True), _p("retain_last", INT), _p("max_concurrent_deletes", INT, wide=True),
         _p("stream_results", BOOLEAN), _p("snapshot_ids", NUMBERS), _p("clean_expired_metadata", BOOLEAN),
         Parameter("dry_run", BOOLEAN, ours=True)),
        _columns("deleted_data_files_count", "deleted_position_delete_files_count", "deleted_equality_delete_files_count",
                 "deleted_manifest_files_count", "deleted_manifest_lists_count", "deleted_statistics_files_count", nullable="all"),
        cure=True,
        task=StreamTask("expire", {"max-snapshot-age": "older_than", "retain-last": "retain_last",
                                   "clean-expired-metadata": "clean_expired_metadata"}),
    ),
    Procedure(
        "remove_orphan_files", "Remove files at the table's location that no snapshot names.", ON_MAINTENANCE,
        (TABLE, _p("older_than", TIMESTAMP, wide=True), _p("location", wide=True), Parameter("dry_run", BOOLEAN, False),
         _p("max_concurrent_deletes", INT, wide=True), _p("file_list_view", wide=True), _p("equal_schemes", TEXT_MAP, wide=True),
         _p("equal_authorities", TEXT_MAP, wide=True), _p("prefix_mismatch_mode", STRING, "ERROR", wide=True),
         _p("prefix_listing", BOOLEAN, False), _p("stream_results", BOOLEAN, False), _p("allow_short_interval", BOOLEAN, False, ours=True)),
        _columns("orphan_file_location", kind=STRING),
        cure=True,
        task=StreamTask("orphans", {"min-age": "older_than", "location": "location", "prefix-mismatch-mode": "prefix_mismatch_mode"}),
    ),
    Procedure(
        "rewrite_position_delete_files", "Rewrite small position delete files as few, or as deletion vectors.", ON_MAINTENANCE,
        (TABLE, _p("options", TEXT_MAP), _WHERE, _p("branch", ours=True), DRY_RUN),
        _columns("rewritten_delete_files_count", "added_delete_files_count", "rewritten_bytes_count:BIGINT", "added_bytes_count:BIGINT",
                 kind=INT),
        cure=True,
    ),
    Procedure(
        "compute_table_stats", "Estimate the numbers of distinct values of columns, for query planners.", ON_MAINTENANCE,
        (TABLE, _SNAPSHOT, _p("columns", TEXTS, wide=True), DRY_RUN),
        _columns("statistics_file", kind=STRING, nullable="all"), cure=True,
    ),
    Procedure(
        "compute_partition_stats", "Count files, rows and deletes of each partition, in a statistics file.", ON_MAINTENANCE,
        (TABLE, _SNAPSHOT, DRY_RUN),
        _columns("partition_statistics_file", kind=STRING, nullable="all"), cure=True,
    ),
    Procedure(
        "rollback_to_snapshot", "Roll main back to one of its ancestors.", ON_MAINTENANCE,
        (TABLE, _p("snapshot_id", BIGINT, required=True), DRY_RUN), _MOVED,
    ),
    Procedure(
        "rollback_to_timestamp", "Roll main back to its newest ancestor that is older than a time.", ON_MAINTENANCE,
        (TABLE, _p("timestamp", TIMESTAMP, required=True, wide=True), DRY_RUN), _MOVED,
    ),
    Procedure(
        "set_current_snapshot", "Set main to any snapshot, given by its id, a branch or a tag.", ON_MAINTENANCE,
        (TABLE, _SNAPSHOT, _p("ref"), DRY_RUN),
        _columns("previous_snapshot_id", "current_snapshot_id", nullable="previous_snapshot_id"),
    ),
    Procedure(
        "cherrypick_snapshot", "Apply the change of another snapshot, as of one that was staged, on top of main.", ON_MAINTENANCE,
        (TABLE, _p("snapshot_id", BIGINT, required=True), DRY_RUN), _PICKED,
    ),
    Procedure(
        "publish_changes", "Apply the snapshot that was staged under an id of write-audit-publish (WAP) to main.", ON_MAINTENANCE,
        (TABLE, _p("wap_id", required=True), DRY_RUN), _PICKED,
    ),
    Procedure(
        "fast_forward", "Move a branch forward to the snapshot of another branch or tag.", ON_MAINTENANCE,
        (TABLE, _p("branch", required=True), _p("to", required=True), DRY_RUN),
        _columns("branch_updated:STRING", "previous_ref", "updated_ref", nullable="previous_ref"),
    ),
    Procedure(
        "ancestors_of", "List the ancestors of a snapshot, newest first.", ON_MAINTENANCE, (TABLE, _SNAPSHOT, DRY_RUN),
        _columns("snapshot_id", "timestamp", nullable="all"),
    ),
    Procedure(
        "rewrite_table_path", "Write a copy of a table's metadata with paths of another place, and list the files to copy there.",
        ON_MAINTENANCE,
        (TABLE, _p("source_prefix", required=True), _p("target_prefix", required=True), _p("start_version"), _p("end_version"),
         _p("staging_location"), _p("create_file_list", BOOLEAN, True), DRY_RUN),
        _columns("latest_version:STRING", "file_list_location:STRING", "rewritten_manifest_file_paths_count",
                 "rewritten_delete_file_paths_count", kind=INT, nullable="all"),
    ),
    Procedure(
        "add_files", "Add the Parquet files of a directory or of a Spark table to a table, without copying them.", ON_MAINTENANCE,
        (TABLE, _p("source_table", required=True, wide=True), _p("partition_filter", TEXT_MAP), _p("check_duplicate_files", BOOLEAN, True),
         _p("parallelism", INT), DRY_RUN),
        _columns("added_files_count", "changed_partition_count", nullable="changed_partition_count"),
    ),
    Procedure(
        "snapshot", "Create a table over the files of a directory or of a Spark table, which stays as it is.", ON_CATALOG,
        (_p("source_table", required=True), _p("table", required=True, python="identifier"), _p("location"), _p("properties", TEXT_MAP, {}),
         _p("parallelism", INT), _p("ignore_missing_files", BOOLEAN, False), DRY_RUN),
        _columns("imported_files_count"),
    ),
    Procedure(
        "migrate", "Replace a Spark table by an Iceberg table of the same name over its files.", ON_CATALOG,
        (_p("table", required=True, python="source_table"), _p("properties", TEXT_MAP, {}), _p("drop_backup", BOOLEAN, False),
         _p("backup_table_name"), _p("parallelism", INT), _p("ignore_missing_files", BOOLEAN, False), DRY_RUN),
        _columns("migrated_files_count"),
    ),
    Procedure(
        "register_table", "Add an existing table to the catalog, by its metadata file.", ON_CATALOG,
        (_p("table", required=True, python="identifier"), _p("metadata_file", required=True),
         _p("overwrite", BOOLEAN, False, ours=True), DRY_RUN),
        _columns("current_snapshot_id", "total_records_count", "total_data_files_count", nullable="all"),
    ),
    Procedure(
        "create_changelog_view", "Make a temporary view of the rows that snapshots inserted and deleted.", ON_TABLE,
        (TABLE, _p("changelog_view"), _p("options", TEXT_MAP), _p("compute_updates", BOOLEAN), _p("identifier_columns", TEXTS),
         _p("net_changes", BOOLEAN, False)),
        _columns("changelog_view", kind=STRING),
        call='<table>.changes(…).to_spark().createOrReplaceTempView("changes")',
    ),
    Procedure(
        "mark_partition_done", "Announce that a partition is complete, by hand.", ON_TABLE,
        (TABLE, _p("partition", TEXT_MAP, required=True), _p("branch", STRING, "main"), _p("options", TEXT_MAP, ours=True)),
        _columns("partition", kind=STRING), ours=True,
    ),
    Procedure(
        "recommend", "List what maintenance the table needs, what it costs and brings, and the calls that do it.", ON_MAINTENANCE, (TABLE,),
        _columns("kind", "finding", "cost_bytes:BIGINT", "cost_minutes:DOUBLE", "brings", "seconds_saved:DOUBLE", "call", kind=STRING),
        ours=True,
    ),
    Procedure(
        "auto", "Do the maintenance that recommend lists, within a budget.", ON_MAINTENANCE,
        (TABLE, _p("budget_bytes", BIGINT, wide=True), _p("budget_minutes", DOUBLE, wide=True), DRY_RUN),
        _columns("kind", "call", "outcome", "cost_bytes:BIGINT", "seconds:DOUBLE", "error", kind=STRING, nullable="error"), ours=True,
    ),
)  # fmt: skip
BY_NAME: Mapping[str, Procedure] = {p.name: p for p in PROCEDURES}
