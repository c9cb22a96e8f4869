#!/usr/bin/env bash
# Hive Metastore 4.0.1 that asks for a user and password (SASL's PLAIN): me and hunter2, unless HMS_PLAIN=user:password says otherwise.
#   hms4_plain.sh start DIR [PORT] | status DIR | stop DIR        otherwise as hms4.sh
HMS_PLAIN=${HMS_PLAIN:-me:hunter2} exec "$(dirname "$0")/hms4.sh" "$@"
