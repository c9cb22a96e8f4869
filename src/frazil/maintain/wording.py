"""Say hints in the words of the door at which they are read. Hints are written as Python is typed;
SQL and the command line take theirs from one table and from the registry of procedures.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from re import Match

from frazil.maintain.advice.finding import ProcedureCall, sql_value
from frazil.maintain.procedures import PROCEDURES

_ALTER = "ALTER TABLE …"
# What Python types, as a pattern; the same in SQL; and on the command line, where it is not SQL in
# `frazil sql`.
_WORDS: tuple[tuple[str, str, str | None], ...] = (
    (r"update\.add_column\(…\) in a block of table\.update_schema\(\)", f"{_ALTER} ADD COLUMN …", None),
    (r"update\.make_column_optional\(…\) in a block of table\.update_schema\(\)", f"{_ALTER} ALTER COLUMN … DROP NOT NULL", None),
    (r"t\.upgrade\((?:format_version=)?(\d)\)", rf"{_ALTER} SET TBLPROPERTIES ('format-version'='\1')", None),
    (r"t\.update_sort_order\(\)", f"{_ALTER} WRITE ORDERED BY …", None),
    (r"manage_snapshots\(\)\.set_current_snapshot\(…\)", "CALL system.set_current_snapshot", "frazil set-current-snapshot"),
    (r"t\.(?:snapshots|history)\(\)", "SELECT * FROM t.snapshots", "frazil snapshots TABLE"),
    (r"t\.inspect\.(\w+)\(\)", r"SELECT * FROM t.\1", r"frazil inspect TABLE \1"),
    (r"plan_files\(\)", "SELECT * FROM t.files", "frazil explain TABLE"),
    (r"frazil\.list_catalogs\(\)", "SHOW CATALOGS", "frazil catalogs"),
    (r"\blist_namespaces\(\)", "SHOW NAMESPACES", "frazil namespaces"),
    (r"\blist_tables\('(.*?)'\)", r"SHOW TABLES IN \1", r"frazil tables [CATALOG.]\1"),
    (r"\bcreate_namespace\b(?:\(…?\))?", "CREATE NAMESPACE", "frazil create-namespace"),
    (r"\btable_exists\b", "SHOW TABLES", "frazil tables"),
    (r"\bload_view\('(.*?)'\)", r"SELECT * FROM \1", None),
    (r"\bdrop_table\('(.*?)'\)", r"DROP TABLE \1", None),
    (r"\bdrop_view\('(.*?)'\)", r"DROP VIEW \1", None),
    (r"\bdrop_table\b", "DROP TABLE", None),
    (r"\brename_table\b", f"{_ALTER} RENAME TO …", None),
    (r"\bremove_properties\b", f"{_ALTER} UNSET TBLPROPERTIES …", None),
    (r"\breplace_view\b", "CREATE OR REPLACE VIEW", None),
    (r"\bfrazil\.load_catalog\(warehouse=…\)", "spark.sql.catalog.<name>.warehouse", "the setting FRAZIL_CATALOG__<NAME>__WAREHOUSE"),
)  # fmt: skip
_NAMES = "|".join(p.name for p in PROCEDURES)
_LONG_NAMES = "|".join(p.name for p in PROCEDURES if "_" in p.name)  # those that are no plain word
_CALL = rf"\bt\.maintenance\.({_NAMES})\b(?:\(([^()]*)\))?"
_NAMED = rf"(?<![\w.])({_LONG_NAMES}|(?:{_NAMES})(?=\())(?:\((…?)\)|\b(?!\())"
_PYTHON = r"[\w.]+\([^()]*=[^()]*\)"  # a call that no other door has stays as it is
_PARAMETERS = "|".join(sorted({q.in_python for p in PROCEDURES for q in p.parameters}))
_ARGUMENT = rf"(?<![\w.\-])({_PARAMETERS})=('[^']*'|\{{[^}}]*\}}|\[[^\]]*\]|[\w…]*)"


def in_sql(hint: str) -> str:
    """Say a hint in the words of SQL."""

    def call(procedure: ProcedureCall) -> str:
        arguments = ", ".join(f"{k} => {sql_value(v)}" for k, v in procedure.arguments.items())
        return f"CALL system.{procedure.verb}{f'({arguments})' if arguments else ''}"

    def argument(match: Match[str]) -> str:
        if match[1] == "snapshot_id":
            return f"VERSION AS OF {match[2] or '…'}"
        values = [sql_value(v) for v in _given(match[0]).values()]
        return f"{match[1]} => {(values or [match[2] or '…'])[0]}"

    return _said(hint, lambda sql, _: sql, call, argument)


def in_commands(hint: str) -> str:
    """Say a hint in the words of the command line."""

    def argument(match: Match[str]) -> str:
        words = (
            ProcedureCall("", arguments).as_command("") if (arguments := _given(match[0])) else ""
        )
        return words.partition("'' ")[2].partition("'' ")[2] or f"--{match[1].replace('_', '-')}"

    def words(sql: str, command: str | None) -> str:
        return f'frazil sql "{sql}"' if command is None else command

    return _said(hint, words, lambda call: call.as_command("TABLE"), argument)


def _said(
    hint: str,
    words: Callable[[str, str | None], str],
    call: Callable[[ProcedureCall], str],
    argument: Callable[[Match[str]], str],
) -> str:
    """Replace what Python types. What is said once is not replaced again by a later rule."""
    said: list[str] = []

    def replaced(pattern: str, say: Callable[[Match[str]], str]) -> None:
        nonlocal hint

        def one(match: Match[str]) -> str:
            said.append(say(match))
            return f"\0{len(said) - 1}\0"

        hint = re.sub(pattern, one, hint)

    def said_so(sql: str, command: str | None) -> Callable[[Match[str]], str]:
        return lambda m: words(m.expand(sql), command and m.expand(command))

    for pattern, sql, command in _WORDS:
        replaced(pattern, said_so(sql, command))
    for pattern in (_CALL, _NAMED):
        replaced(pattern, lambda m: call(ProcedureCall(m[1], _given(m[2] or ""))))
    replaced(_PYTHON, lambda m: m[0])
    replaced(_ARGUMENT, argument)
    return re.sub(r"\0(\d+)\0", lambda m: said[int(m[1])], hint)


def _given(text: str) -> dict[str, object]:
    """Return the keyword arguments of a call that are constants."""
    try:
        call = ast.parse(f"f({text})", mode="eval").body
        assert isinstance(call, ast.Call)
        return {k.arg or "": ast.literal_eval(k.value) for k in call.keywords}
    except (SyntaxError, ValueError):
        return {}
