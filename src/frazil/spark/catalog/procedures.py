"""Serve procedures to Spark's CALL: what it asks for their parameters, binds the arguments to, and
shows of their results.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from py4j.java_gateway import JavaObject
from pyspark.sql import types as s

from frazil.errors import InvalidInput, Unsupported
from frazil.maintain.procedures import BY_NAME, PROCEDURES, Procedure
from frazil.ops.session import Session
from frazil.spark.catalog.proxy import ScanProxy, SparkProxy, remembering
from frazil.spark.host import jvm_functions
from frazil.spark.host.jvm import implementing
from frazil.spark.host.jvm_catalog import CATALOG, CONNECTOR, CatalogTypes
from frazil.spark.types.arrow_types import arrow_schema, fitted

SYSTEM = "system"
Run = Callable[[Procedure, Mapping[str, Any]], pa.Table]
"""Run a procedure with its arguments, and return its output columns."""


def procedure_of(parts: tuple[str, ...]) -> Procedure | None:
    """Return the procedure of a name, which is in the namespace `system`. None: there is none."""
    return BY_NAME.get(parts[-1].lower()) if [p.lower() for p in parts[:-1]] == [SYSTEM] else None


def procedure_names(namespace: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return the names of the procedures in a namespace."""
    return (
        [(SYSTEM, p.name) for p in PROCEDURES] if [n.lower() for n in namespace] == [SYSTEM] else []
    )


class _Described(SparkProxy):
    """Name a procedure."""

    def __init__(self, types: CatalogTypes, spark: Session, run: Run, procedure: Procedure):
        super().__init__(types, procedure.name)
        self._spark, self._run, self._procedure = spark, run, procedure

    def name(self) -> str:
        return self._procedure.name

    def description(self) -> str:
        return self._procedure.text


class UnboundProcedure(_Described):
    """Stand for a procedure whose arguments Spark has not looked at."""

    Java = implementing(CATALOG + "procedures.UnboundProcedure")

    def bind(self, inputs: JavaObject) -> Any:
        bound = BoundProcedure(self.types, self._spark, self._run, self._procedure)
        return remembering(self._spark, bound)


class BoundProcedure(_Described):
    """Take the arguments of a procedure, run it, and return its rows."""

    Java = implementing(CATALOG + "procedures.BoundProcedure")

    def isDeterministic(self) -> bool:
        return False

    def parameters(self) -> Any:
        described = [(p.name, p.kind, p.required) for p in self._procedure.parameters]
        return jvm_functions.parameters(self.types, described)

    def call(self, row: JavaObject) -> Any:
        parameters = self._procedure.parameters
        values = jvm_functions.arguments(row, [p.kind for p in parameters])
        arguments = {p.name: value for p, value in zip(parameters, values, strict=True)}
        for name in (p.name for p in parameters if p.required and arguments[p.name] is None):
            raise InvalidInput(f"Parameter '{name}' is not set", option=name)
        for name, value in arguments.items():
            if isinstance(value, list) and None in value:
                text = f"Parameter {name} of {self._procedure.name} has a null among its values."
                raise InvalidInput(text, option=name)
        table = self._run(self._procedure, arguments)
        rows = ProcedureRows(self.types, self._spark, self._procedure, table)
        return jvm_functions.iterator_over(self.types.jvm, rows)


class ProcedureRows(ScanProxy):
    """Hold the rows of a procedure's result."""

    Java = implementing(CONNECTOR + "read.LocalScan")

    def __init__(self, types: CatalogTypes, spark: Session, procedure: Procedure, table: pa.Table):
        super().__init__(types, spark, f"{procedure.name} result", _struct(procedure))
        self._table = table

    def rows(self) -> Any:
        types, sink = arrow_schema(self._schema), io.BytesIO()
        with pa.ipc.new_stream(sink, types) as stream:
            for batch in self._table.to_batches():
                stream.write_batch(fitted(batch, types))
        return jvm_functions.rows(self._spark, sink.getvalue(), self._schema)

    def toBatch(self) -> Any:
        raise Unsupported("The rows of a procedure are in the driver; they are no batch.")

    def toMicroBatchStream(self, checkpoint: str) -> Any:
        raise Unsupported("The rows of a procedure are no stream.")

    def toContinuousStream(self, checkpoint: str) -> Any:
        raise Unsupported("The rows of a procedure are no stream.")


_TYPES: Mapping[str, s.DataType] = {
    "STRING": s.StringType(),
    "INT": s.IntegerType(),
    "BIGINT": s.LongType(),
    "DOUBLE": s.DoubleType(),
}


def _struct(procedure: Procedure) -> s.StructType:
    return s.StructType(
        [s.StructField(c.name, _TYPES[c.kind], c.nullable) for c in procedure.columns]
    )
