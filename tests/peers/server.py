"""Another engine that stays up: `python server.py java JAR [CLASS_PATH]` or `python server.py
pyiceberg`, in that engine's environment.

A line of JSON in: {"check": arguments of java_check.py or pyiceberg_check.py} or {"code": Python
text, "arguments": sys.argv[1:]}. A line of JSON out: {"out": what it printed, "code": exit code} or
{"failed": traceback, "out": …}. Whatever else writes to stdout goes to stderr.
"""

import contextlib
import io
import json
import os
import sys
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

ICEBERG = "org.apache.iceberg.spark.SparkCatalog"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": "-Duser.timezone=UTC -XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    # tables of a few rows: planning and compiling cost more than they save
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


class JavaEngine:
    """One JVM; every request has a session of its own, with its own catalogs and settings."""

    def __init__(self, jar, class_path=""):
        os.environ["PYSPARK_PYTHON"] = sys.executable
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2]").config("spark.jars", jar)
        if class_path:
            builder = builder.config("spark.driver.extraClassPath", class_path)
        for key, value in SETTINGS.items():
            builder = builder.config(key, value)
        self.jar, self.root = jar, builder.getOrCreate()
        self.root.sparkContext.setLogLevel("OFF")

    def session(self, catalog, warehouse):
        made = self.root.newSession()
        for key, value in (
            ("", ICEBERG),
            (".type", "hadoop"),
            (".warehouse", warehouse),
            (".cache-enabled", "false"),
        ):
            made.conf.set(f"spark.sql.catalog.{catalog}{key}", value)
        made.stop = lambda: None  # the checker stops its session when it is done
        for role in ("setActiveSession", "setDefaultSession"):
            getattr(self.root._jvm.org.apache.spark.sql.classic.SparkSession, role)(
                made._jsparkSession
            )
        return made

    def check(self, arguments):
        import java_check

        java_check.session = lambda jar, scratch: self.session("chk", scratch)
        return called(java_check, ["--jar", self.jar, *arguments])

    def run(self, code, arguments):
        sys.argv = ["-c", self.jar, *arguments]
        exec(
            compile(code, "<code of the test>", "exec"),
            {"__name__": "__main__", "sys": sys, "spark": self.session("j", arguments[0])},
        )


class PyIceberg:
    def check(self, arguments):
        import pyiceberg_check

        return called(pyiceberg_check, arguments)

    def run(self, code, arguments):
        sys.argv = ["-c", *arguments]
        exec(compile(code, "<code of the test>", "exec"), {"__name__": "__main__"})


def called(script, arguments):
    sys.argv = [script.__file__, *arguments]
    return script.main()


def answer(engine, request):
    out, answered = io.StringIO(), {"code": 0}
    with contextlib.redirect_stdout(out):
        try:
            if "check" in request:
                answered = {"code": engine.check(request["check"])}
            else:
                engine.run(request["code"], request["arguments"])
        except BaseException:
            answered = {"failed": traceback.format_exc()}
    return {**answered, "out": out.getvalue()}


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    engine = JavaEngine(*sys.argv[2:]) if sys.argv[1] == "java" else PyIceberg()
    for line in sys.stdin:
        print(json.dumps(answer(engine, json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
