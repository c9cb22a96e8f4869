#!/usr/bin/env bash
# Google Cloud Storage: fake-gcs-server, in memory, behind gcs_xml.py, which tells it the writes of the XML interface; needs Go, building it takes minutes.
#   gcs.sh start DIR [PORT] | status DIR | stop DIR
# Any token. Make the bucket with POST ENDPOINT/storage/v1/b, body {"name": "…"}. What it keeps ends with it.

. "$(dirname "$0")/_common.sh"

start() {
  local bin behind; bin=$(go_bin github.com/fsouza/fake-gcs-server@v1.56.1)
  behind=$(free_port)
  spawn gcs "$bin" -backend memory -scheme http -host $HOST -port "$behind" -public-host "$HOST:$behind" -external-url "http://$HOST:$PORT" -log-level error
  ready gcs curl -sf "http://$HOST:$behind/storage/v1/b"
  spawn gcs_xml "$PYTHON" "$(cd "$(dirname "$0")" && pwd)/gcs_xml.py" $HOST "$PORT" "http://$HOST:$behind"
  ready gcs_xml open_port "$PORT"
  announce "http://$HOST:$PORT"
}
verbs gcs gcs_xml
