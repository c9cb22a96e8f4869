"""The registry of procedures against all that is made of it: methods and their signatures, results,
`auto`, streams, SQL, documents.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from frazil.catalog import Catalog
from frazil.errors import FrazilError
from frazil.maintain.advice import data_files, metadata_files
from frazil.maintain.procedures import (
    BY_NAME,
    ON_CATALOG,
    ON_MAINTENANCE,
    PROCEDURES,
    Parameter,
    Procedure,
)
from frazil.maintain.stream_upkeep import stream_tasks, triggers
from frazil.spark.catalog.procedures import procedure_names
from frazil.table import Table
from frazil.table.maintenance import MaintenanceTable
from frazil.table.procedure_calls import run_procedure
from tests.docs.test_procedures import as_markdown
from tests.maintain.support import add, table_in

# objects, which SQL has no values for
OF_PYTHON = {
    "self",
    "progress",
    "runner",
    "spark",
    "policies",
}
BESIDES = {  # names and positions that PyIceberg has, or a second name that SQL gives otherwise
    "register_table": {"metadata_location"}, "migrate": {"identifier"},
}  # fmt: skip
WITHOUT_METHOD = {"create_changelog_view"}
OWNER = {ON_MAINTENANCE: MaintenanceTable, ON_CATALOG: Catalog}
METHODS = [p for p in PROCEDURES if p.name not in WITHOUT_METHOD]


def method_of(procedure: Procedure) -> Any:
    return getattr(OWNER.get(procedure.on, Table), procedure.name)


def own(procedure: Procedure) -> list[Parameter]:
    """The parameters of the method: a table is its object."""
    return [p for p in procedure.parameters if p.name != "table" or procedure.on == ON_CATALOG]


@pytest.mark.parametrize("procedure", METHODS, ids=lambda p: p.name)
def test_parameters_are_those_of_the_method_in_their_order_with_their_defaults(
    procedure: Procedure,
) -> None:
    signature = {
        n: p
        for n, p in inspect.signature(method_of(procedure)).parameters.items()
        if n not in OF_PYTHON | BESIDES.get(procedure.name, set())
        and (n != "options" or p.kind is not p.VAR_KEYWORD)
    }
    listed = {
        p.in_python: p
        for p in own(procedure)
        if procedure.name != "mark_partition_done" or p.name != "options"
    }
    assert signature.keys() == listed.keys()
    of_java = [p.in_python for p in own(procedure) if not p.ours]
    positional = [n for n, p in signature.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
    if procedure.name not in BESIDES and not procedure.ours:
        assert positional[: len(of_java)] == of_java
    for name, parameter in listed.items():
        if procedure.name == "register_table" and name == "metadata_file":
            continue  # either this one or PyIceberg's metadata_location is given
        default = signature[name].default
        assert (
            default is inspect.Parameter.empty
            if parameter.required
            else default == parameter.default
        ), name


def test_every_procedure_of_a_table_is_listed() -> None:
    public = {
        n
        for n, f in vars(MaintenanceTable).items()
        if inspect.isfunction(f) and not n.startswith("_")
    }
    assert public == {p.name for p in PROCEDURES if p.on == ON_MAINTENANCE}
    imports = {"snapshot", "migrate", "register_table"}  # add_files is the table's
    assert imports == {p.name for p in PROCEDURES if p.on == ON_CATALOG}
    assert len(BY_NAME) == len(PROCEDURES)


def test_every_cure_that_recommend_names_may_be_run_by_auto() -> None:
    texts = "".join(
        Path(str(module.__file__)).read_text() for module in (data_files, metadata_files)
    )
    named = {name for name in BY_NAME if f'"{name}"' in texts}
    assert named and named <= {p.name for p in PROCEDURES if p.cure}


def test_every_stream_task_runs_a_procedure_and_sets_parameters_that_it_has() -> None:
    tasks = {p.task.name: p for p in PROCEDURES if p.task is not None}
    assert (
        tuple(tasks) == triggers.TASKS == ("convert", "rewrite", "manifests", "expire", "orphans")
    )
    assert tasks.keys() == stream_tasks._TASKS.keys() == triggers.DEFAULTS.keys()
    for procedure in tasks.values():
        assert procedure.task is not None
        names = {p.name for p in procedure.parameters}
        assert set(procedure.task.words.values()) <= names and (
            not procedure.task.options or "options" in names
        )


def test_every_procedure_is_known_to_call_in_sql() -> None:
    assert {name for _, name in procedure_names(("system",))} == BY_NAME.keys()


def test_the_documented_table_is_the_registry() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/procedures.md").read_text()
    assert page.split("<!-- procedures -->\n")[1] == as_markdown(), (
        "python -m tests.docs.test_procedures writes it"
    )


@pytest.mark.parametrize("procedure", METHODS, ids=lambda p: p.name)
def test_results_have_the_columns_that_are_listed(procedure: Procedure, tmp_path: Path) -> None:
    t = table_in(tmp_path)
    first, last = add(t, 1), add(t, 2)
    catalog = Catalog(t._backend)
    (tmp_path / "plain/p=a").mkdir(parents=True)
    parquet.write_table(pa.table({"id": [1]}), tmp_path / "plain/p=a/a.parquet")
    values = {
        "table": "db.t",
        "snapshot_id": first,
        "timestamp": 4102444800000,
        "branch": "main",
        "to": "main",
        "wap_id": "w",
        "source_prefix": t.location(),
        "target_prefix": "/elsewhere",
        "metadata_file": t.metadata_location,
        "partition": {"p": "a"},
        "source_table": f"parquet.`{tmp_path / 'plain'}`",
    }
    if procedure.name in ("snapshot", "register_table"):
        values["table"] = "db.other"
    if procedure.name == "migrate":
        values["table"] = str(tmp_path / "plain")
        with pytest.raises(FrazilError):
            # a directory is no table of Spark's; tests/maintain/test_imports.py migrates tables
            run_procedure(catalog, procedure, values)
        return
    if procedure.name in ("publish_changes", "cherrypick_snapshot"):
        t.set_properties({"write.wap.enabled": "true"})
        values["snapshot_id"] = t.append(pa.table({"id": [5]}), **{"wap-id": "w"}).snapshot_id
    needs = {"set_current_snapshot": {"snapshot_id"}}.get(procedure.name, set())
    arguments = {
        p.name: values[p.name] for p in procedure.parameters if p.required or p.name in needs
    }
    rows = run_procedure(catalog, procedure, arguments)
    assert rows.schema.names == [c.name for c in procedure.columns]
    for column, field in zip(procedure.columns, rows.schema, strict=True):
        assert column.nullable or rows[column.name].null_count == 0
        assert {"STRING": "string", "INT": "int32", "BIGINT": "int64", "DOUBLE": "double"}[
            column.kind
        ] == str(field.type)
    assert last or rows


def test_words_of_parameters_are_words_of_java() -> None:
    for procedure in PROCEDURES:
        assert all(re.fullmatch(r"[a-z_]+", p.name) for p in procedure.parameters)
        last = [p.ours for p in procedure.parameters]
        assert procedure.ours or last == sorted(last), (
            "Java's parameters stand first, so that their positions are Java's"
        )
