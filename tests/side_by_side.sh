#!/bin/bash
# All tests but the long forms, as two processes at a time: side_by_side.sh PYTHON PEERS
# The longest runs begin; whichever of the two ends first takes the next, so that no core waits. On screen as it runs: what begins with all that
# needs no Spark. What begins with the Spark tests on 4.3 is shown when it has ended.
# The closing lines of all of them come last, those of failures at the very end; exit code 1 when anything failed.
set -uo pipefail
python=${1:?usage: side_by_side.sh PYTHON PEERS} peers=${2:?usage: side_by_side.sh PYTHON PEERS}
logs=$(mktemp -d) memory=
# Most tests do not ask whether a disk keeps what was synced: they run in memory where there is room. Those marked `disk` do.
if [ -w /dev/shm ] && [ "$(df -Pm /dev/shm | awk 'END {print $4}')" -gt 6000 ] && [ "$(awk '/^MemAvailable/ {print int($2 / 1024)}' /proc/meminfo)" -gt 14000 ]; then
    memory=$(mktemp -d /dev/shm/frazil-tests.XXXXXX)
    export FRAZIL_TEST_DISK=$logs
fi
titles=("without Spark" "Spark 4.3" "Spark 4.1, short form" "Spark 4.2, short form")
mkdir -p "${memory:-$logs}"/{0,1,2,3}

finish() {
    [ -n "${other:-}" ] && kill -- "-$other" 2>/dev/null
    rm -rf "$logs" ${memory:+"$memory"}
}
trap finish EXIT
trap 'exit 130' INT TERM

run() { # number of the run, Python, arguments of pytest
    local title=${titles[$1]} log=$logs/$1.log status=0
    echo "== $title"
    TMPDIR=${memory:-$logs}/$1 "$2" -m pytest -q --durations=15 "${@:3}" 2>&1 | tee "$log" || status=1
    grep -E '^=* ?[0-9]+ (passed|failed|errors?|skipped|deselected)\b.* in [0-9.]+s' "$log" | tail -1 | grep . >"$logs/$title.$status" ||
        echo "$title ended before its tests did" >"$logs/$title.1"
}

take() { # the number of the next run, once for each
    (flock 9 && cat "$logs/next" && echo $(($(cat "$logs/next") + 1)) >"$logs/next.new" && mv "$logs/next.new" "$logs/next") 9>"$logs/lock"
}

runs() { # until none is left, beginning with the number given
    local number=$1
    while [ "$number" -lt ${#titles[@]} ]; do
        case $number in
        0) run 0 "$python" -m "not spark and not soak" ;;
        1) run 1 "$python" -m "spark and not soak" -p no:cacheprovider ;;
        2) run 2 "$peers/spark41/bin/python" -m "versions and not soak" -p no:cacheprovider ;;
        3) run 3 "$peers/spark42/bin/python" -m "versions and not soak" -p no:cacheprovider ;;
        esac
        number=$(take)
    done
}

echo 2 >"$logs/next"
set -m # a process group of its own, so that a broken-off run ends it
runs 1 </dev/null >"$logs/beside" 2>&1 &
other=$!
set +m
runs 0
wait "$other"
other=
cat "$logs/beside"
echo "== all"
for status in 0 1; do
    for title in "${titles[2]}" "${titles[3]}" "${titles[1]}" "${titles[0]}"; do
        [ -e "$logs/$title.$status" ] && cat "$logs/$title.$status"
    done
done
! ls "$logs"/*.1 >/dev/null 2>&1
