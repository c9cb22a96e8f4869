#!/usr/bin/env bash
# Starts servers, runs a command with their addresses in its environment, stops them: with.sh postgres,mariadb,s3 COMMAND...
# A server that this machine cannot have (exit 77) is left out; any other failure ends the run.
# The last line says what was not run: what $NOT_RUN names, and what needs a server that was left out.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
wanted=${1:?usage: with.sh SERVICE[,SERVICE] COMMAND...}
shift
# The long forms ask a metastore 3.1 and Google's store as well: one is slow to start, the other takes minutes to build.
[[ -z ${FRAZIL_SOAK:-} || ,$wanted, != *,hms4,* ]] || wanted+=,hms31
[[ -z ${FRAZIL_SOAK:-} || ,$wanted, != *,azurite,* ]] || wanted+=,gcs
case ,$wanted, in *,postgres,*) ;; *,hms4,* | *,hms4_* | *,hms31,*) wanted=postgres,$wanted ;; esac # they keep their tables there
case ,$wanted, in *,s3,*) ;; *,nessie,*) wanted=s3,$wanted ;; esac # its warehouse lies there
case ,$wanted, in *,kdc,*) ;; *_kerberos,*) wanted=kdc,$wanted ;; esac
dir=$(mktemp -d /tmp/frazil-services.XXXXXX) && chmod 755 "$dir"
names=${wanted//,/ } without=()

finish() {
    for name in $names; do "$here/$name.sh" stop "$dir/$name" >/dev/null 2>&1; done
    rm -rf "$dir"
}
trap finish EXIT
trap 'exit 130' INT TERM

# address NAME: waits for a server of this run, and prints its address
address() {
    until [ -e "$dir/$1/endpoint" ] || [ -e "$dir/$1.status" ]; do sleep 0.1; done
    cat "$dir/$1/endpoint" 2>/dev/null
}
# over_s3: Nessie's warehouse lies in a bucket of the S3 server
over_s3() {
    S3_ENDPOINT=$(address s3); export S3_ENDPOINT
    [ -n "$S3_ENDPOINT" ] || { echo "it wants the S3 server" >"$dir/nessie.err"; echo 77 >"$dir/nessie.status"; exit; }
    export WAREHOUSE=s3://frazil-test/nessie AWS_ACCESS_KEY_ID=testuser AWS_SECRET_ACCESS_KEY=testtest
}
# over_postgres NAME: a metastore that keeps its tables in PostgreSQL: over Derby it cannot compare parameters
over_postgres() {
    local url; url=$(address postgres)
    [ -n "$url" ] || { echo "it wants PostgreSQL" >"$dir/$1.err"; echo 77 >"$dir/$1.status"; exit; }
    url=${url#*@}; export HMS_PG=${url%/*}/$1
}
# of_kdc: a metastore that asks for tickets of this run's KDC
of_kdc() {
    HMS_KDC=$(address kdc); export HMS_KDC
    [ -n "$HMS_KDC" ] || { echo "it wants a KDC" >"$dir/$1.err"; echo 77 >"$dir/$1.status"; exit; }
}
# beside_s3: in the long forms metastores have tables in the S3 server, too
beside_s3() {
    [ -z "${FRAZIL_SOAK:-}" ] || case ,$wanted, in *,s3,*) HMS_S3=$(address s3); export HMS_S3 ;; esac
}
began=$SECONDS
echo "starting $names (the first time they are fetched)" >&2
for name in $names; do
    { case $name in nessie) over_s3 ;; hms4_plain) over_postgres "$name" ;; hms4 | hms31) over_postgres "$name"; beside_s3 ;; hms2_kerberos) of_kdc "$name" ;; hms4_kerberos) of_kdc "$name"; over_postgres "$name" ;; hms2) beside_s3 ;; esac; "$here/$name.sh" start "$dir/$name" 2>&1 >/dev/null | tee "$dir/$name.err" >&2; echo "${PIPESTATUS[0]}" >"$dir/$name.status"; } &
done
wait
for name in $names; do
    case $(cat "$dir/$name.status") in
    0) endpoint=$(cat "$dir/$name/endpoint") ;;
    77) without+=("$name ($(tail -1 "$dir/$name.err"))") && continue ;;
    *) echo "$name did not start" >&2 && exit 1 ;;
    esac
    case $name in
    postgres) export FRAZIL_TEST_POSTGRES=$endpoint ;;
    mariadb) export FRAZIL_TEST_MARIADB=$endpoint ;;
    s3) export FRAZIL_TEST_S3=$endpoint ;;
    gcs) export FRAZIL_TEST_GCS=$endpoint ;;
    azurite) export FRAZIL_TEST_AZURITE=$endpoint ;;
    hdfs) export FRAZIL_TEST_HDFS=$endpoint ;;
    iceberg_rest) export FRAZIL_TEST_REST=$endpoint ;;
    nessie) export FRAZIL_TEST_NESSIE=$endpoint ;;
    hms2) export FRAZIL_TEST_HMS2=$endpoint ;;
    kdc) export FRAZIL_TEST_KDC=$endpoint ;;
    hms2_kerberos) export FRAZIL_TEST_HMS2_KERBEROS=$endpoint ;;
    hms4_kerberos) export FRAZIL_TEST_HMS4_KERBEROS=$endpoint ;;
    hms4_plain) export FRAZIL_TEST_HMS4_PLAIN=$endpoint ;;
    hms31) export FRAZIL_TEST_HMS31=$endpoint ;;
    hms4) export FRAZIL_TEST_HMS4=$endpoint ;;
    esac
done
echo "servers are up after $((SECONDS - began)) s" >&2
"$@"
status=$?
told=${NOT_RUN:-}
for one in ${without[@]+"${without[@]}"}; do told+="${told:+; }what needs $one"; done
[ -z "$told" ] || echo "not run: $told"
exit $status
