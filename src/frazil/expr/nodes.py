"""Define expressions as users write them, not yet bound to a schema, with PyIceberg's names.

`&`, `|` and `~` combine them; `str()` is Spark SQL that `parse` reads back. A plain string is a
column name as a term, and text as a literal: `EqualTo("name", "x")` is `name = 'x'`; a column on
the right side is `EqualTo("a", Reference("b"))`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from frazil.errors import InvalidInput
from frazil.expr.sql_text import case_text, literal_text, quoted_name, quoted_text, sql_type
from frazil.spec.types import IcebergType


class Expression:
    """Define the base of all nodes: frozen values, compared by content. A boolean column or call is
    a predicate as it stands.
    """

    __slots__ = ()

    def __and__(self, other: Expression) -> Expression:
        return And(self, other)

    def __or__(self, other: Expression) -> Expression:
        return Or(self, other)

    def __invert__(self) -> Expression:
        return Not(self)

    def __bool__(self) -> bool:
        raise InvalidInput(
            "An expression has no truth value; combine expressions with & | ~, not with and, or, not."
        )


Predicate: TypeAlias = Expression
BooleanExpression: TypeAlias = Expression
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


# Terms
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, init=False)
class Reference(Expression):
    """Refer to a column by name. `Reference("a.b")` is looked up as a dotted full name; `parts`
    (from back-quoted text) says exactly which parts."""

    name: str
    parts: tuple[str, ...]

    def __init__(self, name: str, parts: Iterable[str] = ()):
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "parts", tuple(parts) or tuple(name.split(".")))

    def __str__(self) -> str:
        return ".".join(quoted_name(p) for p in self.parts)


@dataclass(frozen=True)
class Literal(Expression):
    """Hold a constant: an internal value if a type is given (see spec.types), otherwise a Python
    value, whose own type counts.

    `double_quoted`: the text was typed in double quotes, and may have been meant as a column (see
    `double_quotes`).
    """

    value: Any
    type: IcebergType | None = None
    double_quoted: bool = field(default=False, repr=False, compare=False)

    def __str__(self) -> str:
        return literal_text(self.value, self.type)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[Any, ...]:  # NaN equals itself, 1 is not True, -0.0 is not 0.0
        return (
            self.type,
            type(self.value),
            repr(self.value) if isinstance(self.value, float) else self.value,
        )


@dataclass(frozen=True)
class Cast(Expression):
    """Represent `CAST(term AS type)`; with `attempt` TRY_CAST: null where the cast fails."""

    term: Expression
    type: IcebergType
    attempt: bool = False

    def __str__(self) -> str:
        return f"{'TRY_CAST' if self.attempt else 'CAST'}({self.term} AS {sql_type(self.type)})"


_INFIX = {"+", "-", "*", "/", "%", "div", "||"}


@dataclass(frozen=True, init=False)
class Call(Expression):
    """Represent a function or operator (`+ - * / % div ||`, `negative`, `case`) over arguments; the
    functions are listed in `functions`. The name of one of Iceberg's has its catalog before it.
    """

    function: str
    arguments: tuple[Expression, ...]

    def __init__(self, function: str, arguments: Iterable[Any]):
        catalog, dot, name = function.rpartition(".")
        object.__setattr__(self, "function", catalog + dot + name.lower())
        object.__setattr__(
            self,
            "arguments",
            tuple(a if isinstance(a, Expression) else Literal(a) for a in arguments),
        )

    def __str__(self) -> str:
        args = [str(a) for a in self.arguments]
        if self.function in _INFIX and len(args) == 2:
            return f"({args[0]} {self.function} {args[1]})"
        if self.function == "case":
            return case_text(args)
        is_plain = "." in self.function or _PLAIN_NAME.fullmatch(self.function)
        name = self.function if is_plain else quoted_name(self.function)
        return f"{name}({', '.join(args)})"


@dataclass(frozen=True)
class Translated(Expression):
    """Hold an expression of an engine's SQL in nodes that mean the same, and a function that makes
    the engine's own of it, for what only the engine can do with it.
    """

    node: Expression
    native: Callable[[], Any] = field(repr=False, compare=False)

    def __str__(self) -> str:
        return str(self.node)


# Predicates
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AlwaysTrue(Expression):
    def __str__(self) -> str:
        return "TRUE"


@dataclass(frozen=True)
class AlwaysFalse(Expression):
    def __str__(self) -> str:
        return "FALSE"


@dataclass(frozen=True, init=False)
class _Junction(Expression):
    parts: tuple[Expression, ...]
    word: ClassVar[str] = ""

    def __init__(self, *parts: Expression):
        if len(parts) < 2:
            raise InvalidInput(f"{type(self).__name__} joins two or more expressions.")
        flat = [q for p in parts for q in (p.parts if type(p) is type(self) else (p,))]
        object.__setattr__(self, "parts", tuple(flat))

    @property
    def left(self) -> Expression:
        """Return the first operand."""
        return self.parts[0]

    @property
    def right(self) -> Expression:
        """Return the second operand; of more than two, all but the first, joined."""
        return self.parts[1] if len(self.parts) == 2 else type(self)(*self.parts[1:])

    def __str__(self) -> str:
        return "(" + f" {self.word} ".join(str(p) for p in self.parts) + ")"


class And(_Junction):
    """Represent the conjunction of two or more predicates; nested Ands are one."""

    word = "AND"


class Or(_Junction):
    """Represent the disjunction of two or more predicates; nested Ors are one."""

    word = "OR"


@dataclass(frozen=True)
class Not(Expression):
    child: Expression

    def __str__(self) -> str:
        return f"(NOT {self.child})"


@dataclass(frozen=True, init=False)
class _Binary(Expression):
    term: Expression
    literal: Expression
    word: ClassVar[str] = ""

    def __init__(self, term: object, literal: object):
        object.__setattr__(self, "term", as_term(term))
        object.__setattr__(self, "literal", as_literal(literal))

    def __str__(self) -> str:
        return f"({self.term} {self.word} {self.literal})"


class EqualTo(_Binary):
    """Compare: `term = literal`; NULL where a side is null."""

    word = "="


class NotEqualTo(_Binary):
    """Compare: `term <> literal`; NULL where a side is null."""

    word = "<>"


class LessThan(_Binary):
    """Compare: `term < literal`; NaN is greater than all other numbers."""

    word = "<"


class LessThanOrEqual(_Binary):
    """Compare: `term <= literal`; NaN is greater than all other numbers."""

    word = "<="


class GreaterThan(_Binary):
    """Compare: `term > literal`; NaN is greater than all other numbers."""

    word = ">"


class GreaterThanOrEqual(_Binary):
    """Compare: `term >= literal`; NaN is greater than all other numbers."""

    word = ">="


class NullSafeEqualTo(_Binary):
    """Represent `a <=> b`: never null; null equals null."""

    word = "<=>"


class StartsWith(_Binary):
    """Test whether a text begins with a prefix."""

    def __str__(self) -> str:
        return f"startswith({self.term}, {self.literal})"


class NotStartsWith(_Binary):
    """Test whether a text does not begin with a prefix; NULL where it is null."""

    def __str__(self) -> str:
        return f"(NOT startswith({self.term}, {self.literal}))"


@dataclass(frozen=True, init=False)
class _Membership(Expression):
    term: Expression
    literals: tuple[Expression, ...]
    word: ClassVar[str] = ""

    def __init__(self, term: object, literals: Iterable[Any]):
        object.__setattr__(self, "term", as_term(term))
        object.__setattr__(self, "literals", tuple(as_literal(v) for v in literals))

    def __str__(self) -> str:
        if not self.literals:
            return "FALSE" if self.word == "IN" else "TRUE"
        return f"({self.term} {self.word} ({', '.join(map(str, self.literals))}))"


class In(_Membership):
    """Test whether the term is one of several values: `term IN (…)`."""

    word = "IN"


class NotIn(_Membership):
    """Test whether the term is none of several values: `term NOT IN (…)`; NULL where it is null."""

    word = "NOT IN"


@dataclass(frozen=True, init=False)
class _Unary(Expression):
    term: Expression
    word: ClassVar[str] = ""

    def __init__(self, term: object):
        object.__setattr__(self, "term", as_term(term))

    def __str__(self) -> str:
        return f"({self.term} {self.word})"


class IsNull(_Unary):
    """Test whether the term is null. Never NULL."""

    word = "IS NULL"


class NotNull(_Unary):
    """Test whether the term is not null. Never NULL."""

    word = "IS NOT NULL"


class IsNaN(_Unary):
    """Test whether the term, a float or double, is NaN; false for null."""

    def __str__(self) -> str:
        return f"isnan({self.term})"


class NotNaN(_Unary):
    """Test whether the term, a float or double, is not NaN; true for null."""

    def __str__(self) -> str:
        return f"(NOT isnan({self.term}))"


@dataclass(frozen=True, init=False)
class Like(Expression):
    """Represent SQL LIKE: `%` is any text, `_` one character, and either after `escape` is itself;
    `ignore_case` is ILIKE. `double_quoted`: the pattern was typed in double quotes."""

    term: Expression
    pattern: str
    escape: str
    ignore_case: bool
    double_quoted: bool = field(default=False, repr=False, compare=False)

    def __init__(
        self,
        term: object,
        pattern: str,
        escape: str = "\\",
        ignore_case: bool = False,
        double_quoted: bool = False,
    ):
        if len(escape) != 1:
            raise InvalidInput(f"The escape of LIKE must be one character, not {escape!r}.")
        for name, value in (
            ("term", as_term(term)),
            ("pattern", pattern),
            ("escape", escape),
            ("ignore_case", ignore_case),
        ):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "double_quoted", double_quoted)

    def __str__(self) -> str:
        tail = "" if self.escape == "\\" else f" ESCAPE {quoted_text(self.escape)}"
        return f"({self.term} {self._word} {quoted_text(self.pattern)}{tail})"

    @property
    def _word(self) -> str:
        return "ILIKE" if self.ignore_case else "LIKE"


class NotLike(Like):
    """Test whether a text does not match a pattern of SQL; NULL where it is null."""

    @property
    def _word(self) -> str:
        return "NOT ILIKE" if self.ignore_case else "NOT LIKE"


def Between(term: object, lower: object, upper: object) -> Expression:
    """Make the predicate `term BETWEEN lower AND upper`, both included."""
    return And(GreaterThanOrEqual(term, lower), LessThanOrEqual(term, upper))


def as_term(value: object) -> Expression:
    """Convert a term as users give it, an expression or a column's name, to an expression."""
    return (
        value
        if isinstance(value, Expression)
        else Reference(value)
        if isinstance(value, str)
        else Literal(value)
    )


def as_literal(value: object) -> Expression:
    return value if isinstance(value, Expression) else Literal(value)


def children(expression: Expression) -> tuple[Expression, ...]:
    """Return the child nodes."""
    match expression:
        case And(parts=parts) | Or(parts=parts) | Call(arguments=parts):
            return parts
        case Not(child=child) | Translated(node=child):
            return (child,)
        case _Binary(term=a, literal=b):
            return (a, b)
        case _Membership(term=term, literals=literals):
            return (term, *literals)
        case _Unary(term=term) | Cast(term=term) | Like(term=term):
            return (term,)
    return ()


def walk(expression: Expression) -> Iterator[Expression]:
    """Yield every node, outermost first."""
    todo = [expression]
    while todo:
        node = todo.pop()
        yield node
        todo.extend(reversed(children(node)))


def names(expression: Expression) -> set[str]:
    """Return the full names of all columns that the expression reads, as written."""
    return {node.name for node in walk(expression) if isinstance(node, Reference)}


def in_double_quotes(expression: Expression) -> list[str]:
    """Return the texts that were typed in double quotes."""
    quoted = [n for n in walk(expression) if isinstance(n, Literal | Like) and n.double_quoted]
    return [n.pattern if isinstance(n, Like) else str(n.value) for n in quoted]
