#!/bin/bash
# All tests but the long forms, as three processes at a time on two cores: side_by_side.sh PYTHON PEERS
# One more than there are cores, since each waits at times: for a JVM, a server, a task that was told to stop. The longest runs begin; whichever
# process ends one takes the next. On screen as it runs: what the last of the processes does, which begins with all that needs neither Spark nor
# Java. What the others do is shown when all have ended.
# The closing lines of all runs come last, those of failures at the very end; exit code 1 when anything failed.
set -uo pipefail
python=${1:?usage: side_by_side.sh PYTHON PEERS} peers=${2:?usage: side_by_side.sh PYTHON PEERS}
logs=$(mktemp -d) memory=
available=$(awk '/^MemAvailable/ {print int($2 / 1024)}' /proc/meminfo 2>/dev/null || echo 0)
# Most tests do not ask whether a disk keeps what was synced: they run in memory where there is room. Those marked `disk` do.
if [ -w /dev/shm ] && [ "$(df -Pm /dev/shm | awk 'END {print $4}')" -gt 6000 ] && [ "$available" -gt 14000 ]; then
    memory=$(mktemp -d /dev/shm/frazil-tests.XXXXXX)
    export FRAZIL_TEST_DISK=$logs
fi
# A process has a JVM or two beside it. What needs neither is number 2, so that three processes show it as it runs.
at_once=3
[ "$available" -lt 7000 ] && at_once=2
titles=("Spark 4.3, the room of Spark" "Java Iceberg and PyIceberg" "without Spark" "Spark 4.3, other rooms" "Spark 4.1, short form" "Spark 4.2, short form")
in_order=(4 5 3 1 0 2)

finish() {
    for other in ${others[@]+"${others[@]}"}; do kill -- "-$other" 2>/dev/null; done
    rm -rf "$logs" ${memory:+"$memory"}
}
trap finish EXIT
trap 'exit 130' INT TERM

run() { # number of the run, Python, arguments of pytest
    local title=${titles[$1]} log=$logs/$1.log status=0
    echo "== $title"
    mkdir -p "${memory:-$logs}/$1"
    TMPDIR=${memory:-$logs}/$1 "$2" -m pytest -q --durations=15 ${FRAZIL_TEST_JUNIT:+"--junitxml=$FRAZIL_TEST_JUNIT/junit.$1.xml"} "${@:3}" 2>&1 | tee "$log" || status=1
    grep -E '^=* ?[0-9]+ (passed|failed|errors?|skipped|deselected)\b.* in [0-9.]+s' "$log" | tail -1 | grep . >"$logs/$title.$status" ||
        echo "$title ended before its tests did" >"$logs/$title.1"
    rm -rf "${memory:-$logs}/$1"
}

take() { # the number of the next run, once for each
    (flock 9 && cat "$logs/next" && echo $(($(cat "$logs/next") + 1)) >"$logs/next.new" && mv "$logs/next.new" "$logs/next") 9>"$logs/lock"
}

marked() { # the files of tests with a mark: to collect all the others takes a minute each time
    grep -rlE "mark\.$1\b" --include='test_*.py' tests "${@:2}"
}

runs() { # until none is left, beginning with the number given
    local number=$1
    while [ "$number" -lt ${#titles[@]} ]; do
        case $number in
        0) run 0 "$python" -m "spark and not java and not soak" -p no:cacheprovider tests/spark ;;
        1) run 1 "$python" -m "java and not soak" -p no:cacheprovider $(marked java) ;;
        2) run 2 "$python" -m "not spark and not java and not soak" --ignore=tests/house ;; # make check runs the house's rules
        3) run 3 "$python" -m "spark and not java and not soak" -p no:cacheprovider $(marked spark --exclude-dir=spark) ;;
        4) run 4 "$peers/spark41/bin/python" -m "versions and not soak" -p no:cacheprovider $(marked versions) ;;
        5) run 5 "$peers/spark42/bin/python" -m "versions and not soak" -p no:cacheprovider $(marked versions) ;;
        esac
        number=$(take)
    done
}

echo "$at_once" >"$logs/next"
others=()
set -m # process groups of their own, so that a broken-off run ends them
for ((beside = 0; beside < at_once - 1; beside++)); do
    runs $beside </dev/null >"$logs/$beside.beside" 2>&1 &
    others+=($!)
done
set +m
runs $((at_once - 1))
wait "${others[@]}"
others=()
cat "$logs"/*.beside
echo "== all"
grep -hE '^(FAILED|ERROR) ' "$logs"/[0-9].log
for status in 0 1; do
    for number in "${in_order[@]}"; do
        [ -e "$logs/${titles[$number]}.$status" ] && cat "$logs/${titles[$number]}.$status"
    done
done
! ls "$logs"/*.1 >/dev/null 2>&1
