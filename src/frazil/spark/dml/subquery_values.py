"""Evaluate the sub-queries of row changes that do not depend on the row, such as `day >= (SELECT
min(day) FROM …)`, before files are planned: their values prune files, and often leave nothing that
is beyond Frazil's grammar.

What depends on the row, and IN with a sub-query, stays with Spark.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Any

from pyspark.sql import Column

from frazil.catalog.names import identifier_parts
from frazil.expr.double_quotes import columns_of, refuse_columns
from frazil.expr.nodes import Translated
from frazil.ops.session import Session
from frazil.spark.dml.analysis import named, nodes_of
from frazil.spark.dml.expression_checks import GivenExpression
from frazil.spark.dml.row_changes import metadata_columns_in, shadow
from frazil.spark.host.jvm import jvm_of
from frazil.spark.host.jvm_plans import analysed_plan
from frazil.spark.host.jvm_subqueries import with_constants
from frazil.spark.host.jvm_trees import bindings
from frazil.spec.metadata import TableMetadata

_MAY_HOLD_ONE = re.compile(r"\b(?:select|from|table|values)\b", re.IGNORECASE)


def evaluated(spark: Session, words: Sequence[Any]) -> list[Any] | None:
    """Return conditions and values of a statement with values in place of the sub-queries that do
    not depend on the row; None where there are none, and on Spark Connect. Raises ParseError for
    texts that are no expression, and Spark's errors of the sub-queries."""
    if jvm_of(spark) is None:
        return None
    columns = {
        n: word if isinstance(word, Column) else GivenExpression(word, "").checked(spark)
        for n, word in enumerate(words)
        if isinstance(word, Column) or (isinstance(word, str) and _MAY_HOLD_ONE.search(word))
    }
    constants = with_constants(spark, list(columns.values())) if columns else None
    if constants is None:
        return None
    exchanged = dict(zip(columns, constants, strict=True))
    return [exchanged.get(n, word) for n, word in enumerate(words)]


def evaluated_on(
    spark: Session, metadata: TableMetadata, words: Sequence[Any], alias: str
) -> list[Any] | None:
    """Return what `evaluated` does for conditions and values over a table's columns, in Frazil's nodes
    where these can say them. `alias`: by what name they call the table."""
    for word in words:
        refuse_columns(word, columns_of(metadata.schema()))
    if (values := evaluated(spark, words)) is None or metadata_columns_in(values, metadata):
        return values
    table = shadow(spark, metadata.schema())
    table = named(table, identifier_parts(alias)) if alias else table
    columns = {n: word for n, word in enumerate(values) if isinstance(word, Column)}
    bound = bindings(spark, analysed_plan(table))
    nodes = dict(zip(columns, nodes_of(table, list(columns.values()), bound), strict=True))
    return [
        word
        if (node := nodes.get(n)) is None
        else Translated(node, partial(columns.__getitem__, n))
        for n, word in enumerate(values)
    ]
