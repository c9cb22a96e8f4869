"""Results side by side: python report.py results.jsonl [more.jsonl] [--by clock|cpu] [--plot
FILE.png] > report.md

A cell reads: median seconds, ×ratio to the floor, peak MB. The floor is Spark's own Parquet on the
engine's version of Spark (the newest version for engines without Spark), or Java where Parquet has
no such operation. The newest line of a workload counts.
"""

import argparse
import json
import math
import statistics
from pathlib import Path

from kit import SAME_AS, WORKLOADS

NO_NATIVE = {
    "rewrite_manifests",
    "expire_1000",
    "metadata_5000",
    "plan_deletes",
    "plan_all_java",
    "plan_filter_java",
    "cluster_boxes_zorder",
    "cluster_boxes_price",
    "cluster_boxes_hilbert",
}  # fmt: skip; the reference is Java
ARROW = "arrow_"  # workloads without Spark: the reference is pyarrow
NO_PEAK = {"cold_start"}  # a process of its own, beside the one that waits
LAPS = {
    "plan_all_100k": ["spark_partitions", "files_table"],
    "plan_filter_100k": ["one_day", "spark_partitions"],
    "plan_filter_java": ["one_day"],
    "plan_deletes": ["delete_files"],
    "append_latency_10": ["write"],
    "append_latency_1000": ["write"],
    "append_latency_sqlite_10": ["write"],
    "append_latency_sqlite_1000": ["write"],
    "cold_start": ["import"],
}


def read(paths, scale):
    """(engine, spark version) -> workload -> its newest line; spark first."""
    columns = {}
    for path in paths:
        for text in path.read_text().splitlines():
            line = json.loads(text)
            if line["scale"] == scale:
                columns.setdefault((line["engine"], line.get("spark")), {})[line["workload"]] = line
    order = ["spark", "java", "frazil", "pyiceberg", "raw"]
    return dict(
        sorted(
            columns.items(),
            key=lambda c: (
                order.index(c[0][0]) if c[0][0] in order else 9,
                c[0][0],
                -number(c[0][1]),
            ),
        )
    )


def number(version):
    return float(".".join(version.split(".")[:2])) if version else 0.0


def title(column):
    engine, spark = column
    return f"{engine} on Spark {spark}" if spark else engine


def seconds(line, lap, by):
    """None if there is nothing to compare."""
    if not line or line["status"] != "ok":
        return None
    if lap != "main":
        times = line["laps"].get(lap)
        return (
            None
            if times is None or by == "cpu"
            else times["median"]
            if isinstance(times, dict)
            else statistics.median(times)
        )
    return statistics.median(line["cpu"]) if by == "cpu" else line["median"]


def floor_column(columns, column, workload):
    engine = "java" if workload in NO_NATIVE else "raw" if workload.startswith(ARROW) else "spark"
    those = [c for c in columns if c[0] == engine]
    same = [c for c in those if column[1] and number(c[1]) == number(column[1])]
    return (same or sorted(those, key=lambda c: number(c[1]))[-1:] or [None])[0]


def ratio(columns, column, workload, lap, by):
    floor = floor_column(columns, column, workload)
    own = seconds(columns[column].get(workload), lap, by)
    base = seconds(columns[floor].get(SAME_AS.get(workload, workload)), lap, by) if floor else None
    # CPU seconds may be 0, or less when a process has gone
    return own / base if own and base and min(own, base) > 0 else None


def cell(columns, column, workload, lap, by):
    line = columns[column].get(workload)
    if line is None:
        return ""
    if line["status"] != "ok":
        return line["status"] if lap == "main" else ""
    own = seconds(line, lap, by)
    if own is None:
        return ""
    times = ratio(columns, column, workload, lap, by)
    peak = f" · {line['peak_mb']}" if lap == "main" and workload not in NO_PEAK else ""
    return f"{own:.3g} s" + (f" · ×{times:.2f}" if times else "") + peak


def alike(one, other):
    def same(a, b):
        try:
            # sums of floats, in another order
            return abs(float(a) - float(b)) <= 1 + 1e-9 * abs(float(a))
        except ValueError:
            return a == b

    return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))


def check(columns, workload):
    facts = {
        title(c): lines[workload]["check"]
        for c, lines in columns.items()
        if workload in lines and lines[workload].get("check")
    }
    if len(facts) < 2:
        return "one only" if facts else ""
    (first, expected), *rest = facts.items()
    wrong = [f"{name} {', '.join(found)}" for name, found in rest if not alike(expected, found)]
    return (
        f"**differ**: {first} {', '.join(expected)}; " + "; ".join(wrong)
        if wrong
        else f"{len(facts)} agree"
    )


def table(columns, by):
    yield "| workload | " + " | ".join(map(title, columns)) + " | check |"
    yield "|---" * (len(columns) + 2) + "|"
    for workload in WORKLOADS:
        if any(workload in lines for lines in columns.values()):
            for lap in ["main", *(LAPS.get(workload, []) if by == "clock" else [])]:
                name = workload if lap == "main" else f"&nbsp; {lap}"
                cells = [cell(columns, c, workload, lap, by) for c in columns]
                if lap == "main" or any(cells):
                    yield (
                        f"| {name} | "
                        + " | ".join(cells)
                        + f" | {check(columns, workload) if lap == 'main' else ''} |"
                    )
    means = [mean(columns, c, by) for c in columns]
    yield "| *geometric mean of ratios* | " + " | ".join(means) + " | |"


def mean(columns, column, by):
    found = [
        r for w in WORKLOADS if w not in NO_NATIVE and (r := ratio(columns, column, w, "main", by))
    ]
    return (
        f"×{math.exp(statistics.fmean(map(math.log, found))):.2f} of {len(found)}" if found else ""
    )


def misses(columns):
    for column, lines in columns.items():
        for workload in WORKLOADS:
            line = lines.get(workload, {"status": "ok"})
            if line["status"] != "ok":
                yield f"- {title(column)}, {workload}: {line['status']}, {line['error'].splitlines()[0]}"


def plot(columns, by, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    shown = [c for c in columns if c[0] != "spark"]
    names = [w for w in WORKLOADS if any(ratio(columns, c, w, "main", by) for c in shown)][::-1]
    figure, axis = plt.subplots(figsize=(8, 0.28 * len(names) + 1.2))
    for n, column in enumerate(shown):
        points = [(ratio(columns, column, w, "main", by), at) for at, w in enumerate(names)]
        found = [p for p in points if p[0]]
        axis.plot([x for x, _ in found], [y + 0.12 * n for _, y in found], "o", label=title(column))
    axis.axvline(1, color="black", linewidth=1)
    axis.set_xscale("log")
    axis.set_yticks(range(len(names)), names)
    axis.set_xlabel("times the floor (left is faster)")
    axis.grid(axis="x", alpha=0.3)
    axis.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main():
    args = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    args.add_argument("results", type=Path, nargs="+")
    args.add_argument("--scale", default="full")
    args.add_argument(
        "--by",
        choices=["clock", "cpu"],
        default="clock",
        help="cpu: CPU seconds of all processes, steadier on a busy machine",
    )
    args.add_argument("--plot", type=Path)
    args = args.parse_args()
    columns = read(args.results, args.scale)
    if not columns:
        raise SystemExit(f"no results at scale {args.scale}")
    lines = [line for own in columns.values() for line in own.values()]
    versions = sorted({f"{line['engine']} {line['version']}" for line in lines})
    repeats = max(len(line.get("seconds", [])) for line in lines if line["workload"] not in LAPS)
    print(
        f"Scale {args.scale}; {', '.join(versions)}; up to {repeats} repeats; load average up to {max(line['load'] for line in lines)}.\n"
    )
    print(*table(columns, args.by), "", *misses(columns), sep="\n")
    if args.plot:
        plot(columns, args.by, args.plot)


if __name__ == "__main__":
    main()
