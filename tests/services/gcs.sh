#!/usr/bin/env bash
# Google Cloud Storage: fake-gcs-server, in memory; needs Go, building it takes minutes.
#   gcs.sh start DIR [PORT] | status DIR | stop DIR
# No credentials. Make the bucket with POST ENDPOINT/storage/v1/b, body {"name": "…"}. What it keeps ends with it.

. "$(dirname "$0")/_common.sh"

start() {
  local bin; bin=$(go_bin github.com/fsouza/fake-gcs-server@v1.52.3)
  spawn gcs "$bin" -backend memory -scheme http -host $HOST -port "$PORT" -public-host "$HOST:$PORT" -external-url "http://$HOST:$PORT" -log-level error
  ready gcs 20 curl -sf "http://$HOST:$PORT/storage/v1/b"
  announce "http://$HOST:$PORT"
}
verbs gcs
