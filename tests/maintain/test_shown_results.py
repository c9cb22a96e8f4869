"""Results of procedures are tables in a notebook, sizes are read as people write them, and hints
are sentences.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import frazil.maintain
from frazil.errors import InvalidInput
from frazil.maintain.advice.auto import _bytes
from tests.builders.catalogs import catalog_of


def test_results_are_tables_in_a_notebook(tmp_path: Path) -> None:
    t = catalog_of("sql", tmp_path).create_table("db.<t>", "id bigint")
    for n in range(6):
        t.append(pa.table({"id": [n]}))
    assert (
        "nothing" in t.maintenance.rewrite_manifests(dry_run=True)._repr_html_()
        or "<table>" in t.maintenance.rewrite_manifests(dry_run=True)._repr_html_()
    )
    findings = t.maintenance.recommend()._repr_html_()
    assert (
        "small_files" in findings
        and "rewrite_data_files()" in findings
        and "&lt;t&gt;" in findings
        and "<t>" not in findings
    )
    told = t.maintenance.rewrite_data_files(dry_run=True)._repr_html_()
    assert (
        "dry run, nothing was changed" in told
        and ">rewritten_data_files_count</th><td style='text-align:left'>6</td>" in told
    )
    done = t.maintenance.auto()._repr_html_()
    assert ">outcome</th>" in done and ">done</td>" in done
    ancestors = t.maintenance.ancestors_of()._repr_html_()
    assert ancestors.count("<tr>") == 8 and ">snapshot_id</th>" in ancestors
    assert "nothing to do" in t.maintenance.recommend()._repr_html_()


def test_many_rows_are_cut_short(tmp_path: Path) -> None:
    t = catalog_of("sql", tmp_path).create_table("db.t", "id bigint")
    for n in range(23):
        (tmp_path / "wh/db/t" / f"orphan{n}").write_text("x")
    t.append(pa.table({"id": [1]}))
    shown = t.maintenance.remove_orphan_files(
        older_than=2**50, allow_short_interval=True, dry_run=True
    )._repr_html_()
    assert shown.count("<tr>") == 21 and "and 3 more" in shown


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("10GB", 10 << 30),
        ("10 gb", 10 << 30),
        ("1.5 TiB", 3 << 39),
        ("4096", 4096),
        ("2_000k", 2000 << 10),
        ("7b", 7),
        ("10 apples", "10 apples"),
        (5, 5),
        (None, None),
    ],
)
def test_a_size_is_read_as_people_write_it(text: object, size: object) -> None:
    assert _bytes(text) == size


def test_a_budget_is_read_with_its_unit(tmp_path: Path) -> None:
    t = catalog_of("sql", tmp_path).create_table("db.t", "id bigint")
    for n in range(6):
        t.append(pa.table({"id": [n]}))
    assert [s.outcome for s in t.maintenance.auto(budget_bytes="1b", dry_run=True).steps] == [
        "over budget"
    ]
    assert [s.outcome for s in t.maintenance.auto(budget_bytes="10GB").steps] == ["done"]
    for wrong in ("ten", "-1GB", "0", "GB", ""):
        with pytest.raises(InvalidInput, match="budget_bytes='10GB'"):
            t.maintenance.auto(budget_bytes=wrong)


def hints() -> Iterator[tuple[str, str]]:
    for path in Path(frazil.maintain.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.keyword)
                and node.arg == "hint"
                and isinstance(node.value, ast.Constant | ast.JoinedStr)
            ):
                parts = node.value.values if isinstance(node.value, ast.JoinedStr) else [node.value]
                yield (
                    f"{path.name}:{node.value.lineno}",
                    "".join(str(p.value) if isinstance(p, ast.Constant) else "…" for p in parts),
                )


def test_hints_are_sentences() -> None:
    found = dict(hints())
    assert len(found) > 30
    wrong = [
        (place, hint)
        for place, hint in found.items()
        if not re.fullmatch(r"(?s)[\w(`'.…]+[^:]*? .*[.!]", hint) or re.match(r"[\w ]+: ", hint)
    ]
    assert wrong == []
