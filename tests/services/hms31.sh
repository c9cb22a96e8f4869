#!/usr/bin/env bash
# Hive Metastore 3.1.3 (the standalone server), over PostgreSQL: HMS_PG=host:port/database, made when it is missing.
#   hms31.sh start DIR [PORT] | status DIR | stop DIR        warehouse: $WAREHOUSE (default DIR/warehouse)
[ -n "${HMS_PG:-}" ] || [ "${1:-}" != start ] || { echo "hms31.sh: it wants PostgreSQL: HMS_PG" >&2; exit 2; }
HMS_31=1 exec "$(dirname "$0")/hms4.sh" "$@"
