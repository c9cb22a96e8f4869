"""Play a case at a door: run its records in a namespace of its own, and compare."""

from __future__ import annotations

import gzip
import itertools
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any, Protocol

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
_numbers = itertools.count()


class Refused(Exception):
    """Tell that a door does not take a case, and why."""


class Door(Protocol):
    """Run statements in one way. `spark`: its session."""

    name: str
    spark: Any

    def run(self, text: str) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows, plain values all the way down."""

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

    def text(self, template: str) -> str:
        ns = f"{self.catalog}.{self.namespace}"
        known = {
            "t": f"{ns}.t",
            "ns": ns,
            "db": self.namespace,
            "c": self.catalog,
            "dir": str(self.directory),
        }
        named = {key: Template(v).safe_substitute(known) for key, v in self.names.items()}
        return Template(template).safe_substitute(known | named)


def name_of(kind: str) -> str:
    return "spark_catalog" if kind == "session" else f"cases_{kind}"


def settings_of(kind: str, folder: Path, java: bool = False) -> dict[str, str]:
    """Return the settings of a catalog of a kind: `sql` on SQLite, `path` Java's Hadoop catalog,
    `session` as spark_catalog, over SQLite.
    """
    settings = {"": CLASSES[kind], ".type": "hadoop", ".warehouse": f"{folder}/{kind}"}
    settings |= {".cache-enabled": "false"} if java else {}
    if kind != "path":
        uri = "jdbc:sqlite:" if java else "sqlite:///"
        jdbc = {".uri": f"{uri}{folder}/{kind}.db", ".jdbc.schema-version": "V1"}
        settings |= {".type": "jdbc"} | jdbc
    return {f"spark.sql.catalog.{name_of(kind)}{key}": v for key, v in settings.items()}


@contextmanager
def place(door: Door, kind: str, folder: Path, names: Mapping[str, str]) -> Iterator[Place]:
    """Make a namespace for one case; afterwards no catalog of ours is the current one."""
    namespace = f"{door.name}{next(_numbers)}"  # processes of other doors share the folder
    directory = folder / "files" / namespace
    directory.mkdir(parents=True)
    door.run(f"CREATE NAMESPACE {name_of(kind)}.{namespace}")
    try:
        yield Place(name_of(kind), namespace, directory, dict(names))
    finally:
        # Spark 4.1 fails at SHOW CURRENT NAMESPACE while anything is cached, whoever cached it.
        door.spark.catalog.clearCache()
        door.spark.catalog.setCurrentCatalog("spark_catalog")
        door.spark.catalog.setCurrentDatabase("default")


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
            _fails(door, text, "".join(pattern))
        case "query", [kinds, *sort]:
            rows = door.run(text)
            lines = ["\t".join(map(shown, row)) for row in rows]
            if sort == ["rowsort"]:
                lines, expected = sorted(lines), sorted(expected)
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
        case "let", [name]:
            ((value,),) = door.run(text)
            there.names[name] = shown(value)
        case "counts", wanted:
            try:
                counted = door.counts()
            except Refused:
                return
            for key, value in (pair.split("=") for pair in " ".join(wanted).split()):
                assert str(counted[key]) == value, f"{key} is {counted[key]}, not {value}"
        case ("schema" | "spec" | "order") as kind, [table]:
            lines = DESCRIBED[kind](_metadata(door, table))
            assert lines == expected, f"{lines} != {expected}"
        case _:
            raise ValueError(f"no record: {record.kind} {record.rest}")


def _set(door: Door, key: str, value: str | None) -> None:
    if value is None:
        door.spark.conf.unset(key)
    else:
        door.spark.conf.set(key, value)


def _fails(door: Door, text: str, pattern: str) -> None:
    try:
        rows = door.run(text)
    except Refused:
        raise
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
    else:
        raise AssertionError(f"no error, but {rows}")
    assert says(pattern, message), f"{pattern!r} is not in {message[:1500]}"
    assert "Traceback" not in message, message[:1500]


# What a metadata file says
# --------------------------------------------------------------------------------------------------


def _metadata(door: Door, table: str) -> dict[str, Any]:
    rows = door.run(f"SELECT file FROM {table}.metadata_log_entries")
    path = max((row[0] for row in rows), key=_version)
    raw = Path(re.sub("^file:/*", "/", path)).read_bytes()
    return dict(json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw))


def _version(path: str) -> int:
    found = re.match(r"v?(\d+)", path.rpartition("/")[2])
    return int(found[1]) if found else 0


def _schema(known: dict[str, Any]) -> dict[str, Any]:
    (schema,) = [s for s in known["schemas"] if s["schema-id"] == known["current-schema-id"]]
    return dict(schema)


def _columns(known: dict[str, Any]) -> list[str]:
    """Return the current columns, such as "1 id long not null 'the key'", with their ids."""
    return [_column(f) for f in _schema(known)["fields"]]


def _column(field: dict[str, Any]) -> str:
    told = f"{field['id']} {field['name']} {_type(field['type'])}"
    told += " not null" if field["required"] else ""
    return told + (f" {field['doc']!r}" if "doc" in field else "")


def _type(node: Any) -> str:
    match node:
        case {"type": "struct"}:
            return f"struct<{', '.join(map(_column, node['fields']))}>"
        case {"type": "list"}:
            return f"list<{node['element-id']} {_type(node['element'])}>"
        case {"type": "map"}:
            key, value = (f"{node[f'{part}-id']} {_type(node[part])}" for part in ("key", "value"))
            return f"map<{key}, {value}>"
    return str(node)


def _names(node: Any, prefix: str = "") -> Iterator[tuple[int, str]]:
    """Give the names of columns by field id, those inside others with dots."""
    if not isinstance(node, dict):
        return
    for f in node.get("fields", ()):
        yield f["id"], prefix + f["name"]
        yield from _names(f["type"], f"{prefix}{f['name']}.")
    for part in ("element", "key", "value"):
        if f"{part}-id" in node:
            yield node[f"{part}-id"], prefix + part
            yield from _names(node[part], f"{prefix}{part}.")


def _spec(known: dict[str, Any]) -> list[str]:
    """Return the current partition fields: column, transform, name."""
    columns = dict(_names(_schema(known)))
    (spec,) = [s for s in known["partition-specs"] if s["spec-id"] == known["default-spec-id"]]
    fields = spec["fields"]
    return [f"{columns[f['source-id']]} {f['transform']} {f['name']}" for f in fields]


def _order(known: dict[str, Any]) -> list[str]:
    """Return the current write order: column, transform, direction, order of nulls."""
    columns, default = dict(_names(_schema(known))), known["default-sort-order-id"]
    (order,) = [o for o in known["sort-orders"] if o["order-id"] == default]
    return [
        f"{columns[f['source-id']]} {f['transform']} {f['direction']} {f['null-order']}"
        for f in order["fields"]
    ]


DESCRIBED = {"schema": _columns, "spec": _spec, "order": _order}
