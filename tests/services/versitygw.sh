#!/usr/bin/env bash
# Another S3 server, small and quick; building it takes minutes: VersityGW over a directory (objects are plain files under DIR/data/BUCKET).
#   versitygw.sh start DIR [PORT] | status DIR | stop DIR
# Keys: S3_ACCESS_KEY / S3_SECRET_KEY (default testuser / testtest). Region us-east-1, path style. Make buckets through S3, not with mkdir.
# No --keep-alive: with it 15 % of pyarrow's uploads fail ("error when parsing the HTTP request").
# DIR must be on a file system with user extended attributes (ext4, xfs, btrfs). Do not use --sidecar: with it If-Match loses updates.

. "$(dirname "$0")/_common.sh"
KEY=${S3_ACCESS_KEY:-testuser} SECRET=${S3_SECRET_KEY:-testtest}

start() {
  local bin; bin=$(go_bin github.com/versity/versitygw/cmd/versitygw@v1.8.0)
  mkdir -p "$DIR/data"
  spawn versitygw "$bin" --access "$KEY" --secret "$SECRET" --port "$HOST:$PORT" --quiet posix "$DIR/data"
  ready versitygw open_port "$PORT"
  announce "http://$HOST:$PORT"
}
verbs versitygw
