"""What data, fixtures, engines and runner share: sizes, places on disk, the stopwatch."""

import itertools
import json
import os
import shutil
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

WORKLOADS = """
scan_2col scan_all scan_filter scan_filter_unprunable
write_plain write_part ctas_lineitem
plan_all_100k plan_filter_100k plan_all_java plan_filter_java append_latency_10 append_latency_1000
mor_read_pos mor_read_dv mor_read_eq_100k mor_read_eq_5m
delete_mor delete_cow update_mor merge_mor merge_cow
upsert_keys plan_deletes
compact_binpack compact_sort compact_zorder compact_deletes
cluster_boxes_zorder cluster_boxes_price cluster_boxes_hilbert
convert_equality_deletes
rewrite_manifests expire_1000 orphan_20k
stream_sink stream_source stream_source_limited cold_start
format_scan_2col format_scan_all format_scan_filter bare_scan_all bare_scan_filter
format_write_plain format_write_part bare_write_plain
sql_scan_2col sql_scan_filter sql_write_plain sql_delete_mor sql_update_mor sql_merge_mor
arrow_scan_2col arrow_scan_all arrow_scan_filter arrow_write_plain arrow_write_part
arrow_mor_read_pos arrow_mor_read_dv arrow_mor_read_eq_100k arrow_mor_read_eq_5m
arrow_delete_mor arrow_delete_cow arrow_merge_cow arrow_upsert_keys
append_latency_sqlite_10 append_latency_sqlite_1000
metadata_5000 small_files_5000 import_only
""".split()

# Workloads whose floor is another's: the same work through Spark's own Parquet.
SAME_AS = {
    **{
        f"{door}_{w}": w
        for door in ("format", "bare")
        for w in ("scan_2col", "scan_all", "scan_filter", "write_plain", "write_part")
    },
    **{
        f"sql_{w}": w
        for w in (
            "scan_2col",
            "scan_filter",
            "write_plain",
            "delete_mor",
            "update_mor",
            "merge_mor",
        )
    },
    "append_latency_sqlite_10": "append_latency_10",
    "append_latency_sqlite_1000": "append_latency_1000",
}

COLUMNS = "id order_id product_id price qty name ts cat".split()
HIT = "product_id < 1000"  # 1 % of the events, in every file


@dataclass(frozen=True)
class Scale:
    name: str
    rows: int  # events, in 8 files
    small: tuple  # files, rows in each
    plan: tuple  # manifests, files in each
    manifests: tuple  # the same, for rewrite_manifests
    snapshots: tuple  # few, half, all
    orphans: tuple  # referenced files, orphans
    stream: tuple  # files, rows in each
    eq: tuple  # few, many equality deletes
    tpch: str
    tiny: tuple  # files, rows in each, for small_files_5000
    keyed: tuple  # rows, keys upserted: half of them there, half new


SCALES = {
    s.name: s
    for s in (
        Scale(
            "small",
            160_000,
            (200, 500),
            (5, 400),
            (20, 20),
            (10, 50, 100),
            (1800, 200),
            (20, 2_000),
            (1_000, 50_000),
            "0.01",
            (100, 100),
            (10_000, 1_000),
        ),
        Scale(
            "full",
            16_000_000,
            (2000, 2_000),
            (50, 2000),
            (100, 100),
            (10, 500, 1000),
            (18_000, 2_000),
            (24, 100_000),
            (100_000, 5_000_000),
            "1",
            (5_000, 400),
            (1_000_000, 100_000),
        ),
    )
}


class Unsupported(Exception):
    """The engine has no such operation."""


@dataclass(frozen=True)
class Layout:
    """Everything of one scale lies under one folder. Fixtures are built in live/fix and kept in
    pristine.
    """

    root: Path
    scale: Scale

    @classmethod
    def of(cls, data, scale):
        return cls(Path(data).resolve() / scale, SCALES[scale])

    def __getattr__(
        self, name
    ):  # events, small, lineitem, changes, deletes, plan_files, stream_in, live, pristine …
        if name.startswith("_"):
            raise AttributeError(name)
        return self.root / name

    def fixture(self, name):
        return self.live / "fix" / name

    def keep(self, table, as_name=None):
        """Keeps a fixture as it was built, less its older metadata files (1000 of them are half a
        gigabyte).
        """
        kept, newest = self.pristine / (as_name or table), self.metadata(table).name
        shutil.rmtree(kept, ignore_errors=True)
        old = lambda _, names: [n for n in names if ".metadata.json" in n and newest not in n]
        shutil.copytree(self.fixture(table), kept, ignore=old)

    def restore(self, table, as_name=None):
        """Puts a fixture back as it was built (its paths are absolute, so always at the same
        place).
        """
        shutil.rmtree(self.fixture(table), ignore_errors=True)
        shutil.copytree(self.pristine / (as_name or table), self.fixture(table))
        return self.fixture(table)

    def restore_all(self):
        for kept in self.pristine.iterdir():
            if not kept.name.startswith("snaps_"):
                self.restore(kept.name)

    def metadata(self, table):
        folder = self.fixture(table) / "metadata"
        return folder / f"v{(folder / 'version-hint.text').read_text().strip()}.metadata.json"

    def fresh(self, name):
        """An empty place for what a workload writes."""
        place = self.live / "scratch" / name
        shutil.rmtree(place, ignore_errors=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        return place


class Bench(Layout):
    """A layout with a stopwatch: `with b.timed():` is the measured part of a workload."""

    def __init__(self, layout):
        super().__init__(layout.root, layout.scale)
        for name, value in {"laps": {}, "cpu": {}}.items():
            object.__setattr__(self, name, value)

    def clear(self):
        laps, cpu = dict(self.laps), dict(self.cpu)
        self.laps.clear(), self.cpu.clear()
        return laps, cpu

    @contextmanager
    def timed(self, lap="main"):
        cpu, start = cpu_seconds(), time.perf_counter()
        yield
        self.laps.setdefault(lap, []).append(round(time.perf_counter() - start, 4))
        self.cpu.setdefault(lap, []).append(round(cpu_seconds() - cpu, 2))


def many_snapshots(b, wanted=5000):
    """A metadata file like that of the table with most snapshots, with `wanted` of them; gives its
    path. Not part of any clock.
    """
    b.restore("snaps", "snaps_all")
    metadata = json.loads(b.metadata("snaps").read_text())
    kept = metadata["snapshots"]
    more = [
        {**kept[i % len(kept)], "snapshot-id": 10**18 + i, "sequence-number": i + 1}
        for i in range(wanted - len(kept))
    ]
    metadata["snapshots"] = more + kept
    metadata["last-sequence-number"] = wanted
    file = b.fresh("metadata_5000") / "metadata" / "v1.metadata.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(metadata))
    return file


def on_disk(folder, suffix=".parquet"):
    files = [
        f for f in Path(folder).rglob("*" + suffix) if f.is_file() and not f.name.startswith(".")
    ]
    return {"files": len(files), "bytes": sum(f.stat().st_size for f in files)}


def shown(*values):
    """Facts as text, alike for all engines: numbers without fractions, times in UTC."""
    return [f"{v:.0f}" if isinstance(v, float) else str(v).removesuffix("+00:00") for v in values]


# --- this process and all below it (Spark's JVM, its Python workers)
# ------------------------------------------


def stat(pid):
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()


def family():
    parents, found = {}, {os.getpid()}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            parents[int(pid)] = int(stat(pid)[1])
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def cpu_seconds():
    """Steadier than the clock on a busy machine. Counts children that have ended, too."""
    ticks = 0
    for pid in family():
        with suppress(OSError):
            ticks += sum(map(int, stat(pid)[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


class Peak(threading.Thread):
    """The most memory that was held at once, looked at ten times a second."""

    def __init__(self):
        super().__init__(daemon=True)
        self.pages, self.pids = 0, family()

    def look(self):
        held = 0
        for pid in self.pids:
            with suppress(OSError):
                held += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        self.pages = max(self.pages, held)

    def run(self):
        for tick in itertools.count():
            if tick % 5 == 0:
                self.pids = family()
            self.look()
            time.sleep(0.1)

    def reset(self):
        self.pages, self.pids = 0, family()
        self.look()

    def mb(self):
        self.look()
        return self.pages * os.sysconf("SC_PAGE_SIZE") >> 20


def percentiles(seconds):
    s = sorted(seconds)
    return {"p50": s[len(s) // 2], "p95": s[min(len(s) - 1, int(len(s) * 0.95))], "n": len(s)}
