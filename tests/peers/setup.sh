#!/bin/bash
# Environments beside our own: setup.sh java|pyiceberg|spark41|spark42|sparknext|worker|benchdata|dbt|classes DIR. What is there already is kept; parallel starts wait.
#   java       PySpark 4.1 and Java Iceberg's published jar      pyiceberg   PyIceberg
#   spark41    our own locked packages, with that Spark (sparknext: with the newest, whose folder is printed)    worker    what a cluster's workers need: Frazil, installed, without PySpark
#   benchdata  what makes the inputs of the benchmark    dbt    dbt-spark, without PySpark    classes     nothing new: the classes of our own Spark, as its JVM starts fastest with them
set -euo pipefail
usage="usage: setup.sh java|pyiceberg|spark41|spark42|sparknext|worker|benchdata|dbt|classes DIR"
what=${1:?$usage}
mkdir -p "${2:?$usage}"
dir=$(cd "$2" && pwd)
root=$(cd "$(dirname "$0")/../.." && pwd)
python=${PYTHON:-python3}
jar=$dir/jars/iceberg-spark-runtime-4.1_2.13-1.12.0.jar

exec 9>"$dir/.$what.lock"
flock 9

venv() { # name, stamp, arguments of pip
    local at=$dir/$1 stamp=$2
    [ "$(cat "$at/.done" 2>/dev/null)" = "$stamp" ] && return
    rm -rf "$at"
    echo "setting up $1 in $at: a minute or more, once" >&2
    "$python" -m venv "$at" >&2
    "$at/bin/python" -m pip install -q --disable-pip-version-check "${@:3}" >&2
    echo "$stamp" >"$at/.done"
}

packages() { # name, packages
    venv "$1" "${*:2}" "${@:2}"
}

spark() { # name, version of PySpark
    local lock=$dir/$1.txt
    # the locked packages, but PySpark and the linters: whole entries, hashes included
    awk '/^[a-z]/ {keep = !/^(pyspark|py4j|mypy|ruff|pandas-stubs|types-)/} keep' "$root/requirements.lock" >"$lock"
    venv "$1" "$2 $(sha256sum <"$root/requirements.lock")" -r "$lock"
    [ -e "$dir/$1/.spark" ] && return
    echo "setting up $1: PySpark $2 (400 MB)" >&2
    "$dir/$1/bin/python" -m pip install -q --disable-pip-version-check "pyspark==$2" >&2
    "$dir/$1/bin/python" -m pip install -q --disable-pip-version-check --no-deps -e "$root" >&2
    touch "$dir/$1/.spark"
}

worker() { # what a user would pack for a cluster: Frazil itself, no PySpark
    local lock=$dir/worker.txt
    awk '/^[a-z]/ {keep = /^(pyarrow|numpy|msgspec|deflate|datafusion|pyroaring|pyyaml|cloudpickle|typing-extensions|sortedcontainers|obstore|urllib3|pandas|python-dateutil|tzdata|pytz|six)=/} keep' \
        "$root/requirements.lock" >"$lock"
    venv worker "$(sha256sum <"$lock")" -r "$lock"
    sources=$(cd "$root" && find src pyproject.toml -name __pycache__ -prune -o -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum)
    [ "$(cat "$dir/worker/.sources" 2>/dev/null)" = "$sources" ] && return
    "$dir/worker/bin/python" -m pip install -q --disable-pip-version-check --no-deps --force-reinstall "$root" >&2
    echo "$sources" >"$dir/worker/.sources"
}

case $what in
worker) worker ;;
java)
    packages java pyspark==4.1.0 pyarrow==26.0.1 numpy pandas
    if [ ! -s "$jar" ]; then
        echo "fetching Java Iceberg's jar through Maven" >&2
        mvn -q -B -Dmaven.repo.local="${MAVEN_REPO:-$dir/../m2}" org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy \
            -Dartifact=org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0 -DoutputDirectory="$dir/jars" >&2
    fi
    ;;
pyiceberg) packages pyiceberg "pyiceberg[pyarrow,sql-sqlite,pyiceberg-core]==0.12.0" pyarrow==26.0.1 numpy pandas thrift==0.25.0 ;;
spark41) spark spark41 4.1.0 ;;
spark42) spark spark42 4.2.0 ;;
sparknext) # the newest that pip finds, pre-releases too
    newest=$("$python" -m pip index versions pyspark --pre --disable-pip-version-check 2>/dev/null | sed -n '1s/.*(\(.*\)).*/\1/p')
    spark "sparknext-$newest" "${newest:?pip finds no PySpark}" && echo "sparknext-$newest" ;;
benchdata) packages benchdata "pyiceberg[pyarrow,sql-sqlite,pyiceberg-core]==0.12.0" pyarrow==26.0.1 numpy tpchgen-cli matplotlib duckdb==1.5.5 duckdb-extension-tpch==1.5.5 duckdb-extension-tpcds==1.5.5 ;;
dbt) packages dbt dbt-core==1.10.23 dbt-spark==1.10.3 ;;
classes) "$python" "$root/tests/peers/classes.py" ;;
*) echo "$usage" >&2 && exit 2 ;;
esac
