"""The doors of a prepared session: ways in which a statement reaches a table."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from string import Template
from typing import Any, ClassVar

from tests.cases.form import Case
from tests.cases.play import Refused

ROWS = r"(?:WITH\b.*\b)?(?:DELETE\s+FROM|UPDATE|MERGE)\b|TRUNCATE\b"
EVOLVING = r"WITH\s+SCHEMA\s+EVOLUTION\s+"
INSERTS = r"INSERT\s+INTO\s+(?:TABLE\s+)?(?!TABLE\b)\S+\s+(?!REPLACE|WITH|BY|PARTITION)"


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
class Sql:
    """`spark.sql(…)`. `says`: what a statement is like that goes another way than this; None: every
    one. The others go this way, so that a case can make its table.
    """

    spark: Any
    name = "sql"
    says: ClassVar[re.Pattern[str] | None] = None

    def takes(self, case: Case) -> bool:
        """Tell whether a statement of a case goes by this door."""
        texts = {
            Template(r.text).safe_substitute(run)
            for r in case.records
            for run in case.runs
            if r.kind in ("statement", "query")
        }
        return self.name not in case.skips and (
            self.says is None or any(map(self.says.match, texts))
        )

    def run(self, text: str) -> list[tuple[Any, ...]]:
        if self.says is None or self.says.match(text):
            return self.through(text)
        return self.collected(self.spark.sql(text))

    def through(self, text: str) -> list[tuple[Any, ...]]:
        """Run a statement by this door."""
        return self.collected(self.spark.sql(text))

    def collected(self, frame: Any) -> list[tuple[Any, ...]]:
        return [plain(row) for row in frame.collect()]

    def counts(self) -> Mapping[str, Any]:
        import frazil

        result = frazil.last_result(self.spark)
        assert result is not None, "no result"
        return result.metrics


class Dataset(Sql):
    """The JVM's own `SparkSession.sql`, as Scala calls it."""

    name = "dataset"

    def through(self, text: str) -> list[tuple[Any, ...]]:
        from pyspark.sql import DataFrame

        return self.collected(DataFrame(self.spark._jsparkSession.sql(text), self.spark))


class Script(Sql):
    """A statement in a SQL script: `BEGIN …; END`, which shows no rows of commands."""

    name = "script"
    says = re.compile(r"(?!SHOW|DESC|CALL)", re.IGNORECASE)

    def through(self, text: str) -> list[tuple[Any, ...]]:
        return self.collected(self.spark.sql(f"BEGIN {text.rstrip().rstrip(';')}; END"))


class Immediate(Sql):
    """`EXECUTE IMMEDIATE '…'`."""

    name = "immediate"

    def through(self, text: str) -> list[tuple[Any, ...]]:
        quoted = text.replace("\\", "\\\\").replace("'", "\\'")
        return self.collected(self.spark.sql(f"EXECUTE IMMEDIATE '{quoted}'"))


class Batch(Sql):
    """A micro-batch of a stream, in the batch's own session."""

    name = "batch"
    says = re.compile(f"{ROWS}|INSERT\\b", re.IGNORECASE | re.DOTALL)

    def takes(self, case: Case) -> bool:
        """Leave out views, which are used by names in a current namespace: the session of a batch has
        one of its own.
        """
        return case.file != "views" and super().takes(case)

    def through(self, text: str) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        failed: list[Exception] = []  # told as it is: Spark would wrap it, with its traceback

        def ran(frame: Any, number: int) -> None:
            try:
                rows.extend(self.collected(frame.sparkSession.sql(text)))
            except Exception as error:
                failed.append(error)

        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "in").mkdir()
            (Path(folder) / "in" / "one.json").write_text('{"n": 1}\n')
            stream = self.spark.readStream.schema("n int").json(f"{folder}/in").writeStream
            stream = stream.option("checkpointLocation", f"{folder}/log").foreachBatch(ran)
            stream.trigger(availableNow=True).start().awaitTermination()
        if failed:
            raise failed[0]
        return rows


class Frames(Sql):
    """`df.mergeInto` and `df.writeTo(…).append()`."""

    name = "frames"
    says = re.compile(f"MERGE\\s+(?:{EVOLVING})?INTO\\b|{INSERTS}", re.IGNORECASE | re.DOTALL)

    def through(self, text: str) -> list[tuple[Any, ...]]:
        from pyspark.errors import AnalysisException
        from sqlglot import exp, parse_one

        said = re.sub(EVOLVING, "", text, count=1, flags=re.IGNORECASE)
        tree = parse_one(said, dialect="spark")
        if isinstance(tree, exp.Merge):
            self._merge(tree, said != text)
            return []
        if re.search(r"\bDEFAULT\b", text):
            raise Refused("no Column says DEFAULT")
        into = tree.this
        table = into.this if isinstance(into, exp.Schema) else into
        name = table.sql(dialect="spark")
        columns = [c.name for c in into.expressions] if isinstance(into, exp.Schema) else None
        query = re.sub(r"^INSERT\s+INTO\s+(?:TABLE\s+)?\S+(\s*\([^)]*\)(?=\s*(VALUES|SELECT)))?", "", text, count=1,
                       flags=re.IGNORECASE)  # fmt: skip
        source = self.spark.sql(query)
        columns = columns or self.spark.table(name).columns
        if len(columns) == len(source.columns):
            source = source.toDF(*columns)
        types = {f.name: f.dataType for f in self.spark.table(name).schema}
        for column in source.schema:  # INSERT casts, and ignores the names inside of the query
            if types.get(column.name, column.dataType) != column.dataType:
                source = source.withColumn(
                    column.name, source[column.name].cast(types[column.name])
                )
        try:
            source.writeTo(name).append()
        except AnalysisException as error:
            if "Cannot write into v1 table" not in str(error):
                raise
            self.spark.sql(text)
        return []

    def _merge(self, tree: Any, evolving: bool) -> None:
        from pyspark.sql import functions as F
        from sqlglot import exp

        target = tree.this
        alias, called = target.alias, target.name
        if called.startswith("branch_"):  # columns are those of the table
            called = target.parts[-2].name
        if alias:
            for column in tree.find_all(exp.Column):
                if column.parts[0].name.lower() == alias.lower() and len(column.parts) > 1:
                    column.parts[0].replace(exp.to_identifier(called))
        target.set("alias", None)
        name, using = target.sql(dialect="spark"), tree.args["using"]
        source_alias = using.alias_or_name
        bare = using.copy()
        bare.set("alias", None)
        frame = self.spark.sql(exp.select("*").from_(bare).sql(dialect="spark")).alias(source_alias)

        def expr(node: Any) -> Any:
            return F.expr(node.sql(dialect="spark"))

        def pairs(then: Any) -> dict[str, Any]:
            if isinstance(then, exp.Insert):
                found = zip(then.this.expressions, then.args["expression"].expressions, strict=True)
            else:
                found = ((e.this, e.expression) for e in then.expressions)
            named = [(_path(c, called), v) for c, v in found]
            if len(dict(named)) != len(named):
                raise Refused("a dict has each column once")
            if any(v.sql().upper() == "DEFAULT" for _, v in named):
                raise Refused("no Column says DEFAULT")
            return {name: expr(v) for name, v in named}

        writer = frame.mergeInto(name, expr(tree.args["on"]))
        for when in tree.args["whens"].expressions:
            test, then = when.args.get("condition"), when.args["then"]
            given = () if test is None else (expr(test),)
            kind = (
                writer.whenMatched(*given)
                if when.args["matched"]
                else writer.whenNotMatchedBySource(*given)
                if when.args.get("source")
                else writer.whenNotMatched(*given)
            )
            match then:
                case exp.Var():
                    writer = kind.delete()
                case exp.Update() if isinstance(then.expressions[0], exp.Star):
                    writer = kind.updateAll()
                case exp.Update():
                    writer = kind.update(pairs(then))
                case exp.Insert() if then.args.get("expression") is None:
                    writer = kind.insertAll()
                case _:
                    writer = kind.insert(pairs(then))
        (writer.withSchemaEvolution() if evolving else writer).merge()


def _path(column: Any, alias: str) -> str:
    parts = [p.name for p in column.parts] if hasattr(column, "parts") else [column.name]
    return ".".join(parts[1:] if len(parts) > 1 and parts[0].lower() == alias.lower() else parts)


class Python(Sql):
    """`table.delete`, `update` and `merge`, with the rows in this process."""

    name = "python"
    runner: str | None = "in-process"
    says = re.compile(ROWS, re.IGNORECASE | re.DOTALL)
    result: Any = None

    def run(self, text: str) -> list[tuple[Any, ...]]:
        from frazil.dropin.names import SessionNames
        from frazil.errors import ParseError, Unsupported

        if found := re.fullmatch(r"SELECT \* FROM (\w+\.\w+\.\S+)", text):
            table, branch = SessionNames(self.spark).open(tuple(found[1].split(".")))
            arrow = table.scan(**({"branch": branch} if branch else {})).to_arrow()
            if "variant" not in str(table.schema()):
                return self.collected(self.spark.createDataFrame(arrow)) if arrow.num_rows else []
        try:
            return super().run(text)
        except (Unsupported, ParseError) as error:
            if self.says.match(text):
                raise Refused(str(error).partition("\n")[0]) from None
            raise

    def through(self, text: str) -> list[tuple[Any, ...]]:
        from sqlglot import parse_one

        from frazil.dropin.names import SessionNames
        from frazil.errors import InvalidInput, NoSuchTableError
        from frazil.ops.changes import DeleteRows, UpdateRows
        from frazil.sql.connect import _EVOLVES, ConnectStatements

        names = SessionNames(self.spark)
        tree = parse_one(_EVOLVES.sub(r"\1", text), dialect="spark")
        try:
            statements = ConnectStatements(self.spark, names)
            node: Any = statements._node(tree, bool(_EVOLVES.search(text)))
        except InvalidInput:
            raise Refused("a dict has each column once") from None
        try:
            table, branch = names.open(node.table)
        except (InvalidInput, NoSuchTableError):
            raise Refused("the methods are those of a table") from None
        there = {"branch": branch or "main"}
        how = there | {"runner": self.runner, "case_sensitive": False}
        match change := node.change:
            case DeleteRows():
                how["target_alias"] = change.target_alias
                self.result = table.delete(change.where, **how)
            case UpdateRows():
                how["target_alias"] = change.target_alias
                self.result = table.update(change.set, change.where, **how)
            case _:
                source = change.frame.toArrow() if self.runner else change.frame
                builder: Any = table.merge(source, change.merge.on, **how)
                self.result = replace(builder, merge=change.merge).execute()
        return []

    def counts(self) -> Mapping[str, Any]:
        if self.result is None:
            raise Refused("the change was not made by this door")
        return dict(self.result.metrics)


class Tasks(Python):
    """The same, with the rows in tasks of Spark."""

    name = "tasks"
    runner = None


IN_SESSION = {
    door.name: door for door in (Sql, Dataset, Script, Immediate, Batch, Frames, Python, Tasks)
}
