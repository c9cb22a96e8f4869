"""What data files hold: columns, asked of manifests first (a column that was counted is there), of footers where they do not tell; and
whether Spark would take their dates for those of its old calendar."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from frazil.arrow.files.damage import reading
from frazil.arrow.footers.parquet_footer import Footer, ParquetNode, read_footer
from frazil.arrow.footers.spark_calendar import may_be_marked
from frazil.scan.manifests import is_data, manifests_of, read_manifest
from frazil.scan.plan import Plan
from frazil.storage import Storage

_THREADS = 16
_KEPT = 20_000
_footers: OrderedDict[str, _Held] = OrderedDict()  # data files never change; schemas are small
_lock = threading.Lock()


@dataclass(frozen=True)
class _Held:
    root: ParquetNode
    old_calendar: bool


def clear_caches() -> None:
    with _lock:
        _footers.clear()


def file_schemas(paths: Sequence[str], storage: Storage) -> dict[str, ParquetNode]:
    """The Parquet schema of each file, from its footer; the last 20,000 are remembered."""
    return {path: held.root for path, held in _held(paths, storage).items()}


def in_old_calendar(paths: Sequence[str], storage: Storage) -> set[str]:
    """Those of the files whose dates Spark's scan would change as it reads them (`spark_calendar`), as nobody else does."""
    return {path for path, held in _held(paths, storage).items() if held.old_calendar}


def _held(paths: Sequence[str], storage: Storage) -> dict[str, _Held]:
    with _lock:
        found = {p: _footers[p] for p in paths if p in _footers}
    missing = [p for p in paths if p not in found]
    if missing:
        with ThreadPoolExecutor(min(_THREADS, len(missing))) as pool:
            for path, footer in zip(missing, pool.map(lambda p: _footer_of(p, storage), missing), strict=True):
                found[path] = _Held(footer.root, may_be_marked(footer.after))
                with _lock:
                    _footers[path] = found[path]
                    while len(_footers) > _KEPT:
                        _footers.popitem(last=False)
    return found


def _footer_of(path: str, storage: Storage) -> Footer:
    local = storage.local_path(path)
    if local is not None:
        try:
            with open(local, "rb", buffering=0) as f:
                return read_footer(f, f.seek(0, 2), path)
        except OSError:
            pass  # the storage tells the same failure in the project's words
    with storage.open_input(path) as source:
        return read_footer(source, source.size(), path)


def without_nulls(path: str, ids: Iterable[int], storage: Storage) -> frozenset[int]:
    """Of these top-level columns of a Parquet file those that its footer knows to hold no null."""
    with reading(path, "parquet"), storage.open_input(path) as source:
        footer = pq.read_metadata(source)
    names = {f.field_id: f.name for f in file_schemas([path], storage)[path].children}
    columns = {footer.schema.column(n).path: n for n in range(footer.num_columns)}
    found = set()
    for field_id in ids:
        if (at := columns.get(names.get(field_id, ""))) is not None:
            chunks = [footer.row_group(g).column(at) for g in range(footer.num_row_groups)]
            if all(c.is_stats_set and c.statistics.has_null_count and c.statistics.null_count == 0 for c in chunks):
                found.add(field_id)
    return frozenset(found)


def lacking(plan: Plan, storage: Storage, paths: Sequence[str], ids: Iterable[int]) -> dict[str, frozenset[int]]:
    """Of these files, those that lack some of the columns, and which."""
    wanted = sorted(ids)
    counted = _counted(plan, storage, paths, wanted)
    unsure = [p for p, has in zip(paths, counted, strict=True) if len(has) < len(wanted)]
    schemas = file_schemas(unsure, storage)
    found = {}
    for path in unsure:
        held = {n.field_id for n in schemas[path].walk()}
        if missing := frozenset(i for i in wanted if i not in held):
            found[path] = missing
    return found


def _counted(plan: Plan, storage: Storage, paths: Sequence[str], ids: Sequence[int]) -> list[set[int]]:
    """For each path the ids whose values its manifest entry counts."""
    found: list[set[int]] = [set() for _ in paths]
    known = pa.array(paths, pa.string())
    if plan.snapshot is None or not ids:
        return found
    for manifest in manifests_of(plan.metadata, plan.snapshot, storage):
        if not is_data(manifest):
            continue
        table = read_manifest(storage, manifest, ("file_path", "value_counts"))
        places = pc.index_in(table.column("file_path").combine_chunks(), known)
        counts = table.column("value_counts").combine_chunks()
        keys, parents = counts.flatten().field("key"), pc.list_parent_indices(counts)
        for field_id in ids:
            rows = parents.filter(pc.equal(keys, field_id))
            for place in places.take(rows).drop_null().to_pylist():
                found[place].add(field_id)
    return found
