"""What a case does beyond statements: DataFrames that are written and read with options, writers of
which the session knows nothing, tables that a metadata file makes, files on disk. Each record has
one of `ACTS`, or of `READS` if it gives rows.
"""

from __future__ import annotations

import copy
import json
import os
import re
import shlex
import shutil
import sqlite3
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.cases import metadata_files

if TYPE_CHECKING:
    from tests.cases.play import Door, Place

Rows = list[tuple[Any, ...]]
CALLS = ("using", "partitionedBy", "where", "mode", "partitionBy")
OLD = 1_700_000_000
"""When files are as old that a procedure takes them for orphans, in seconds."""
NOTHING: Mapping[str, Any] = {
    "last-sequence-number": 0,
    "last-updated-ms": 1_600_000_000_000,
    "current-schema-id": 0,
    "default-spec-id": 0,
    "default-sort-order-id": 0,
    "sort-orders": [{"order-id": 0, "fields": []}],
    "snapshots": [],
    "snapshot-log": [],
    "metadata-log": [],
}
"""What the metadata of a table without rows says of all tables."""


def local(path: str) -> Path:
    """Return a path on this machine, which may be told with its scheme."""
    return Path(re.sub("^file:/*", "/", path))


def _options(told: list[str]) -> dict[str, str]:
    return {key: value for key, _, value in (option.partition("=") for option in told)}


def write(door: Door, there: Place, rest: str, text: str) -> None:
    """`write HOW TABLE option=value …`, and the query of the frame. HOW: a method of writeTo, or of
    `write` (`save`, `saveAsTable`, `insertInto`), or `view`, whose TABLE is a temporary view. The
    options `using`, `partitionedBy`, `where`, `mode` (append, unless told) and `partitionBy` are calls.
    """
    from pyspark.sql import functions as F

    how, table, *told = shlex.split(rest)
    options, frame = _options(told), door.spark.sql(text)
    calls = {key: options.pop(key) for key in CALLS if key in options}
    v1 = how in ("save", "saveAsTable", "insertInto")
    writer: Any = frame.write.mode(calls.get("mode", "append")) if v1 else frame.writeTo(table)
    for key, value in options.items():
        writer = writer.option(key, value)
    if v1 and how != "insertInto":
        writer = writer.format("iceberg")
    if "partitionBy" in calls:
        writer = writer.partitionBy(calls["partitionBy"])
    if "using" in calls:
        writer = writer.using(calls["using"])
    if "partitionedBy" in calls:
        writer = writer.partitionedBy(F.expr(calls["partitionedBy"]))
    match how:
        case "view":
            frame.createOrReplaceTempView(table)
        case "overwrite":
            writer.overwrite(F.expr(calls["where"]))
        case _:
            getattr(writer, how)(*((table,) if v1 else ()))


def read(door: Door, there: Place, rest: str, text: str) -> Rows:
    """`read KINDS TABLE option=value …`, and a query of the view `read` of that frame."""
    table, *told = shlex.split(rest)
    reader = door.spark.read.format("iceberg")
    for key, value in _options(told).items():
        reader = reader.option(key, value)
    reader.load(table).createOrReplaceTempView("read")
    try:
        return door.collected(door.spark.sql(text))
    finally:
        door.spark.catalog.dropTempView("read")


def hold(door: Door, there: Place, rest: str, text: str) -> None:
    """`hold NAME`, and a query: its DataFrame is made now, and read later."""
    there.frames[rest] = door.spark.sql(text)


def joined(door: Door, there: Place, rest: str, text: str) -> Rows:
    """`joined KINDS NAME …`: the frames of these names, joined by their column `id`."""
    from pyspark.sql import functions as F

    first, *others = (there.frames[name].alias(f"f{n}") for n, name in enumerate(rest.split()))
    for n, other in enumerate(others, 1):
        first = first.join(other, F.col("f0.id") == F.col(f"f{n}.id"))
    return sorted(door.collected(first), key=repr)


def outside(door: Door, there: Place, rest: str, text: str) -> None:
    """Change the table `t` by Frazil alone, as a writer of which the session knows nothing: a row
    as JSON is appended (to a branch: `outside BRANCH`), `add NAME TYPE` and `drop NAME` change its columns, `again COLUMNS` drops
    it and makes another; `view JSON` creates a view with the arguments of `create_view`.
    """
    from tests.cases.play import Refused

    try:
        import frazil
    except ModuleNotFoundError:
        raise Refused("no Frazil is beside this engine") from None
    import pyarrow as pa

    with frazil.load_catalog(there.catalog, **there.settings) as catalog:
        name = f"{there.namespace}.t"
        for line in text.splitlines():
            verb, _, told = line.partition(" ")
            match verb:
                case "add" | "drop":
                    with catalog.load_table(name).update_schema() as update:
                        change = update.add_column if verb == "add" else update.delete_column
                        change(*told.split())
                case "again":
                    catalog.drop_table(name)
                    catalog.create_table(name, told)
                case "view":
                    view = json.loads(told)
                    catalog.create_view(f"{there.namespace}.{view.pop('name')}", **view)
                case _:
                    table = catalog.load_table(name)
                    schema = table.schema().as_arrow()
                    row = pa.Table.from_pylist([json.loads(line)], schema=schema)
                    table.append(row, branch=rest or "main")


def meanwhile(door: Door, there: Place, rest: str, text: str) -> None:
    """`meanwhile BRANCH`: a row as JSON, which is appended to the table `t` by Frazil alone while the
    statement that follows reads the view `slow` (the number 1).
    """
    from tests.cases.play import Refused

    if door.name in ("connect", "plain"):
        raise Refused("no function of this process runs in the engine")
    row, _, statement = text.partition("\n")
    started, go = there.directory / "started", there.directory / "go"
    door.spark.udf.register("waiting", _waiting(str(started), str(go)), "int")
    door.run("CREATE OR REPLACE TEMPORARY VIEW slow AS SELECT waiting(1) AS value FROM range(1)")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(door.run, statement)
        try:
            deadline = time.monotonic() + 60
            while not started.exists() and not running.done() and time.monotonic() < deadline:
                time.sleep(0.02)
            assert started.exists(), running.exception(0)
            outside(door, there, rest, row)
        finally:
            go.touch()
        running.result(120)


def _waiting(started: str, go: str) -> Callable[[int], int]:
    """Return a function that says that it is called, and returns when it is told to."""

    def wait(number: int) -> int:
        import pathlib
        import time

        pathlib.Path(started).touch()
        while not pathlib.Path(go).exists():
            time.sleep(0.02)
        return number

    return wait


def beside(door: Door, there: Place, rest: str, text: str) -> None:
    """Run a statement in another session of the same process, which has the same catalog."""
    other = door.spark.newSession()
    for key, value in door.spark.conf.getAll.items():
        if key.startswith(f"spark.sql.catalog.{there.catalog}"):
            other.conf.set(key, value)
    other.sql(text).collect()


# Metadata files
# --------------------------------------------------------------------------------------------------


def known_of(door: Door, table: str) -> dict[str, Any]:
    """Read a table's newest metadata file."""
    rows = door.run(f"SELECT file FROM {table}.metadata_log_entries")
    return metadata_files.read(metadata_files.newest(row[0] for row in rows))


def _view(there: Place, name: str) -> dict[str, Any]:
    """Read a view's newest metadata file, which the catalog's database names."""
    database = there.settings["uri"].removeprefix("jdbc:").removeprefix("sqlite:")
    query = (
        "SELECT metadata_location FROM iceberg_tables WHERE table_namespace = ? AND table_name = ?"
    )
    with closing(sqlite3.connect("/" + database.lstrip("/"))) as connection:
        ((path,),) = connection.execute(query, (there.namespace, name)).fetchall()
    return metadata_files.read(path)


def metadata(door: Door, there: Place, rest: str, text: str) -> Rows:
    """`metadata KINDS TABLE`, and a path into its metadata file on each line, such as
    `refs/main/snapshot-id`; `size schemas` counts, `schema` is the current one. TABLE may be `view:NAME`.
    """
    view = rest.removeprefix("view:")
    known = known_of(door, rest) if view == rest else _view(there, view)
    if "current-schema-id" in known:
        known["schema"] = metadata_files.schema_of(known)
    return [tuple(_found(known, path) for path in text.splitlines())]


def _found(known: Any, path: str) -> Any:
    for part in path.removeprefix("size ").split("/"):
        if isinstance(known, dict):
            known = known.get(part)
        elif known is not None:
            known = known[int(part)]
    return len(known) if path.startswith("size ") else known


def register(door: Door, there: Place, rest: str, text: str) -> None:
    """Make the table `t`, of which SQL cannot say the columns: `register VERSION key=value …`, and
    columns as the record `schema` shows them, with `= JSON` for a default of writes, and lines
    `partition COLUMN_ID TRANSFORM NAME`.
    """
    version, *told = shlex.split(rest)
    columns, fields = [], []
    for line in text.splitlines():
        if line.startswith("partition "):
            _, source, transform, name = line.split()
            one = {"source-id": int(source), "field-id": 1000 + len(fields)}
            fields.append(one | {"transform": transform, "name": name})
            continue
        number, name, kind = line.split(" ", 2)
        kind, _, default = kind.partition(" = ")
        column: dict[str, Any] = {"id": int(number), "name": name}
        column |= {"type": kind.removesuffix(" not null"), "required": kind.endswith(" not null")}
        columns.append(column | ({"write-default": json.loads(default)} if default else {}))
    made = {
        **copy.deepcopy(NOTHING),
        "format-version": int(version),
        "table-uuid": str(uuid.uuid4()),
        "location": f"{there.directory}/t",
        "last-column-id": max(column["id"] for column in columns),
        "schemas": [{"type": "struct", "schema-id": 0, "fields": columns}],
        "partition-specs": [{"spec-id": 0, "fields": fields}],
        "last-partition-id": 999 + len(fields),
        "properties": _options(told),
    }
    _register(door, there, made | ({"next-row-id": 0} if version >= "3" else {}))


def _register(door: Door, there: Place, made: dict[str, Any]) -> None:
    """Let the table `t` be what a metadata file says; its files stay."""
    from tests.cases.play import Refused

    if there.kind == "path":
        raise Refused("a Hadoop catalog registers no table")
    folder = there.directory / "t" / "metadata"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{len(list(folder.iterdir())):05}-{uuid.uuid4()}.metadata.json"
    path.write_text(json.dumps(made))
    door.run(there.text("DROP TABLE IF EXISTS $t"))
    door.run(there.text(f"CALL $c.system.register_table('$db.t', '{path}')"))


def change(door: Door, there: Place, rest: str, text: str) -> None:
    """Let the table `t` be of another metadata file, as a writer makes it who checks nothing: facts
    as JSON (`properties` are added to those it has), `dates MILLIS …` for its snapshots, `column
    JSON` for a column with a default, at the top or `inside` a struct.
    """
    known = known_of(door, there.text("$t"))
    for line in text.splitlines():
        verb, _, told = line.partition(" ")
        match verb:
            case "dates":
                known = _dated(known, [int(at) for at in told.split()])
            case "column":
                known = _with_column(known, json.loads(told))
            case _:
                facts = json.loads(line)
                properties = known["properties"] | facts.get("properties", {})
                known |= facts | {"properties": properties}
    _register(door, there, known)


def _dated(known: dict[str, Any], at: list[int]) -> dict[str, Any]:
    order = sorted(
        known["snapshots"], key=lambda s: (s.get("sequence-number", 0), s["timestamp-ms"])
    )
    times = {s["snapshot-id"]: when for s, when in zip(order, at, strict=True)}
    for entry in (*known["snapshots"], *known["snapshot-log"]):
        entry["timestamp-ms"] = times[entry["snapshot-id"]]
    return known | {"last-updated-ms": max(at), "metadata-log": []}


def _with_column(known: dict[str, Any], told: dict[str, Any]) -> dict[str, Any]:
    number, default = known["last-column-id"] + 1, told["default"]
    column = {"id": number, "name": told["name"], "type": told["type"], "required": False}
    column |= {"initial-default": default, "write-default": default}
    schema_id = max(s["schema-id"] for s in known["schemas"]) + 1
    added = copy.deepcopy(metadata_files.schema_of(known) | {"schema-id": schema_id})
    within = [f["type"] for f in added["fields"] if f["name"] == told.get("inside")]
    [added, *within][-1]["fields"].append(column)
    schemas = [*known["schemas"], added]
    return known | {"schemas": schemas, "current-schema-id": schema_id, "last-column-id": number}


# Files
# --------------------------------------------------------------------------------------------------


def files(door: Door, there: Place, rest: str, text: str) -> None:
    """Look at files, or change them: `there PATH` and `gone PATH` (a pattern, too), `age FOLDER`
    lets all files in it be old, `copy`, `rename`, `remove` and `mkdir` are what they are called.
    """
    for line in text.splitlines():
        verb, first, *second = line.split()
        path = local(first)
        match verb:
            case "there" | "gone":
                found = list(Path("/").glob(str(path).lstrip("/")))
                assert bool(found) == (verb == "there"), f"{line}: {found}"
            case "age":
                for name in path.rglob("*"):
                    os.utime(name, (OLD, OLD))
            case "copy":
                shutil.copyfile(path, local(second[0]))
            case "rename":
                path.rename(local(second[0]))
            case "mkdir":
                path.mkdir(parents=True)
            case "remove" if path.is_dir():
                shutil.rmtree(path)
            case "remove":
                path.unlink()
            case _:
                raise ValueError(f"no work on files: {line}")


def wait(door: Door, there: Place, rest: str, text: str) -> None:
    """Let the clock go on, so that what comes after has another time than what was before."""
    time.sleep(0.01)


ACTS: Mapping[str, Callable[[Door, Place, str, str], None]] = {
    "write": write,
    "hold": hold,
    "outside": outside,
    "beside": beside,
    "meanwhile": meanwhile,
    "register": register,
    "change": change,
    "files": files,
    "wait": wait,
}
READS: Mapping[str, Callable[[Door, Place, str, str], Rows]] = {
    "read": read,
    "joined": joined,
    "metadata": metadata,
}
