"""Take resolved expressions of Spark's as trees, and translate them to Frazil's nodes, where both mean
exactly the same.

Text would lose what an expression is: whether a sum that overflows is null (`try_add`) or an error,
which of two instants with the same local time a constant is, the digits that a setting gives a
decimal. The tree has it all: each node of Catalyst with its type, evaluation mode and time zone, and
constants by their internal values (`spark/jvm/ExpressionTrees.java`, which Spark's own compiler makes
a class of).

`_RULES` lists the classes that have an equal among Frazil's nodes, `_FIELDS` what their constructors
may hold beside operands. Operands must have the very types that Frazil would cast them to, and the
result the type that Frazil gives it. Whatever is not listed has no translation, so that Spark
evaluates the expression.
"""

from __future__ import annotations

import base64
import re
import struct
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
from py4j.java_gateway import JavaObject

from frazil.errors import InvalidInput, Unsupported
from frazil.expr import nodes as n
from frazil.expr.calendar import offset_of
from frazil.expr.coerce import comparable
from frazil.expr.functions.by_name import find_function
from frazil.expr.functions.text import pattern_pieces
from frazil.ops.session import Session
from frazil.spark.host.fall_back import fall_back
from frazil.spark.host.jvm import NOT_AS_KNOWN, Jvm, classic_jvm
from frazil.spark.host.jvm_classes import make
from frazil.spark.host.jvm_plans import plan_columns
from frazil.spark.host.settings import session_zone
from frazil.spec import types as i
from frazil.spec.transform_values import scaled

Tree = Mapping[str, Any]
Columns = Mapping[int, n.Reference]
"""What Frazil calls the columns that an expression may name, by the ids that Catalyst gave them."""
ColumnOf = Callable[[Tree], n.Reference | None]
_WRITERS: weakref.WeakKeyDictionary[Jvm, Any] = weakref.WeakKeyDictionary()
_TYPES: Mapping[str, i.IcebergType] = {
    "boolean": i.BooleanType(), "byte": i.IntegerType(), "short": i.IntegerType(), "integer": i.IntegerType(), "long": i.LongType(),
    "float": i.FloatType(), "double": i.DoubleType(), "date": i.DateType(), "timestamp": i.TimestamptzType(),
    "timestamp_ntz": i.TimestampType(), "string": i.StringType(), "binary": i.BinaryType(), "void": i.UnknownType(),
}  # fmt: skip
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_NARROW = ("byte", "short")
"""Types of columns that a source may have; Frazil computes no value of them."""
_FIELDS: Mapping[str, tuple[str, ...] | None] = {
    "evalMode": ("ANSI",),
    "failOnError": ("true",),
    "legacySizeOfNull": ("false",),
    "allowDecimalPrecisionLoss": None,
    "escapeChar": None,
}
"""What nodes may hold beside operands and the time zone, by its name in Catalyst: the values that
mean what Frazil computes, None for all. (What becomes of a decimal's digits, its type says.)"""


class _Beyond(Exception):
    """Report an expression that no node of Frazil's is equal to."""


class Typed(NamedTuple):
    """Hold a translated expression. `spark`: the name of its type in Spark."""

    node: n.Expression
    spark: str

    @property
    def type(self) -> i.IcebergType | None:
        """Return the type as Frazil's; None for nested types and those that it has not."""
        return type_of(self.spark)


def type_of(name: str) -> i.IcebergType | None:
    """Return the type of values that Spark calls by this name, None where Frazil has no equal one."""
    digits = _DECIMAL.fullmatch(name)
    return i.DecimalType(int(digits[1]), int(digits[2])) if digits else _TYPES.get(name)


# Trees
# --------------------------------------------------------------------------------------------------


def expression_trees(spark: Session, jvm: Jvm) -> Any:
    """Return the JVM's function that writes an expression as JSON. Raises Unsupported where it did
    not compile on this Spark.
    """
    if (writer := _WRITERS.get(jvm)) is None:
        writer = _WRITERS[jvm] = make(spark, "ExpressionTrees")
    return writer


def translated(spark: Session, expression: JavaObject, columns: Columns) -> n.Expression | None:
    """Return a resolved Catalyst expression in Frazil's nodes; None where Spark has to evaluate it."""
    try:
        text = expression_trees(spark, classic_jvm(spark)).apply(expression)
    except Unsupported:
        return None
    except NOT_AS_KNOWN as error:
        _fall_back(error)
        return None
    return read_tree(spark, text, columns)


def _fall_back(error: Exception) -> None:
    fall_back("The form of expressions", error, "Rows are the same, but changes are slower.")


def read_tree(spark: Session, text: str | None, columns: Columns) -> n.Expression | None:
    """Return a tree, as `ExpressionTrees` writes it, in Frazil's nodes; None where Spark has to
    evaluate it, or it was not written."""
    try:
        tree = None if text is None else msgspec.json.decode(text)
    except RecursionError:
        return None
    except msgspec.MsgspecError as error:
        _fall_back(error)
        return None
    if tree is None:
        return None
    return decoded(tree, lambda column: columns.get(column["id"]), lambda: session_zone(spark))


def decoded(tree: Tree, column_of: ColumnOf, zone: Callable[[], str]) -> n.Expression | None:
    """Return a tree, as `ExpressionTrees` writes it, in Frazil's nodes; None where Spark has to
    evaluate it. `column_of`: returns what Frazil calls a column, by its node; `zone`: the time zone
    that Frazil would evaluate it in."""
    try:
        return _Decoder(column_of, zone).term(tree).node
    except (_Beyond, RecursionError):
        return None


def bindings(spark: Session, plan: JavaObject, side: str = "") -> Columns:
    """Return what Frazil calls the columns of a plan, below the name of their side if it has one, by
    their ids. Columns whose names differ in case only are left out: Spark tells them apart."""
    return named_columns(plan_columns(spark, plan), side)


def named_columns(columns: Sequence[tuple[int, str]], side: str = "") -> Columns:
    """Return what Frazil calls columns, given with their ids, as `bindings` does."""
    alike = Counter(name.lower() for _, name in columns)
    around = (side,) if side else ()
    return {
        id_: n.Reference(".".join((*around, name)), (*around, name))
        for id_, name in columns
        if alike[name.lower()] == 1
    }


# Translation
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Decoder:
    column_of: ColumnOf
    zone: Callable[[], str]

    def term(self, tree: Tree) -> Typed:
        kind, name = tree["class"], tree["type"]
        if kind == "AttributeReference":
            if (column := self.column_of(tree)) is None:
                raise _Beyond
            return Typed(column, name)
        if kind == "Literal":
            return Typed(_constant(tree), name)
        if (translate := _RULES.get(kind)) is None:
            raise _Beyond
        terms = [self.term(child) for child in tree["children"]]
        if all(isinstance(t.node, _CONSTANTS) for t in terms):
            raise _Beyond  # Spark makes a constant of it unless it fails, which it does at a row only
        for field, value in tree.get("fields", {}).items():
            if field == "timeZoneId":
                types = {name, *(t.spark for t in terms)}
                if "timestamp" in types and len(types) > 1 and value != self.zone():
                    raise _Beyond
            elif (allowed := _FIELDS.get(field, ())) is not None and value not in allowed:
                raise _Beyond
        return Typed(translate(self, tree, terms), name)


def constant(tree: Tree) -> n.Expression | None:
    """Return a constant, as `ExpressionTrees` writes it; None for types that Frazil has not."""
    try:
        return _constant(tree)
    except _Beyond:
        return None


_CONSTANTS = (n.Literal, n.AlwaysTrue, n.AlwaysFalse)
_Translate = Callable[[_Decoder, Tree, Sequence[Typed]], n.Expression]


def _constant(tree: Tree) -> n.Expression:
    type_ = type_of(tree["type"])
    if type_ is None or "value" not in tree:
        raise _Beyond
    value = tree["value"]
    if value is not None:
        match type_:
            case i.BooleanType():
                return n.AlwaysTrue() if value else n.AlwaysFalse()
            case i.FloatType() | i.DoubleType():
                (value,) = struct.unpack("<d", struct.pack("<q", value))
            case i.DecimalType(scale=scale):
                value = scaled(value, scale)
            case i.BinaryType():
                value = base64.b64decode(value)
            case i.StringType():
                try:
                    value = base64.b64decode(value).decode()
                except UnicodeDecodeError:
                    raise _Beyond from None
    return n.Literal(value, type_)


def _member(_: _Decoder, tree: Tree, terms: Sequence[Typed]) -> n.Expression:
    of = terms[0].node
    if not isinstance(of, n.Reference):
        raise _Beyond
    parts = (*of.parts, tree["member"])
    return n.Reference(".".join(parts), parts)


def _joined(node: Callable[..., n.Expression]) -> _Translate:
    return lambda _, tree, terms: node(*(t.node for t in terms))


def _compared(node: Callable[..., n.Expression]) -> _Translate:
    def translate(_: _Decoder, tree: Tree, terms: Sequence[Typed]) -> n.Expression:
        _check_comparable(terms)
        return node(*(t.node for t in terms))

    return translate


def _check_comparable(terms: Sequence[Typed]) -> None:
    """Raise _Beyond for values that Frazil does not compare, or only after a cast."""
    first = terms[0].type
    if first is None or not comparable(first) or any(t.type != first for t in terms):
        raise _Beyond


def _in(_: _Decoder, tree: Tree, terms: Sequence[Typed]) -> n.Expression:
    _check_comparable(terms)
    if len(terms) == 1:  # a setting says what an empty list means
        raise _Beyond
    return n.In(terms[0].node, [t.node for t in terms[1:]])


def _null_test(node: Callable[..., n.Expression]) -> _Translate:
    def translate(_: _Decoder, tree: Tree, terms: Sequence[Typed]) -> n.Expression:
        if terms[0].type is None and not isinstance(terms[0].node, n.Reference):
            raise _Beyond
        return node(terms[0].node)

    return translate


def _like(_: _Decoder, tree: Tree, terms: Sequence[Typed]) -> n.Expression:
    text, pattern = terms[0], terms[1].node
    escape = tree["fields"]["escapeChar"]
    if text.spark != "string" or not (isinstance(pattern, n.Literal) and pattern.value is not None):
        raise _Beyond
    try:
        pattern_pieces(pattern.value, escape)
    except InvalidInput:  # Spark says so when a row is compared
        raise _Beyond from None
    return n.Like(text.node, pattern.value, escape)


def _size(_: _Decoder, tree: Tree, terms: Sequence[Typed]) -> n.Expression:
    if not isinstance(terms[0].node, n.Reference):
        raise _Beyond
    return n.Call("size", [terms[0].node])


_LONGER_THAN_DAYS = ("week", "month", "mon", "mm", "quarter", "year", "yyyy", "yy")


def _truncated(decoder: _Decoder, tree: Tree, terms: Sequence[Typed]) -> n.Expression:
    """Translate `date_trunc`. Where clocks are set back, the start of an hour or day has the offset
    of the instant itself, which only Spark knows."""
    unit, moment = terms
    if not isinstance(unit.node, n.Literal) or moment.spark != "timestamp":
        raise _Beyond
    is_fixed = offset_of(decoder.zone()) is not None
    if not is_fixed and str(unit.node.value).lower() not in _LONGER_THAN_DAYS:
        raise _Beyond
    return n.Call("date_trunc", [unit.node, moment.node])


_FROM_WHOLE = ("integer", "long", "float", "double", "decimal", "boolean", "string")
_CASTS: Mapping[str, tuple[str, ...]] = {
    "void": (*_FROM_WHOLE, "date", "timestamp", "timestamp_ntz", "binary"),
    "boolean": ("integer", "long", "double", "string"),
    "byte": _FROM_WHOLE, "short": _FROM_WHOLE, "integer": _FROM_WHOLE, "long": _FROM_WHOLE,
    "float": ("double",), "double": ("integer", "long"), "decimal": ("decimal", "integer", "long", "double", "string"),
    "date": ("timestamp", "timestamp_ntz", "string"), "timestamp": ("date", "timestamp_ntz", "string"),
    "timestamp_ntz": ("date", "timestamp", "string"),
}  # fmt: skip
"""The casts that Frazil does exactly as Spark does in ANSI mode, by the types before and after. Not
those of text, whose rules for digits, zones and blanks are Spark's, nor those of doubles to digits,
which depend on the JVM."""


def _cast(_: _Decoder, tree: Tree, terms: Sequence[Typed]) -> n.Expression:
    have, want = terms[0].type, type_of(tree["type"])
    if want is not None and terms[0].spark == tree["type"]:
        return terms[0].node
    before, after = (name.partition("(")[0] for name in (terms[0].spark, tree["type"]))
    if want is None or after not in _CASTS.get(before, ()):
        raise _Beyond
    if isinstance(have, i.DecimalType):
        # beyond 18 digits Spark truncates to INT by way of a double; up to 18 it divides a double
        few = have.precision <= (18 if after == "integer" else 15)
        if (after == "integer" and not few) or (
            after == "double" and not (few or have.precision > 18)
        ):
            raise _Beyond
    return n.Cast(terms[0].node, want)


_Fits = Callable[[Sequence[Any], Any], bool]


def _called(name: str, fits: _Fits = lambda takes, gives: True) -> _Translate:
    """Translate to a function of Frazil's, where it takes exactly these types and returns what
    Spark's returns. `fits`: tells by the types whether the values are the same, too."""
    function = find_function(name)
    assert function is not None

    def translate(_: _Decoder, tree: Tree, terms: Sequence[Typed]) -> n.Expression:
        takes = tuple(t.type for t in terms if t.type is not None)
        gives = type_of(tree["type"])
        signature = function.bind(takes) if len(takes) == len(terms) else ""
        if isinstance(signature, str) or tree["type"] in _NARROW:
            raise _Beyond
        if (signature.arguments, signature.result) != (takes, gives) or not fits(takes, gives):
            raise _Beyond
        return n.Call(name, [t.node for t in terms])

    return translate


def _product_fits(takes: Sequence[Any], gives: Any) -> bool:
    """Tell whether the product of decimals has no digit beyond the 38 that Spark computes."""
    return not isinstance(gives, i.DecimalType) or sum(t.precision for t in takes) <= 38


def _quotient_fits(takes: Sequence[Any], gives: Any) -> bool:
    """Tell whether the quotient of decimals is the same if it is rounded to 39 digits first."""
    return not isinstance(gives, i.DecimalType) or takes[1].precision + gives.scale <= 38


def _rest_fits(takes: Sequence[Any], gives: Any) -> bool:
    """Tell whether the whole quotient of decimals has no more than 38 digits."""
    if not isinstance(gives, i.DecimalType):
        return True
    return bool(takes[0].precision - takes[0].scale + takes[1].scale <= 38)


def _is_exact(takes: Sequence[Any], gives: Any) -> bool:
    return not isinstance(takes[0], i.FloatType | i.DoubleType)


_RULES: Mapping[str, _Translate] = {
    "And": _joined(n.And), "Or": _joined(n.Or), "Not": _joined(n.Not),
    "EqualTo": _compared(n.EqualTo), "EqualNullSafe": _compared(n.NullSafeEqualTo),
    "LessThan": _compared(n.LessThan), "LessThanOrEqual": _compared(n.LessThanOrEqual),
    "GreaterThan": _compared(n.GreaterThan), "GreaterThanOrEqual": _compared(n.GreaterThanOrEqual),
    "In": _in, "InSet": _in, "IsNull": _null_test(n.IsNull), "IsNotNull": _null_test(n.NotNull), "IsNaN": _joined(n.IsNaN), "Like": _like,
    "GetStructField": _member, "Cast": _cast, "Size": _size, "TruncTimestamp": _truncated,
    "CaseWhen": _called("case"), "If": _called("case"), "Coalesce": _called("coalesce"),
    "Add": _called("+"), "Subtract": _called("-"), "Multiply": _called("*", _product_fits), "Divide": _called("/", _quotient_fits),
    "IntegralDivide": _called("div"), "Remainder": _called("%", _rest_fits), "Pmod": _called("pmod", _rest_fits),
    "UnaryMinus": _called("negative"), "Abs": _called("abs"), "Ceil": _called("ceil", _is_exact), "Floor": _called("floor", _is_exact),
    "Sqrt": _called("sqrt"),
    "Lower": _called("lower"), "Upper": _called("upper"), "Length": _called("length"), "OctetLength": _called("octet_length"),
    "StringTrim": _called("trim"), "StringTrimLeft": _called("ltrim"), "StringTrimRight": _called("rtrim"),
    "Substring": _called("substring"), "Concat": _called("concat"), "StartsWith": _called("startswith"),
    "EndsWith": _called("endswith"), "Contains": _called("contains"), "StringReplace": _called("replace"), "Reverse": _called("reverse"),
    "Year": _called("year"), "Quarter": _called("quarter"), "Month": _called("month"), "DayOfMonth": _called("day"),
    "DayOfWeek": _called("dayofweek"), "WeekDay": _called("weekday"), "DayOfYear": _called("dayofyear"),
    "WeekOfYear": _called("weekofyear"), "Hour": _called("hour"), "Minute": _called("minute"), "Second": _called("second"),
    "DateAdd": _called("date_add"), "DateSub": _called("date_sub"), "DateDiff": _called("datediff"), "LastDay": _called("last_day"),
    "MakeDate": _called("make_date"),
}  # fmt: skip
