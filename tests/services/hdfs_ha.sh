#!/usr/bin/env bash
# A JVM with Hadoop's mini cluster on its class path. A test tells it by py4j to start an HDFS with two name nodes, and to change their roles.
#   hdfs_ha.sh start DIR [PORT] | status DIR | stop DIR

. "$(dirname "$0")/_common.sh"
HADOOP=${HADOOP_VERSION:-3.5.0}

start() {
  need_java
  local cp home; home=$(pyspark_home)
  cp=$(jars hdfs org.apache.hadoop:hadoop-client-minicluster:$HADOOP org.apache.hadoop:hadoop-client-runtime:$HADOOP org.mockito:mockito-core:2.28.2 junit:junit:4.13.2 org.slf4j:slf4j-simple:1.7.36)
  spawn hdfs_ha java -Xmx512m -XX:TieredStopAtLevel=1 -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp "$cp:$(echo "$home"/jars/py4j-*.jar)" \
    py4j.GatewayServer "$PORT"
  ready hdfs_ha open_port "$PORT"
  announce "py4j://$HOST:$PORT"
}
verbs hdfs_ha
