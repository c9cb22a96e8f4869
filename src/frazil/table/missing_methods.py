"""Point users of Delta Lake, PyIceberg, Spark and pandas from a method that Frazil lacks to the
call that does the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from frazil.errors import NoSuchMethod

_FRAMES = {
    "to_ray": "ray.data.from_arrow(….to_arrow())",
    "to_daft": "daft.from_arrow(….to_arrow())",
    "to_bodo": "bodo.pandas.from_pandas(….to_pandas())",
    "to_df": "to_spark(), to_pandas() or to_polars()",
    "to_pyarrow_table": "to_arrow()",
    "to_pyarrow_dataset": "to_arrow_batch_reader(), of a scan",
    "collect": "to_arrow(), or to_spark().collect()",
    "limit": "scan(limit=…)",
    "where": "scan(row_filter=…)",
}
OF_SCANS = {**_FRAMES, "limit": "update(limit=…)", "where": "filter(…)"}
OF_TABLES = {
    **_FRAMES,
    "select": "scan(selected_fields=(…))",
    "filter": "scan(row_filter=…)",
    "insert": "append(frame)",
    "write": "append(frame) or overwrite(frame)",
    "alias": 'merge(frame, on="t.id = s.id", target_alias="t", source_alias="s")',
    "detail": "print(table)",
    "file_uris": "inspect.files()",
    "to_snapshot": "scan(snapshot_id=…)",
    "rollback": "manage_snapshots().rollback_to_snapshot(…)",
    "restore": "manage_snapshots().rollback_to_snapshot(…)",
    "restore_to_version": "manage_snapshots().rollback_to_snapshot(…)",
    "restore_to_timestamp": "manage_snapshots().rollback_to_timestamp(…)",
    "optimize": "maintenance.rewrite_data_files()",
    "compact": "maintenance.rewrite_data_files()",
    "vacuum": "maintenance.expire_snapshots(older_than=…), then maintenance.remove_orphan_files()",
    "expire_snapshots": "maintenance.expire_snapshots(older_than=…)",
    "rewrite_data_files": "maintenance.rewrite_data_files()",
    "remove_orphan_files": "maintenance.remove_orphan_files()",
}
OF_CATALOGS = {
    "create_or_replace_table": "replace_table_transaction(name, schema, create=True)",
    "replace_table": "replace_table_transaction(name, schema)",
    "create_table_as_select": "create_table(name, frame), then append(frame) on the table",
    "create_table_from": "create_table(name, frame), then append(frame) on the table",
    "table": "load_table(name)",
    "read_table": "load_table(name).to_spark(), .to_pandas() or .to_arrow()",
    "get_table": "load_table(name)",
    "tables": "list_tables(namespace)",
    "namespaces": "list_namespaces()",
    "create_database": "create_namespace(name)",
    "list_databases": "list_namespaces()",
    "drop_database": "drop_namespace(name)",
}
OF_MAINTENANCE = {
    "create_changelog_view": 'changes(…).to_spark().createOrReplaceTempView("t_changes"), of the table',
    "register_table": "register_table(…), of the catalog",
    "snapshot": "snapshot(…), of the catalog",
    "migrate": "migrate(…), of the catalog",
    "delete_orphan_files": "remove_orphan_files(…)",
    "remove_dangling_delete_files": 'rewrite_data_files(options={"remove-dangling-deletes": True})',
    "delete_reachable_files": "purge_table(…), of the catalog",
    "optimize": "rewrite_data_files()",
    "compact": "rewrite_data_files()",
    "vacuum": "expire_snapshots(older_than=…), then remove_orphan_files()",
}
OF_MERGES = {
    "when_matched": "when_matched_update(…), when_matched_update_all() or when_matched_delete()",
    "when_not_matched": "when_not_matched_insert(…) or when_not_matched_insert_all()",
    "when_not_matched_by_source": "when_not_matched_by_source_update(…) or when_not_matched_by_source_delete()",
}


def no_such_method(owner: object, name: str, calls: Mapping[str, str] = {}) -> AttributeError:
    """Return the error for a missing attribute. For a method in camel case, or one of another
    product (`calls`: Frazil's calls by the name of such a method), the error names the call to use.
    """
    kind, snake_case = type(owner).__name__, re.sub(r"(?<=[a-z0-9])([A-Z]+)", r"_\1", name).lower()
    if snake_case != name and hasattr(type(owner), snake_case):
        return NoSuchMethod(f"{kind} has no {name}(): it is called {snake_case}().")
    if (call := calls.get(snake_case)) is not None:
        return NoSuchMethod(f"{kind} has no {name}().", hint=f"Use {call}.")
    return AttributeError(f"{kind!r} object has no attribute {name!r}", name=name, obj=owner)
