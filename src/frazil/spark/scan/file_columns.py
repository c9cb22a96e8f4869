"""Find out which columns data files hold, from manifests where they count the column's values, else
from Parquet footers; whether Spark would convert a file's dates from its old calendar, and whether
it lacks the codec of a file.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from frazil.arrow.files.source import reading
from frazil.arrow.footers.parquet_footer import (
    Footer,
    ParquetNode,
    may_be_brotli,
    read_footer,
)
from frazil.arrow.footers.spark_calendar import may_be_marked
from frazil.errors import FrazilError
from frazil.scan.manifests import is_data, manifests_of, read_manifest
from frazil.scan.plan import Plan
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import NAME_MAPPING, PARQUET_CODEC
from frazil.spec.snapshot import Snapshot
from frazil.spec.version import WRITER
from frazil.storage import REMOTE_SCHEMES, Storage
from frazil.storage.local import regular_path
from frazil.storage.locations import scheme_of

_THREADS = 16
_MOST_FOOTERS, _MOST_UNREAD, _MOST_UNREAD_REMOTE = 100_000, 1_000, 200
_MARKS = ("spark.app.id", "flink.job-id", "trino_query_id")
# as Java Iceberg, PyIceberg and Frazil name data files: by task, attempt, operation and number
_FILE_NAME = r"/\d{5,}-\d+-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(-\d+)*\.parquet$"
# by path; they stay valid, since data files never change
_footers: OrderedDict[str, _FooterFacts] = OrderedDict()
_lock = threading.Lock()


@dataclass(frozen=True)
class _FooterFacts:
    root: ParquetNode
    old_calendar: bool
    brotli: bool


def file_schemas(paths: Sequence[str], storage: Storage) -> dict[str, ParquetNode]:
    """Return the Parquet schema of each file, by path, from its footer. Footers are read by 16
    threads; the last 100,000 are cached.
    """
    return {path: facts.root for path, facts in _facts_of(paths, storage).items()}


def in_old_calendar(paths: Sequence[str], storage: Storage) -> set[str]:
    """Return those files whose dates and timestamps Spark would convert from its old calendar
    (`spark_calendar`); no other reader does.
    """
    return {path for path, facts in _facts_of(paths, storage).items() if facts.old_calendar}


def in_brotli(paths: Sequence[str], storage: Storage) -> set[str]:
    """Return those files that may be compressed by brotli, for which Spark has no codec."""
    return {path for path, facts in _facts_of(paths, storage).items() if facts.brotli}


def writes_brotli(metadata: TableMetadata) -> bool:
    """Tell whether the table's property asks for brotli. Only then files of Iceberg's own writers
    are looked at.
    """
    return PARQUET_CODEC.of(metadata.properties).lower() == "brotli"


def _facts_of(paths: Sequence[str], storage: Storage) -> dict[str, _FooterFacts]:
    with _lock:
        facts = {p: _footers[p] for p in paths if p in _footers}
    missing = [p for p in paths if p not in facts]
    if missing:
        with ThreadPoolExecutor(min(_THREADS, len(missing))) as pool:
            for path, footer in zip(
                missing, pool.map(lambda p: _footer_of(p, storage), missing), strict=True
            ):
                facts[path] = _FooterFacts(
                    footer.root, may_be_marked(footer.after), may_be_brotli(footer)
                )
                with _lock:
                    _footers[path] = facts[path]
                    while len(_footers) > _MOST_FOOTERS:
                        _footers.popitem(last=False)
    return facts


def _footer_of(path: str, storage: Storage) -> Footer:
    local = storage.local_path(path)
    if local is not None:
        try:
            with open(regular_path(local), "rb", buffering=0) as f:
                return read_footer(f, f.seek(0, 2), path)
        except OSError:
            pass  # opened through the storage, the file raises Frazil's error for the same reason
    with storage.open_input(path) as source:
        return read_footer(source, source.size(), path)


@dataclass(frozen=True)
class OtherNames:
    """Hold the schemas of planned files that other engines wrote, by path. `are_all`: those of all
    such files.
    """

    by_path: Mapping[str, ParquetNode] = field(default_factory=dict, repr=False)
    are_all: bool = True

    @cached_property
    def schemas(self) -> tuple[ParquetNode, ...]:
        """Return each schema once."""
        return tuple(dict.fromkeys({id(root): root for root in self.by_path.values()}.values()))


def names_of_others(plan: Plan, storage: Storage) -> OtherNames:
    """Return the names in planned files in which a column may have another name than in the table,
    or that of another column: only its id counts (Delta's column mapping, whose tables are shown as
    Iceberg's).

    Such are the files of writers that do not say in the snapshot's summary who they are, nor name
    their files as Iceberg's writers do. Each of
    their footers is looked at; of footers that are not in the cache a thousand on local disks or two
    hundred in other stores, which takes some tenths of a second: where there are more, the next
    read goes on from there. Where any has no field ids or is compressed by brotli, or there is a name
    mapping, all are needed at once.
    """
    paths = _paths_of_others(plan)
    remote = bool(paths) and scheme_of(paths[0]) in REMOTE_SCHEMES
    with _lock:
        unread = [p for p in paths if p not in _footers]
    later = set(unread[_MOST_UNREAD_REMOTE if remote else _MOST_UNREAD :])
    if NAME_MAPPING.text(plan.metadata.properties):
        later = set()
    try:
        schemas = file_schemas([p for p in paths if p not in later], storage)
        names = OtherNames(schemas, not later)
        ids = all(map(has_ids, names.schemas))
        if later and not (ids and not in_brotli(list(schemas), storage)):
            names = OtherNames(file_schemas(paths, storage))
    except FrazilError:  # the scan reports it, if it comes to read that file
        return OtherNames(are_all=False)
    return names


def has_ids(root: ParquetNode) -> bool:
    """Tell whether a file has field ids, or no columns."""
    return not root.children or any(node.field_id is not None for node in root.walk())


def _paths_of_others(plan: Plan) -> list[str]:
    files = [
        g.table.select(["file_path", "snapshot_id"]).filter(
            pc.equal(g.table.column("file_format"), "parquet")
        )
        for g in plan.groups
    ]
    if not NAME_MAPPING.text(plan.metadata.properties):
        by_id = plan.metadata.snapshots.by_id
        ids = {n for table in files for n in pc.unique(table.column("snapshot_id")).to_pylist()}
        added = [snapshot for n in ids if (snapshot := by_id(n)) is not None]
        trusted = pa.array([s.snapshot_id for s in added if _is_known(s)], pa.int64())
        files = [t.filter(pc.invert(pc.is_in(t.column("snapshot_id"), trusted))) for t in files]
        # PyIceberg leaves no mark, nor do snapshots that have expired: files with a name as
        # Iceberg's writers give it are taken for theirs, unless a writer that left no mark is seen
        # to have added others
        strange = [
            t.filter(pc.invert(pc.match_substring_regex(t.column("file_path"), _FILE_NAME)))
            for t in files
        ]
        seen = pa.array([s.snapshot_id for s in added], pa.int64())
        if not any(pc.any(pc.is_in(t.column("snapshot_id"), seen)).as_py() for t in strange):
            files = strange
    return [path for table in files for path in table.column("file_path").to_pylist()]


def _is_known(snapshot: Snapshot) -> bool:
    """Tell whether the files that a snapshot added have the names of the table's schemas: Frazil
    wrote or checked them, or a writer of Iceberg's Java library left its mark. Adding files that
    exist (`add_files`) leaves no mark, or in Trino a name mapping as well, by which all are read.
    """
    marked = "source-snapshot-id" not in snapshot.summary and any(
        mark in snapshot.summary for mark in _MARKS
    )
    return marked or snapshot.has_statistics_of(WRITER)


def without_nulls(path: str, ids: Iterable[int], storage: Storage) -> frozenset[int]:
    """Return which of these top-level columns (field ids) hold no null in a Parquet file, by the
    statistics in its footer.
    """
    with reading(path, "parquet"), storage.open_input(path) as source:
        footer = pq.read_metadata(source)
    names = {f.field_id: f.name for f in file_schemas([path], storage)[path].children}
    places = {footer.schema.column(n).path: n for n in range(footer.num_columns)}
    required = set()
    for field_id in ids:
        if (place := places.get(names.get(field_id, ""))) is not None:
            chunks = [footer.row_group(g).column(place) for g in range(footer.num_row_groups)]
            if all(
                c.is_stats_set and c.statistics.has_null_count and c.statistics.null_count == 0
                for c in chunks
            ):
                required.add(field_id)
    return frozenset(required)


def missing_columns(
    plan: Plan, storage: Storage, paths: Sequence[str], ids: Iterable[int]
) -> dict[str, frozenset[int]]:
    """Return, by path, the columns (field ids) that files lack; files that have all of `ids` are
    left out.

    A column whose values a manifest counts is in the file, so that most footers need not be read.
    """
    wanted = sorted(ids)
    counted = _counted(plan, storage, paths, wanted)
    unsure = [paths[n] for n in np.flatnonzero(~counted.all(axis=0)).tolist()]
    schemas = file_schemas(unsure, storage)
    missing = {}
    for path in unsure:
        present = {n.field_id for n in schemas[path].walk()}
        if absent := frozenset(i for i in wanted if i not in present):
            missing[path] = absent
    return missing


def _counted(
    plan: Plan, storage: Storage, paths: Sequence[str], ids: Sequence[int]
) -> npt.NDArray[np.bool_]:
    """Tell for each field id (first axis) and path whether its manifest entry counts the values."""
    counted = np.zeros((len(ids), len(paths)), np.bool_)
    known_paths = pa.array(paths, pa.string())
    if plan.snapshot is None or not ids:
        return counted
    for manifest in manifests_of(plan.metadata, plan.snapshot, storage):
        if not is_data(manifest):
            continue
        table = read_manifest(storage, manifest, ("file_path", "value_counts"))
        places = pc.index_in(table.column("file_path").combine_chunks(), known_paths)
        counts = table.column("value_counts").combine_chunks()
        keys, parents = counts.flatten().field("key"), pc.list_parent_indices(counts)
        for number, field_id in enumerate(ids):
            rows = parents.filter(pc.equal(keys, field_id))
            counted[number, places.take(rows).drop_null().to_numpy()] = True
    return counted
