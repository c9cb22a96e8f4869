"""What a console shows of tables, scans and rows: one screen at most, times as times; `show` prints
rows as Spark does.
"""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

import frazil
from frazil.errors import InvalidInput
from frazil.spec.snapshot import SnapshotLogEntry, Summary
from frazil.table.shown import overview
from tests.builders.catalogs import catalog_of

LINES, CHARACTERS = 45, 6000


@pytest.fixture
def catalog(tmp_path):
    with catalog_of("memory", tmp_path, "one") as found:
        yield found


@pytest.fixture
def large(catalog):
    """600 columns, one of them a struct of 200, 40 snapshots, 50 tags, 100 properties."""
    inside = ", ".join(f"member_{i}: bigint" for i in range(200))
    columns = ", ".join(
        f"a_long_column_name_{i} bigint COMMENT 'a comment on {i}'" for i in range(599)
    )
    table = catalog.create_table(
        "db.large",
        f"s struct<{inside}>, {columns}",
        properties={f"of.mine.{i}": "x" * 300 for i in range(100)},
    )
    for i in range(40):
        table.append([{"a_long_column_name_0": i}])
    with table.manage_snapshots() as manage:
        for i in range(50):
            manage.create_tag(table.current_snapshot().snapshot_id, f"a-tag-{i}")
    return table


@pytest.fixture
def small(catalog):
    table = catalog.create_table("db.small", "id bigint, s string")
    table.append([{"id": i, "s": "x" * 30} for i in range(25)])
    return table


def test_what_a_console_shows_is_one_screen_at_most_however_wide_and_old_the_table(large):
    shown = {
        "table": large,
        "scan": large.scan(),
        "metadata": large.metadata,
        "schema": large.schema(),
        "history": large.history(),
        "snapshots": large.snapshots(),
        "changes": large.changes(),
        "appends": large.incremental_append_scan(),
        "filter": large.scan(f"a_long_column_name_0 in ({', '.join(map(str, range(5000)))})"),
        "projection": large.scan().projection(),
        "columns": large.scan(selected_fields=tuple(large.columns)),
        "source": large.scan().source,
        "plan": large.scan().plan(),
        "merge": large.merge(
            large.to_arrow(), "target.a_long_column_name_0 = source.a_long_column_name_0"
        ).when_matched_update_all(),
        "metadata table": frazil.table.metadata_table.MetadataTable(
            "db.large", "files", large._loaded
        ),
    }
    for name, what in shown.items():
        assert len(repr(what)) <= CHARACTERS and repr(what).count("\n") < LINES, (
            name,
            len(repr(what)),
            repr(what).count("\n"),
        )
    page = large._repr_html_()
    assert page.count("<tr>") < LINES and len(page) < 2 * CHARACTERS and "… 570 more" in page
    assert str(large.schema()).count("optional") >= 600


def test_a_scan_shows_what_was_asked_of_it_and_nothing_else(small):
    assert repr(small.scan()) == "DataScan(one.db.small)"
    asked = small.scan("id > 3", selected_fields=("id",), limit=2)
    assert (
        repr(asked)
        == "DataScan(one.db.small, row_filter='id > 3', selected_fields=('id'), limit=2)"
    )
    assert repr(small.changes(net=True)) == "ChangesScan(one.db.small, net=True)"
    told = repr(small.metadata)
    assert (
        "format_version=2" in told
        and small.metadata.table_uuid in told
        and "columns: id long, s string" in told
        and "1 snapshots" in told
    )


def test_history_shows_when_each_snapshot_became_current(small):
    assert isinstance(small.history(), list) and len(small.history()) == 1
    entry = small.history()[0]
    when = dt.datetime.fromtimestamp(entry.timestamp_ms / 1000, dt.UTC).strftime(
        "%Y-%m-%d %H:%M:%S"
    )
    assert (
        when in repr(entry)
        and when in repr(small.history())
        and str(entry.snapshot_id) in repr(entry)
    )
    assert when in repr(small.snapshots()) and when in repr(small) and when in repr(small.metadata)
    assert "ms" in repr(SnapshotLogEntry(2**62, 1))  # beyond what Python's times hold


def test_show_prints_the_first_rows_as_spark_does(small, capsys):
    assert small.show(2) is None
    assert capsys.readouterr().out == (
        "+---+--------------------+\n| id|                   s|\n+---+--------------------+\n"
        "|  0|xxxxxxxxxxxxxxxxx...|\n|  1|xxxxxxxxxxxxxxxxx...|\n+---+--------------------+\nonly showing top 2 rows\n"
    )
    small.show()
    out = capsys.readouterr().out
    assert out.count("\n") == 25 and "only showing top 20 rows" in out
    small.scan("id < 3", selected_fields=("s",), limit=2).show(truncate=False)
    assert capsys.readouterr().out.splitlines()[3:] == ["|" + "x" * 30 + "|"] * 2 + [
        "+" + "-" * 30 + "+"
    ]
    small.show(1, truncate=5)
    assert "|xx...|" in capsys.readouterr().out
    small.changes().show(1, truncate=False)
    assert "INSERT" in capsys.readouterr().out
    frazil.table.metadata_table.MetadataTable("db.small", "snapshots", small._loaded).show()
    assert "append" in capsys.readouterr().out
    for n in (-1, "many", True):
        with pytest.raises(InvalidInput, match="^n must (be a whole number|not be negative)"):
            small.show(n)


def test_show_prints_values_of_every_type(catalog, capsys):
    made = catalog.create_table(
        "db.types",
        "b boolean, d decimal(5,2), t timestamp_ntz, n timestamp_ns, y binary, l array<int>, m map<string,int>, s struct<x:int,y:string>, u uuid",
        format_version=3,
    )
    made.append(
        pa.table(
            {
                "b": [True, None],
                "d": [Decimal("1.50"), None],
                "t": pa.array([0, None], pa.timestamp("us")),
                "n": pa.array([1, None], pa.timestamp("ns")),
                "y": [b"\x01\xff", None],
                "l": pa.array([[1, None], None], pa.list_(pa.int32())),
                "m": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int32())),
                "s": [{"x": 1, "y": "z"}, None],
                "u": ["12345678-1234-5678-1234-567812345678", None],
            }
        )
    )
    made.show(truncate=False)
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in capsys.readouterr().out.splitlines()
        if line.startswith("|")
    ]
    assert sorted(rows[1:])[1] == [
        "true",
        "1.50",
        "1970-01-01 00:00:00.000000",
        "1970-01-01 00:00:00.000000001",
        "[01 FF]",
        "[1, NULL]",
        "{k -> 1}",
        "{1, z}",
        "12345678-1234-5678-1234-567812345678",
    ]
    assert sorted(rows[1:])[0] == ["NULL"] * 9
    catalog.create_table("db.none", "id bigint").show()
    assert capsys.readouterr().out.splitlines() == ["+---+", "| id|", "+---+", "+---+"]


@pytest.mark.parametrize("version", [2, 3])
def test_counts_that_are_shown_say_that_deletes_are_not_subtracted(catalog, version):
    t = catalog.create_table(
        "db.counted", "id bigint, p bigint", partition_by=["p"], format_version=version
    )
    t.append([{"id": n, "p": n % 2} for n in range(1000)])
    assert "rows  1,000 in 2 files\n" in repr(t) and "to read  1,000 rows, " in str(
        t.scan().explain()
    )
    t.delete("id < 100 and p = 0", mode="merge-on-read")
    shown = "at least 950 in 2 files, 1,000 before the deletes of 1 delete files"
    assert shown in repr(t) and shown in t._repr_html_() and t.count() == 950
    assert "to read  1,000 rows before deletes, " in str(t.scan().explain())
    assert sorted(
        repr(task).endswith(" 500 rows before deletes)") for task in t.scan().plan_files()
    ) == [False, True]
    of_others = Summary(
        {
            k: v
            for k, v in t.current_snapshot().summary.items()
            if k not in ("total-delete-files", "total-equality-deletes")
        }
    )
    assert overview._rows(of_others, version).endswith(
        "before the deletes of delete files, which count() subtracts"
    )
    replaced = t.dynamic_partition_overwrite([{"id": 1, "p": 0}])
    assert (replaced.rows_deleted, replaced.rows_inserted, t.refresh().count()) == (450, 1, 501)
    assert "rows  501 in 2 files\n" in repr(t)
