#!/usr/bin/env bash
# Hive Metastore 2.3 that asks for Kerberos tickets (its principal is hive/localhost), of the KDC that kdc.sh started in the folder $HMS_KDC.
#   hms2_kerberos.sh start DIR [PORT] | status DIR | stop DIR        $HMS_QOP: layers that it offers, as in hadoop.rpc.protection
#   (default: authentication,integrity,privacy); otherwise as hms2.sh
[ -n "${HMS_KDC:-}" ] || [ "${1:-}" != start ] || { echo "hms2_kerberos.sh: it wants a KDC: HMS_KDC" >&2; exit 2; }
exec "$(dirname "$0")/hms2.sh" "$@"
