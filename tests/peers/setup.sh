#!/bin/bash
# Environments of the engines that judge us: setup.sh java|pyiceberg|all DIR. What is there already is kept; parallel starts wait.
set -euo pipefail
what=${1:?usage: setup.sh java|pyiceberg|all DIR}
mkdir -p "${2:?usage: setup.sh java|pyiceberg|all DIR}"
dir=$(cd "$2" && pwd)
python=${PYTHON:-python3}
jar=$dir/jars/iceberg-spark-runtime-4.1_2.13-1.12.0.jar

exec 9>"$dir/.lock"
flock 9

venv() { # name, packages
    local at=$dir/$1 want="${*:2}"
    [ "$(cat "$at/.done" 2>/dev/null)" = "$want" ] && return
    "$python" -m venv "$at" >&2
    "$at/bin/python" -m pip install -q --disable-pip-version-check "${@:2}" >&2
    echo "$want" >"$at/.done"
}

case $what in java | all)
    venv java pyspark==4.1.0 pyarrow==26.0.1 numpy pandas
    if [ ! -s "$jar" ]; then
        mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy \
            -Dartifact=org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0 -DoutputDirectory="$dir/jars" >&2
    fi
    ;;
esac
case $what in pyiceberg | all)
    venv pyiceberg "pyiceberg[pyarrow,sql-sqlite,pyiceberg-core]==0.12.0" pyarrow==26.0.1 numpy pandas
    ;;
esac
