"""Build predicates as objects, with PyIceberg's names: `And(EqualTo("id", 5), NotNull("name"))`,
`EqualTo("a", 1) & IsNaN("d")`.

A `Reference` names a column. A `Literal` is a constant where text would be read as an expression,
as in `t.update(set={"note": Literal("it's counted")})`.
"""

from frazil.expr.nodes import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Like,
    Literal,
    Not,
    NotEqualTo,
    NotIn,
    NotLike,
    NotNaN,
    NotNull,
    NotStartsWith,
    NullSafeEqualTo,
    Or,
    Predicate,
    Reference,
    StartsWith,
)
from frazil.expr.parse import parse

ALWAYS_TRUE, ALWAYS_FALSE = AlwaysTrue(), AlwaysFalse()
BooleanExpression = Predicate

__all__ = [
    "ALWAYS_FALSE", "ALWAYS_TRUE", "AlwaysFalse", "AlwaysTrue", "And", "BooleanExpression", "EqualTo", "GreaterThan",
    "GreaterThanOrEqual", "In", "IsNaN", "IsNull", "LessThan", "LessThanOrEqual", "Like", "Literal", "Not", "NotEqualTo", "NotIn",
    "NotLike", "NotNaN", "NotNull", "NotStartsWith", "NullSafeEqualTo", "Or", "Reference", "StartsWith", "parse",
]  # fmt: skip
