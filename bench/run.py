"""Runs one engine: python run.py --engine spark|java|pyiceberg --data DIR [--scale small|full]
[--workloads a,b] [--out results.jsonl]

An engine from elsewhere: --engine-path FILE (workloads.md says how to write one).
"""

import argparse
import json
import os
import signal
import statistics
import sys
import time
import traceback
from pathlib import Path

from engines.start import load
from kit import SCALES, WORKLOADS, Bench, Layout, Peak, Unsupported, percentiles

# kinds of workload run once before the clock counts
WARM = {
    "scan",
    "plan",
    "mor",
    "metadata",
    "small",
}
LAPS = {w for w in WORKLOADS if w.startswith("append_latency")}  # these repeat by themselves


def kind(workload):
    """The first word of what is done, whatever the door; long ones are not run to warm up."""
    if workload == "mor_read_eq_5m":
        return "slow"
    words = workload.split("_")
    return words[1] if words[0] in ("format", "bare", "arrow", "sql") else words[0]


def stop(*_):
    raise TimeoutError("over the time limit")


def measure(work, handle, b, workload, repeats, limit):
    """A workload is a function (handle, bench) -> facts, timed inside. Laps but `main` are told
    apart in `laps`.
    """
    extra, facts, start = {}, None, time.time()
    signal.alarm(limit)
    try:
        if kind(workload) in WARM:
            work(handle, b)
            extra["warmup_s"] = b.clear()[0]["main"][0]
        for done in range(1, 2 if workload in LAPS else repeats + 1):
            facts = work(handle, b)
            if (time.time() - start) * (done + 1) / done > limit:
                break
    except (Unsupported, NotImplementedError) as e:
        return {"status": "unsupported", "error": f"{e}"[:300]}
    except Exception as e:
        late = time.time() - start >= limit
        if not (late and facts):
            traceback.print_exc(limit=5)
            return {
                "status": "failed",
                "error": f"over {limit} s" if late else f"{type(e).__name__}: {e}"[:300],
            }
    finally:
        signal.alarm(0)
        laps, cpu = b.clear()
    seconds = laps.pop("main")
    top = {k: facts.pop(k) for k in ("rows", "bytes", "files", "check") if k in facts}
    others = {
        lap: s if len(s) < 10 else percentiles(s) | {"median": statistics.median(s)}
        for lap, s in laps.items()
    }
    stats = {"min": min(seconds), "median": statistics.median(seconds), "max": max(seconds)}
    if len(seconds) >= 10:
        stats |= percentiles(seconds)
    return {
        "status": "ok",
        "seconds": seconds,
        **stats,
        "cpu": cpu["main"],
        "laps": others,
        **top,
        "extra": extra | facts,
    }


def main():
    args = argparse.ArgumentParser()
    args.add_argument(
        "--engine", help="spark, java or pyiceberg; with --engine-path, the name in the results"
    )
    args.add_argument("--engine-path", help="a Python file that is an engine")
    args.add_argument("--data", default=os.environ.get("BENCH_DATA", "bench-data"))
    args.add_argument("--scale", choices=SCALES, default="small")
    args.add_argument("--workloads", default="all", help="ids or prefixes, comma separated")
    args.add_argument("--repeats", type=int, default=3)
    args.add_argument(
        "--limit", type=int, default=300, help="seconds for one workload, its repeats included"
    )
    args.add_argument("--out", type=Path, default=Path("results.jsonl"))
    args = args.parse_args()
    wanted = [
        w
        for w in WORKLOADS
        if args.workloads == "all" or any(w.startswith(p) for p in args.workloads.split(","))
    ]
    engine = load(args.engine_path or args.engine)
    b = Bench(Layout.of(args.data, args.scale))
    b.restore_all()
    handle = engine.open(b)
    signal.signal(signal.SIGALRM, stop)
    peak = Peak()
    peak.start()
    settle = getattr(engine, "settle", lambda handle: None)
    head = {
        "engine": args.engine or Path(args.engine_path).stem,
        "version": engine.version(handle),
        "scale": args.scale,
    }
    if "pyspark" in sys.modules:
        head["spark"] = sys.modules["pyspark"].__version__
    for workload in wanted:
        settle(handle)
        peak.reset()
        if work := getattr(engine, workload, None):
            line = measure(work, handle, b, workload, args.repeats, args.limit)
        else:
            line = {"status": "unsupported", "error": "the engine has no such workload"}
        line = (
            head
            | {"workload": workload}
            | line
            | {"peak_mb": peak.mb(), "load": round(os.getloadavg()[0], 1), "at": int(time.time())}
        )
        with args.out.open("a") as out:
            out.write(json.dumps(line, default=str) + "\n")
        print(
            f"{head['engine']:10s} {workload:24s} {line.get('median', line['status'])!s:10s} {line.get('error', '')[:150]}",
            flush=True,
        )


if __name__ == "__main__":
    main()
