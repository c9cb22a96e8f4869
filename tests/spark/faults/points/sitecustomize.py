"""Loaded by every Python of a run whose streams die at named points: the driver, the processes that
plan its sources and commit its sinks.

The folder FRAZIL_TEST_POINTS holds `wanted.json`, the point at which each stream is to die. A
stream that comes to its point leaves its process id in `reached/<stream>` and waits there, so that
one SIGKILL of the whole run finds all its streams at their points.
"""

import importlib.abc
import importlib.util
import json
import os
import runpy
import sys
import time
from pathlib import Path

FOLDER = Path(os.environ.get("FRAZIL_TEST_POINTS", ""))
PRELOADED = Path(__file__).parents[3] / "builders" / "preloaded" / "sitecustomize.py"


def reach(stream, point):
    """Wait for the end of the run if the stream is to die at this point."""
    if json.loads((FOLDER / "wanted.json").read_text()).get(stream) != point:
        return
    mark = FOLDER / "reached" / stream
    mark.with_suffix(".new").write_text(str(os.getpid()))
    mark.with_suffix(".new").rename(mark)
    while True:
        time.sleep(60)


def before_and_after(holder, name, stream_and_point):
    """Let a function have a point before it and one after it. `stream_and_point`: of a call's
    arguments; None: the call is no point.
    """
    real = getattr(holder, name)

    def watched(*arguments, **named):
        found = stream_and_point(*arguments)
        if found is not None:
            reach(found[0], f"before {found[1]}")
        result = real(*arguments, **named)
        if found is not None:
            reach(found[0], f"after {found[1]}")
        return result

    setattr(holder, name, watched)


def _table(location):
    return location.rstrip("/").rpartition("/")[2]


def _batch_of_source(start, end):
    """Name a batch by its end in the source; the first one by having no start."""
    return (
        "first" if start["phase"] == "start" else f"{end['phase']} {end['file'] or end['ordinal']}"
    )


def planner(module):
    """`told`: the end of a batch was chosen, and Spark has not recorded it; `planned`: it has, and
    its tasks have not begun.
    """
    latest_offset, partitions = module.StreamPlanner.latest_offset, module.StreamPlanner.partitions

    def told(self, start, limit):
        end = latest_offset(self, start, limit)
        if end != start:
            reach(_table(self.spec.table.location), f"told {_batch_of_source(start, end)}")
        return end

    def planned(self, start, end):
        found = partitions(self, start, end)
        reach(_table(self.spec.table.location), f"planned {_batch_of_source(start, end)}")
        return found

    module.StreamPlanner.latest_offset, module.StreamPlanner.partitions = told, planned


def bare_sink(module):
    """The commit of a batch by the bare Python data source, in a process of its own."""
    before_and_after(
        module.StreamSourceWriter,
        "commit",
        lambda sink, _, batch: (_table(sink._source.table[1].metadata.location), f"commit {batch}"),
    )


def bare_keyed_sink(module):
    """The same for upserts, whose rows lie in staged files until their commit."""
    before_and_after(
        module.KeyedStreamWriter,
        "commit",
        lambda sink, _, batch: (_table(sink._place.table[1].metadata.location), f"commit {batch}"),
    )


def path_catalog(module):
    """The swap of a maintenance task's commit."""

    def replaces(_, base, metadata):
        snapshot = metadata.current_snapshot()
        known = base.metadata.current_snapshot()
        is_new = snapshot is not None and (
            known is None or known.snapshot_id != snapshot.snapshot_id
        )
        return (
            (_table(metadata.location), "replace")
            if is_new and snapshot.operation == "replace"
            else None
        )

    before_and_after(module.PathCatalog, "swap", replaces)


def folders(module):
    """The steps by which a batch is published into plain folders."""
    renamed = []

    def name_of(staged, final):
        renamed.append(final)
        return "files", f"rename {len(renamed)}"

    before_and_after(module, "_rename", name_of)
    before_and_after(
        module, "_intent", lambda folder, batch, *_: ("files", f"list {batch.batch_id}")
    )
    before_and_after(
        module,
        "write_state",
        lambda folder, state: ("files", f"record {max(state.batches.values(), default=-1)}"),
    )
    before_and_after(module, "_remove_abandoned", lambda *_: ("files", "clean"))


def announcements(module):
    """The commit that records which partitions were announced."""
    before_and_after(
        module,
        "mark",
        lambda site, judged, *_: (site.name.rpartition(".")[2], f"mark {len(judged)}"),
    )


PATCHES = {
    "frazil.spark.streams.source.stream_planner": planner,
    "frazil.spark.streams.sink.source_writer": bare_sink,
    "frazil.spark.streams.sink.keyed_writer": bare_keyed_sink,
    "frazil.catalog.path": path_catalog,
    "frazil.stream.partitions.directories.publish": folders,
    "frazil.stream.partitions.commit_hook": announcements,
}


class Patched(importlib.abc.MetaPathFinder):
    """Patch each module right after it was imported, so that processes import no more than they
    need.
    """

    def find_spec(self, name, path=None, target=None):
        patch = PATCHES.pop(name, None)
        spec = None if patch is None else importlib.util.find_spec(name)
        if spec is None:
            return None
        execute = spec.loader.exec_module

        def executed(module):
            execute(module)
            patch(module)

        spec.loader.exec_module = executed
        return spec


if FOLDER.name:
    sys.meta_path.insert(0, Patched())
    runpy.run_path(str(PRELOADED))
