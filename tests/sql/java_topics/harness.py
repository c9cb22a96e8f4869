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

from tests.cases import metadata_files
from tests.cases.doors import plain
from tests.cases.play import QUICK, leave, name_of, names_in, settings_of

HERE = Path(__file__).parent
METHODS: dict[str, list[str]] = json.loads((HERE / "methods.json").read_text())
CASES: list[Case] = []
NOT_SQL: dict[str, str] = {}
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
        known = names_in(self.catalog, self.namespace, self.directory)
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
        return metadata_files.read(metadata_files.newest(r[0] for r in self.sql(query)))

    def view(self, name: str) -> dict[str, Any]:
        """Read a view's newest metadata file, which the catalog's database names."""
        database = self.settings["uri"].removeprefix("jdbc:").removeprefix("sqlite:")
        query = "SELECT metadata_location FROM iceberg_tables WHERE table_namespace = ? AND table_name = ?"
        with closing(sqlite3.connect("/" + database.lstrip("/"))) as connection:
            ((path,),) = connection.execute(query, (self.namespace, name)).fetchall()
        return metadata_files.read(path)

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
        return metadata_files.names_of(self.metadata(name))

    def columns(self, name: str = "$t") -> list[str]:
        """Return the current columns, such as "1 id long not null 'the key'", with their ids."""
        return metadata_files.columns_of(self.metadata(name))

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
        schema = metadata_files.schema_of(known)
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
        return metadata_files.spec_of(self.metadata(name))

    def order(self, name: str = "$t") -> list[tuple[str, str, str, str]]:
        """Return the current write order: column, transform, direction, order of nulls."""
        return metadata_files.order_of(self.metadata(name))


@contextmanager
def catalogs(spark: Any, folder: Path, java: bool = False) -> Iterator[dict[str, Any]]:
    """Configure a catalog of each kind, and give the session that knows it, by the kind's name."""
    sessions = {"sql": spark, "path": spark, "session": spark.newSession()}
    SETTINGS.clear()
    for kind, session in sessions.items():
        settings = settings_of(kind, folder, java, of="topics")
        for key, value in (settings | QUICK).items():
            session.conf.set(key, value)
        prefix = f"spark.sql.catalog.{name_of(kind, 'topics')}."
        SETTINGS[kind] = {
            key.removeprefix(prefix): value
            for key, value in settings.items()
            if key.startswith(prefix)
        }
    try:
        yield sessions
    finally:
        for key in settings:  # the last one's, of `spark_catalog`
            sessions["session"].conf.unset(key)
        for session, key in itertools.product(sessions.values(), QUICK):
            session.conf.unset(key)


@contextmanager
def place(sessions: dict[str, Any], kind: str, folder: Path, each: Any) -> Iterator[Place]:
    """Make a namespace for one case; afterwards no catalog of ours is the current one."""
    spark, catalog, namespace = sessions[kind], name_of(kind, "topics"), f"n{next(_numbers)}"
    directory = folder / "files" / namespace
    directory.mkdir(parents=True)
    spark.sql(f"CREATE NAMESPACE {catalog}.{namespace}")
    try:
        yield Place(spark, catalog, namespace, directory, each, settings=SETTINGS[kind])
    finally:
        leave(spark)


def load_cases() -> list[Case]:
    """Import every file of cases."""
    import importlib

    for path in sorted(HERE.glob("topics_*.py")):
        importlib.import_module(f"tests.sql.java_topics.{path.stem}")
    return CASES
