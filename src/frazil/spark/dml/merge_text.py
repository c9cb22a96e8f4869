"""Translate a MERGE given by Columns to one given by texts, where Frazil's own grammar covers all
of it: then tasks match the rows, and Spark shuffles no row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pyspark.sql import Column, DataFrame

from frazil.catalog.names import identifier_parts
from frazil.rows.clauses import Merge, When
from frazil.spark.dml.analysis import as_input, expression, named, texts_of
from frazil.spark.dml.row_changes import metadata_columns_in, shadow
from frazil.spark.host.jvm import is_classic
from frazil.spec.metadata import TableMetadata

TARGET, SOURCE = "target", "source"


def as_texts(frame: DataFrame, metadata: TableMetadata, merge: Merge) -> Merge | None:
    """Return the same MERGE with its columns called `target.…` and `source.…`; None where part of
    it is beyond the grammar, has no text, or may name metadata columns, and on Spark Connect.

    Raises InvalidInput for what Spark's analyser cannot resolve.
    """
    if not is_classic(frame) or len({c.lower() for c in frame.columns}) < len(frame.columns):
        return None
    if metadata_columns_in(merge.words, metadata):
        return None
    empty = shadow(frame.sparkSession, metadata.schema())
    target = named(empty, identifier_parts(merge.target_alias))
    with as_input():
        joined = target.join(frame, expression(merge.on))
    sides = {When.MATCHED: joined, When.NOT_MATCHED: frame, When.NOT_MATCHED_BY_SOURCE: target}
    texts_by_kind = {}
    for when in When:
        columns = [
            v
            for c in merge.of(when)
            for v in (c.condition, *(x for _, x in c.assignments))
            if isinstance(v, Column)
        ]
        texts = texts_of(sides[when], columns, {TARGET: target, SOURCE: frame})
        if None in texts:
            return None
        texts_by_kind[when] = iter(texts)
    on = texts_of(joined, [expression(merge.on)], {TARGET: target, SOURCE: frame})[0]
    if on is None:
        return None
    clauses = tuple(
        replace(
            c,
            condition=_next(c.condition, texts_by_kind[c.when]),
            assignments=tuple((k, _next(v, texts_by_kind[c.when])) for k, v in c.assignments),
        )
        for c in merge.clauses
    )
    return replace(merge, on=on, clauses=clauses, target_alias=TARGET, source_alias=SOURCE)


def _next(value: object, texts: Iterator[str | None]) -> object:
    """Return the next text in place of a Column, other values as they are."""
    return next(texts) if isinstance(value, Column) else value
