#!/bin/bash
# All engines in one sitting: SCALE=small|full DATA=folder bench/all.sh [--workloads scan,write]. Full scale wants 8 GB of disk and two hours.
set -euo pipefail
cd "$(dirname "$0")"
root=$(cd .. && pwd)
scale=${SCALE:-small}
cache=$(cd "$root" && mkdir -p "${CACHE:-.cache}" && cd "${CACHE:-.cache}" && pwd)
data=${DATA:-$cache/bench-data}
out=${OUT:-$cache/bench-results.jsonl}
ours=$root/.venv/bin/python
peers=$cache/peers
export BENCH_JAR=$peers/jars/iceberg-spark-runtime-4.1_2.13-1.12.0.jar TZ=UTC

PYTHON=$ours "$root/tests/peers/setup.sh" benchdata "$peers"
"$peers/benchdata/bin/python" data.py "$data" --scale "$scale"
"$peers/java/bin/python" fixtures.py "$data" --scale "$scale"

run() { # python, engine, more
    "$1" run.py --engine "$2" --data "$data" --scale "$scale" --out "$out" "${@:3}" || echo "$2 ended early" >&2
}
run "$ours" spark "$@"
run "$ours" frazil "$@"
run "$peers/java/bin/python" spark "$@"
run "$peers/java/bin/python" java "$@"
run "$peers/spark41/bin/python" frazil "$@"
run "$peers/pyiceberg/bin/python" pyiceberg "$@"
run "$ours" raw "$@"
# The queries of TPC-H and TPC-DS, which take no workload's name.
queries=$cache/bench-queries.jsonl
[ $# -gt 0 ] || for suite in tpch tpcds; do
    [ -d "$data/$suite/in" ] || "$peers/benchdata/bin/python" queries.py make "$data" --suite $suite --scale "$([ "$scale" = full ] && echo 1 || echo 0.01)"
    for of in "$peers/spark41 spark" "$peers/spark41 frazil" "$peers/java java"; do
        read -r python engine <<<"$of"
        "$python/bin/python" queries.py run "$data" --suite $suite --engine "$engine" --out "$queries" || echo "$engine ended early" >&2
    done
done
"$ours" report.py "$out" --scale "$scale" | tee "$cache/bench-report.md"
[ ! -f "$queries" ] || "$ours" queries.py report "$queries" | tee -a "$cache/bench-report.md"
