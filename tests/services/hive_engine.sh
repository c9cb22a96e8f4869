#!/usr/bin/env bash
# A JVM with Hive 2.3's query engine, from the jars that PySpark carries, and Iceberg's storage handler for it. A test tells it by py4j which statements
# to run on which metastore; jobs run in this JVM.
#   hive_engine.sh start DIR [PORT] | status DIR | stop DIR        scratch folders are in DIR
# Iceberg has no handler for Hive 2 and 3 after 1.7, and Maven's registry none of Hive 4's own (org.apache.hive:hive-iceberg-handler).

. "$(dirname "$0")/_common.sh"
PYTHON=${PYTHON:-python3}
HANDLER=org.apache.iceberg:iceberg-hive-runtime:1.4.3

start() {
  need_java
  local home cp opens hive
  home=$(pyspark_home); hive=$(basename "$home"/jars/hive-exec-*-core.jar -core.jar); hive=${hive#hive-exec-}
  cp=$(jars hive-engine '!'$HANDLER '!'org.apache.hive:hive-llap-common:"$hive" '!'org.apache.hive:hive-llap-client:"$hive") || exit 77
  opens=$(printf ' --add-opens=java.base/%s=ALL-UNNAMED' java.lang java.net java.nio java.util java.util.concurrent java.util.concurrent.atomic)
  mkdir -p "$DIR/conf"
  { echo "<configuration>"
    while read -r k v; do echo "<property><name>$k</name><value>$v</value></property>"; done
    echo "</configuration>"
  } > "$DIR/conf/hive-site.xml" <<END
hive.exec.scratchdir $DIR/scratch
hive.exec.local.scratchdir $DIR/local
hive.downloaded.resources.dir $DIR/resources
hive.querylog.location $DIR/queries
hadoop.tmp.dir $DIR/tmp
hive.execution.engine mr
mapreduce.framework.name local
hive.exec.submit.local.task.via.child false
hive.cbo.enable false
hive.fetch.task.conversion more
hive.fetch.task.conversion.threshold -1
END
  # shellcheck disable=SC2086
  spawn hive_engine java $opens -Xmx512m -XX:TieredStopAtLevel=1 -Duser.timezone=UTC -cp "$DIR/conf:$home/jars/*:$cp" py4j.GatewayServer "$PORT"
  ready hive_engine open_port "$PORT"
  announce "py4j://$HOST:$PORT"
}
verbs hive_engine
