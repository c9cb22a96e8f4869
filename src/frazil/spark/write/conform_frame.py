"""Conform a Spark DataFrame to a table's schema: match columns by name, cast safely, fill in
defaults, refuse nulls in required columns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as s

from frazil.arrow.values.mismatch import Problem, hints, no_such_column
from frazil.errors import SchemaMismatch
from frazil.ops.session import Session
from frazil.spark.host.jvm_plans import with_names
from frazil.spark.scan.read_schema import column_of, remembered, renamed
from frazil.spark.types.safe_casts import castable, not_taken, safe_cast
from frazil.spark.types.spark_types import default_sql, spark_type
from frazil.spec import types as i
from frazil.spec.schema import Schema

# marks, in errors of Spark tasks, a message about a null in a required column
REQUIRED = "FRAZIL_REQUIRED: "
_CONDITION = "INCOMPATIBLE_DATA_FOR_TABLE."
_CONDITIONS = {
    "type": "CANNOT_SAFELY_CAST",
    "missing": "CANNOT_FIND_DATA",
    "ambiguous": "AMBIGUOUS_COLUMN_NAME",
    "unknown": "EXTRA_COLUMNS",
}


def conform(df: DataFrame, schema: Schema, *, case_sensitive: bool) -> DataFrame:
    """Return the frame with exactly the table's columns, in the table's order and types.

    Raises SchemaMismatch, which lists every mismatch: unsafe casts, columns that the table lacks,
    required columns that are missing. A null in a required column makes the job fail.
    """
    problems: list[Problem] = []
    spark, conformed = df.sparkSession, []
    # names may contain dots or differ only in case
    by_place = with_names(df, [f"c{n}" for n in range(len(df.columns))])
    for field, place in _matched(df.schema, schema.fields, case_sensitive, "", problems):
        if place is None:
            column = absent_column(field, problems, field.name)
            conformed.append(renamed(spark, column, field.name))
            continue
        name, have = f"c{place}", df.schema.fields[place].dataType
        plain = remembered(spark, name, partial(column_of, spark, name))
        column = _fit_type(plain, have, field.field_type, field.name, case_sensitive, problems)
        final = partial(_final, spark, column, field)
        conformed.append(
            remembered(spark, (name, field.name, field.required), final)
            if column is plain
            else final()
        )
    if problems:
        error = refused("The frame does", problems)
        error.facts["condition"] = _condition(df, schema, problems)
        raise error
    return by_place.select(*conformed)


def _condition(df: DataFrame, schema: Schema, problems: Sequence[Problem]) -> str:
    """Return Spark's condition for the problem that it would report: it counts the columns, goes
    through those of the table, and comes to the frame's others last.
    """
    if len(df.columns) > len(schema.fields):
        return "INSERT_COLUMN_ARITY_MISMATCH.TOO_MANY_DATA_COLUMNS"
    columns = set(df.columns)
    first = min(problems, key=lambda p: p.kind == "unknown" and p.column in columns)
    if first.kind == "unknown" and first.column not in columns:
        return _CONDITION + "EXTRA_STRUCT_FIELDS"
    return _CONDITION + _CONDITIONS[first.kind]


def _final(spark: Session, column: Column, f: i.NestedField) -> Column:
    return renamed(spark, _refusing_null(column, f.name) if f.required else column, f.name)


def refused(subject: str, problems: Sequence[Problem]) -> SchemaMismatch:
    """Return a SchemaMismatch with a line per problem. `subject`: how the message begins, "The
    frame does" or "The new values do".
    """
    lines = "\n".join(f"  {p.column}: {p.text}" for p in problems)
    return SchemaMismatch(
        f"{subject} not fit the table:\n{lines}\n",
        hint=hints(problems),
        columns=[p.column for p in problems],
    )


def _matched(
    have: s.StructType,
    want: tuple[i.NestedField, ...],
    case_sensitive: bool,
    path: str,
    problems: list[Problem],
) -> list[tuple[i.NestedField, int | None]]:
    """Pair each wanted field with the place of the frame's column, None where it is missing; report
    names that are ambiguous or unknown.
    """

    exact, in_any_case = (defaultdict[str, list[int]](list) for _ in range(2))
    for n, f in enumerate(have.fields):
        exact[f.name].append(n)
        in_any_case[f.name.lower()].append(n)

    def places(name: str) -> list[int]:
        of_other_case = [] if case_sensitive else in_any_case.get(name.lower(), [])
        return exact.get(name) or of_other_case

    pairs: list[tuple[i.NestedField, int | None]] = []
    used: set[int] = set()
    for field in want:
        matching = [
            place
            for place in places(field.name)
            if place not in used or have.fields[place].name == field.name
        ]
        if len(matching) > 1:
            text = f"{len(matching)} columns of the frame have this name"
            problems.append(
                Problem(
                    path + field.name,
                    "",
                    str(field.field_type),
                    text,
                    "Rename all but one of them.",
                    "ambiguous",
                )
            )
        pairs.append((field, matching[0] if matching else None))
        used.update(matching)
    for place, other in enumerate(have.fields):
        if place not in used:
            near = no_such_column(
                path + other.name, other.dataType.simpleString(), [field.name for field in want]
            )
            problems.append(
                replace(
                    near,
                    text=near.text.replace(
                        "is no column of the table", "the table has no such column"
                    ),
                )
            )
    return pairs


def absent_column(field: i.NestedField, problems: list[Problem], path: str) -> Column:
    """Return the write default of a column that gets no value, else null. A required column without
    a default is a problem, and a default of a type that Spark lacks.
    """
    default = field.write_default
    if default is not None and (sql := default_sql(field.field_type, default)) is not None:
        return F.expr(sql)
    if field.required or default is not None:
        text = "required, and the frame has no such column"
        hint = "Required columns without a default need values."
        if default is not None:
            text = "absent in the frame, and its default has a type that Spark lacks"
            hint = "Append from Arrow or pandas."
        problems.append(Problem(path, "", str(field.field_type), text, hint, "missing"))
    return F.lit(None).cast(_type(field.field_type, path))


def fitted_column(
    c: Column,
    have: s.DataType,
    f: i.NestedField,
    path: str,
    case_sensitive: bool,
    problems: list[Problem],
) -> Column:
    """Convert a column to the type of a table's column, without a check that the column itself is
    not null. A type that does not fit is a problem."""
    return _fit_type(c, have, f.field_type, path, case_sensitive, problems)


def _type(type_: i.IcebergType, path: str) -> s.DataType:
    """Return the Spark type of a column. A column of a type that Spark lacks can only be absent,
    hence null; it gets a type whose nulls Arrow casts to the column's."""
    match type_:
        case i.TimestampNanoType():
            return s.TimestampNTZType()
        case i.TimestamptzNanoType():
            return s.TimestampType()
        case i.GeometryType() | i.GeographyType():
            return s.BinaryType()
        case i.UnknownType():
            return s.StringType()
        case i.StructType():
            return s.StructType(
                [
                    s.StructField(f.name, _type(f.field_type, f"{path}.{f.name}"))
                    for f in type_.fields
                ]
            )
        case i.ListType():
            return s.ArrayType(_type(type_.element_type, path))
        case i.MapType():
            return s.MapType(_type(type_.key_type, path), _type(type_.value_type, path))
    return spark_type(type_, path, time=True)


def _fit(
    c: Column,
    have: s.DataType,
    f: i.NestedField,
    path: str,
    case_sensitive: bool,
    problems: list[Problem],
) -> Column:
    """Convert a column to the type of a field; a null fails the job where the field is required."""
    fitted = _fit_type(c, have, f.field_type, path, case_sensitive, problems)
    return _refusing_null(fitted, path) if f.required else fitted


def _refusing_null(c: Column, path: str) -> Column:
    message = F.lit(f"{REQUIRED}column {path} is required, and a row has null in it")
    return F.coalesce(c, F.raise_error(message))


def _fit_type(
    c: Column,
    have: s.DataType,
    want: i.IcebergType,
    path: str,
    case_sensitive: bool,
    problems: list[Problem],
) -> Column:
    """Convert a column to a type, member by member and element by element; columns that need no
    change are passed as they are.
    """
    match want, have:
        case i.StructType(), s.StructType():
            pairs = _matched(have, want.fields, case_sensitive, f"{path}.", problems)
            if _unchanged(have, want) and not _requires(want):
                return c
            inside = []
            for f, place in pairs:
                name = f"{path}.{f.name}"
                part = absent_column(f, problems, name) if place is None else None
                if place is not None:
                    source = have.fields[place]
                    part = _fit(
                        c.getField(source.name),
                        source.dataType,
                        f,
                        name,
                        case_sensitive,
                        problems,
                    )
                assert part is not None
                inside.append(part.alias(f.name))
            return F.when(c.isNotNull(), F.struct(*inside))
        case i.ListType(), s.ArrayType():
            if _unchanged(have, want) and not _requires(want):
                return c
            element = want.element_field
            # reports what does not fit
            _fit(
                F.lit(None),
                have.elementType,
                element,
                f"{path}.element",
                case_sensitive,
                problems,
            )
            return F.transform(
                c,
                lambda e: _fit(e, have.elementType, element, f"{path}.element", case_sensitive, []),
            )
        case i.MapType(), s.MapType():
            if _unchanged(have, want) and not _requires(want):
                return c
            key, value = want.key_field, want.value_field
            for kind, inner, name in ((have.keyType, key, "key"), (have.valueType, value, "value")):
                _fit(F.lit(None), kind, inner, f"{path}.{name}", case_sensitive, problems)
            c = F.transform_values(
                c,
                lambda _, v: _fit(v, have.valueType, value, f"{path}.value", case_sensitive, []),
            )
            if _unchanged(have.keyType, want.key_type):
                return c
            return F.transform_keys(
                c,
                lambda k, _: _fit_type(
                    k, have.keyType, want.key_type, f"{path}.key", case_sensitive, []
                ),
            )
    if not castable(have, want):
        problems.append(not_taken(have, want, path, "cannot be written as"))
        return c
    target = _type(want, path)
    return c if have == target else safe_cast(c, have, target, path)


def _unchanged(have: s.DataType, want: i.IcebergType) -> bool:
    """Return whether values need no conversion: same names of members in the same order, same
    types.
    """
    match want, have:
        case i.StructType(), s.StructType():
            same = [f.name for f in have.fields] == [f.name for f in want.fields]
            return same and all(
                _unchanged(a.dataType, b.field_type)
                for a, b in zip(have.fields, want.fields, strict=True)
            )
        case i.ListType(), s.ArrayType():
            return _unchanged(have.elementType, want.element_type)
        case i.MapType(), s.MapType():
            return _unchanged(have.keyType, want.key_type) and _unchanged(
                have.valueType, want.value_type
            )
    return not i.children(want) and castable(have, want) and have == _type(want, "")


def _requires(type_: i.IcebergType) -> bool:
    """Return whether a type has required members, elements or map values, which must be checked for
    nulls.
    """
    inside = i.children(type_)[1:] if isinstance(type_, i.MapType) else i.children(type_)
    return any(f.required or _requires(f.field_type) for f in inside)
