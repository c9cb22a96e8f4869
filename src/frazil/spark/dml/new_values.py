"""Compute new values of rows as Spark columns: the expressions of SET and VALUES, converted to the
types of the table's columns by the rules of `arrow.write.store`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as s

from frazil.arrow.values.mismatch import Problem
from frazil.arrow.write.store import Origin, assignable, constant_of, origin_of
from frazil.errors import (
    EvaluationError,
    InvalidInput,
    SchemaMismatch,
    Unsupported,
    ValidationError,
)
from frazil.expr.literals import typed_literal
from frazil.expr.nodes import Literal, Translated
from frazil.rows.assign import (
    INVALID_ASSIGNMENTS,
    as_expression,
    meant_as_constant,
    refuse_element,
    refuse_partial,
)
from frazil.spark.dml.analysis import analysed, bound_to, expression
from frazil.spark.dml.expression_checks import GivenExpression
from frazil.spark.host.jvm import is_classic
from frazil.spark.host.jvm_plans import subqueries_of
from frazil.spark.types.safe_casts import castable, misfit, not_taken
from frazil.spark.types.spark_types import from_spark, spark_type
from frazil.spark.write.conform_frame import absent_column, fitted_column, refused
from frazil.spec import types as i
from frazil.spec.schema import Schema

_VALUE_ERRORS = (
    "ArithmeticException",
    "NumberFormatException",
    "DateTimeException",
    "ArrayIndexOutOfBoundsException",
)
# marks, in errors of Spark tasks, a message about a value that overflows its column
OVERFLOW = "FRAZIL_OVERFLOW: "
_WIDTH = {
    s.ByteType: 1,
    s.ShortType: 2,
    s.IntegerType: 3,
    s.LongType: 4,
    s.FloatType: 5,
    s.DoubleType: 6,
}


@dataclass(frozen=True)
class Matched:
    """Hold a source column that is assigned to the target column of its name (`UPDATE *`, `INSERT
    *`).
    """

    column: Column


@dataclass(frozen=True)
class Given:
    """Hold assignments: (fields from the top-level column down, expression); the text "DEFAULT" is
    an expression, too.

    `structs`: by field id, the struct of the source whose members are assigned to that of the
    target (`UPDATE *` with schema evolution); null in both is null in the new rows.
    """

    pairs: tuple[tuple[tuple[i.NestedField, ...], Any], ...] = ()
    structs: Mapping[int, Column] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        schema: Schema,
        assignments: Sequence[tuple[str, Any]],
        case_sensitive: bool,
        prefixes: Sequence[str] = (),
    ) -> Given:
        """Resolve assignments by column name, by the full name of a struct member, or by a name led
        by one of `prefixes`.

        Raises InvalidInput for unknown columns and for columns that are assigned twice.
        """
        pairs: list[tuple[tuple[i.NestedField, ...], Any]] = []
        seen: dict[int, str] = {}
        for name, value in assignments:
            path = _path(schema, name, case_sensitive, prefixes)
            for column in path:
                if (other := seen.get(column.field_id)) is not None:
                    raise InvalidInput(
                        f"Multiple assignments for '{name}': it is set more than once (see {other}).",
                        column=name,
                        condition=INVALID_ASSIGNMENTS,
                    )
            if any(path[-1] in other_path for other_path, _ in pairs):
                raise InvalidInput(
                    f"Conflicting assignments for '{name}': it is set together with a member of it.",
                    column=name,
                    condition=INVALID_ASSIGNMENTS,
                )
            seen[path[-1].field_id] = name
            pairs.append((path, value))
        return cls(tuple(pairs))


def _path(
    schema: Schema, name: str, case_sensitive: bool, prefixes: Sequence[str]
) -> tuple[i.NestedField, ...]:
    """Return the fields that lead to a column or struct member. Raises InvalidInput for unknown
    names and those inside lists and maps.
    """
    plain = name.replace("`", "")
    candidates = [
        plain,
        *(plain[len(p) + 1 :] for p in prefixes if plain.lower().startswith(f"{p.lower()}.")),
    ]
    for candidate in candidates:
        if (f := schema.get_field(candidate, case_sensitive)) is not None:
            path = (*(schema.by_id[p] for p in schema.parents[f.field_id]), f)
            if all(isinstance(p.field_type, i.StructType) for p in path[:-1]):
                return path
        # Spark calls the members of a list's structs without naming the element
        ends = [n for n, character in enumerate(candidate) if character == "."]
        around = (schema.get_field(candidate[:end], case_sensitive) for end in ends)
        if any(f is not None and isinstance(f.field_type, i.ListType | i.MapType) for f in around):
            text = f"{name}: Updating nested fields is only supported for StructType; it lies inside a list or map."
            raise InvalidInput(text, column=name)
    refuse_element(schema, (plain,), case_sensitive)
    names = ", ".join(f.name for f in schema.fields)
    raise InvalidInput(
        f"The table has no column {name!r}.", hint=f"Its columns: {names}.", column=name
    )


@dataclass
class NewColumns:
    """Compute the columns of new rows.

    `frame`: resolves the names in expressions. `old`: the columns of the old rows by field id, None
    for inserts. `time`: whether the session has the type TIME. `whole`: a new value of a struct
    must have all members; otherwise the missing ones take their write default or null.
    """

    frame: DataFrame
    schema: Schema
    old: Mapping[int, Column] | None
    case_sensitive: bool
    time: bool
    whole: bool = True
    problems: list[Problem] = field(default_factory=list)

    def columns(self, given: Given) -> list[Column]:
        """Return a column for each column of the table, in its type.

        Raises InvalidInput for wrong expressions, SchemaMismatch, which lists every mismatch, for
        values that do not fit.
        """
        expressions = [(path, v) for path, v in given.pairs if not _is_default(v)]
        read = [_read(v, path) for path, v in expressions]
        bound = self._bound(expressions, [column for column, _ in read])
        types, repeatable = self._types(bound)
        assigned = {
            path[-1].field_id: self._fit(c, t, path, origin, again)
            for (path, _), c, t, (_, origin), again in zip(
                expressions, bound, types, read, repeatable, strict=True
            )
        }
        for path, _ in given.pairs:
            if path[-1].field_id not in assigned:
                assigned[path[-1].field_id] = absent_column(path[-1], self.problems, _name(path))
        old = self.old
        structs = (
            dict(
                zip(given.structs, bound_to(self.frame, list(given.structs.values())), strict=True)
            )
            if given.structs
            else {}
        )
        columns = [
            self._column(f, assigned, structs, None if old is None else old[f.field_id], f.name)
            for f in self.schema.fields
        ]
        if self.problems:
            raise refused("The new values do", self.problems)
        return columns

    def _types(self, bound: Sequence[Column]) -> tuple[list[s.DataType], list[bool]]:
        """Return the types of values, and whether each holds a sub-query: Spark computes that once,
        however often it is named, and allows none within functions such as `transform`."""
        if not bound:
            return [], []
        chosen = analysed(self.frame, bound)
        types = [f.dataType for f in chosen.schema.fields]
        if not is_classic(self.frame):
            return types, [False] * len(types)
        return types, subqueries_of(chosen)

    def _bound(
        self,
        expressions: Sequence[tuple[tuple[i.NestedField, ...], Any]],
        columns: Sequence[Column],
    ) -> list[Column]:
        """Resolve the expressions against the frame. Raises InvalidInput that names the column
        whose value is wrong.
        """
        try:
            return bound_to(self.frame, columns)
        except InvalidInput:
            for (path, value), column in zip(expressions, columns, strict=True):
                try:
                    bound_to(self.frame, [column])
                except ValidationError as e:
                    raise (
                        meant_as_constant(e, _name(path), value) if isinstance(value, str) else e
                    ) from e
                except InvalidInput as e:
                    raise InvalidInput(
                        f"Column {_name(path)}: {e.message}", hint=e.hint, column=_name(path)
                    ) from e
            raise

    def _column(
        self,
        column: i.NestedField,
        assigned: Mapping[int, Column],
        structs: Mapping[int, Column],
        old: Column | None,
        name: str,
    ) -> Column:
        """Return the new value of a column: assigned, rebuilt from assigned members, the old one,
        or the write default.
        """
        if column.field_id in assigned:
            return assigned[column.field_id]
        if isinstance(column.field_type, i.StructType) and _is_assigned_in(
            column.field_type, assigned
        ):
            inside = [
                self._column(
                    m,
                    assigned,
                    structs,
                    None if old is None else old.getField(m.name),
                    f"{name}.{m.name}",
                ).alias(m.name)
                for m in column.field_type.fields
            ]
            # the struct itself is not null, as in Spark, unless it comes from a struct of the
            # source
            whole = F.struct(*inside)
            of_source = structs.get(column.field_id)
            return (
                whole
                if of_source is None or old is None
                else F.when(of_source.isNotNull() | old.isNotNull(), whole)
            )
        return absent_column(column, self.problems, name) if old is None else old

    def _fit(
        self,
        c: Column,
        have: s.DataType,
        path: tuple[i.NestedField, ...],
        origin: Origin,
        again: bool,
    ) -> Column:
        """Convert a value to the type of its column, by the rules for how it was given; what does
        not fit is added to the problems. `again`: the value may be named several times."""
        want, name = path[-1], _name(path)
        if self.whole and (iceberg_type := _known(have)) is not None:
            refuse_partial(iceberg_type, want.field_type, name, self.case_sensitive)
        if i.children(want.field_type) or origin is Origin.BY_NAME or isinstance(have, s.NullType):
            return fitted_column(c, have, want, name, self.case_sensitive, self.problems)
        if have == _type_in_spark(want.field_type, self.time):
            return c
        nested = isinstance(have, s.ArrayType | s.MapType | s.StructType | s.VariantType)
        if nested or not (
            castable(have, want.field_type) or _assignable(have, want.field_type, origin)
        ):
            self.problems.append(not_taken(have, want.field_type, name, "cannot be assigned to"))
            return c
        to = spark_type(want.field_type, name, time=self.time)
        return _checked(c, to, name, again) if _may_overflow(have, to) else c.cast(to)


def given_expressions(given: Given) -> list[GivenExpression]:
    """Return the expressions among assignments, to be checked."""
    return [
        GivenExpression(v, f"Column {_name(path)}", _name(path))
        for path, v in given.pairs
        if not _is_default(v)
    ]


def _type_in_spark(want: i.IcebergType, time: bool) -> s.DataType | None:
    """Return the Spark type of a column; None where Spark has none."""
    try:
        return spark_type(want, time=time)
    except Unsupported:
        return None


def _read(value: object, path: Sequence[i.NestedField]) -> tuple[Column, Origin]:
    """Return a value as a Column, and how it was given. Python constants are converted to the type
    of their column here.
    """
    if isinstance(value, Matched):
        return value.column, Origin.BY_NAME
    if isinstance(value, Column):
        return value, Origin.EXPRESSION
    if isinstance(value, Translated):
        return expression(value), origin_of(value, value.node)
    if isinstance(value, str):
        return expression(value), _origin(value)
    if not isinstance(value, list | tuple | dict | set):
        literal = as_expression(value)
        origin = origin_of(value, literal)
        if origin is Origin.CONSTANT and isinstance(literal, Literal) and literal.value is not None:
            constant = constant_of(
                literal.value, typed_literal(literal.value).type, path[-1], _name(path)
            )
            return expression(Literal(constant.value, constant.type)), Origin.LITERAL
        return expression(value), origin
    return expression(value), Origin.EXPRESSION


def _origin(text: str) -> Origin:
    """Return whether a text is a literal or an expression by Frazil's grammar; a text beyond the
    grammar is an expression of Spark.
    """
    try:
        return origin_of(text, as_expression(text))
    except InvalidInput:
        return Origin.EXPRESSION


def _is_default(value: object) -> bool:
    """Return whether a value is the keyword DEFAULT."""
    return isinstance(value, str) and value.strip().upper() == "DEFAULT"


def _name(path: Sequence[i.NestedField]) -> str:
    """Return the full name of a column or struct member."""
    return ".".join(f.name for f in path)


def _is_assigned_in(type_: i.StructType, assigned: Mapping[int, Column]) -> bool:
    """Return whether a member of a struct is assigned, at any depth."""
    return any(
        f.field_id in assigned
        or (isinstance(f.field_type, i.StructType) and _is_assigned_in(f.field_type, assigned))
        for f in type_.fields
    )


def _known(have: s.DataType) -> i.IcebergType | None:
    """Return the Iceberg type for a Spark type; None where there is none."""
    try:
        return from_spark(s.StructType([s.StructField("x", have)])).fields[0].field_type
    except Exception:
        return None


def _assignable(have: s.DataType, want: i.IcebergType, origin: Origin) -> bool:
    """Return whether values of a Spark type may be assigned, by the rules for how they were given."""
    iceberg_type = _known(have)
    return iceberg_type is not None and assignable(iceberg_type, want, origin)


def _may_overflow(have: s.DataType, to: s.DataType) -> bool:
    """Return whether a cast between numeric types may overflow."""
    if isinstance(have, s.NumericType) and isinstance(to, s.NumericType):
        a, b = _WIDTH.get(type(have)), _WIDTH.get(type(to))
        return a is None or b is None or a > b
    return False


def _checked(c: Column, to: s.DataType, name: str, again: bool) -> Column:
    """Cast a value, or fail with an error that names the column. Unless it may be named `again`,
    the value goes through `transform` of an array of one element, so that Spark computes it once
    although the check uses it several times."""

    def cast_or_fail(x: Column) -> Column:
        text = F.concat(
            F.lit(f"{OVERFLOW}Column {name}: the value "),
            x.cast("string"),
            F.lit(f" does not fit its type {to.simpleString()}"),
        )
        return F.when(
            x.isNotNull() & x.try_cast(to).isNull(), F.raise_error(text).cast(to)
        ).otherwise(x.try_cast(to))

    return cast_or_fail(c) if again else F.transform(F.array(c), cast_or_fail).getItem(0)


def failed(error: BaseException) -> EvaluationError | SchemaMismatch | None:
    """Return the error for a job that failed because of a value that did not fit or could not be
    computed; None for other failures.
    """
    text = str(error)
    if (mismatch := misfit(text)) is not None:
        return mismatch
    begin = text.find(OVERFLOW)
    if begin < 0:
        if type(error).__name__ not in _VALUE_ERRORS or not text:
            return None
        of_spark: Any = error
        parameters = of_spark.getMessageParameters() or {}
        facts = {"condition": of_spark.getCondition()}
        if "targetType" in parameters:
            facts["type"] = parameters["targetType"].strip('"').lower()
        return EvaluationError(text.splitlines()[0], **facts)
    message = (
        text[begin + len(OVERFLOW) :].split(". SQLSTATE")[0].split(" SQLSTATE")[0].splitlines()[0]
    )
    return EvaluationError(f"{message}.", condition="CAST_OVERFLOW_IN_TABLE_INSERT")
