"""Bind expressions to a schema: resolve columns to field ids, type every node, cast as Spark's ANSI
mode does, fold constants.

Errors: ValidationError for a column that does not exist, InvalidInput for types that cannot be
combined (it names both) and for columns in double quotes, Unsupported for a function that is not in
`functions`, EvaluationError for a constant that fails (`CAST('x' AS int)`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from frazil.errors import EvaluationError, InvalidInput, Unsupported, ValidationError
from frazil.expr import nodes as n
from frazil.expr.bound import (
    BOOLEAN,
    FALSE,
    NULL,
    TRUE,
    Bound,
    BoundAnd,
    BoundCall,
    BoundCast,
    BoundLiteral,
    BoundNot,
    BoundOr,
    BoundReference,
    Comparison,
    Constant,
    LikeTest,
    Membership,
    NaNTest,
    NullTest,
    PrefixTest,
    references,
    walk,
)
from frazil.expr.calendar import NoTime, check_zone
from frazil.expr.casts import castable
from frazil.expr.coerce import common_type, comparable
from frazil.expr.compute import can_fail, evaluate_constant
from frazil.expr.double_quotes import ColumnOf, columns_of, refuse_column
from frazil.expr.functions.by_name import find_function, function_names
from frazil.expr.functions.numbers import ARITHMETIC
from frazil.expr.functions.text import pattern_pieces
from frazil.expr.literals import typed_literal
from frazil.expr.rewrite import limits, rewritten
from frazil.expr.tokens import SPARK_CAN
from frazil.expr.values import FLOATS, INTEGERS
from frazil.spec.schema import METADATA_COLUMNS, Schema
from frazil.spec.types import (
    BinaryType,
    BooleanType,
    DecimalType,
    DoubleType,
    FieldsByName,
    FixedType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StringType,
    StructType,
    UnknownType,
)

_OPS: dict[type, tuple[str, bool]] = {
    n.EqualTo: ("eq", False), n.NotEqualTo: ("eq", True), n.LessThan: ("lt", False), n.LessThanOrEqual: ("le", False),
    n.GreaterThan: ("gt", False), n.GreaterThanOrEqual: ("ge", False), n.NullSafeEqualTo: ("nseq", False),
}  # fmt: skip
_BYTES = (BinaryType, FixedType)
_FLIPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "nseq": "nseq"}

# Spark calls these functions without parentheses, unless a column has the name.
_FUNCTIONS_AS_WORDS = {
    "current_date",
    "current_time",
    "current_timestamp",
    "current_user",
    "localtimestamp",
    "session_user",
    "user",
}


def bind(
    predicate: n.Expression,
    schema: Schema,
    *,
    case_sensitive: bool = True,
    zone: str = "UTC",
    ansi: bool = True,
    spark: bool = False,
    column_of: ColumnOf | None = None,
) -> Bound:
    """Bind a predicate to `schema`. `zone` is the time zone of literals without one (UTC, or that
    of the Spark session).

    `ansi` False: the session has ANSI mode off, where failing casts, sums and functions give null;
    raises Unsupported for expressions whose result could then differ. `column_of`: finds the
    columns that texts in double quotes may name, if users do not type the names of `schema`.
    `spark`: there is a session that can evaluate what Frazil refuses; raises Unsupported for what
    versions of Spark and Java evaluate differently.
    """
    try:
        check_zone(zone)
    except NoTime as e:
        raise InvalidInput(f"{zone!r} is not a time zone.") from e
    try:
        binder = _Binder(schema, case_sensitive, zone, spark, column_of or columns_of(schema))
        return binder.bound(partial(binder.condition, predicate), ansi)
    except RecursionError as e:
        raise InvalidInput("The filter is nested too deeply.") from e


def bind_term(
    term: n.Expression,
    schema: Schema,
    *,
    case_sensitive: bool = True,
    zone: str = "UTC",
    ansi: bool = True,
    spark: bool = False,
    column_of: ColumnOf | None = None,
) -> Bound:
    """Bind any expression, not only a predicate, such as the value of an assignment in UPDATE."""
    binder = _Binder(schema, case_sensitive, zone, spark, column_of or columns_of(schema))
    return binder.bound(partial(binder.term, term), ansi)


def _without_ansi(bind: Callable[[], Bound]) -> Bound:
    """Return what is bound. Constants are computed meanwhile: one that fails in ANSI mode has a
    value without it.
    """
    try:
        bound = bind()
        computes = any(isinstance(node, BoundCast | BoundCall) for node in walk(bound))
    except EvaluationError:
        computes = True
    if computes:
        text = "Frazil evaluates expressions as Spark's ANSI mode does, but spark.sql.ansi.enabled is false."
        raise Unsupported(
            text, hint="Set it to true, or compare columns with constants of their own types."
        )
    return bound


@dataclass(frozen=True)
class _Binder:
    schema: Schema
    case_sensitive: bool
    zone: str
    spark: bool
    column_of: ColumnOf

    def bound(self, bind: Callable[[], Bound], ansi: bool) -> Bound:
        """Run a method of this binder in a mode."""
        if not ansi:
            return _without_ansi(bind)
        try:
            return bind()
        except EvaluationError:
            # which Spark does not raise where what stands beside the constant is null
            self.leave_to_spark("a constant that fails")
            raise

    def condition(self, node: n.Expression) -> Bound:
        """Bind a node that gives TRUE, FALSE or NULL."""
        match node:
            case n.AlwaysTrue():
                return TRUE
            case n.AlwaysFalse():
                return FALSE
            case n.And(parts=parts):
                return conjunction(self.condition(p) for p in parts)
            case n.Or(parts=parts):
                return disjunction(self.condition(p) for p in parts)
            case n.Not(child=child):
                return negation(self.condition(child))
            case n.IsNull(term=term) | n.NotNull(term=term):
                test = _null_test(self.term(term))
                return negation(test) if isinstance(node, n.NotNull) else test
            case n.IsNaN(term=term) | n.NotNaN(term=term):
                test = self.is_nan(self.term(term))
                return negation(test) if isinstance(node, n.NotNaN) else test
            case n.In(term=term, literals=literals) | n.NotIn(term=term, literals=literals):
                test = self.member(self.term(term), [self.term(v) for v in literals])
                return negation(test) if isinstance(node, n.NotIn) else test
            case (
                n.StartsWith(term=term, literal=literal)
                | n.NotStartsWith(term=term, literal=literal)
            ):
                test = self.as_condition(
                    self.call("startswith", [self.term(term), self.term(literal)])
                )
                return negation(test) if isinstance(node, n.NotStartsWith) else test
            case n.Like(
                term=term,
                pattern=pattern,
                escape=escape,
                ignore_case=ignore_case,
                double_quoted=double_quoted,
            ):
                if double_quoted:
                    refuse_column(pattern, self.column_of)
                test = self.like(self.term(term), pattern, escape, ignore_case)
                return negation(test) if isinstance(node, n.NotLike) else test
        if type(node) in _OPS:
            op, negated = _OPS[type(node)]
            test = self.compare(op, self.term(node.term), self.term(node.literal))  # type: ignore[attr-defined]
            return negation(test) if negated else test
        return self.as_condition(self.term(node))

    def as_condition(self, term: Bound) -> Bound:
        match term:
            case BoundLiteral(value=None, type=UnknownType() | BooleanType()):
                return NULL
            case BoundLiteral(value=bool() as value):
                return Constant(value)
            case BoundCall(
                function="startswith",
                arguments=(tested, BoundLiteral(value=str() | bytes() as prefix)),
            ) if prefix:
                return PrefixTest(tested, prefix)  # which pruning can evaluate
            case (
                BoundReference(type=BooleanType())
                | BoundCast(type=BooleanType())
                | BoundCall(type=BooleanType())
            ):
                return Comparison("eq", term, BoundLiteral(True, BooleanType()))
        if isinstance(term.type, BooleanType):
            return term
        raise InvalidInput(
            f"{_shown(term)} is of type {term.type}, not boolean, and cannot be a filter."
        )

    def term(self, node: n.Expression) -> Bound:
        """Bind a node that gives a value."""
        match node:
            case n.Reference(name=name, parts=parts):
                return resolve(self.schema, name, parts, self.case_sensitive)
            case n.Literal(value=value, type=type_, double_quoted=double_quoted):
                if double_quoted:
                    refuse_column(value, self.column_of)
                return typed_literal(value, type_)
            case n.Cast(term=term, type=type_, attempt=attempt):
                return self.cast(self.term(term), type_, attempt)
            case n.Call(function="isnull" | "isnotnull" as function, arguments=(argument,)):
                return self.condition(
                    n.IsNull(argument) if function == "isnull" else n.NotNull(argument)
                )
            case n.Call(function="isnan", arguments=(argument,)):
                return self.condition(n.IsNaN(argument))
            case n.Call(function=function, arguments=arguments):
                literals = [isinstance(a, n.Literal) for a in arguments]
                return self.call(function, [self.term(a) for a in arguments], literals)
        condition = self.condition(node)
        return (
            BoundLiteral(condition.value, BooleanType())
            if isinstance(condition, Constant)
            else condition
        )

    def cast(self, term: Bound, type_: IcebergType, attempt: bool = False) -> Bound:
        if term.type == type_:
            return term
        if isinstance(term.type, FixedType) and isinstance(type_, BinaryType):  # the same bytes
            return BoundLiteral(term.value, type_) if isinstance(term, BoundLiteral) else term
        if not castable(term.type, type_):
            raise InvalidInput(f"Cannot cast {_shown(term)} of type {term.type} to {type_}.")
        has_digits = isinstance(type_, StringType | DecimalType) and isinstance(term.type, FLOATS)
        if has_digits or isinstance(type_, StringType) and isinstance(term.type, _BYTES):
            # Java 19 writes other digits than Java 17; Spark's texts may hold bytes that are no UTF-8
            self.leave_to_spark(f"a cast of {term.type} to {type_}")
        return fold(BoundCast(term, type_, self.zone, attempt))

    def leave_to_spark(self, what: str) -> None:
        """Raise Unsupported where there is a Spark that evaluates in its own way what others do not."""
        if self.spark:
            text = f"{what} is left to Spark, which evaluates it in its own way."
            raise Unsupported(text[0].upper() + text[1:], hint=SPARK_CAN)

    def compare(self, op: str, left: Bound, right: Bound) -> Bound:
        for side in (left, right):
            if not comparable(side.type):
                raise InvalidInput(
                    f"Values of type {side.type} cannot be compared: {_shown(left)} and {_shown(right)}."
                )
        common = common_type(left.type, right.type)
        if common is None:
            raise InvalidInput(
                f"Cannot compare {_shown(left)} of type {left.type} with {_shown(right)} of type {right.type}."
            )
        if _is_null(left) or _is_null(right):
            test = _null_test(self.cast(right if _is_null(left) else left, common))
            if op != "nseq" and not _is_null(left) and can_fail(test):
                # which raises what Spark raises of the left side
                return BoundCall("case", (test, BoundLiteral(None, BOOLEAN)), BOOLEAN)
            return test if op == "nseq" else NULL
        if isinstance(left, BoundLiteral) and not isinstance(right, BoundLiteral):
            return self.compare(_FLIPPED[op], right, left)
        if isinstance(right, BoundLiteral):
            right = self._near(left, right, common)
            if not isinstance(left, BoundLiteral) and (
                equivalent := self.rewritten(op, left, right, common)
            ):
                return equivalent
        return as_constant(Comparison(op, self.cast(left, common), self.cast(right, common)))

    def rewritten(
        self, op: str, column: Bound, literal: BoundLiteral, common: IcebergType
    ) -> Bound | None:
        """Rewrite a comparison to the column's own type; None when the column must be cast, as
        decimals that are rounded to the type they are compared as.
        """
        is_rounded = isinstance(common, DecimalType) and isinstance(column.type, DecimalType)
        if is_rounded and column.type.scale > common.scale:  # type: ignore[attr-defined]
            return None
        return rewritten(op, column, literal, self.zone)

    def _near(self, column: Bound, literal: BoundLiteral, common: IcebergType) -> BoundLiteral:
        """Cast a text literal to the type that it is compared as (`id = '5'`, `ts > '2026-01-01'`),
        and a decimal that this type rounds.
        """
        is_text = isinstance(literal.type, StringType) and not isinstance(common, StringType)
        if is_text or (isinstance(literal.type, DecimalType) and isinstance(common, DecimalType)):
            cast = self.cast(literal, common)
            assert isinstance(cast, BoundLiteral)
            return cast
        return literal

    def member(self, term: Bound, values: Sequence[Bound]) -> Bound:
        if any(not isinstance(item, BoundLiteral) for item in values) or isinstance(
            term, BoundLiteral
        ):
            common = self._common(term, values)
            term = self.cast(term, common)
            return disjunction(self.compare("eq", term, self.cast(v, common)) for v in values)
        common, literals = (
            self._common(term, values),
            [item for item in values if not _is_null(item)],
        )
        has_null = len(literals) < len(values)
        direct, cast_needed = [], False
        low, high = limits(term.type) if isinstance(term.type, INTEGERS) else (0, -1)
        for item in literals:
            assert isinstance(item, BoundLiteral)
            same = item.type == term.type == common
            if same or (
                isinstance(item.value, int)
                and isinstance(item.type, INTEGERS)
                and low <= item.value <= high
            ):
                # what `rewritten` would return, but faster, since lists can be long
                direct.append(item.value)
                continue
            item = self._near(term, item, common)
            match self.rewritten("eq", term, item, common):
                case Comparison(right=BoundLiteral(value=value)):
                    direct.append(value)
                case None:
                    cast_needed = cast_needed or term.type != common
                    direct.append(self.cast(item, common).value)  # type: ignore[attr-defined]
        if cast_needed:
            term = self.cast(term, common)
            direct = [self.cast(item, common).value for item in literals]  # type: ignore[attr-defined]
        if not direct and not has_null and not values:
            return FALSE
        return Membership(term, _sorted(direct), has_null)

    def _common(self, term: Bound, values: Sequence[Bound]) -> IcebergType:
        common = term.type
        for v in {v.type: v for v in values}.values():
            wider = (
                common_type(common, v.type) if comparable(common) and comparable(v.type) else None
            )
            if wider is None:
                raise InvalidInput(
                    f"Cannot compare {_shown(term)} of type {term.type} with {_shown(v)} of type {v.type}."
                )
            common = wider
        return common

    def is_nan(self, term: Bound) -> Bound:
        if isinstance(term.type, FLOATS):
            return as_constant(NaNTest(term))
        if isinstance(term.type, (*INTEGERS, DecimalType, UnknownType)):
            # as Spark: cast to double, which is never NaN; false for null
            return as_constant(NaNTest(self.cast(term, DoubleType()))) if can_fail(term) else FALSE
        raise InvalidInput(
            f"isnan takes a float or double, not {_shown(term)} of type {term.type}."
        )

    def like(self, term: Bound, pattern: str, escape: str, ignore_case: bool) -> Bound:
        if _is_null(term):
            return NULL
        if not isinstance(term.type, StringType):
            if isinstance(term.type, BinaryType) or not castable(term.type, StringType()):
                raise InvalidInput(f"LIKE takes text, not {_shown(term)} of type {term.type}.")
            term = self.cast(term, StringType())
        if ignore_case:  # as in Spark: lower(term) LIKE lower(pattern)
            term, pattern = self.call("lower", [term]), pattern.lower()
        pieces = pattern_pieces(pattern, escape)
        match pieces:
            case ():
                return self.compare("eq", term, BoundLiteral("", StringType()))
            case (str() as text,):
                return self.compare("eq", term, BoundLiteral(text, StringType()))
            case (str() as text, None):
                return as_constant(PrefixTest(term, text))
        return as_constant(LikeTest(term, pieces))

    def call(self, name: str, arguments: list[Bound], literals: Sequence[bool] = ()) -> Bound:
        function = find_function(name)
        if function is None:
            raise Unsupported(
                f"The function {name} is not supported in filters and values without Spark.",
                hint=f"{SPARK_CAN} Supported here: {', '.join(function_names())}.",
                function=name,
            )
        types = tuple(a.type for a in arguments)
        if function.name in ARITHMETIC and any(isinstance(t, DecimalType) for t in types):
            # beside decimals an integer literal has its own digits: in `dec * 2`, 2 is decimal(1, 0)
            types = tuple(map(_digits_of, arguments, literals))
        signature = function.bind(types)
        if isinstance(signature, str):
            raise InvalidInput(f"{name}({', '.join(map(str, types))}): {signature}")
        if function.name in ("ceil", "floor") and isinstance(signature.arguments[0], FLOATS):
            # beyond the range of a bigint it is an error since Spark 4.3, and the last one before
            self.leave_to_spark(f"{name}({types[0]})")
        if function.name in ("ceil", "floor") and isinstance(arguments[0], BoundCast):
            # what a cast to decimal leaves over is rounded in it or after it
            self.leave_to_spark(f"{name} of a cast")
        if function.name == "date_trunc" and not isinstance(arguments[0], BoundLiteral):
            self.leave_to_spark("a unit of date_trunc that is no constant")
        cast = [self.cast(a, t) for a, t in zip(arguments, signature.arguments, strict=True)]
        zone = self.zone if function.zoned else "UTC"
        return fold(BoundCall(function.name, tuple(cast), signature.result, zone))


def refuse_metadata_column(part: str, name: str) -> None:
    """Raise Unsupported where the part of a name that no column has is a metadata column, which
    Spark can evaluate.
    """
    if part.lower() in METADATA_COLUMNS:
        text = f"{name} is a metadata column, and not supported in conditions and values without Spark."
        raise Unsupported(text, hint=SPARK_CAN, column=name)


def resolve(
    schema: Schema, name: str, parts: Sequence[str], case_sensitive: bool = True
) -> BoundReference:
    """Resolve a dotted name to a column, through structs only. If the parts match no path, the
    whole is tried as a name with dots.
    """
    struct: FieldsByName = schema
    path: list[NestedField] = []
    for index, part in enumerate(parts):
        matching = struct.fields_named(part, case_sensitive)
        if len(matching) > 1:
            raise ValidationError(
                f"Column {name!r} is ambiguous without case: {', '.join(f.name for f in matching)}."
            )
        if not matching:
            break
        path.append(matching[0])
        inside = matching[0].field_type
        if index + 1 < len(parts) and isinstance(inside, ListType | MapType):
            raise Unsupported(
                f"A filter cannot look inside the list or map {'.'.join(f.name for f in path)!r} ({name}).",
                column=name,
            )
        struct = inside if isinstance(inside, StructType) else StructType()
    else:
        return _reference(path)
    refuse_metadata_column(part, name)
    if (
        len(parts) == 1
        and name.lower() in _FUNCTIONS_AS_WORDS
        and all(name.lower() != f.name.lower() for f in schema.fields)
    ):
        raise Unsupported(
            f"{name} is a function of Spark, and not supported without it.",
            hint=SPARK_CAN,
            function=name,
        )
    field = schema.find_field(".".join(parts), case_sensitive)  # raises, listing the columns
    around = [schema.by_id[i] for i in schema.parents[field.field_id]]
    if any(isinstance(f.field_type, ListType | MapType) for f in around):
        raise Unsupported(f"A filter cannot look inside a list or map ({name}).", column=name)
    return _reference([*around, field])


def _reference(path: Sequence[NestedField]) -> BoundReference:
    last = path[-1]
    return BoundReference(
        last.field_id, last.field_type, tuple(f.name for f in path), tuple(f.field_id for f in path)
    )


def _null_test(term: Bound) -> Bound:
    if isinstance(term, BoundLiteral):
        return Constant(term.value is None)
    return (
        FALSE
        if isinstance(term, Constant) and term.value is not None
        else as_constant(NullTest(term))
    )


def _digits_of(term: Bound, is_literal: bool) -> IcebergType:
    """Return the type of a number: of a whole literal the decimal of its digits."""
    if is_literal and isinstance(term, BoundLiteral) and isinstance(term.type, INTEGERS):
        return DecimalType(len(str(abs(term.value or 0))), 0)
    return term.type


def conjunction(parts: Iterable[Bound]) -> Bound:
    """Join parts by AND, flattened and without TRUEs; FALSE as soon as one part is FALSE."""
    conjuncts: list[Bound] = []
    for part in parts:
        if part == FALSE:
            return FALSE
        conjuncts.extend(
            part.parts if isinstance(part, BoundAnd) else () if part == TRUE else (part,)
        )
    return (
        TRUE
        if not conjuncts
        else conjuncts[0]
        if len(conjuncts) == 1
        else BoundAnd(tuple(conjuncts))
    )


def disjunction(parts: Iterable[Bound]) -> Bound:
    """Join parts by OR, flattened and without FALSEs; TRUE as soon as one part is TRUE."""
    disjuncts: list[Bound] = []
    for part in parts:
        if part == TRUE:
            return TRUE
        disjuncts.extend(
            part.parts if isinstance(part, BoundOr) else () if part == FALSE else (part,)
        )
    disjuncts = _merged(disjuncts) if len(disjuncts) > 1 else disjuncts
    return (
        FALSE
        if not disjuncts
        else disjuncts[0]
        if len(disjuncts) == 1
        else BoundOr(tuple(disjuncts))
    )


def _merged(parts: list[Bound]) -> list[Bound]:
    """Rewrite `a = 1 OR a = 2 OR …` to `a IN (1, 2, …)`, which means the same and is evaluated in
    one step.
    """
    values: dict[BoundReference, list[Any]] = {}
    for p in parts:
        match p:
            case Comparison(
                op="eq",
                left=BoundReference() as column,
                right=BoundLiteral(value=value, type=type_),
            ) if type_ == column.type:
                values.setdefault(column, []).append(value)
    many = {c for c, v in values.items() if len(v) > 1}
    if not many:
        return parts
    rest = [
        p
        for p in parts
        if not (
            isinstance(p, Comparison)
            and p.op == "eq"
            and isinstance(p.right, BoundLiteral)
            and p.left in many
        )
    ]
    return [*(Membership(c, _sorted(values[c])) for c in values if c in many), *rest]


def negation(child: Bound) -> Bound:
    match child:
        case Constant(value=value):
            return NULL if value is None else Constant(not value)
        case BoundNot(child=inner):
            return inner
    return BoundNot(child)


def fold(term: Bound) -> Bound:
    """Fold a term without columns into a literal."""
    if isinstance(term, BoundLiteral) or not term.type.is_primitive or references(term):
        return term
    return BoundLiteral(evaluate_constant(term), term.type)


def as_constant(test: Bound) -> Bound:
    """Fold a test without columns into TRUE, FALSE or NULL."""
    return test if references(test) else Constant(evaluate_constant(test))


def _is_null(term: Bound) -> bool:
    return isinstance(term, BoundLiteral) and term.value is None


def _sorted(values: Iterable[Any]) -> tuple[Any, ...]:
    """Sort the distinct values, NaN last; -0.0 is 0.0."""
    distinct = {repr(v) if isinstance(v, float) and v != v else v: v for v in values}
    return tuple(sorted(distinct.values(), key=lambda v: (v != v, 0 if v != v else v)))


def _shown(term: Bound) -> str:
    text = str(term)
    return text if len(text) <= 80 else text[:77] + "…"
