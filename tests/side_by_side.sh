#!/bin/bash
# All tests but the long forms, as two processes at a time: side_by_side.sh PYTHON PEERS
# On screen as it runs: all that needs no Spark. Beside it, shown when it has ended: the short form on Spark 4.1 and 4.2, then the Spark tests on 4.3.
# The closing lines of all of them come last, those of failures at the very end; exit code 1 when anything failed.
set -uo pipefail
python=${1:?usage: side_by_side.sh PYTHON PEERS} peers=${2:?usage: side_by_side.sh PYTHON PEERS}
logs=$(mktemp -d) memory=
# Most tests do not ask whether a disk keeps what was synced: they run in memory where there is room. Those marked `disk` do.
if [ -w /dev/shm ] && [ "$(df -Pm /dev/shm | awk 'END {print $4}')" -gt 6000 ] && [ "$(awk '/^MemAvailable/ {print int($2 / 1024)}' /proc/meminfo)" -gt 14000 ]; then
    memory=$(mktemp -d /dev/shm/frazil-tests.XXXXXX)
    export FRAZIL_TEST_DISK=$logs
fi
mkdir -p "${memory:-$logs}"/{plain,spark}

finish() {
    [ -n "${other:-}" ] && kill -- "-$other" 2>/dev/null
    rm -rf "$logs" ${memory:+"$memory"}
}
trap finish EXIT
trap 'exit 130' INT TERM

run() { # place of temporary files, title, Python, arguments of pytest
    local log=$logs/$2.log status=0
    echo "== $2"
    TMPDIR=${memory:-$logs}/$1 "$3" -m pytest -q "${@:4}" 2>&1 | tee "$log" || status=1
    grep -E '^=* ?[0-9]+ (passed|failed|errors?|skipped|deselected)\b.* in [0-9.]+s' "$log" | tail -1 | grep . >"$logs/$2.$status" ||
        echo "$2 ended before its tests did" >"$logs/$2.1"
}

beside() {
    run spark "Spark 4.1, short form" "$peers/spark41/bin/python" -m "versions and not soak" -p no:cacheprovider
    run spark "Spark 4.2, short form" "$peers/spark42/bin/python" -m "versions and not soak" -p no:cacheprovider
    run spark "Spark 4.3" "$python" -m "spark and not soak" -p no:cacheprovider --durations=15
}

set -m # a process group of its own, so that a broken-off run ends it
beside </dev/null >"$logs/beside" 2>&1 &
other=$!
set +m
run plain "without Spark" "$python" -m "not spark and not soak" --durations=15
wait "$other"
other=
cat "$logs/beside"
echo "== all"
for status in 0 1; do
    for title in "Spark 4.1, short form" "Spark 4.2, short form" "Spark 4.3" "without Spark"; do
        [ -e "$logs/$title.$status" ] && cat "$logs/$title.$status"
    done
done
! ls "$logs"/*.1 >/dev/null 2>&1
