#!/bin/bash
# The tests that need neither Spark, Java, servers nor a disk that syncs, as two processes: quick.sh PYTHON [arguments of pytest]
# The house's rules are `make check`'s. The closing lines of both come last; exit code 1 when anything failed.
set -uo pipefail
python=${1:?usage: quick.sh PYTHON [arguments]}
shift
log=$(mktemp)
trap 'rm -f "$log"' EXIT
only="not spark and not java and not soak and not service and not disk"
half=(tests/catalog tests/maintain tests/storage tests/commit tests/contract)
rest=()
for room in tests/*/; do
    room=${room%/}
    case " ${half[*]} tests/builders tests/house tests/peers tests/services tests/spark tests/dropin tests/docs tests/__pycache__ " in *" $room "*) ;; *) rest+=("$room") ;; esac
done
"$python" -m pytest -q -m "$only" -p no:cacheprovider "${half[@]}" "$@" >"$log" 2>&1 &
"$python" -m pytest -q -m "$only" -p no:cacheprovider "${rest[@]}" "$@"
status=$?
wait $! || status=1
tail -n 40 "$log"
exit $status
