"""A process that lets row-level changes die (tests.forked starts it); it prints a JSON line for
each k.

As tests.commit.faults does it, with the verbs of a table: data files, delete files and vectors are
written on the way to the commit.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import frazil
from frazil.commit.table_commit import log as commit_log
from frazil.errors import CommitStateUnknownException, FrazilError
from frazil.scan.manifests import manifests_of, read_manifest
from tests.builders.frames import ID_P_V, frame_of, id_p_v
from tests.commit.faults import Counter, in_child

MOST = 400
ROWS = [(i, "ab"[i // 10], i) for i in range(20)]


def opened(kind: str, place: Path) -> Any:
    if kind == "path":
        return frazil.load_catalog("f", type="path", warehouse=str(place / "w"))
    return frazil.load_catalog(
        "f", type="sql", uri=f"sqlite:///{place}/c.db", warehouse=str(place / "w")
    )


def laid_out(kind: str, mode: str, version: int, place: Path) -> None:
    """Two partitions; some rows are deleted by position already, so that vectors and delete files
    are replaced.
    """
    properties = {f"write.{verb}.mode": mode for verb in ("delete", "update", "merge")}
    catalog = opened(kind, place)
    catalog.create_namespace("db")
    t = catalog.create_table(
        "db.t", ID_P_V, partition_by=["p"], properties=properties, format_version=version
    )
    t.append(frame_of(ROWS), **{"target-file-size-bytes": 10**6})
    t.delete("id in (0, 19)", mode="merge-on-read", runner="in-process")
    catalog.close()


def done(t: Any, verb: str) -> None:
    match verb:
        case "delete":
            t.delete("id in (3, 15)", runner="in-process")
        case "update":
            t.update(set={"v": "v + 100"}, where="id in (3, 15)", runner="in-process")
        case "merge":
            described = t.merge(
                frame_of([(3, "a", 103), (15, "b", 115), (50, "b", 50)]),
                on="target.id = source.id",
                runner="in-process",
            )
            described.when_matched_update_all().when_not_matched_insert_all().execute()


def expected(verb: str | None) -> list[list[Any]]:
    rows = [r for r in ROWS if r[0] not in (0, 19)]
    match verb:
        case "delete":
            rows = [r for r in rows if r[0] not in (3, 15)]
        case "update" | "merge":
            rows = [(i, p, v + 100 if i in (3, 15) else v) for i, p, v in rows] + (
                [(50, "b", 50)] if verb == "merge" else []
            )
    return sorted(map(list, rows))


def files_of(place: Path) -> set[str]:
    """All files of the table, but for metadata versions, the hint of path tables, and names that a
    store gives for a moment.
    """
    found = (str(p) for p in (place / "w").rglob("*") if p.is_file())
    return {f for f in found if not f.endswith((".json", "version-hint.text", ".tmp"))}


def needed(t: Any) -> set[str]:
    """Files that some snapshot refers to."""
    found: set[str] = set()
    for s in t.metadata.snapshots:
        found.add(str(s.manifest_list))
        for m in manifests_of(t.metadata, s, t.io):
            found.add(m.manifest_path)
            found |= {
                r["file_path"] for r in read_manifest(t.io, m).to_pylist() if r["status"] != 2
            }
    return {f.removeprefix("file://") for f in found}


def attempt(kind: str, verb: str, fault: str, k: int, place: Path) -> dict[str, Any]:
    """Run in a child: the verb with its fault, and what the caller was told."""
    commit_log.disabled = True
    catalog = opened(kind, place)
    t = catalog.load_table("db.t")
    counter = Counter(str(place), k, fault)
    try:
        done(t, verb)
        return {"told": "committed", "seen": counter.seen, "fired": counter.fired}
    except CommitStateUnknownException:
        return {"told": "unknown", "seen": counter.seen, "fired": counter.fired}
    except FrazilError as e:
        return {
            "told": "failed",
            "seen": counter.seen,
            "fired": counter.fired,
            "error": f"{type(e).__name__}: {e}",
        }


def looked_at(kind: str, place: Path) -> dict[str, Any]:
    """Run in a child: what is there now, and whether the next change works."""
    catalog = opened(kind, place)
    t = catalog.load_table("db.t")
    rows, there, wanted = id_p_v(t), files_of(place), needed(t)
    found = {"rows": rows, "missing": sorted(wanted - there), "orphans": sorted(there - wanted)}
    t.delete("id = 7", runner="in-process")
    found["next"] = id_p_v(t) == [r for r in rows if r[0] != 7]
    return found


def main(
    kind: str, verb: str, mode: str, version: int, fault: str, first: int, step: int, place: Path
) -> None:
    pristine, work = place / "pristine", place / "work"
    work.mkdir()
    assert in_child(lambda: {"ok": laid_out(kind, mode, version, work) is None}).get("ok")
    shutil.copytree(work, pristine)
    k = first
    while True:
        shutil.rmtree(work)
        shutil.copytree(pristine, work)
        told = in_child(lambda k=k: attempt(kind, verb, fault, k, work))  # type: ignore[misc]
        print(json.dumps({"k": k, **told, **in_child(lambda: looked_at(kind, work))}), flush=True)
        if (told.get("told") == "committed" and not told["fired"] and told["seen"] < k) or k > MOST:
            return
        k += step
