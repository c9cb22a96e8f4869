"""Run the topics of Java Iceberg's own Spark tests: one small case for each of Java's methods.

A case is a plain function over a `Place`, registered under the method of Java's whose facts it
states in words of its own:

    @case("TestBranchDDL.testCreateBranch")
    def a_branch_keeps_its_retention(p):
        p.sql("CREATE TABLE $t (id int) USING iceberg", "INSERT INTO $t VALUES (1)")
        p.sql("ALTER TABLE $t CREATE BRANCH b RETAIN 10 DAYS")
        p.rows("SELECT name, max_reference_age_in_ms FROM $t.refs ORDER BY name", ("b", 864000000),
            ("main", None))
        p.fails("ALTER TABLE $t CREATE BRANCH b", "already exists")

`$t` stands for the table `t` in a namespace of this case alone, `$ns` for that namespace with its
catalog, `$db` for it without, `$c` for the catalog, `$dir` for an empty directory; keywords of
`sql`, `rows` and `fails` fill other names (`p.sql("… VERSION AS OF $v", v=snapshot)`).

Arguments of `case`: several methods where one case says what they all say; `on=("sql", "path")`
for the catalogs to run in (`sql` is SQLite, `path` Java's Hadoop catalog, `session` is
`spark_catalog` as a SparkSessionCatalog over SQLite); `each=(…)` runs the case once for each value of `p.each`
(modes, format versions, …); `differs="reason"` marks a method where Frazil is known to do something
else: it is run, and the test fails when it has become right. `differs={"4.1": "reason"}` says so of
one version of Spark. `not_sql` lists what says nothing about SQL, with the reason.

Methods of Java's are in `methods.json`; `test_java_topics.py` counts them. Cases use SQL wherever
they can, and read the table's own metadata file for the rest, so that `on_java.py` can run them on
Java Iceberg itself, which tells whether a case states a fact.
"""

from __future__ import annotations

import copy
import gzip
import itertools
import json
import re
import sqlite3
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any

HERE = Path(__file__).parent
METHODS: dict[str, list[str]] = json.loads((HERE / "methods.json").read_text())
CASES: list[Case] = []
NOT_SQL: dict[str, str] = {}
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
}
SETTINGS: dict[str, dict[str, str]] = {}  # of the catalogs that are configured
_numbers = itertools.count()


@dataclass(frozen=True)
class Case:
    java: tuple[str, ...]
    play: Callable[[Place], None]
    on: tuple[str, ...]
    each: tuple[Any, ...]
    differs: Mapping[str, str]

    def reason(self, spark: str) -> str | None:
        """Say why the case differs on a version of Spark, such as "4.2"."""
        return self.differs.get(spark) or self.differs.get("")


def case(
    *java: str,
    on: tuple[str, ...] = ("sql",),
    each: tuple[Any, ...] = (None,),
    differs: str | Mapping[str, str] = "",
) -> Callable[[Callable[[Place], None]], Callable[[Place], None]]:
    """Register a case for methods of Java's, named `Class.method`."""
    reasons = {"": differs} if isinstance(differs, str) else differs

    def register(play: Callable[[Place], None]) -> Callable[[Place], None]:
        CASES.append(Case(java, play, on, each, reasons))
        return play

    return register


def not_sql(java_class: str, reason: str, *methods: str) -> None:
    """Name methods of a class of Java's that say nothing about SQL."""
    NOT_SQL.update({f"{java_class}.{method}": reason for method in methods})


def plain(value: Any) -> Any:
    """Turn rows into tuples, all the way down."""
    if isinstance(value, tuple):
        return tuple(plain(v) for v in value)
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return bytes(value) if isinstance(value, bytearray) else value


@dataclass
class Place:
    """A namespace of one case in a catalog of a session."""

    spark: Any
    catalog: str
    namespace: str
    directory: Path
    each: Any = None
    names: dict[str, str] = field(default_factory=dict)  # what else `$name` stands for
    settings: Mapping[str, str] = field(default_factory=dict)  # of the catalog

    def text(self, template: str, **values: Any) -> str:
        ns = f"{self.catalog}.{self.namespace}"
        known = {
            "t": f"{ns}.t", "ns": ns, "db": self.namespace, "c": self.catalog,
            "dir": str(self.directory),
        }  # fmt: skip
        return Template(template).safe_substitute(known | self.names | values)

    def sql(self, *templates: str, **values: Any) -> list[tuple[Any, ...]]:
        """Run statements, and return the rows of the last one."""
        rows: list[tuple[Any, ...]] = []
        for template in templates:
            rows = [plain(r) for r in self.spark.sql(self.text(template, **values)).collect()]
        return rows

    def one(self, template: str, **values: Any) -> Any:
        """Run a query, and return the single value of its single row."""
        ((value,),) = self.sql(template, **values)
        return value

    def rows(self, template: str, *expected: tuple[Any, ...], **values: Any) -> None:
        """Check the rows of a statement; their order too if it says ORDER BY."""
        actual = self.sql(template, **values)
        if "ORDER BY" in template:
            assert actual == list(expected), f"{actual} != {list(expected)}"
        else:
            assert sorted(actual, key=repr) == sorted(expected, key=repr), (
                f"{actual} != {list(expected)}"
            )

    def fails(self, template: str, *patterns: str, **values: Any) -> None:
        """Check that a statement fails, with a message in which each pattern is found, whatever
        the case.
        """
        try:
            actual = self.sql(template, **values)
        except Exception as error:
            message = f"{type(error).__name__}: {error}"
        else:
            raise AssertionError(f"no error, but {actual}")
        missing = [p for p in patterns if not re.search(p, message, re.IGNORECASE)]
        assert not missing, f"{missing} not in {message[:1500]}"
        assert "Traceback" not in message, message[:1500]

    @contextmanager
    def conf(self, settings: Mapping[str, Any]) -> Iterator[None]:
        """Change settings of the session for the time of a block."""
        before = {key: self.spark.conf.get(key, None) for key in settings}
        for key, value in settings.items():
            self.spark.conf.set(key, str(value))
        try:
            yield
        finally:
            for key, value in before.items():
                if value is None:
                    self.spark.conf.unset(key)
                else:
                    self.spark.conf.set(key, value)

    @contextmanager
    def another(self, **settings: str) -> Iterator[str]:
        """Configure a second catalog like this one, with other settings and a namespace of the same
        name; give its name.
        """
        name = f"other_{self.namespace}"
        known = {
            key.replace(self.catalog, name): value
            for key, value in self.spark.conf.getAll.items()
            if key.startswith(f"spark.sql.catalog.{self.catalog}")
        }
        more = {f"spark.sql.catalog.{name}.{k.replace('_', '-')}": v for k, v in settings.items()}
        with self.conf(known | more):
            self.sql(f"CREATE NAMESPACE {name}.$db")
            yield name

    def frame(self, rows: list[tuple[Any, ...]], schema: str, view: str = "source") -> Any:
        """Make a DataFrame, and a temporary view of it."""
        made = self.spark.createDataFrame(rows, schema)
        made.createOrReplaceTempView(view)
        return made

    def outside(self) -> Any:
        """Open the catalog by Frazil alone, as a writer of which the session knows nothing."""
        import frazil

        return frazil.load_catalog(self.catalog, **self.settings)

    def metadata(self, name: str = "$t") -> dict[str, Any]:
        """Read the table's newest metadata file."""
        query = f"SELECT file FROM {name}.metadata_log_entries ORDER BY timestamp DESC, latest_sequence_number DESC"
        path = max((r[0] for r in self.sql(query)), key=_version)
        return _json(path)

    def view(self, name: str) -> dict[str, Any]:
        """Read a view's newest metadata file, which the catalog's database names."""
        database = self.settings["uri"].removeprefix("jdbc:").removeprefix("sqlite:")
        query = "SELECT metadata_location FROM iceberg_tables WHERE table_namespace = ? AND table_name = ?"
        with closing(sqlite3.connect("/" + database.lstrip("/"))) as connection:
            ((path,),) = connection.execute(query, (self.namespace, name)).fetchall()
        return _json(path)

    def snapshots(self, name: str = "$t") -> list[int]:
        """Return the ids of all snapshots in the order of their commits."""
        known = self.metadata(name).get("snapshots", [])
        known.sort(key=lambda s: (s.get("sequence-number", 0), s["timestamp-ms"]))
        return [s["snapshot-id"] for s in known]

    def snapshot(self, name: str = "$t", ref: str = "main") -> dict[str, Any]:
        """Return the snapshot of a branch or tag: id, parent, operation and summary."""
        known = self.metadata(name)
        snapshot_id = self.refs(name)[ref]["snapshot-id"]
        return next(s for s in known["snapshots"] if s["snapshot-id"] == snapshot_id)

    def refs(self, name: str = "$t") -> dict[str, dict[str, Any]]:
        return dict(self.metadata(name).get("refs", {}))

    def properties(self, name: str = "$t") -> dict[str, str]:
        return dict(self.metadata(name).get("properties", {}))

    def fields(self, name: str = "$t") -> dict[int, str]:
        """Return the names of the columns by field id, those inside structs with dots."""
        known = self.metadata(name)
        (schema,) = [s for s in known["schemas"] if s["schema-id"] == known["current-schema-id"]]
        return dict(_named(schema, ""))

    def columns(self, name: str = "$t") -> list[str]:
        """Return the current columns, such as "1 id long not null 'the key'", with their ids."""
        known = self.metadata(name)
        (schema,) = [s for s in known["schemas"] if s["schema-id"] == known["current-schema-id"]]
        return [_column(f) for f in schema["fields"]]

    def register(
        self,
        fields: list[dict[str, Any]],
        version: int = 2,
        partitions: tuple[tuple[int, str, str], ...] = (),
        **properties: str,
    ) -> None:
        """Make the table `t` with columns and partition fields (column id, transform, name) that
        SQL cannot say, by registering a metadata file.
        """
        spec = [
            {"source-id": column, "field-id": 1000 + n, "transform": transform, "name": name}
            for n, (column, transform, name) in enumerate(partitions)
        ]
        self.register_metadata(
            {
                "format-version": version,
                "table-uuid": str(uuid.uuid4()),
                "location": f"{self.directory}/t",
                "last-sequence-number": 0,
                "last-updated-ms": 1_700_000_000_000,
                "last-column-id": max(f["id"] for f in fields),
                "current-schema-id": 0,
                "schemas": [{"type": "struct", "schema-id": 0, "fields": fields}],
                "default-spec-id": 0,
                "partition-specs": [{"spec-id": 0, "fields": spec}],
                "last-partition-id": 999 + len(spec),
                "default-sort-order-id": 0,
                "sort-orders": [{"order-id": 0, "fields": []}],
                "properties": properties,
                "snapshots": [],
                "snapshot-log": [],
                "metadata-log": [],
            }
            | ({"next-row-id": 0} if version >= 3 else {})
        )

    def register_metadata(self, metadata: dict[str, Any]) -> None:
        """Let the table `t` be what a metadata file says; its files stay."""
        folder = self.directory / "t" / "metadata"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{len(list(folder.iterdir())):05}-{uuid.uuid4()}.metadata.json"
        path.write_text(json.dumps(metadata))
        self.sql("DROP TABLE IF EXISTS $t")
        self.sql(f"CALL $c.system.register_table('$db.t', '{path}')")

    def change_properties(self, properties: dict[str, str]) -> None:
        """Set properties of the table `t` as a writer does who checks no values."""
        known = self.metadata()
        self.register_metadata(known | {"properties": known["properties"] | properties})

    def date_snapshots(self, *at: int) -> None:
        """Let the snapshots of the table `t` be of other times, in milliseconds."""
        known = self.metadata()
        times = dict(zip(self.snapshots(), at, strict=True))
        for entry in (*known["snapshots"], *known["snapshot-log"]):
            entry["timestamp-ms"] = times[entry["snapshot-id"]]
        self.register_metadata(known | {"last-updated-ms": max(at), "metadata-log": []})

    def add_column(self, name: str, kind: str, default: Any, inside: str = "") -> None:
        """Add a column with a default to the table `t`, at the top or inside a struct, which SQL
        cannot say in Java.
        """
        known = self.metadata()
        column = {"id": known["last-column-id"] + 1, "name": name, "type": kind, "required": False}
        known["last-column-id"] += 1
        (schema,) = [s for s in known["schemas"] if s["schema-id"] == known["current-schema-id"]]
        column |= {"initial-default": default, "write-default": default}
        schema_id = max(s["schema-id"] for s in known["schemas"]) + 1
        added = copy.deepcopy(schema | {"schema-id": schema_id})
        parents = [added, *(f["type"] for f in added["fields"] if f["name"] == inside)]
        parents[-1]["fields"].append(column)
        known["schemas"].append(added)
        known["current-schema-id"] = schema_id
        self.register_metadata(known)

    def spec(self, name: str = "$t") -> list[tuple[str, str, str]]:
        """Return the current partition fields: column, transform, name."""
        known, columns = self.metadata(name), self.fields(name)
        (spec,) = [s for s in known["partition-specs"] if s["spec-id"] == known["default-spec-id"]]
        return [(columns[f["source-id"]], f["transform"], f["name"]) for f in spec["fields"]]

    def order(self, name: str = "$t") -> list[tuple[str, str, str, str]]:
        """Return the current write order: column, transform, direction, order of nulls."""
        known, columns = self.metadata(name), self.fields(name)
        (order,) = [
            o for o in known["sort-orders"] if o["order-id"] == known["default-sort-order-id"]
        ]
        return [
            (columns[f["source-id"]], f["transform"], f["direction"], f["null-order"])
            for f in order["fields"]
        ]


def _json(path: str) -> dict[str, Any]:
    raw = Path(re.sub("^file:/*", "/", path)).read_bytes()
    return dict(json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw))


def _version(path: str) -> int:
    found = re.match(r"v?(\d+)", path.rpartition("/")[2])
    return int(found[1]) if found else 0


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


def _named(node: Any, prefix: str) -> Iterator[tuple[int, str]]:
    if not isinstance(node, dict):
        return
    for f in node.get("fields", ()):
        yield f["id"], prefix + f["name"]
        yield from _named(f["type"], f"{prefix}{f['name']}.")
    for part in ("element", "key", "value"):
        if f"{part}-id" in node:
            yield node[f"{part}-id"], prefix + part
            yield from _named(node[part], f"{prefix}{part}.")


@contextmanager
def catalogs(spark: Any, folder: Path, java: bool = False) -> Iterator[dict[str, Any]]:
    """Configure a catalog of each kind, and give the session that knows it, by the kind's name."""
    sessions = {"sql": spark, "path": spark, "session": spark.newSession()}
    SETTINGS.clear()
    for kind, session in sessions.items():
        prefix = f"spark.sql.catalog.{name_of(kind)}"
        settings = {"": CLASSES[kind], ".type": "hadoop", ".warehouse": f"{folder}/{kind}"}
        settings |= {".cache-enabled": "false"} if java else {}
        if kind != "path":
            uri = "jdbc:sqlite:" if java else "sqlite:///"
            settings |= {
                ".type": "jdbc",
                ".uri": f"{uri}{folder}/{kind}.db",
                ".jdbc.schema-version": "V1",
            }
        for key, value in settings.items():
            session.conf.set(prefix + key, value)
        SETTINGS[kind] = {key[1:]: value for key, value in settings.items() if key}
        for key, value in QUICK.items():
            session.conf.set(key, value)
    try:
        yield sessions
    finally:
        for key in settings:  # the last one's, of `spark_catalog`
            sessions["session"].conf.unset(prefix + key)
        for session, key in itertools.product(sessions.values(), QUICK):
            session.conf.unset(key)


def name_of(kind: str) -> str:
    return "spark_catalog" if kind == "session" else f"topics_{kind}"


@contextmanager
def place(sessions: dict[str, Any], kind: str, folder: Path, each: Any) -> Iterator[Place]:
    """Make a namespace for one case; afterwards no catalog of ours is the current one."""
    spark, catalog, namespace = sessions[kind], name_of(kind), f"n{next(_numbers)}"
    directory = folder / "files" / namespace
    directory.mkdir(parents=True)
    spark.sql(f"CREATE NAMESPACE {catalog}.{namespace}")
    try:
        yield Place(spark, catalog, namespace, directory, each, settings=SETTINGS[kind])
    finally:
        # Spark 4.1 fails at SHOW CURRENT NAMESPACE while anything is cached, whoever cached it.
        spark.catalog.clearCache()
        spark.catalog.setCurrentCatalog("spark_catalog")
        spark.catalog.setCurrentDatabase("default")


def load_cases() -> list[Case]:
    """Import every file of cases."""
    import importlib

    for path in sorted(HERE.glob("topics_*.py")):
        importlib.import_module(f"tests.sql.java_topics.{path.stem}")
    return CASES
