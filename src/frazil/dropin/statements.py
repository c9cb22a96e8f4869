"""Recognise SQL statements: their kind, the table or namespace they are about, and the Python call of Frazil that does the same."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from frazil.catalog.names import IN_SQL, full_name, identifier_parts, without_blanks
from frazil.errors import InvalidInput
from frazil.maintain.procedures import PROCEDURES

_NAME = f"(?P<name>{IN_SQL})"
_EXPLAIN = re.compile(r"\s*explain\s+(?:extended\s+|codegen\s+|cost\s+|formatted\s+)?", re.IGNORECASE)


@dataclass(frozen=True)
class Statement:
    """Hold a SQL statement. `name`: the table or namespace that it changes or shows, as typed, without blanks around its dots. `about`:
    "table" or "catalog". `_call`: the call that does the same, with `<table>`, `<catalog>`, `<rest>` and `<whole>` as placeholders.
    `of_iceberg`: a statement of Iceberg's SQL extensions, which Spark's own parser does not know."""

    kind: str
    name: str
    about: str
    _call: str
    of_iceberg: bool = False

    def call(self, catalog: str | None, parts: Sequence[str]) -> str:
        """Return the call to use instead. `catalog`: None for the default catalog; `parts`: the name within the catalog."""
        whole = self.name if catalog is None else full_name([catalog, *parts])
        opened = "frazil.load_catalog()" if catalog is None else f"frazil.load_catalog({catalog!r})"
        fill = {"table": f"frazil.load_table({whole!r})", "catalog": opened, "rest": repr(full_name(parts)), "whole": repr(whole)}
        return re.sub(r"<(\w+)>", lambda m: fill[m[1]], self._call)


def _kind(label: str, pattern: str, call: str, about: str = "table") -> tuple[str, re.Pattern[str], str, str]:
    """Return a kind of statement with its pattern compiled: NAME stands for an identifier, a blank for any white space."""
    spaced = pattern.replace("NAME", _NAME).replace(" ", r"\s+")
    return label, re.compile(r"\s*" + spaced, re.IGNORECASE | re.DOTALL), call, about


_SCHEMA_CALL = "with <table>.update_schema() as update: update."
_REFS = "with <table>.manage_snapshots() as manage: manage."
_MAINTENANCE = "<table>.maintenance."
_ALTER = "ALTER TABLE … "
_QUERY = 'spark.sql("SELECT …")'
_NS = r"(?:namespace|schema|database)"
_OF_TABLES = r"(?:in|from)"
_KINDS = (
    _kind(
        "INSERT OVERWRITE",
        "insert overwrite (?:table )?NAME",
        f"{_QUERY}.writeTo(<whole>).overwritePartitions() or .overwrite(condition); <table>.overwrite(frame, overwrite_filter=…).",
    ),
    _kind(
        "INSERT", r"(?:with .*)?insert into (?:table )?NAME.*\breplace (?:where|on)\b", '<table>.overwrite(frame, overwrite_filter="…").'
    ),
    _kind(
        "INSERT",
        r"(?:with .*)?insert into (?:table )?NAME",
        f"<table>.append(frame) adds rows (also of pandas, Arrow, lists of dicts); {_QUERY}.writeTo(<whole>).append().",
    ),
    _kind("DELETE", "delete from (?:table )?NAME", '<table>.delete(where="…").'),
    _kind("UPDATE", "update NAME", '<table>.update(set={"column": "expression"}, where="…").'),
    _kind(
        "MERGE",
        "merge (?:with schema evolution )?into NAME",
        "frame.mergeInto(<whole>, condition)…merge(), or <table>.merge(frame, "
        'on="target.id = source.id").when_matched_update_all().when_not_matched_insert_all().execute().',
    ),
    _kind("TRUNCATE TABLE", "truncate table NAME", "<table>.delete()."),
    _kind(
        "CREATE TABLE AS SELECT",
        r"create or replace table NAME\b.*\bas (?:select|with|values|from|table)\b",
        f'{_QUERY}.writeTo(<whole>).using("iceberg").createOrReplace().',
    ),
    _kind(
        "CREATE TABLE AS SELECT",
        r"create table (?:if not exists )?NAME\b.*\bas\s*\(?\s*(?:select|with|values|from|table)\b",
        f'{_QUERY}.writeTo(<whole>).using("iceberg").create().',
    ),
    _kind(
        "REPLACE TABLE",
        "(?:create or )?replace table NAME",
        'with <catalog>.replace_table_transaction(<rest>, "id bigint, …", create=True) '
        'as tx: tx.append(frame); frame.writeTo(<whole>).using("iceberg").createOrReplace().',
    ),
    _kind(
        "CREATE TABLE",
        "create (?:external )?table (?:if not exists )?NAME",
        '<catalog>.create_table(<rest>, "id bigint, …", partition_by=[…]) or frame.writeTo(<whole>).using("iceberg").create().',
    ),
    _kind(
        "CREATE VIEW",
        "create (?:or replace )?view (?:if not exists )?NAME",
        '<catalog>.create_view(<rest>, "id bigint, …", sql="SELECT …"), or replace_view(…); '
        "frame.createOrReplaceTempView(…) keeps one in the session.",
    ),
    _kind("DROP VIEW", "drop view (?:if exists )?NAME", "<catalog>.drop_view(<rest>)."),
    _kind("DROP TABLE", r"drop table (?:if exists )?NAME purge\b", "<catalog>.purge_table(<rest>)."),
    _kind("DROP TABLE", "drop table (?:if exists )?NAME", "<catalog>.drop_table(<rest>)."),
    _kind("SHOW CREATE TABLE", "show create table NAME", "print(<table>) shows its columns, partitioning and state."),
    _kind("SHOW TBLPROPERTIES", "show tblproperties NAME", "<table>.properties."),
    _kind("SHOW COLUMNS", f"show columns {_OF_TABLES} NAME", "<table>.columns, <table>.schema()."),
    _kind("SHOW PARTITIONS", "show partitions NAME", "<table>.inspect.partitions(), spark.table(<whole>).count() and its like for rows."),
    _kind("SHOW TABLES", f"show (?:tables|table extended) {_OF_TABLES} NAME", "<catalog>.list_tables(<rest>).", "catalog"),
    _kind("SHOW VIEWS", f"show views {_OF_TABLES} NAME", "<catalog>.list_views(<rest>).", "catalog"),
    _kind("SHOW NAMESPACES", rf"show (?:namespaces|schemas|databases) {_OF_TABLES} NAME", "<catalog>.list_namespaces(…).", "catalog"),
    _kind("CREATE NAMESPACE", f"create {_NS} (?:if not exists )?NAME", "<catalog>.create_namespace(<rest>).", "catalog"),
    _kind("DROP NAMESPACE", f"drop {_NS} (?:if exists )?NAME", "<catalog>.drop_namespace(<rest>).", "catalog"),
    _kind("ALTER NAMESPACE", f"alter {_NS} NAME", "<catalog>.update_namespace_properties(<rest>, updates={…}).", "catalog"),
    _kind(
        "COMMENT ON NAMESPACE",
        f"comment on {_NS} NAME",
        '<catalog>.update_namespace_properties(<rest>, updates={"comment": …}).',
        "catalog",
    ),
    _kind("DESCRIBE NAMESPACE", f"desc(?:ribe)? {_NS} (?:extended )?NAME", "<catalog>.load_namespace_properties(<rest>).", "catalog"),
    _kind("DESCRIBE HISTORY", "desc(?:ribe)? history NAME", "<table>.history(), <table>.inspect.history()."),
    _kind("DESCRIBE", "desc(?:ribe)? (?:table )?(?:extended |formatted )?NAME", "print(<table>); <table>.schema(), <table>.spec()."),
    _kind("USE", f"use (?:{_NS} )?NAME", 'Names are written whole: spark.table("catalog.namespace.table").', "catalog"),
    _kind("COMMENT ON TABLE", "comment on table NAME", "<table>.set_properties(comment=…)."),
    _kind(
        "ANALYZE TABLE",
        "analyze table NAME",
        "There is nothing to analyse: manifests hold the counts and bounds of each file; <table>.count().",
    ),
    _kind(
        "REFRESH TABLE",
        "refresh (?:table )?NAME",
        "spark.catalog.refreshTable(<whole>) for views over it; <table>.refresh() for a Table object.",
    ),
    _kind(
        "CACHE TABLE",
        "(?:un)?cache (?:lazy )?table (?:if exists )?NAME",
        'spark.table(<whole>).createOrReplaceTempView("v") gives a name, which CACHE TABLE v takes; or spark.table(<whole>).cache().',
    ),
    _kind("LOAD DATA", r"load data .*\binto table NAME", "<table>.add_files([…]) takes Parquet files where they lie."),
    _kind("RESTORE TABLE", "restore (?:table )?NAME", _REFS + "rollback_to_snapshot(snapshot_id)."),
    _kind("OPTIMIZE", "optimize NAME", _MAINTENANCE + "rewrite_data_files(…)."),
    _kind("VACUUM", "vacuum NAME", _MAINTENANCE + "expire_snapshots(older_than=…), then " + _MAINTENANCE + "remove_orphan_files()."),
    _kind(
        "REPAIR TABLE",
        "(?:msck )?repair table NAME",
        "There is nothing to repair: metadata lists every file; <table>.add_files([…]) adds some.",
    ),
)
_ALTERS = (
    _kind(_ALTER + "RENAME TO", "alter (?:table|view) NAME rename to", '<catalog>.rename_table(<rest>, "namespace.name").'),
    _kind(
        _ALTER + "ADD PARTITION FIELD",
        "alter table NAME add partition field",
        'with <table>.update_spec() as update: update.add_field("id", "bucket(16)").',
    ),
    _kind(
        _ALTER + "DROP PARTITION FIELD",
        "alter table NAME drop partition field",
        "with <table>.update_spec() as update: update.remove_field(name).",
    ),
    _kind(
        _ALTER + "REPLACE PARTITION FIELD",
        "alter table NAME replace partition field",
        "with <table>.update_spec() as update: update.remove_field(name).add_field(…).",
    ),
    _kind(
        _ALTER + "WRITE ORDERED BY",
        "alter table NAME write ",
        'with <table>.update_sort_order() as update: update.by("id desc"); <table>.set_properties({"write.distribution-mode": "none"}).',
    ),
    _kind(_ALTER + "SET IDENTIFIER FIELDS", "alter table NAME (?:set|drop) identifier", _SCHEMA_CALL + "set_identifier_fields(…)."),
    _kind(_ALTER + "DROP BRANCH", "alter table NAME drop branch", _REFS + "remove_branch(name)."),
    _kind(_ALTER + "DROP TAG", "alter table NAME drop tag", _REFS + "remove_tag(name)."),
    _kind(
        _ALTER + "CREATE BRANCH",
        "alter table NAME (?:create or replace|create|replace) branch",
        _REFS + "create_branch(snapshot_id, name), or replace_branch(name, snapshot_id).",
    ),
    _kind(
        _ALTER + "CREATE TAG",
        "alter table NAME (?:create or replace|create|replace) tag",
        _REFS + "create_tag(snapshot_id, name), or replace_tag(name, snapshot_id).",
    ),
    _kind(_ALTER + "SET TBLPROPERTIES", "alter (?:table|view) NAME set tblproperties", '<table>.set_properties({"key": "value"}).'),
    _kind(_ALTER + "UNSET TBLPROPERTIES", "alter (?:table|view) NAME unset tblproperties", "<table>.remove_properties(…)."),
    _kind(_ALTER + "SET LOCATION", "alter table NAME set location", "with <table>.transaction() as tx: tx.update_location(…)."),
    _kind(_ALTER + "RENAME COLUMN", "alter table NAME rename column", _SCHEMA_CALL + "rename_column(old, new)."),
    _kind(_ALTER + "DROP COLUMN", r"alter table NAME drop columns?\b", _SCHEMA_CALL + "delete_column(name)."),
    _kind(
        _ALTER + "ADD PARTITION",
        r"alter table NAME (?:add|drop) (?:if (?:not )?exists )?partition\b",
        "Partitions come and go with their rows: <table>.add_files([…]), <table>.delete(where=…).",
    ),
    _kind(_ALTER + "ADD COLUMN", r"alter table NAME add\b", _SCHEMA_CALL + 'add_column(name, "bigint").'),
    _kind(
        _ALTER + "ALTER COLUMN",
        r"alter table NAME (?:alter|change|replace)\b",
        _SCHEMA_CALL + "update_column(name, …), make_column_optional(name), move_after(name, other), set_default_value(name, …).",
    ),
    _kind("ALTER TABLE", "alter table NAME", "A table has a method for it: update_schema, update_spec, update_sort_order, set_properties."),
)
_OF_ICEBERG = {"ADD PARTITION FIELD", "DROP PARTITION FIELD", "REPLACE PARTITION FIELD", "WRITE ORDERED BY", "SET IDENTIFIER FIELDS",
               "DROP BRANCH", "DROP TAG", "CREATE BRANCH", "CREATE TAG"}  # fmt: skip
_CALL = re.compile(rf"\s*call\s+{_NAME}\s*\(", re.IGNORECASE)
_TABLE_OF_CALL = re.compile(r"\(\s*(?:(?:source_)?table\s*=>\s*)?(?:'([^']+)'|\"([^\"]+)\")", re.IGNORECASE)
_PROCEDURES = {p.name: p.in_python + "." for p in PROCEDURES}


def statement_of(text: str) -> Statement | None:
    """Return the statement that a text without comments is; None for a query and for statements about no table. A leading EXPLAIN is
    skipped."""
    text = text[explain.end() :] if (explain := _EXPLAIN.match(text)) else text
    if (call_match := _CALL.match(text)) is not None:
        return _procedure(call_match["name"], text)
    altering = text.lstrip()[:5].lower() == "alter"
    for label, pattern, call, about in (*_ALTERS, *_KINDS) if altering else _KINDS:
        if (match := pattern.match(text)) is not None:
            return Statement(label, without_blanks(match["name"]), about, call, of_iceberg=label.removeprefix(_ALTER) in _OF_ICEBERG)
    return None


def is_explained(text: str) -> bool:
    """Return whether a text begins with EXPLAIN."""
    return _EXPLAIN.match(text) is not None


def _procedure(name: str, text: str) -> Statement | None:
    """Return the statement for a CALL of an Iceberg procedure; its table is the first argument, where that is a text."""
    *_, last = parts = identifier_parts(without_blanks(name))
    if len(parts) < 2 or parts[-2].lower() != "system" or last.lower() not in _PROCEDURES:
        return None
    argument = _TABLE_OF_CALL.search(text)
    table = "" if argument is None else argument[1] or argument[2]
    if table and len(parts) > 2:
        table = _within(parts[0], table)
    return Statement(f"CALL {last.lower()}", table or "db.table", "table", _PROCEDURES[last.lower()], of_iceberg=True)


def _within(catalog: str, table: str) -> str:
    """Return the name of a table with its catalog, where the text is an identifier and does not begin with the catalog."""
    try:
        parts = identifier_parts(table)
    except InvalidInput:
        return table
    return table if parts[0] == catalog else full_name((catalog, *parts))
