"""Translate a MERGE given by Columns to one of Frazil's nodes, where these can say all of it: then
tasks match the rows, and Spark shuffles no row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pyspark.sql import Column, DataFrame

from frazil.catalog.names import identifier_parts
from frazil.rows.clauses import Merge, When
from frazil.spark.dml.analysis import as_input, expression, named, nodes_of
from frazil.spark.dml.row_changes import metadata_columns_in, shadow
from frazil.spark.host.jvm import is_classic
from frazil.spark.host.jvm_plans import analysed_plan
from frazil.spark.host.jvm_trees import bindings
from frazil.spec.metadata import TableMetadata

TARGET, SOURCE = "target", "source"


def in_nodes(frame: DataFrame, metadata: TableMetadata, merge: Merge) -> Merge:
    """Return the same MERGE with its columns called `target.…` and `source.…`; as it is where part
    of it is Spark's to evaluate, or may name metadata columns, and on Spark Connect.

    Raises InvalidInput for what Spark's analyser cannot resolve.
    """
    if not is_classic(frame) or metadata_columns_in(merge.words, metadata):
        return merge
    spark, empty = frame.sparkSession, shadow(frame.sparkSession, metadata.schema())
    target = named(empty, identifier_parts(merge.target_alias))
    with as_input():
        joined = target.join(frame, expression(merge.on))
    columns = {
        **bindings(spark, analysed_plan(target), TARGET),
        **bindings(spark, analysed_plan(frame), SOURCE),
    }
    (on,) = nodes_of(joined, [expression(merge.on)], columns)
    if on is None:
        return merge
    sides = {When.MATCHED: joined, When.NOT_MATCHED: frame, When.NOT_MATCHED_BY_SOURCE: target}
    by_kind = {}
    for when in When:
        of_kind = [
            v
            for c in merge.of(when)
            for v in (c.condition, *(x for _, x in c.assignments))
            if isinstance(v, Column)
        ]
        nodes = nodes_of(sides[when], of_kind, columns)
        if None in nodes:
            return merge
        by_kind[when] = iter(nodes)
    clauses = tuple(
        replace(
            c,
            condition=_next(c.condition, by_kind[c.when]),
            assignments=tuple((k, _next(v, by_kind[c.when])) for k, v in c.assignments),
        )
        for c in merge.clauses
    )
    return replace(
        merge,
        on=on,
        clauses=clauses,
        target_alias=TARGET,
        source_alias=SOURCE,
        native=lambda: merge,
    )


def _next(value: object, nodes: Iterator[object]) -> object:
    """Return the next node in place of a Column, other values as they are."""
    return next(nodes) if isinstance(value, Column) else value
