"""Methods that users of Delta, PyIceberg, Spark and pandas type, and the calls of Frazil that do the same."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from frazil.errors import NoSuchMethod

_LATER = "Maintenance comes with a later version; see KNOWN_GAPS.md."
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
    **dict.fromkeys(("optimize", "compact", "vacuum", "expire_snapshots", "rewrite_data_files", "remove_orphan_files"), _LATER),
}
OF_MERGES = {
    "when_matched": "when_matched_update(…), when_matched_update_all() or when_matched_delete()",
    "when_not_matched": "when_not_matched_insert(…) or when_not_matched_insert_all()",
    "when_not_matched_by_source": "when_not_matched_by_source_update(…) or when_not_matched_by_source_delete()",
}


def no_such_method(owner: Any, name: str, calls: Mapping[str, str] = {}) -> AttributeError:
    """The error for an attribute that an object has not: a name in camel case, or of another product, is told in Frazil's words."""
    kind, own = type(owner).__name__, re.sub(r"(?<=[a-z0-9])([A-Z]+)", r"_\1", name).lower()
    if own != name and hasattr(type(owner), own):
        return NoSuchMethod(f"{kind} has no {name}(): it is called {own}().")
    if own in calls:
        return NoSuchMethod(f"{kind} has no {name}().", hint=calls[own] if calls[own] == _LATER else f"Use {calls[own]}.")
    return AttributeError(f"{kind!r} object has no attribute {name!r}", name=name, obj=owner)
