"""Check what Frazil needs on this machine: Python, Java, PySpark, optional packages, catalogs and
the storage of their tables.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import click

from frazil.cli.look import every_namespace
from frazil.cli.output import show_json, wants_json
from frazil.errors import FrazilError
from frazil.spec.shown import count_text
from frazil.spec.version import PYSPARK, VERSION, check_pyspark
from frazil.storage import redact_text
from frazil.table.load import list_catalogs, load_catalog

# package, the extra that brings it, what it is for
_EXTRAS = (
    ("datafusion", "datafusion", "large manifests decoded quickly"),
    ("obstore", "s3", "tables in S3, Google's store and Azure"),
    ("hdfs-native", "hdfs", "tables in HDFS"),
    ("sqlalchemy", "postgres", "catalogs in PostgreSQL and MySQL"),
    ("urllib3", "rest", "REST catalogs"),
    ("thrift", "hive", "Hive Metastore catalogs"),
    ("opentelemetry-api", "otel", "metrics-reporter-impl=otel"),
    ("pandas", "pandas", "to_pandas"),
    ("polars", "polars", "to_polars"),
    ("duckdb", "duckdb", "to_duckdb, and frazil sql without Spark"),
)
_MARK = {"ok": ("✓", "green"), "absent": ("-", "bright_black"), "failed": ("✗", "red")}


@dataclass(frozen=True)
class Checked:
    """Hold what was looked at, how it is (ok, absent, failed), and what to do."""

    what: str
    state: str
    text: str
    cure: str = ""


def doctor(catalog: str | None) -> None:
    """Print each check; exit with 1 when one failed."""
    failed, rows = False, []
    for check in checks(catalog):
        failed |= check.state == "failed"
        if wants_json():
            rows.append(vars(check))
        else:
            mark, colour = _MARK[check.state]
            click.secho(f"{mark} ", fg=colour, nl=False)
            click.echo(f"{check.what}: {check.text}")
            if check.cure:
                click.echo(f"    {check.cure}")
    if wants_json():
        show_json(rows)
    if failed:
        raise SystemExit(1)


def checks(catalog: str | None) -> Iterator[Checked]:
    """Make the checks one by one: the cheap ones first, those that ask servers last."""
    yield Checked(
        "Frazil",
        "ok",
        f"{VERSION} on Python {platform.python_version()}, {platform.system()} {platform.machine()}",
    )
    yield from _spark()
    for package, extra, purpose in _EXTRAS:
        version = _version(package)
        if version is None:
            yield Checked(
                package,
                "absent",
                f"not installed; needed for: {purpose}",
                f"pip install 'frazil[{extra}]'",
            )
        else:
            yield Checked(package, "ok", f"{version} ({purpose})")
    for name in [catalog] if catalog else list_catalogs():
        yield from _catalog(name)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _spark() -> Iterator[Checked]:
    version = _version("pyspark")
    if version is None:
        yield Checked(
            "PySpark",
            "absent",
            f"not installed; tables are read and written as Arrow. Spark needs {PYSPARK}",
            "pip install 'frazil[spark]'",
        )
        return
    try:
        check_pyspark(version)
        yield Checked("PySpark", "ok", version)
    except FrazilError as e:
        yield Checked("PySpark", "failed", e.message, e.hint or "")
    yield _workers()
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=os.path.join(home, "bin")) if home else shutil.which("java")
    if java is None:
        where = (
            f"JAVA_HOME is {home}, which has no bin/java"
            if home
            else "no java on the PATH, and JAVA_HOME is not set"
        )
        yield Checked(
            "Java", "failed", where, "Install Java 17 or 21, and set JAVA_HOME to its folder."
        )
        return
    try:
        run = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=20, check=False
        )
        text = run.stderr + run.stdout
    except (OSError, subprocess.TimeoutExpired) as e:
        yield Checked("Java", "failed", f"{java} does not answer: {e}", "Install Java 17 or 21.")
        return
    match = re.search(r'version "(\d+)', text)
    is_new = match is not None and int(match[1]) >= 17
    summary = f"{text.splitlines()[0] if text else 'no version'} at {java}"
    yield Checked(
        "Java",
        "ok" if is_new else "failed",
        summary,
        "" if is_new else "Spark 4 needs Java 17 or 21; set JAVA_HOME to it.",
    )


def _workers() -> Checked:
    """Check that the Python which Spark starts by itself has Frazil: Spark asks it for the format
    iceberg in sessions that nothing prepared, and where spark_catalog is a SparkSessionCatalog.
    """
    what, program = "Spark's Python", os.environ.get("PYSPARK_PYTHON") or "python3"
    cure = (
        f"Set PYSPARK_PYTHON={sys.executable} before Spark starts, as frazil.spark_session() does."
    )
    python = shutil.which(program)
    if python is None:
        return Checked(what, "absent", f"{program} is not on the PATH", cure)
    try:
        run = subprocess.run(
            [python, "-c", "import frazil"], capture_output=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as e:
        return Checked(what, "absent", f"{python} does not answer: {e}", cure)
    if run.returncode:
        return Checked(what, "absent", f"{python} lacks Frazil", cure)
    return Checked(what, "ok", f"{python} has Frazil")


def _catalog(name: str) -> Iterator[Checked]:
    """Open a catalog, list its namespaces, and open one of its tables, which reads from the store."""
    what = f"catalog {name}"
    try:
        with load_catalog(name) as catalog:
            namespaces = every_namespace(catalog)
            names = next((tables for n in namespaces if (tables := catalog.list_tables(n))), [])
            yield Checked(what, "ok", f"{catalog!r}, {count_text(len(namespaces), 'namespace')}")
            if names:
                table = catalog.load_table(names[0])
                table.scan(limit=1).to_arrow()
                yield Checked(
                    f"storage of {name}",
                    "ok",
                    f"{'.'.join(names[0])} was read at {redact_text(table.location())}",
                )
    except FrazilError as e:
        yield Checked(what, "failed", e.message, e.hint or "")
    except Exception as e:
        yield Checked(
            what,
            "failed",
            f"{type(e).__name__}: {redact_text(str(e))[:300]}",
            "Look at its settings: docs/catalogs.md.",
        )
