#!/usr/bin/env bash
# A JVM for the query engine of Hive 2.3 (from the jars that PySpark carries) or, with HIVE_31 set, of 3.1.3, and Iceberg's storage handler for it.
# A test tells it by py4j which statements to run over which metastore; jobs run in this JVM.
#   hive_engine.sh start DIR [PORT] | status DIR | stop DIR        scratch folders are in DIR; DIR/classpath has what a class loader of Hive's has to hold
# Maven has the handler of Hive 2 and 3, which ends with Iceberg 1.7, but not Hive 4's own (org.apache.hive:hive-iceberg-handler).

. "$(dirname "$0")/_common.sh"
PYTHON=${PYTHON:-python3}
HANDLER=org.apache.iceberg:iceberg-hive-runtime:1.4.3

start() {
  need_java
  local home cp opens hive
  home=$(pyspark_home); hive=$(basename "$home"/jars/hive-exec-*-core.jar -core.jar); hive=${hive#hive-exec-}
  if [ -n "${HIVE_31:-}" ]; then
    cp=$(jars hive31-engine '!'$HANDLER org.apache.hive:{hive-exec,hive-llap-client}:3.1.3 \
      org.apache.hadoop:{hadoop-common,hadoop-mapreduce-client-jobclient,hadoop-mapreduce-client-common}:3.3.6 \
      -log4j:log4j -org.slf4j:slf4j-reload4j -ch.qos.reload4j:reload4j -org.apache.curator:apache-curator \
      '-org.apache.hbase:*' '-io.netty:*' '-org.pentaho:*' '-org.apache.directory.server:*' '-org.apache.druid:*') || exit 77
  else
    cp=$(printf '%s:' "$home"/jars/*.jar)$(jars hive23-engine '!'$HANDLER '!'org.apache.hive:{hive-llap-common,hive-llap-client}:"$hive") || exit 77
  fi
  echo "$DIR/conf/:$cp" > "$DIR/classpath"
  mkdir -p "$DIR/conf"
  { echo "<configuration>"
    while read -r k v; do [ -z "$k" ] || echo "<property><name>$k</name><value>$v</value></property>"; done
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
${HIVE_31:+hive.optimize.ppd false}
END
  opens=$(printf ' --add-opens=java.base/%s=ALL-UNNAMED' java.lang java.net java.nio java.util java.util.concurrent java.util.concurrent.atomic)
  # shellcheck disable=SC2086
  spawn hive_engine java $opens -Xmx512m -XX:TieredStopAtLevel=1 -Duser.timezone=UTC -cp "$(echo "$home"/jars/py4j-*.jar)" py4j.GatewayServer "$PORT"
  ready hive_engine open_port "$PORT"
  announce "py4j://$HOST:$PORT"
}
verbs hive_engine
