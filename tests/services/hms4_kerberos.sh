#!/usr/bin/env bash
# Hive Metastore 4.0.1 that asks for Kerberos tickets (its principal is hive/localhost), of the KDC that kdc.sh started in the folder $HMS_KDC.
#   hms4_kerberos.sh start DIR [PORT] | status DIR | stop DIR        $HMS_QOP: as hms2_kerberos.sh; otherwise as hms4.sh
[ -n "${HMS_KDC:-}" ] || [ "${1:-}" != start ] || { echo "hms4_kerberos.sh: it wants a KDC: HMS_KDC" >&2; exit 2; }
exec "$(dirname "$0")/hms4.sh" "$@"
