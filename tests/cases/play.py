"""Play a case at a door: run its records in a namespace of its own, and compare."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from string import Template
from typing import Any, Protocol

from tests.cases import metadata_files
from tests.cases.acts import ACTS, READS, known_of
from tests.cases.form import Case, Record, is_of, letters, says, shown

CLASSES = {
    "sql": "org.apache.iceberg.spark.SparkCatalog",
    "path": "org.apache.iceberg.spark.SparkCatalog",
    "session": "org.apache.iceberg.spark.SparkSessionCatalog",
}
# for tables of a few rows, planning and compiling cost more than they save
QUICK = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.scripting.enabled": "true",
}
DESCRIBED: Mapping[str, Callable[[dict[str, Any]], list[str]]] = {
    "schema": metadata_files.columns_of,
    "spec": lambda known: [*map(" ".join, metadata_files.spec_of(known))],
    "order": lambda known: [*map(" ".join, metadata_files.order_of(known))],
}
_numbers = itertools.count()


class Refused(Exception):
    """Tell that a door does not take a case, and why."""


class Door(Protocol):
    """Run statements in one way. `spark`: its session."""

    name: str
    spark: Any

    def run(self, text: str) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows, plain values all the way down."""

    def collected(self, frame: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a DataFrame as plain values."""

    def counts(self) -> Mapping[str, Any]:
        """Return what the result of the last change counted. Raises Refused."""


class Wrong(AssertionError):
    """Tell which record of a case is not as it says."""


@dataclass
class Place:
    """A namespace of one case in a catalog of a session."""

    catalog: str
    namespace: str
    directory: Path
    names: dict[str, str] = field(default_factory=dict)
    kind: str = "sql"
    settings: Mapping[str, str] = field(default_factory=dict)  # of the catalog
    frames: dict[str, Any] = field(default_factory=dict)

    def text(self, template: str) -> str:
        known = names_in(self.catalog, self.namespace, self.directory)
        named: Mapping[str, str] = self.names
        for _ in range(3):  # values name others
            named = {k: Template(v).safe_substitute(known | named) for k, v in named.items()}
        return Template(template).safe_substitute(known | named)


def names_in(catalog: str, namespace: str, directory: Path) -> dict[str, str]:
    """Return what `$t` and the like stand for in a namespace of one case."""
    ns = f"{catalog}.{namespace}"
    return {"t": f"{ns}.t", "ns": ns, "db": namespace, "c": catalog, "dir": str(directory)}


def name_of(kind: str, of: str = "cases") -> str:
    return "spark_catalog" if kind == "session" else f"{of}_{kind}"


def settings_of(
    kind: str, folder: Path, java: bool = False, *, of: str = "cases"
) -> dict[str, str]:
    """Return the settings of a catalog of a kind: `sql` on SQLite, `path` Java's Hadoop catalog,
    `session` as spark_catalog, over SQLite. `of`: who tries them, in its name.
    """
    settings = {"": CLASSES[kind], ".type": "hadoop", ".warehouse": f"{folder}/{kind}"}
    settings |= {".cache-enabled": "false"} if java else {}
    if kind != "path":
        uri = "jdbc:sqlite:" if java else "sqlite:///"
        jdbc = {".uri": f"{uri}{folder}/{kind}.db", ".jdbc.schema-version": "V1"}
        settings |= {".type": "jdbc"} | jdbc
    return {f"spark.sql.catalog.{name_of(kind, of)}{key}": v for key, v in settings.items()}


def told_to(kind: str, folder: Path) -> dict[str, str]:
    """Return the settings of a catalog of a kind as Frazil alone is told them."""
    prefix = f"spark.sql.catalog.{name_of(kind)}."
    settings = settings_of(kind, folder).items()
    return {key.removeprefix(prefix): value for key, value in settings if key.startswith(prefix)}


@contextmanager
def place(door: Door, kind: str, folder: Path, names: Mapping[str, str]) -> Iterator[Place]:
    """Make a namespace for one case; afterwards no catalog of ours is the current one."""
    namespace = f"{door.name}{next(_numbers)}"  # processes of other doors share the folder
    directory = folder / "files" / namespace
    directory.mkdir(parents=True)
    door.run(f"CREATE NAMESPACE {name_of(kind)}.{namespace}")
    try:
        yield Place(name_of(kind), namespace, directory, dict(names), kind, told_to(kind, folder))
    finally:
        leave(door.spark)


def leave(spark: Any) -> None:
    """Let no catalog of a case be the current one of a session."""
    # Spark 4.1 fails at SHOW CURRENT NAMESPACE while anything is cached, whoever cached it.
    spark.catalog.clearCache()
    spark.catalog.setCurrentCatalog("spark_catalog")
    spark.catalog.setCurrentDatabase("default")


def play(case: Case, door: Door, kind: str, folder: Path, run: int = 0) -> None:
    """Run all records of a case at a door, with the values of one of its runs. Raises Wrong,
    Refused.
    """
    before: dict[str, str | None] = {}
    with place(door, kind, folder, case.runs[run]) as there:
        try:
            for record in case.records:
                if door.name in record.skips:
                    continue
                try:
                    _act(record, door, there, before)
                except Refused:
                    raise
                except Exception as error:
                    told = f"{type(error).__name__}: {error}".partition("JVM stacktrace")[0]
                    told = f"{case.file}.test:{record.line}: {told[:2500]}\n{record.text}"
                    raise Wrong(told) from error
        finally:
            for key, value in before.items():
                _set(door, key, value)
            for record in case.records:  # SHOW VIEWS of the next case lists them too
                for name in re.findall(r"TEMPORARY VIEW (?:`?)(\w+)", there.text(record.text)):
                    door.spark.catalog.dropTempView(name)


def _act(record: Record, door: Door, there: Place, before: dict[str, str | None]) -> None:
    text = there.text(record.text)
    expected = [line for line in map(there.text, record.expected) if line]
    match record.kind, there.text(record.rest).split(" ", 1):
        case "statement", ["ok"]:
            door.run(text)
        case "statement", ["error", *pattern]:
            _fails(lambda: door.run(text), "".join(pattern))
        case ("query" | "read" | "joined" | "metadata") as kind, [kinds, *more]:
            told = "".join(more)
            if kind != "query" and expected[:1] and expected[0].startswith("error "):
                act = partial(READS[kind], door, there, told, text)
                _fails(act, expected[0].removeprefix("error "))
                return
            rows = door.run(text) if kind == "query" else READS[kind](door, there, told, text)
            lines = ["\t".join(map(shown, row)) for row in rows]
            match more:
                case ["rowsort"]:
                    lines, expected = sorted(lines), sorted(expected)
                case ["has"]:
                    lines = [line for line in expected if line in lines]
                case ["lacks"]:
                    lines, expected = [line for line in expected if line in lines], []
            assert lines == expected, f"{lines} != {expected}"
            assert not rows or is_of(letters(rows), kinds), f"{letters(rows)}, not {kinds}"
        case "set", [key, *value]:
            before.setdefault(key, door.spark.conf.get(key, None))
            _set(door, key, value[0] if value else None)
        case "snapshots", [table, *names]:
            found = door.run(f"SELECT snapshot_id FROM {table}.snapshots ORDER BY committed_at")
            called = "".join(names).split()
            assert len(found) == len(called), f"{len(found)} snapshots"
            for name, (snapshot_id,) in zip(called, found, strict=True):
                known = there.names.setdefault(name, str(snapshot_id))
                assert known == str(snapshot_id), f"{name} is another snapshot"
        case "let", names:
            (row,) = door.run(text)
            called = " ".join(names).split()
            there.names.update(zip(called, map(shown, row), strict=False))
        case "counts", wanted:
            try:
                counted = door.counts()
            except Refused:
                return
            for key, value in (pair.split("=") for pair in " ".join(wanted).split()):
                assert str(counted[key]) == value, f"{key} is {counted[key]}, not {value}"
        case ("schema" | "spec" | "order") as kind, [table]:
            lines = DESCRIBED[kind](known_of(door, table))
            assert lines == expected, f"{lines} != {expected}"
        case kind, _ if kind in ACTS:
            act = partial(ACTS[kind], door, there, there.text(record.rest), text)
            if expected:
                _fails(act, expected[0].removeprefix("error "))
            else:
                act()
        case _:
            raise ValueError(f"no record: {record.kind} {record.rest}")


def _set(door: Door, key: str, value: str | None) -> None:
    if value is None:
        door.spark.conf.unset(key)
    else:
        door.spark.conf.set(key, value)


def _fails(act: Callable[[], Any], pattern: str) -> None:
    """Check that something fails, with a message in which the pattern is found."""
    try:
        rows = act()
    except Refused:
        raise
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
    else:
        raise AssertionError(f"no error, but {rows}")
    assert says(pattern, message), f"{pattern!r} is not in {message[:1500]}"
    assert "Traceback" not in message, message[:1500]
