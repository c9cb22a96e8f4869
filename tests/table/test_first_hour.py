"""What a newcomer types in the first hour: completion and displays show what there is, and habits
from elsewhere lead to the right call.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import frazil
from frazil import errors
from frazil.errors import FrazilError, NoSuchMethod, ParseError, Unsupported
from frazil.spec.ddl import parse_schema
from frazil.table import Table
from frazil.table.catalog import Catalog
from frazil.table.shown.rows_text import arrow_html, show_arrow_tables


@pytest.fixture
def catalog() -> Iterator[Catalog]:
    with frazil.load_catalog("hour", type="memory") as made:
        made.create_namespace("d")
        yield made


@pytest.fixture
def table(catalog: Catalog) -> Table:
    made = catalog.create_table("d.t", "x bigint, day date, at timestamp, u uuid")
    row = {
        "x": 1,
        "day": dt.date(2020, 1, 1),
        "at": dt.datetime(2020, 1, 1, 3, tzinfo=dt.UTC),
        "u": "12345678-1234-1234-1234-123456789012",
    }
    made.append([row])
    return made


def test_completion_lists_the_calls_of_updates_and_the_metrics_of_results(table: Table) -> None:
    assert {"add_column", "commit"} <= set(dir(table.update_schema())) and "create_tag" in dir(
        table.manage_snapshots()
    )
    assert "rows_inserted" in dir(table.append([{"x": 2}])) and "files" in dir(table.inspect)


@pytest.mark.parametrize(
    ("shown", "offers"),
    [
        (lambda t: t.maintenance, ["rewrite_data_files", "expire_snapshots"]),
        (lambda t: t.inspect, ["partitions", "partition_commits"]),
        (lambda t: t.manage_snapshots(), ["create_branch", "commit()"]),
        (lambda t: t.scan().plan_files(), ["1 tasks", ".delete_files", ".parquet  (1 rows"]),
    ],
)
def test_what_an_object_offers_stands_in_its_repr(
    table: Table, shown: Any, offers: list[str]
) -> None:
    assert [offer for offer in offers if offer not in repr(shown(table))] == []


def test_notebooks_show_snapshots_history_results_and_arrow_rows_as_tables(table: Table) -> None:
    result = table.append([{"x": i} for i in range(40)])
    assert (
        "<th" in table.snapshots()._repr_html_()
        and str(result.snapshot_id) in table.snapshots()._repr_html_()
    )
    assert table.history()._repr_html_().count("<tr>") == 3
    assert (
        "rows_inserted" in result._repr_html_() and str(result.snapshot_id) in result._repr_html_()
    )
    page = arrow_html(table.to_arrow())
    assert page.count("<tr>") == 32 and "… 11 more rows" in page
    assert "&lt;script&gt;" in arrow_html(pa.table({"s": ["<script>"]}))


def test_an_arrow_table_gets_its_display_only_in_ipython_and_only_if_it_has_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Formatter(dict[type, Any]):
        def for_type(self, kind: type, function: Any) -> None:
            self[kind] = function

    html = Formatter()

    class IPython:
        @staticmethod
        def get_ipython() -> Any:
            return type(
                "Shell",
                (),
                {"display_formatter": type("Display", (), {"formatters": {"text/html": html}})},
            )

    monkeypatch.delitem(__import__("sys").modules, "IPython", raising=False)
    show_arrow_tables()
    monkeypatch.setitem(__import__("sys").modules, "IPython", IPython)
    show_arrow_tables()
    assert html == {pa.Table: arrow_html}
    html[pa.Table] = other = object()
    show_arrow_tables()
    assert html[pa.Table] is other


def test_a_traceback_in_a_notebook_shows_the_lines_of_the_caller_and_the_message(
    table: Table,
) -> None:
    with pytest.raises(FrazilError) as caught:
        table.scan("nothing > 1").to_arrow()
    lines = caught.value._render_traceback_()
    assert "test_first_hour.py" in lines[0] and not any("frazil/table" in line for line in lines)
    assert lines[-1].startswith("ValidationError: ") and "Cannot find column 'nothing'" in lines[-1]


def test_a_traceback_in_pytest_shows_the_lines_of_the_caller(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FrazilError) as caught:
        table.scan("nothing > 1").to_arrow()
    assert any("frazil/table" in str(entry.path) for entry in caught.traceback.filter(caught)), (
        "who tests Frazil looks into it"
    )
    monkeypatch.setattr(errors, "HIDES_FRAMES", True)
    shown = [str(entry.path) for entry in caught.traceback.filter(caught)]
    assert shown and shown[0] == __file__ and not any("/frazil/" in path for path in shown)


@pytest.mark.parametrize(
    ("used", "call"),
    [
        (lambda t: t["x"], "scan(selected_fields"),
        (lambda t: len(t), "t.count()"),
        (lambda t: list(t), "to_arrow_batch_reader"),
    ],
)
def test_a_table_used_as_a_list_or_dict_names_the_call(table: Table, used: Any, call: str) -> None:
    with pytest.raises(TypeError) as caught:
        used(table)
    assert call in str(caught.value) and isinstance(caught.value, FrazilError)
    assert table


def test_calls_of_other_products_on_a_catalog_name_ours(catalog: Catalog) -> None:
    with pytest.raises(NoSuchMethod, match="replace_table_transaction"):
        catalog.create_or_replace_table("d.t", "x int")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("int64", "bigint"),
        ("str", "string"),
        ("datetime64", "timestamp_ntz"),
        ("float64", "double"),
    ],
)
def test_types_by_the_names_of_other_libraries_are_refused_with_ours(word: str, meant: str) -> None:
    with pytest.raises(ParseError, match=f"Unknown type '{word}'.*It is called {meant}"):
        parse_schema(f"a {word}")


def test_a_table_made_by_a_frame_says_that_no_row_was_taken(
    catalog: Catalog, recwarn: pytest.WarningsRecorder
) -> None:
    for schema in (
        "a int",
        pa.schema({"a": pa.int32()}),
        pa.table({"a": pa.array([], pa.int32())}),
        {"a": "int"},
    ):
        catalog.create_table("d.none", schema)
        catalog.drop_table("d.none")
    assert [str(w.message) for w in recwarn] == []
    with pytest.warns(UserWarning, match=r"not its rows: append\(frame\)") as warned:
        catalog.create_table("d.some", pd.DataFrame({"a": [1]}))
    assert warned[0].filename == __file__


@pytest.mark.parametrize(
    "text",
    [
        "day < current_date",
        "day < current_date()",
        "at < now()",
        "at < Current_Timestamp",
        "at < localtimestamp",
    ],
)
def test_functions_that_need_spark_are_named_as_such(table: Table, text: str) -> None:
    with pytest.raises(Unsupported, match=r"function.*Spark can"):
        table.scan(text).count()


def test_a_column_with_the_name_of_a_function_is_the_column(catalog: Catalog) -> None:
    table = catalog.create_table("d.words", "user string, current_date date")
    table.append([{"user": "me", "current_date": dt.date(2020, 1, 1)}])
    assert table.scan("user = 'me' and current_date < DATE '2021-01-01'").count() == 1


def test_why_shows_times_and_uuids_as_sql_writes_them(table: Table) -> None:
    file = table.inspect.files()["file_path"][0].as_py()
    text = str(
        table.scan("day > DATE '2019-01-01' AND at > TIMESTAMP '2019-01-01'").explain().why(file)
    )
    assert (
        "day = DATE'2020-01-01'" in text
        and "at = TIMESTAMP'2020-01-01 03:00:00Z'" in text
        and "b'" not in text
    )
