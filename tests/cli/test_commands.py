"""The command line: every command answers people and programs, refuses with the next step, and
exits with 0, 1 or 2.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

import frazil
from frazil.cli import doctor, procedures_run
from frazil.cli import query as query_module
from frazil.cli.app import COMMANDS, app
from frazil.cli.procedures import parameters
from frazil.maintain.advice.finding import ProcedureCall
from frazil.maintain.procedures import PROCEDURES
from frazil.table import Table

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    for name in ("FRAZIL_HOME", "PYICEBERG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture
def table(run: Run) -> Table:
    catalog = frazil.load_catalog()
    catalog.create_namespace("db")
    made = catalog.create_table(
        "db.t", "id bigint, s string", partition_by=["s"], identifier_fields=["id"]
    )
    made.append(pa.table({"id": pa.array([1, 2, 3], pa.int64()), "s": ["a", "b", "a"]}))
    made.append(pa.table({"id": pa.array([4], pa.int64()), "s": ["x\ny"]}))
    return made


def answer(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


# The words of a command, the code that it exits with, and what it says: on its standard output, or, of what it
# refuses, on the other.
SHOWN = [
    ("describe db.t", 0, ["partitioned by  s"]),
    ("schema db.t", 0, ["1: id: required long"]),
    ("describe db.t.files", 0, ["file_path"]),
    ("describe db.t.changes", 0, ["_change_type"]),
    ("head db.t.files", 0, ["file_path"]),
    ("head db.t.changes", 0, ["_change_type"]),
    ("count db.t.files", 0, ["3"]),
    ("count db.t.changes", 0, ["4"]),
    ("explain db.t.files", 1, []),
    ("explain db.t.changes", 1, []),
    ("head db.t.files --columns nothing", 1, ["nothing"]),
    ("head db.t.changes --columns nothing", 1, ["nothing"]),
    ("head db.t --where 'id = 4'", 0, ["id  s\n 4  x\\ny\n"]),
    ("count db.t --where \"s = 'a'\"", 0, ["2\n"]),
    ("explain db.t --where 'id > 3'", 0, ["1 of 3"]),
    ("sql 'SELEC 1' --engine duckdb", 1, ["DuckDB cannot parse"]),
    ("sql 'SELECT * FROM db.nothing' --engine duckdb", 1, ["Table does not exist: default.db.nothing"]),
    *((f"sql '{query}' --engine {engine}", 1, [f"error: {name} cannot"])
      for engine, name in (("duckdb", "DuckDB"), ("datafusion", "DataFusion"))
      for query in ("SELEC 1", "SELECT nothing FROM db.t", "")),
    ("sql 'DROP TABLE db.t' --engine duckdb", 1, ["cannot run DROP"]),
    ("sql 'DROP TABLE db.t' --engine datafusion", 1, ["cannot"]),
    ("sql 'SELECT * FROM t' --engine datafusion", 1, []),
    ("sql 'SELECT * FROM datafusion.db.t' --engine datafusion", 1, []),
    ("sql 'SELECT 1' --limit -1", 2, []),
    ("head db.t --limit -1", 2, []),
    ("diff db.t main --limit -1", 2, []),
    ("report db.t --out nowhere/page.html", 1, ["nowhere"]),
    ("report db --out nowhere/page.html", 1, ["nowhere"]),
    ("snapshot_s", 2, ["'snapshots'"]),
    ("describe", 2, []),
    ("sql x --engine oracle", 2, []),
    *((f"{word} db.t", 2, ["Use `frazil "]) for word in ("expire", "orphans", "history", "compact", "partitions")),
    *((f"completion {shell}", 0, ["_FRAZIL_COMPLETE"]) for shell in ("bash", "zsh", "fish")),
    # commands of PyIceberg's
    ("list", 2, ["frazil tables"]),
    ("list-refs db.t", 2, ["frazil refs"]),
    ("uuid db.t", 2, ["frazil describe"]),
    ("version", 2, ["--version"]),
    ("properties set table db.t k v", 2, ["set_properties"]),
    ("drop table db.t", 2, ["drop_table"]),
    ("rename db.t u", 2, ["rename_table"]),
    # lists and maps are options that repeat, and numbers reach procedures that also take texts
    ("rewrite-data-files db.t --options min-input-files", 2, ["is not KEY=VALUE"]),
    ("rewrite-data-files db.t --options min-inputfiles=2", 1, ["min-input-files"]),
    ("auto db.t --budget-minutes 20 --budget-bytes 10GB --dry-run", 0, []),
    ("auto db.t --budget-minutes 0.5 --budget-bytes 1000000000 --dry-run", 0, []),
    ("expire-snapshots db.t --max-concurrent-deletes 2 --dry-run", 0, []),
    ("auto db.t --budget-minutes soon", 1, ["budget_minutes must be above 0, not 'soon'"]),
]  # fmt: skip


@pytest.mark.parametrize("words, code, texts", SHOWN)
def test_what_a_command_says_to_people(
    run: Run, table: Table, words: str, code: int, texts: list[str]
) -> None:
    said = run(*shlex.split(words))
    assert (said.exit_code, isinstance(said.exception, SystemExit)) == (code, code > 0), said.output
    told = said.stderr if code else said.stdout
    assert [t for t in texts if t not in told] == [], told


JOINED = "SELECT a.s, count(*) AS n FROM db.t a JOIN db.t b ON a.id = b.id WHERE a.id < 4 GROUP BY a.s ORDER BY n"
QUERIES = [
    ("'SELECT sum(id) AS n FROM db.t'", [{"n": 10}]),
    (f"'{JOINED}'", [{"s": "b", "n": 1}, {"s": "a", "n": 2}]),
    ("""'SELECT count(*) AS n FROM "default".db.t'""", [{"n": 4}]),
    ("'SELECT id FROM db.t ORDER BY id' --limit 2", [{"id": 1}, {"id": 2}]),
]
ANSWERS = [
    ("tables", [{"table": "default.db.t"}]),
    ("tables db", [{"table": "default.db.t"}]),
    ("head db.t --where 'id = 3' --columns s", [{"s": "a"}]),
    ("count db.t", {"count": 4}),
    ("head db.t.snapshots --columns operation", [{"operation": "append"}] * 2),
    *((f"sql {query} --engine {e}", rows) for e in ("duckdb", "datafusion") for query, rows in QUERIES),
]  # fmt: skip


@pytest.mark.parametrize("words, told", ANSWERS)
def test_what_a_command_answers_to_programs(run: Run, table: Table, words: str, told: Any) -> None:
    parts = shlex.split(words)
    assert answer(run(*parts, "--json")) == told == answer(run("--json", *parts))


def test_descriptions_explanations_and_statistics(run: Run, table: Table) -> None:
    facts = answer(run("describe", "db.t", "--json"))
    assert facts["snapshot_id"] == str(table.snapshots()[-1].snapshot_id)
    assert facts["identifier_fields"] == ["id"]
    assert [c["name"] for c in facts["columns"]] == ["id", "s"] and facts["snapshots"] == 2
    assert answer(run("schema", "db.t", "--json"))["fields"][0]["name"] == "id"
    for place in (table.location(), table.metadata_location):
        shown = run("describe", place)
        assert shown.exit_code == 0 and "default.db.t" not in shown.stdout
    found = answer(run("head", "db.t", "--where", "id > 2", "--columns", "s", "--json"))
    assert sorted(row["s"] for row in found) == ["a", "x\ny"]
    file = answer(run("files", "db.t", "--json"))[0]["file_path"]
    why = answer(run("explain", "db.t", "--where", "id > 3", "--why", file, "--json"))
    assert why["file_path"] == file
    assert run("compute-table-stats", "db.t", "--columns", "id,s").exit_code == 0
    assert len(table.refresh().metadata.statistics) == 1


def test_catalogs_namespaces_and_tables_are_listed_for_every_catalog(
    run: Run, table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = f"sqlite:///{tmp_path}/prod.db"
    monkeypatch.setenv("FRAZIL_CATALOG__PROD__URI", uri)
    monkeypatch.setenv("FRAZIL_CATALOG__PROD__WAREHOUSE", f"{tmp_path}/prod")
    assert answer(run("create-namespace", "prod.a", "--json")) == {"namespace": "prod.a"}
    assert run("create-namespace", "prod.a.b").exit_code == 0
    frazil.load_table("db.t").append([{"id": 9}])
    frazil.load_catalog("prod").create_table("a.b.t", "id bigint")
    by_name = {c["catalog"]: c for c in answer(run("catalogs", "--json"))}
    assert by_name["prod"]["type"] == "sql" and by_name["prod"]["uri"] == uri
    assert by_name["default"]["warehouse"] == str(tmp_path / "warehouse")
    for named in ("prod", "prod.a"):
        assert answer(run("namespaces", named, "--json"))[-1] == {"namespace": "prod.a.b"}
    for words in (["prod"], ["prod.a.b"], ["a.b", "--catalog", "prod"], ["--catalog", "prod"]):
        assert answer(run("tables", *words, "--json")) == [{"table": "prod.a.b.t"}], words
    assert run("create-namespace", "prod").exit_code == 2
    assert run("tables", "prod.nothing").exit_code == 1


@pytest.mark.parametrize(
    "words",
    [["tables"], ["namespaces"], ["catalogs"], ["describe", "db.t"], ["tables", "prod"],
     ["count", "prod.db.t"], ["report", "db.t"], ["sql", "SELECT 1 FROM db.t", "--engine", "duckdb"]],
    ids=" ".join,
)  # fmt: skip
def test_a_command_that_reads_writes_nothing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setenv("FRAZIL_CATALOG__PROD__URI", f"sqlite:///{tmp_path}/prod.db")
    monkeypatch.delenv("FRAZIL_HOME", raising=False)
    run(*words)
    assert [*tmp_path.iterdir()] == []


def test_snapshots_refs_files_and_other_metadata_tables(run: Run, table: Table) -> None:
    ids = [s.snapshot_id for s in table.snapshots()]
    assert [int(row["snapshot_id"]) for row in answer(run("snapshots", "db.t", "--json"))] == ids
    assert re.search(rf"{ids[0]} +append +3 +3 +2 +0\n", run("snapshots", "db.t").stdout)
    assert answer(run("refs", "db.t", "--json"))[0]["name"] == "main"
    assert (
        len(answer(run("files", "db.t", "--json"))) == 3
        and len(answer(run("files", "db.t", "--snapshot-id", ids[0], "--json"))) == 2
    )
    assert [
        row["record_count"] for row in answer(run("inspect", "db.t", "partitions", "--json"))
    ].count(2) == 1
    unknown = run("inspect", "db.t", "nothing")
    assert unknown.exit_code == 2 and "partition_commits" in unknown.stderr


@pytest.mark.spark
def test_an_error_of_spark_is_a_message_without_its_plan(
    run: Run, table: Table, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("frazil.spark_session", lambda **_: spark)
    for query in ("SELEC 1", "SELECT nothing FROM db.t", "SELECT raise_error('a fault')"):
        refused = run("sql", query, "--engine", "spark")
        assert refused.exit_code == 1 and isinstance(refused.exception, SystemExit)
        assert refused.stderr.startswith("error: Spark cannot run the query: [")
        assert "Project" not in refused.stderr


def test_datafusion_finds_the_tables_that_a_query_names_and_no_others(
    run: Run, table: Table
) -> None:
    catalog = frazil.load_catalog()
    catalog.create_namespace("mydb")
    catalog.create_table("mydb.t", "id bigint").append([{"id": 4}])
    for query in (
        "SELECT t.s FROM mydb.t u, db.t WHERE u.id = t.id",
        "SELECT db.t.s FROM db.t JOIN mydb.t ON db.t.id = mydb.t.id",
        "SELECT s FROM db.t WHERE id IN (SELECT id FROM mydb.t) AND s <> 'from db.nothing'",
        "SELECT s FROM db.t.changes WHERE id = 4",
    ):
        rows = answer(run("sql", query, "--engine", "datafusion", "--json"))
        assert rows == [{"s": "x\ny"}], query


def test_numbers_that_json_lacks_are_texts(run: Run, table: Table) -> None:
    measured = frazil.load_catalog().create_table("db.measured", "x double")
    measured.append(pa.table({"x": [float("nan"), float("inf"), float("-inf"), 1.5]}))
    text = run("head", "db.measured", "--json").stdout

    def refuse(constant: str) -> Any:
        raise AssertionError(f"{constant} is not JSON")

    rows = json.loads(text, parse_constant=refuse)
    assert [r["x"] for r in rows] == ["NaN", "Infinity", "-Infinity", 1.5]


def test_a_partition_of_null_is_marked_as_done(run: Run, table: Table) -> None:
    table.append(pa.table({"id": pa.array([5], pa.int64())}))
    done = run("mark-partition-done", "db.t", "--partition", "s=__DEFAULT_PARTITION__")
    assert done.exit_code == 0, done.stderr
    assert answer(run("inspect", "db.t", "partition_commits", "--json"))[0]["partition"] == "s=null"


def test_a_tag_whose_name_is_a_number_is_compared(run: Run, table: Table) -> None:
    first = table.snapshots()[0].snapshot_id
    with table.manage_snapshots() as snapshots:
        snapshots.create_tag(first, "20260101")
    assert answer(run("diff", "db.t", "20260101", "--json"))["from_snapshot_id"] == str(first)


def test_a_diff_tells_rows_files_and_columns(run: Run, table: Table) -> None:
    first = table.current_snapshot().snapshot_id  # type: ignore[union-attr]
    with table.update_schema() as update:
        update.rename_column("s", "region").add_column("qty", "int")
    table.delete("id = 2")
    table.append([{"id": 9, "region": "z", "qty": 1}])
    told = answer(run("diff", "db.t", first, "--json"))
    assert (told["rows_inserted"], told["rows_deleted"]) == (1, 1) and len(
        told["files_added"]
    ) == 1 == len(told["files_removed"])
    assert told["schema"] == ["added: qty int", "renamed: s is region"]
    assert {
        r["id"] for r in answer(run("diff", "db.t", first, "main", "--rows", "--json"))["rows"]
    } == {2, 9}
    assert "+1 rows, -1 rows" in run("diff", "db.t", first).stdout
    few = run("diff", "db.t", first, "--limit", 0).stdout.splitlines()
    assert few[1:3] == [
        f"  {sign} {len(told[side])} more: --limit {len(told[side])} or --json lists them"
        for sign, side in (("+", "files_added"), ("-", "files_removed"))
        if told[side]
    ]
    nothing = run("diff", "db.t", "12", "main")
    assert nothing.exit_code == 1 and "frazil snapshots lists the ids" in nothing.stderr


def test_procedures_run_by_their_names_and_a_dry_run_changes_nothing(
    run: Run, table: Table
) -> None:
    for n in range(3):
        table.append([{"id": 10 + n, "s": "a"}])
    before = table.metadata_location
    planned = answer(
        run("rewrite-data-files", "db.t", "--dry-run", "--options", "min-input-files=2", "--json")
    )[0]
    assert (
        planned["rewritten_data_files_count"] == 4 and table.refresh().metadata_location == before
    )
    assert (
        answer(run("rewrite_data_files", "db.t", "--options", "min-input-files=2", "--json"))[0]
        == planned
    )
    expired = answer(
        run("expire-snapshots", "db.t", "--retain-last", 1, "--older-than", "2099-01-01", "--json")
    )[0]
    assert expired["deleted_data_files_count"] == 4 and len(table.refresh().snapshots()) == 1
    by_location = answer(run("ancestors-of", table.metadata_location, "--json"))
    assert [int(row["snapshot_id"]) for row in by_location] == [
        table.current_snapshot().snapshot_id  # type: ignore[union-attr]
    ]
    assert (
        run("auto", "db.t", "--dry-run").exit_code == 0 and run("recommend", "db.t").exit_code == 0
    )


CALLS = [
    ProcedureCall("rewrite_data_files"),
    ProcedureCall("rewrite_data_files", {"options": {"rewrite-all": "true"}, "where": "s = 'it''s'"}),
    ProcedureCall("rewrite_data_files", {"strategy": "sort", "sort_order": "id DESC, `s` ASC"}),
    ProcedureCall("rewrite_manifests", {"spec_id": 0}),
    ProcedureCall("expire_snapshots", {"dry_run": False}),
    ProcedureCall("compute_table_stats", {"columns": ["id", "s"]}),
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_a_recommended_call_is_a_command_that_hands_over_its_arguments(
    run: Run, monkeypatch: pytest.MonkeyPatch, call: ProcedureCall
) -> None:
    ran: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(procedures_run, "run", lambda procedure, **a: ran.append((procedure, a)))
    frazil_, *words = shlex.split(call.as_command("lake.db.`a b`"))
    assert frazil_ == "frazil" and run(*words).exit_code == 0
    (name, arguments), given = ran[0], dict(call.arguments)
    given.pop("dry_run", None)
    assert name == call.verb and arguments.pop("table") == "lake.db.`a b`"
    assert {k: list(v) if isinstance(v, tuple) else v for k, v in arguments.items() if v} == {
        k: v for k, v in given.items() if v
    }


def test_recommend_and_auto_print_commands(run: Run, table: Table) -> None:
    for n in range(6):
        table.append([{"id": n}])
    for command in ("recommend", "auto"):
        calls = [row["call"] for row in answer(run(command, "db.t", "--json"))]
        assert calls[0] == "frazil rewrite-data-files db.t"
        assert all(call.startswith("frazil ") for call in calls)


def test_what_is_recommended_fits_into_a_terminal_and_says_how_long_it_takes(
    run: Run, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(6):
        table.append([{"id": n}])
    shown = run("recommend", "db.t").stdout
    assert "cure  frazil rewrite-data-files db.t\n" in shown and "about 1 s" in shown
    monkeypatch.setenv("COLUMNS", "80")
    blocks = run("expire-snapshots", "db.t", "--dry-run").stdout.splitlines()
    assert "deleted_data_files_count  0" in blocks[0]
    assert blocks[-1].startswith("8 snapshots, all younger than 5 days")
    kept = run("expire-snapshots", "db.t", "--dry-run", "--older-than", "7d").stdout
    assert "8 snapshots, none older than 20" in kept
    monkeypatch.setenv("COLUMNS", "400")
    assert run("auto", "db.t", "--dry-run").stdout.startswith("kind ")


@pytest.mark.parametrize("words, back", [("main", 0), ("main~1", 1), ("main~", 1), ("v~1", 1)])
def test_a_snapshot_is_named_everywhere_by_a_ref_and_its_distance(
    run: Run, table: Table, words: str, back: int
) -> None:
    ids = [s.snapshot_id for s in table.snapshots()]
    table.manage_snapshots().create_tag(ids[-1], "v").commit()
    wanted = str(ids[-1 - back])
    assert answer(run("diff", "db.t", words, "--json"))["from_snapshot_id"] == wanted
    listed = answer(run("ancestors-of", "db.t", "--snapshot-id", words, "--json"))
    assert listed[0]["snapshot_id"] == wanted
    files = answer(run("files", "db.t", "--snapshot-id", words, "--json"))
    assert (
        len(files)
        == 3 - back
        == len(answer(run("inspect", "db.t", "data_files", "--snapshot-id", words, "--json")))
    )
    assert answer(run("copy", "db.t", "db.u", "--snapshot-id", words, "--json"))["rows"] == 4 - back
    moved = answer(run("rollback-to-snapshot", "db.t", words, "--dry-run", "--json"))
    assert moved[0]["current_snapshot_id"] == wanted
    for missing in ("main~9", "main~x", "v~~"):
        assert run("files", "db.t", "--snapshot-id", missing).exit_code == 1


@pytest.mark.parametrize("time", ["0s", "now", "2099-01-01", "2099-01-01T00:00:00+02:00"])
def test_times_are_given_as_people_say_them(run: Run, table: Table, time: str) -> None:
    words = ("expire-snapshots", "db.t", "--dry-run", "--json", "--older-than")
    assert answer(run(*words, time))[0]["deleted_manifest_lists_count"] == 1
    for old in ("1w", "2 d", "yesterday", "2020-01-01"):
        assert answer(run(*words, old))[0]["deleted_manifest_lists_count"] == 0
    assert run(*words, "soon").exit_code == 1


@pytest.mark.parametrize(
    "words, hint",
    [
        ("tables prod.nothing", "frazil create-namespace"),
        ("describe db.nothing", "frazil tables"),
        ("describe nothing.db.t", "frazil catalogs"),
        ("remove-orphan-files db.t --older-than 1h", "--allow-short-interval"),
        ("rewrite-data-files db.t --strategy sort", "--sort-order 'a, b DESC'"),
        ("register-table db.t METADATA", "--overwrite"),
        ("expire-snapshots db.t --snapshot-ids 5", "frazil snapshots"),
        ("sql 'DELETE FROM db.t' --engine duckdb", "--engine spark"),
        ("sql 'DELETE FROM db.t' --engine datafusion", "--engine spark"),
    ],
)
def test_hints_are_those_of_the_command_line(
    run: Run, table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, hint: str
) -> None:
    monkeypatch.setenv("FRAZIL_CATALOG__PROD__URI", f"sqlite:///{tmp_path}/prod.db")
    refused = run(*shlex.split(words.replace("METADATA", table.metadata_location)), "--json")
    told = json.loads(refused.stderr)["hint"]
    assert refused.exit_code == 1 and hint in told and not re.search(r"\w\(|\w_\w+=", told)


def test_no_color_is_honoured(run: Run, monkeypatch: pytest.MonkeyPatch, table: Table) -> None:
    for value, coloured in (("1", False), ("", True)):
        monkeypatch.setenv("NO_COLOR", value)
        shown = CliRunner().invoke(app, ["count", "db.nothing"], color=True)
        assert ("\x1b[" in shown.stderr) == coloured


SAME = {
    "SELECT s, count(*) AS n FROM db.t WHERE id > 1 GROUP BY s ORDER BY n DESC LIMIT 3": True,
    "SELECT max(id) FROM db.t WHERE s LIKE 'a%' AND id IN (1, 2)": True,
    "SELECT s FROM db.t WHERE s = 1": False,
    "SELECT s FROM db.t WHERE id = '1.5'": False,
    "SELECT s FROM db.t WHERE id > 1.5": False,
    "SELECT id / 2 FROM db.t": False,
    "SELECT CAST(1.5 AS INT) FROM db.t": False,
    "SELECT * FROM db.t WHERE s = \"a\"": False,
    "SELECT concat(s, NULL) FROM db.t": False,
    "SELECT * FROM db.nothing": False,
    "SELECT * FROM db.t.files": False,
    "DELETE FROM db.t": False,
    "SHOW TABLES": False,
}  # fmt: skip


@pytest.mark.parametrize("query, same", SAME.items())
def test_duckdb_is_taken_where_it_answers_as_spark_does(
    run: Run, table: Table, monkeypatch: pytest.MonkeyPatch, query: str, same: bool
) -> None:
    ran: list[str] = []
    for engine in ("spark", "duckdb"):
        monkeypatch.setattr(
            query_module, f"_by_{engine}", lambda *_, e=engine: ran.append(e) or pa.table({})
        )
    monkeypatch.setattr(query_module.importlib.util, "find_spec", lambda _: True)
    assert run("sql", query).exit_code == 0
    assert ran == ["duckdb" if same else "spark"]


def test_every_procedure_is_a_command_with_all_its_parameters(run: Run) -> None:
    for procedure in PROCEDURES:
        if procedure.name != "create_changelog_view":
            shown = run(procedure.name, "--help")
            named = {p.name for p in parameters(procedure)}
            assert (
                shown.exit_code == 0
                and named == {p.name for p in procedure.parameters}
                and procedure.text.split()[0] in shown.stdout
            )
            assert [
                p.name
                for p in parameters(procedure)
                if p.param_type_name == "option" and not getattr(p, "help", None)
            ] == []
    listed = run("--help").stdout
    assert [name for name, *_ in COMMANDS if f"  {name} " not in listed] == []


def test_a_refusal_is_a_message_a_next_step_and_exit_code_1(run: Run, table: Table) -> None:
    missing = run("describe", "db.nope")
    assert (
        missing.exit_code == 1
        and missing.stdout == ""
        and "error: Table does not exist" in missing.stderr
        and "try: " in missing.stderr
    )
    told = json.loads(run("describe", "db.nope", "--json").stderr)
    assert (
        told["error"] == "NoSuchTableError"
        and told["facts"]["table"] == "default.db.nope"
        and told["hint"]
    )


def test_a_copy_has_files_and_a_history_of_its_own(run: Run, table: Table, tmp_path: Path) -> None:
    own, first = str(tmp_path / "of-the-source"), table.snapshots()[0].snapshot_id
    table.set_properties(
        {"write.data.path": f"{own}/data", "write.metadata.path": f"{own}/metadata", "note": "kept"}
    )
    table.append(pa.table({"id": pa.array([5], pa.int64()), "s": ["a"]}), txn=("job", 1))
    table.mark_partition_done({"s": "a"})
    with table.update_schema() as columns:
        columns.add_column("later", "string")
    with table.update_spec() as spec:
        spec.add_field("later", "identity")
    with table.update_sort_order() as order:
        order.asc("s").asc("later")
    table.append(pa.table({"id": pa.array([6], pa.int64()), "s": ["a"], "later": ["x"]}))

    assert answer(run("copy", "db.t", "db.now", "--json"))["rows"] == 6
    assert answer(run("copy", "db.t", "db.then", "--snapshot-id", first, "--json"))["rows"] == 3
    for name in ("db.now", "db.then"):
        copied = frazil.load_table(name)
        assert copied.properties["note"] == "kept"
        assert not [k for k in copied.properties if k.startswith("frazil.")]
        files = [*copied.inspect.files()["file_path"].to_pylist(), copied.metadata_location]
        assert all(f.startswith(copied.location()) for f in files), files
        assert answer(run("inspect", name, "partition_commits", "--json")) == []
        assert not copied.append([{"id": 7, "s": "b"}], txn=("job", 1)).skipped
    assert [f.name for f in frazil.load_table("db.now").spec().fields] == ["s", "later"]
    then = frazil.load_table("db.then")
    assert [f.name for f in then.spec().fields] == ["s"]
    assert len(then.sort_order().fields) == 1 and list(then.columns) == ["id", "s"]


def test_a_copy_has_the_rows_columns_partitions_and_keys(
    run: Run, table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRAZIL_CATALOG__OTHER__TYPE", "sql")
    monkeypatch.setenv("FRAZIL_CATALOG__OTHER__URI", f"sqlite:///{tmp_path}/other.db")
    monkeypatch.setenv("FRAZIL_CATALOG__OTHER__WAREHOUSE", str(tmp_path / "other"))
    first = table.snapshots()[0].snapshot_id
    assert answer(run("copy", "db.t", "other.new.t", "--json"))["rows"] == 4
    assert answer(run("copy", "db.t", "db.first", "--snapshot-id", first, "--json"))["rows"] == 3
    copied = frazil.load_table("other.new.t")
    assert (
        copied.schema().identifier_field_names() == {"id"} and not copied.spec().is_unpartitioned()
    )
    assert sorted(copied.to_arrow()["id"].to_pylist()) == [1, 2, 3, 4]
    assert run("copy", "db.t", "db.first").exit_code == 1
    dry = answer(run("migrate-to", "other", "db.first", "--dry-run", "--json"))
    assert dry[0]["table"] == "db.first" and frazil.load_catalog().table_exists("db.first")
    assert run("migrate-to", "other", "db.first").exit_code == 0
    assert frazil.load_catalog("other").table_exists(
        "db.first"
    ) and not frazil.load_catalog().table_exists("db.first")
    assert run("migrate-to", "other").exit_code == 2


def test_the_doctor_says_what_works_and_what_to_do(
    run: Run, table: Table, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("frazil.cli.doctor._spark", lambda: iter(()))
    checked = {c["what"]: c for c in answer(run("doctor", "--json"))}
    assert (
        checked["catalog default"]["state"] == "ok"
        and "db.t was read" in checked["storage of default"]["text"]
    )
    monkeypatch.setenv("FRAZIL_CATALOG__BROKEN__TYPE", "rest")
    broken = run("doctor", "--catalog", "broken")
    assert broken.exit_code == 1 and "✗ catalog broken" in broken.stdout and "uri" in broken.stdout


def test_java_and_pyspark_are_checked_by_asking_them(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    old = run("doctor", "--catalog", "default")
    assert old.exit_code == 1 and "Spark 4 needs Java 17" in old.stdout
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert "has no bin/java" in run("doctor", "--catalog", "default").stdout


def test_the_doctor_asks_the_python_that_spark_starts_whether_it_has_frazil(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    python = tmp_path / "python3"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    lacking = doctor._workers()
    assert lacking.state == "absent" and f"{python} lacks Frazil" in lacking.text
    assert f"PYSPARK_PYTHON={sys.executable}" in lacking.cure
    monkeypatch.setenv("PYSPARK_PYTHON", "python3.none")
    assert "python3.none is not on the PATH" in doctor._workers().text
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert doctor._workers().state == "ok"


def test_a_report_is_a_page_of_a_table_or_of_a_namespace(
    run: Run, table: Table, tmp_path: Path
) -> None:
    assert (
        answer(run("report", "db.t", "--json")) == {"page": "db.t.html"}
        and "default.db.t" in (tmp_path / "db.t.html").read_text()
    )
    assert (
        run("report", table.metadata_location, "--out", "x.html").exit_code == 0
        and (tmp_path / "x.html").exists()
    )
    told = answer(run("report", "db", "--out", "all.html", "--json"))
    assert told == {"page": "all.html", "tables": ["default.db.t"], "failed": []}
    assert (
        'href="default.db.t.html"' in (tmp_path / "all.html").read_text()
        and (tmp_path / "default.db.t.html").exists()
    )
    assert (
        run("report", "db.nothing").exit_code == 1 and not (tmp_path / "db.nothing.html").exists()
    )


def test_the_program_runs_and_its_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from frazil.cli import main; sys.argv = ['frazil', '--help']\n"
        "try: main()\nexcept SystemExit as e: assert not e.code\n"
        "print([m for m in ('pyarrow', 'numpy', 'pyspark', 'msgspec', 'duckdb') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]" and "rewrite-data-files" in done.stdout


def test_log_messages_are_lines_of_json_beside_the_answer(table: Table) -> None:
    arguments = ["--json", "--log", "rewrite-manifests", "db.t"]
    code = f"import sys; from frazil.cli import main; sys.argv[1:] = {arguments}; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    told = [(line["table"], line["operation"]) for line in lines if "operation" in line]
    assert told == [("default.db.t", "replace"), ("default.db.t", "rewrite_manifests")]


def test_without_click_it_says_how_to_install_it() -> None:
    code = "import sys; sys.modules['click'] = None; from frazil.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "pip install 'frazil[cli]'" in done.stderr
