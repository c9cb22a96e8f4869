"""add_files, snapshot and migrate: directories of Parquet files taken over where they lie."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from frazil.arrow.values.arrow_schema import VARIANT_STORAGE
from frazil.arrow.values.variant import json_to_variant
from frazil.catalog import Catalog
from frazil.errors import (
    InvalidInput,
    SchemaMismatch,
    TableAlreadyExistsError,
    Unsupported,
    ValidationException,
)
from frazil.maintain.migration import new_tables
from frazil.maintain.migration.source import Source, directory_source, folder_values
from frazil.ops.creation import Creation
from frazil.storage import storage_for
from tests.builders.catalogs import catalog_of

ROWS = 60


def frame() -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            "s": [f"x{i}" for i in range(ROWS)],
            "day": [f"2026-01-0{i % 3 + 1}" for i in range(ROWS)],
            "k": [f"a b/{i % 2}" if i % 5 else None for i in range(ROWS)],
            "n": [str(i % 2) for i in range(ROWS)],
        }
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "source"
    pq.write_to_dataset(frame(), place, partition_cols=["day", "k", "n"])
    (place / "_SUCCESS").touch()
    (place / "_temporary").mkdir()
    pq.write_table(frame(), place / "_temporary" / "half.parquet")
    pq.write_table(frame(), place / ".hidden.parquet")
    return place


FILES = len({(r["day"], r["k"], r["n"]) for r in frame().to_pylist()})
OF_A_DAY = FILES // 3


def by_id(table: pa.Table) -> list[dict[str, object]]:
    return table.sort_by("id").to_pylist()


WANTED = [
    {**r, "day": dt.date.fromisoformat(r["day"]), "n": int(r["n"])} for r in frame().to_pylist()
]


@pytest.mark.parametrize("form", ["{}", "parquet.`{}`", "PARQUET . `{}`", "`parquet`.`{}`", "{}/"])
def test_a_snapshot_of_a_directory_has_its_rows_and_the_types_of_its_folders(
    home: Catalog, folder: Path, form: str
) -> None:
    result = home.snapshot(form.format(folder), "db.t", properties={"k": "v"})
    t = home.load_table("db.t")
    assert result.imported_files_count == len(t.inspect.files()) == FILES
    assert by_id(t.to_arrow()) == WANTED
    assert [str(f.field_type) for f in t.schema().fields] == [
        "long",
        "string",
        "date",
        "string",
        "int",
    ]
    assert [f.name for f in t.spec().fields] == ["day", "k", "n"]
    assert (
        t.properties["gc.enabled"] == "false"
        and t.properties["snapshot"] == "true"
        and t.properties["k"] == "v"
    )
    assert not str(t.location()).startswith(str(folder))
    assert len(t.scan("day = DATE '2026-01-02' and n = 0").plan_files()) == OF_A_DAY // 2
    t.append(
        pa.table(
            {
                "id": [1000],
                "s": ["new"],
                "day": [dt.date(2026, 2, 1)],
                "k": [None],
                "n": pa.array([7], pa.int32()),
            }
        )
    )
    assert t.count() == ROWS + 1 and by_id(pq.read_table(folder).select(["id"])) == [
        {"id": i} for i in range(ROWS)
    ]


def test_a_dry_run_creates_nothing(home: Catalog, folder: Path) -> None:
    assert home.snapshot(str(folder), "db.t", dry_run=True).imported_files_count == FILES
    assert home.migrate(str(folder), "db.t", dry_run=True).migrated_files_count == FILES
    assert not home.table_exists("db.t") and not (folder / "metadata").exists()


def test_a_migrated_directory_is_a_table_in_its_place(home: Catalog, folder: Path) -> None:
    with pytest.raises(InvalidInput, match="has no backup"):
        home.migrate(str(folder), "db.u", drop_backup=True)
    with pytest.raises(InvalidInput, match="has no name"):
        home.migrate(str(folder))
    assert home.migrate(str(folder), "db.t").to_arrow().to_pylist() == [
        {"migrated_files_count": FILES}
    ]
    t = home.load_table("db.t")
    assert (
        t.location() == str(folder)
        and by_id(t.to_arrow()) == WANTED
        and t.properties["migrated"] == "true"
    )


def test_files_are_added_by_partition_once(home: Catalog, folder: Path) -> None:
    t = home.create_table(
        "db.t", "id bigint, s string, day date, k string, n int", partition_by=["day", "k", "n"]
    )
    planned = t.maintenance.add_files(str(folder), {"day": "2026-01-02"}, dry_run=True)
    assert (
        planned.added_files_count,
        planned.changed_partition_count,
        t.refresh().current_snapshot(),
    ) == (OF_A_DAY, OF_A_DAY, None)
    nulls = {(r["day"], r["n"]) for r in frame().to_pylist() if r["k"] is None}
    assert (
        t.maintenance.add_files(str(folder), {"k": None}, dry_run=True).added_files_count
        == len(nulls)
        > 0
    )
    assert home.add_files(
        "db.t", f"parquet.`{folder}`", {"day": "2026-01-02"}
    ).to_arrow().to_pylist() == [
        {"added_files_count": OF_A_DAY, "changed_partition_count": OF_A_DAY}
    ]
    assert by_id(t.refresh().to_arrow()) == [r for r in WANTED if r["day"] == dt.date(2026, 1, 2)]
    for dry_run in (True, False):
        with pytest.raises(ValidationException, match="already referenced"):
            home.add_files("db.t", str(folder), dry_run=dry_run)
    t.maintenance.add_files(str(folder), {"day": "2026-01-01", "n": 1}, parallelism=1)
    assert t.refresh().count() == ROWS // 3 + ROWS // 6


def test_one_file_is_a_source_too(home: Catalog, tmp_path: Path) -> None:
    for name in ("a b.parquet", "not-taken.parquet"):
        pq.write_table(pa.table({"id": [1, 2]}), tmp_path / name)
    t = home.create_table("db.t", "id bigint")
    assert (
        t.maintenance.add_files(f"parquet.`{tmp_path}/a b.parquet`", dry_run=True).added_files_count
        == 1
    )
    assert home.add_files("db.t", f"{tmp_path}/a b.parquet").added_files_count == 1
    assert by_id(t.refresh().to_arrow()) == [{"id": 1}, {"id": 2}]
    with pytest.raises(InvalidInput, match="no data files"):
        t.maintenance.add_files(f"{tmp_path}/c.parquet")
    with pytest.raises(InvalidInput, match="is a file"):
        home.migrate(f"{tmp_path}/a b.parquet", "db.m", dry_run=True)


@pytest.mark.parametrize("dry_run", [True, False])
def test_an_empty_directory_adds_nothing(home: Catalog, tmp_path: Path, dry_run: bool) -> None:
    (tmp_path / "empty").mkdir()
    t = home.create_table("db.t", "id bigint, day date", partition_by=["day"])
    result = t.maintenance.add_files(f"parquet.`{tmp_path}/empty`", dry_run=dry_run)
    assert (result.added_files_count, result.changed_partition_count) == (0, 0)
    assert t.refresh().current_snapshot() is None
    with pytest.raises(InvalidInput, match="no data files"):
        t.maintenance.add_files(f"{tmp_path}/missing", dry_run=dry_run)


def test_the_parts_of_a_variant_are_no_columns_of_a_file(home: Catalog, tmp_path: Path) -> None:
    texts = ['{"key":123}', '"plain"']
    stored = [{"metadata": m, "value": v} for m, v in json_to_variant(texts)]
    pq.write_table(
        pa.table({"id": [1, 2], "data": pa.array(stored, VARIANT_STORAGE)}), tmp_path / "v.parquet"
    )
    t = home.create_table("db.t", "id bigint, data variant", format_version=3)
    assert t.maintenance.add_files(f"{tmp_path}/v.parquet").added_files_count == 1
    read = t.refresh().to_arrow().to_pylist()
    assert [json.loads(row["data"]) for row in read] == [json.loads(text) for text in texts]


@pytest.mark.parametrize("dry_run", [True, False])
def test_nulls_in_a_required_column_are_refused(
    home: Catalog, tmp_path: Path, dry_run: bool
) -> None:
    t = home.create_table(
        "db.t",
        "id bigint not null, s string",
        properties={"write.metadata.metrics.default": "none"},
    )
    pq.write_table(pa.table({"id": [1, None], "s": ["a", None]}), tmp_path / "nulls.parquet")
    pq.write_table(pa.table({"id": [1, 2], "s": ["a", None]}), tmp_path / "none.parquet")
    with pytest.raises(
        SchemaMismatch, match="nulls.parquet holds 1 nulls in column id, which the table requires"
    ):
        t.maintenance.add_files(f"{tmp_path}/nulls.parquet", dry_run=dry_run)
    assert (
        t.maintenance.add_files(f"{tmp_path}/none.parquet", dry_run=dry_run).added_files_count == 1
    )


def test_files_with_columns_of_different_types_are_no_table(home: Catalog, tmp_path: Path) -> None:
    (tmp_path / "mixed").mkdir()
    for name, values in (("a", [1]), ("b", ["x"])):
        pq.write_table(pa.table({"id": values}), tmp_path / "mixed" / f"{name}.parquet")
    with pytest.raises(InvalidInput, match="have columns of different types.*int64 vs string"):
        home.snapshot(f"{tmp_path}/mixed", "db.t", dry_run=True)


def test_partitioning_that_does_not_fit_is_refused(home: Catalog, folder: Path) -> None:
    home.create_table("db.plain", "id bigint, s string, day date, k string, n int")
    home.create_table(
        "db.other",
        "id bigint, s string, day date, k string, n int",
        partition_by=["day", "bucket(2, k)", "n"],
    )
    home.create_table(
        "db.t", "id bigint, s string, day date, k string, n int", partition_by=["day", "k", "n"]
    )
    for name, more, told in (
        ("plain", {}, "Cannot add partitioned files to an unpartitioned table"),
        ("other", {}, "partitioned by k, by which the table is not"),
        ("t", {"partition_filter": {"id": 3}}, "no partition column"),
        ("t", {"partition_filter": {"day": "2027-01-01"}}, "Cannot find any matching partitions"),
        ("t", {"parallelism": 0}, "Parallelism should be larger than 0"),
    ):
        with pytest.raises(InvalidInput, match=told):
            home.add_files(f"db.{name}", str(folder), **more)
        assert home.load_table(f"db.{name}").current_snapshot() is None


def test_sources_that_cannot_be_taken_over_are_refused(
    home: Catalog, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "a.csv").write_text("a")
    for source, error, told in (
        (str(tmp_path / "empty"), InvalidInput, "no data files"),
        (str(tmp_path / "text"), Unsupported, "only Parquet"),
        ("orc.`/x`", Unsupported, "Files of orc"),
        ("", InvalidInput, "A source is text"),
    ):
        with pytest.raises(error, match=told):
            home.snapshot(source, "db.t")
    with pytest.raises(InvalidInput, match="would overlap"):
        home.snapshot(str(folder), "db.t", location=f"{folder}/inside")
    home.snapshot(str(folder), "db.t")
    with pytest.raises(TableAlreadyExistsError):
        home.snapshot(str(folder), "db.t")


def test_folders_of_different_structure_are_refused_before_anything_is_written(
    home: Catalog, folder: Path
) -> None:
    (folder / "day=2026-01-09").mkdir()
    pq.write_table(pa.table({"id": [1]}), folder / "day=2026-01-09" / "a.parquet")
    with pytest.raises(InvalidInput, match="Conflicting directory structures"):
        home.snapshot(str(folder), "db.t")
    assert not home.table_exists("db.t")


def test_columns_of_all_files_become_columns_of_the_table(home: Catalog, tmp_path: Path) -> None:
    place = tmp_path / "source"
    place.mkdir()
    pq.write_table(pa.table({"id": pa.array([1], pa.int32()), "a": ["x"]}), place / "1.parquet")
    pq.write_table(
        pa.table({"id": pa.array([2], pa.int32()), "b": [[{"c": 1.5}]]}), place / "2.parquet"
    )
    home.snapshot(str(place), "db.t")
    rows = by_id(home.load_table("db.t").to_arrow())
    assert rows == [{"id": 1, "a": "x", "b": None}, {"id": 2, "a": None, "b": [{"c": 1.5}]}]
    assert all(f.optional for f in home.load_table("db.t").schema().fields)


def test_files_that_vanish_are_skipped_only_where_asked(
    home: Catalog, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = storage_for(str(folder), {})
    source = directory_source(str(folder), storage)
    Path(source.files[0].path).unlink()
    monkeypatch.setattr("frazil.table.migration.resolve_source", lambda *_: source)
    with pytest.raises(Exception, match="There is no file"):
        home.snapshot(str(folder), "db.t")
    assert not home.table_exists("db.t")
    assert (
        home.snapshot(str(folder), "db.t", ignore_missing_files=True).imported_files_count
        == FILES - 1
    )


def test_folder_values_are_unescaped() -> None:
    assert folder_values("/x/p=a%2Fb/q=__HIVE_DEFAULT_PARTITION__/a=b=c/f.parquet") == {
        "p": "a/b",
        "q": None,
        "a": "b=c",
    }


class NotRenamedError(Exception):
    """Raised by `ExternalTables` in place of a rename."""


@dataclass
class ExternalTables:
    """One external table of a session's catalog; what it would be renamed to is noted."""

    table: Source
    renamed: list[tuple[str, str]] = field(default_factory=list)

    def source(self, name: str) -> Source:
        return self.table

    def is_managed(self, name: str) -> bool:
        return False

    def rename(self, name: str, to: str) -> None:
        self.renamed.append((name, to))
        raise NotRenamedError

    def drop(self, name: str) -> None:
        raise AssertionError("the backup is dropped only after the migration")


def migrated(folder: Path, name: str, backup_table_name: str | None) -> list[tuple[str, str]]:
    """What a table of this name is renamed to before its files are taken over."""
    storage = storage_for(str(folder), {})
    tables = ExternalTables(replace(directory_source(str(folder), storage), name=name))

    def create(*_: object) -> Creation:
        raise AssertionError("the table is renamed before the new one is created")

    with pytest.raises(NotRenamedError):
        new_tables.migrate(
            tables.table,
            new_tables.Import(create, storage, {}),
            lambda: tables,
            backup_table_name=backup_table_name,
        )
    return tables.renamed


@pytest.mark.parametrize(
    ("name", "backup_table_name", "backup"),
    [
        ("db.t", None, "db.t_BACKUP_"),
        ("t", None, "t_BACKUP_"),
        ("db.`t`", None, "db.t_BACKUP_"),
        ("db.`a.b`", None, "db.`a.b_BACKUP_`"),
        ("spark_catalog.`d.b`.t", None, "spark_catalog.`d.b`.t_BACKUP_"),
        ("db.`a``b`", None, "db.`a``b_BACKUP_`"),
        ("db.`a.b`", "old", "db.old"),
        ("db.t", "`o.ld`", "db.`o.ld`"),
    ],
)
def test_the_backup_of_a_migrated_table_stays_in_its_database(
    folder: Path, name: str, backup_table_name: str | None, backup: str
) -> None:
    assert migrated(folder, name, backup_table_name) == [(name, backup)]


def test_a_backup_in_another_database_is_refused(folder: Path) -> None:
    with pytest.raises(InvalidInput, match="without a database"):
        migrated(folder, "db.t", "other.t")


@pytest.mark.java
@pytest.mark.parametrize("goes_on", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_java_and_pyiceberg_read_what_was_taken_over_and_java_goes_on(
    home: Catalog,
    folder: Path,
    tmp_path: Path,
    java_check: Any,
    pyiceberg_check: Any,
    goes_on: bool,
) -> None:
    """Java goes on with each table in the long form; the short one compares what it reads."""
    added = home.create_table(
        "db.added", "id bigint, s string, day date, k string, n int", partition_by=["day", "k", "n"]
    )
    added.maintenance.add_files(str(folder))
    home.snapshot(str(folder), "db.snap")
    home.register_table("db.again", metadata_file=added.refresh().metadata_location)
    home.load_table("db.again").append(
        pa.table(
            {
                "id": [1000],
                "s": ["x"],
                "day": [dt.date(2026, 2, 1)],
                "k": ["k"],
                "n": pa.array([1], pa.int32()),
            }
        )
    )
    home.migrate(str(folder), "db.moved")
    places = {
        name: home.load_table(f"db.{name}").metadata_location
        for name in ("moved", "snap", "added", "again")
    }
    found = java_check(list(places.values()), write=goes_on, light=not goes_on)
    for name, place in places.items():
        for told in (found[place], pyiceberg_check([place])[place]):
            assert told["ok"] and told["rows"] == ROWS + (name == "again"), (name, told)
    assert len({found[place]["sum"] for name, place in places.items() if name != "again"}) == 1


JAVA = """
import json
folder, told = sys.argv[3], {}
def add(day):
    return f"CALL j.system.add_files(table => 'db.t', source_table => '`parquet`.`{folder}`', partition_filter => map('day', '{day}'))"
told["add_files"] = spark.sql(add("2026-01-02")).collect()[0].asDict()
try:
    told["again"] = str(spark.sql(add("2026-01-01")).collect())
except Exception as error:
    told["again"] = str(error)
spark.sql(f"CREATE TABLE source_of_snapshot USING parquet LOCATION '{folder}'")
spark.sql("MSCK REPAIR TABLE source_of_snapshot")
told["snapshot"] = spark.sql("CALL j.system.snapshot(source_table => 'spark_catalog.default.source_of_snapshot', table => 'j.db.snap')").collect()[0].asDict()
spark.sql("INSERT INTO j.db.snap VALUES (2000, 'java', DATE '2026-03-01', 'k', 1)")
spark.sql("DROP TABLE source_of_snapshot")
print(json.dumps(told))
"""


@pytest.mark.java
def test_java_adds_and_snapshots_after_us_and_we_after_java(
    home: Catalog, folder: Path, tmp_path: Path, java_check: Any
) -> None:
    shop = catalog_of("path", tmp_path)
    t = shop.create_table(
        "db.t", "id bigint, s string, day date, k string, n int", partition_by=["day", "k", "n"]
    )
    # as Java spells it, which compares texts
    counted = t.maintenance.add_files(f"file:{folder}", {"day": "2026-01-01"})
    java = json.loads(java_check.run(JAVA, tmp_path / "wh", folder).strip().splitlines()[-1])
    # Java does not count them where it appends manifests
    ours = {
        **counted.to_arrow().to_pylist()[0],
        "changed_partition_count": None,
    }
    assert java["add_files"] == ours and "already" in java["again"]
    with pytest.raises(ValidationException, match="already referenced"):
        t.refresh().maintenance.add_files(str(folder), {"day": "2026-01-02"})
    t.maintenance.add_files(str(folder), {"day": "2026-01-03"})
    assert by_id(t.refresh().to_arrow()) == WANTED

    assert java["snapshot"] == {"imported_files_count": FILES}
    snap = shop.load_table("db.snap")
    assert snap.properties["gc.enabled"] == "false"
    registered = home.register_table("db.javas", metadata_file=snap.metadata_location)
    assert (registered.total_records_count, registered.total_data_files_count) == (
        ROWS + 1,
        FILES + 1,
    )
    taken = home.load_table("db.javas")
    before = by_id(taken.to_arrow())
    assert before[:ROWS] == WANTED and before[ROWS]["s"] == "java"
    assert (
        taken.maintenance.rewrite_data_files(
            options={"rewrite-all": "true"}
        ).rewritten_data_files_count
        == FILES + 1
    )
    assert by_id(taken.to_arrow()) == before and by_id(pq.read_table(folder).select(["id"])) == [
        {"id": i} for i in range(ROWS)
    ]


SPARK_COLUMNS = "id bigint, s string, d decimal(9,2), at timestamp, arr array<struct<x:int>>, day date, k string"


@pytest.mark.spark
@pytest.mark.versions
def test_tables_of_spark_are_snapshotted_migrated_and_added_with_equal_rows(
    home: Catalog, spark: object, tmp_path: Path
) -> None:
    sql = spark.sql  # type: ignore[attr-defined]
    sql("CREATE DATABASE IF NOT EXISTS sp")
    sql(
        f"CREATE OR REPLACE TEMP VIEW v AS SELECT id, concat('x', id) AS s, CAST(id / 7 AS decimal(9,2)) AS d, timestamp_seconds(id) AS at, array(named_struct('x', CAST(id AS int))) AS arr, date_add(DATE '2026-01-01', CAST(id % 3 AS int)) AS day, IF(id % 5 = 0, NULL, concat('a b/', id % 2)) AS k FROM range({ROWS})"
    )
    for name, location in (("managed", ""), ("external", f"LOCATION '{tmp_path}/ext'")):
        sql(f"DROP TABLE IF EXISTS sp.{name}")
        sql(
            f"CREATE TABLE sp.{name} USING parquet PARTITIONED BY (day, k) {location} AS SELECT * FROM v"
        )
    wanted = sorted(map(tuple, sql("SELECT * FROM sp.managed").collect()))
    columns = ["id", "s", "d", "at", "arr", "day", "k"]

    def same(name: str) -> bool:
        return (
            sorted(map(tuple, home.load_table(name).to_spark(spark).select(*columns).collect()))
            == wanted
        )

    assert home.snapshot("sp.managed", "db.snap", spark=spark).imported_files_count > 5 and same(
        "db.snap"
    )
    t = home.create_table("db.t", SPARK_COLUMNS, partition_by=["day", "k"])
    assert (
        t.maintenance.add_files(
            "spark_catalog.sp.external", {"day": "2026-01-02"}, spark=spark
        ).changed_partition_count
        == 3
    )
    assert t.refresh().count() == ROWS // 3

    assert home.migrate(
        "sp.external", "db.ext", drop_backup=True, spark=spark
    ).migrated_files_count > 5 and same("db.ext")
    assert home.load_table(
        "db.ext"
    ).location() == f"{tmp_path}/ext" and not spark.catalog.tableExists(
        "spark_catalog.sp.external_BACKUP_"
    )  # type: ignore[attr-defined]
    with pytest.raises(TableAlreadyExistsError):
        home.migrate("sp.managed", "db.snap", spark=spark)
    assert spark.catalog.tableExists("spark_catalog.sp.managed")  # type: ignore[attr-defined]
    with pytest.raises(Unsupported, match="may lose partitions"):
        # run: after two renamings Spark reads 12 of the 60 rows
        home.migrate("sp.managed", "db.man", spark=spark)
    assert sorted(
        map(tuple, sql("SELECT * FROM sp.managed").collect())
    ) == wanted and not home.table_exists("db.man")
    sql("CREATE TABLE sp.whole USING parquet AS SELECT * FROM v")
    with pytest.raises(Unsupported, match="would delete the files"):
        home.migrate("sp.whole", "db.man", drop_backup=True, spark=spark)
    assert home.migrate(
        "sp.whole", "db.man", backup_table_name="kept", spark=spark
    ).migrated_files_count > 0 and same("db.man")
    assert sql("SELECT count(*) FROM sp.kept").collect()[0][
        0
    ] == ROWS and not spark.catalog.tableExists("spark_catalog.sp.whole")  # type: ignore[attr-defined]
    sql("DROP DATABASE sp CASCADE")


@pytest.mark.spark
def test_a_migration_that_fails_gives_the_table_its_name_back(
    home: Catalog, spark: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = spark.sql  # type: ignore[attr-defined]
    sql("CREATE DATABASE IF NOT EXISTS sp")
    sql("DROP TABLE IF EXISTS sp.t")
    sql("CREATE TABLE sp.t USING parquet AS SELECT id FROM range(5)")
    fired = []

    def fail(*_: object, **__: object) -> None:
        fired.append(1)
        raise InvalidInput("no")

    monkeypatch.setattr("frazil.ops.changes.stage.add_files", fail)
    with pytest.raises(InvalidInput, match="no"):
        home.migrate("sp.t", "db.t", spark=spark)
    assert (
        fired
        and sql("SELECT count(*) FROM sp.t").collect()[0][0] == 5
        and not home.table_exists("db.t")
    )
    sql("DROP DATABASE sp CASCADE")
