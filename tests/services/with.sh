#!/usr/bin/env bash
# Starts servers, runs a command with their addresses in its environment, stops them: with.sh postgres,mariadb,s3 COMMAND...
# A server whose program is missing (exit 77) is told and left out; any other failure ends the run.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
wanted=${1:?usage: with.sh SERVICE[,SERVICE] COMMAND...}
shift
dir=$(mktemp -d /tmp/frazil-services.XXXXXX) && chmod 755 "$dir"
started=()

finish() {
    for name in "${started[@]}"; do "$here/$name.sh" stop "$dir/$name" >/dev/null 2>&1; done
    rm -rf "$dir"
}
trap finish EXIT

for name in ${wanted//,/ }; do
    started+=("$name")
    endpoint=$("$here/$name.sh" start "$dir/$name" 2>"$dir/$name.err")
    case $? in
    0) ;;
    77) echo "without $name: $(tail -1 "$dir/$name.err")" >&2 && continue ;;
    *) cat "$dir/$name.err" >&2 && exit 1 ;;
    esac
    case $name in
    postgres) export FRAZIL_TEST_POSTGRES=$endpoint ;;
    mariadb) export FRAZIL_TEST_MARIADB=$endpoint ;;
    s3) export FRAZIL_TEST_S3=$endpoint ;;
    esac
done
"$@"
