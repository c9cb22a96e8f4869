"""Doors in processes of their own: Java Iceberg, a client of Spark Connect with Frazil in it, and a
plain client. Each request is a case; the answer says how it came out.

elsewhere.py connect|plain ADDRESS, a line of JSON in and out for each case (see peers/server.py); in
Java's process `answer` is called.
"""

from __future__ import annotations

import json
import os
import re
import sys
import traceback
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from tests.cases.doors import Sql  # noqa: E402
from tests.cases.form import cases_of  # noqa: E402
from tests.cases.play import QUICK, Refused, play, settings_of  # noqa: E402


class Java(Sql):
    """`spark.sql` with Java Iceberg."""

    name = "java"

    def through(self, text: str) -> list[tuple[Any, ...]]:
        try:
            return super().through(text)
        except Exception as error:
            if found := re.search(r"Cannot rename Hadoop tables|view is not supported", str(error)):
                raise Refused(f"a Hadoop catalog: {found[0]}") from None
            raise

    def counts(self) -> Any:
        raise Refused("Java tells no counts")


class Plain(Java):
    """`spark.sql` of a client that knows nothing of Frazil."""

    name = "plain"


class Connect(Sql):
    """`spark.sql` of a client with Frazil, whose server knows nothing of it. Tables are made, and
    rows appended, by Frazil's own methods.
    """

    name = "connect"

    def through(self, text: str) -> list[tuple[Any, ...]]:
        from sqlglot import exp, parse_one

        import frazil
        from frazil.errors import Unsupported

        if made := re.fullmatch(r"CREATE NAMESPACE (\w+)\.(\w+)", text):
            self.catalog = frazil.load_catalog(made[1], type="path", warehouse=self.warehouse)
            self.catalog.create_namespace(made[2])
            return []
        if re.match(r"CREATE TABLE \S+ \(.*\) USING iceberg", text):
            tree = parse_one(text, dialect="spark")
            facts = {"partitioned": "", "properties": {}}
            for fact in tree.args["properties"].expressions:
                if type(fact) is exp.Property:
                    facts["properties"][fact.name] = fact.args["value"].name
                elif not isinstance(fact, exp.FileFormatProperty):
                    facts["partitioned"] = fact.this
            columns = ", ".join(c.sql(dialect="spark") for c in tree.this.expressions)
            terms = getattr(facts["partitioned"], "expressions", ())
            if any(not re.fullmatch(r"\w+", t.sql()) for t in terms) or "COMMENT" in columns:
                raise Refused("the client makes tables of plain columns alone")
            self.catalog.create_table(
                self._name(tree.this.this),
                columns.replace(":", ": ") if "STRUCT" in columns else columns,
                partition_by=[t.sql() for t in terms] or None,
                properties=facts["properties"],
            )
            return []
        if found := re.match(r"INSERT INTO (?:TABLE )?(\S+)\s+(SELECT|VALUES)", text):
            table = self.catalog.load_table(found[1].partition(".")[2].partition(".branch_")[0])
            rows = self.spark.sql(text[found.start(2) :])
            rows = rows.toDF(*[f.name for f in table.schema().fields])
            branch = found[1].partition(".branch_")[2] or "main"
            table.append(rows, branch=branch)
            return []
        if found := re.match(r"(CREATE|SHOW|DESC|CALL|ALTER TABLE \S+ (SET TBL|ADD COL))", text):
            raise Refused(f"through Spark Connect there is no {found[1]}")
        try:
            return super().through(text)
        except Unsupported as error:
            raise Refused(str(error)) from None

    @property
    def warehouse(self) -> str:
        return str(self.spark.conf.get("spark.sql.catalog.cases_path.warehouse"))

    def _name(self, table: Any) -> str:
        return ".".join(part.name for part in table.parts[1:])


DOORS = {door.name: door for door in (Java, Plain, Connect)}


def answer(
    spark: Any, name: str, folder: str, file: str, number: int, kind: str, run: int
) -> dict[str, str]:
    """Play the case of a number in its file; return `right`, `refused` or `wrong` with the words."""
    for key, value in (settings_of(kind, Path(folder), name == "java") | QUICK).items():
        spark.conf.set(key, value)
    try:
        play(cases_of(file)[number], DOORS[name](spark), kind, Path(folder), run)
    except Refused as refused:
        return {"refused": str(refused)}
    except Exception as error:
        return {"wrong": f"{error}\n{traceback.format_exc()[-1500:]}"}
    return {"right": ""}


def main(name: str, address: str) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    from pyspark.sql import SparkSession

    if name == "connect":
        sys.path[:0] = [str(ROOT / "src")]
        import frazil

        os.environ["PYSPARK_PYTHON"] = sys.executable  # of the workers of the server that starts
        session = SparkSession.builder.remote("local[2]")
        spark = frazil.install(session.config("spark.sql.shuffle.partitions", "2").getOrCreate())
    else:
        spark = SparkSession.builder.remote(address).create()
        assert "frazil" not in sys.modules
    for line in sys.stdin:
        print(
            json.dumps(answer(spark, name, **json.loads(line)) | {"code": 0}),
            file=answers,
            flush=True,
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
