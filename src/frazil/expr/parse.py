"""Parse Spark SQL predicates into nodes, by recursive descent over the tokens of `tokens`.

Precedence, lowest first: OR, AND, NOT, then BETWEEN IN LIKE IS, then comparisons, + - ||, * / %
div, signs, `::type`. PyIceberg's `IS NAN` is accepted as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

from frazil.errors import FrazilError, ParseError
from frazil.expr import nodes as n
from frazil.expr.calendar import NoTime, has_zone, parse_date, parse_moment, parse_time
from frazil.expr.literals import decimal_type, whole_type
from frazil.expr.sql_text import quoted_name
from frazil.expr.tokens import SPARK_CAN, Token, error, tokens
from frazil.spec.ddl import parse_type
from frazil.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

_DEPTH = 50
_PRODUCTS = {("mark", "*"), ("mark", "/"), ("mark", "%"), ("word", "div")}
_COMPARISONS: dict[str, Callable[[Any, Any], n.Expression]] = {
    "=": n.EqualTo, "==": n.EqualTo, "<>": n.NotEqualTo, "!=": n.NotEqualTo, "<": n.LessThan, "<=": n.LessThanOrEqual,
    ">": n.GreaterThan, ">=": n.GreaterThanOrEqual, "<=>": n.NullSafeEqualTo,
}  # fmt: skip
_SUFFIX = re.compile(r"(.*?)(BD|bd|[LlSsYyDdFf])?", re.DOTALL)
_MOMENTS = ("date", "time", "timestamp", "timestamp_ntz", "timestamp_ltz")
_CASTS: dict[str, IcebergType] = {
    "boolean": BooleanType(), "int": IntegerType(), "bigint": LongType(), "float": FloatType(), "double": DoubleType(),
    "decimal": DecimalType(10, 0), "string": StringType(), "binary": BinaryType(), "date": DateType(), "timestamp": TimestamptzType(),
}  # fmt: skip
_NO_NAMES = {
    "and",
    "or",
    "not",
    "in",
    "is",
    "like",
    "ilike",
    "between",
    "when",
    "then",
    "else",
    "end",
    "as",
    "from",
    "select",
}


def parse(text: str) -> n.Expression:
    """Parse a predicate. Raises ParseError, which shows the position in the text."""
    parser = _Parser(text)
    if parser.peek().kind == "end":
        raise ParseError("The filter is empty; leave it out, or write TRUE.")
    try:
        expression = parser.disjunction()
    except RecursionError as e:  # the caller's own stack is deep already
        raise ParseError("The filter is nested too deeply.") from e
    if parser.peek().kind != "end":
        raise parser.error("expected an operator or the end")
    return expression


class _Parser:
    def __init__(self, text: str):
        self.text, self.tokens, self.index, self.depth = text, tokens(text), 0, 0

    # tokens
    def peek(self, ahead: int = 0) -> Token:
        return self.tokens[min(self.index + ahead, len(self.tokens) - 1)]

    def next(self) -> Token:
        token = self.peek()
        self.index += 1
        return token

    def take(self, *words: str) -> bool:
        """Consume the words, one after the other, if they come next."""
        for i, word in enumerate(words):
            token = self.peek(i)
            if token.kind not in ("word", "mark") or token.value != word:
                return False
        self.index += len(words)
        return True

    def expect(self, word: str) -> None:
        if not self.take(word):
            raise self.error(f"expected {word.upper()}")

    def error(
        self, expected: str, token: Token | None = None, hint: str | None = None
    ) -> ParseError:
        token = token or self.peek()
        problem = (
            f"{expected}, got {token.text!r}" if token.kind != "end" else f"{expected}, got the end"
        )
        return error(self.text, token.position, problem, hint)

    def beyond(self, syntax: str, token: Token | None = None) -> ParseError:
        """Make the error for syntax that Spark SQL has and this grammar lacks."""
        return self.error(
            f"{syntax} are not supported in filters and values without Spark", token, SPARK_CAN
        )

    # predicates
    def disjunction(self) -> n.Expression:
        self.depth += 1
        if self.depth > _DEPTH:
            raise self.error(f"more than {_DEPTH} levels of nesting")
        parts = [self.conjunction()]
        while self.take("or"):
            parts.append(self.conjunction())
        self.depth -= 1
        return parts[0] if len(parts) == 1 else n.Or(*parts)

    def conjunction(self) -> n.Expression:
        parts = [self.negation()]
        while self.take("and"):
            parts.append(self.negation())
        return parts[0] if len(parts) == 1 else n.And(*parts)

    def negation(self) -> n.Expression:
        count = 0
        while self.take("not") or self.take("!"):
            count += 1
        condition = self.predicate()
        if count > _DEPTH:
            raise self.error(f"more than {_DEPTH} NOTs")
        for _ in range(count):
            condition = n.Not(condition)
        return condition

    def predicate(self) -> n.Expression:
        term = self.comparison()
        while True:
            negated = self.peek().value == "not" and self.peek(1).value in (
                "in",
                "between",
                "like",
                "ilike",
            )
            if negated:
                self.next()
            if self.take("between"):
                low = self.comparison()
                self.expect("and")
                between = n.Between(term, low, self.comparison())
                term = n.Not(between) if negated else between
            elif self.take("in"):
                values = self.arguments("a list of values")
                if not values:
                    raise self.error("expected a list of values", self.peek(-1))
                term = n.NotIn(term, values) if negated else n.In(term, values)
            elif self.peek().kind == "word" and self.peek().value in ("like", "ilike"):
                term = self.like(term, negated, ignore_case=self.next().value == "ilike")
            elif self.take("is"):
                term = self.is_(term)
            else:
                return term

    def like(self, term: n.Expression, negated: bool, ignore_case: bool) -> n.Expression:
        double_quoted = self.is_double_quoted()
        pattern, escape = self.string("the pattern of LIKE"), "\\"
        if self.take("escape"):
            token = self.peek()
            escape = self.string("the escape of LIKE")
            if len(escape) != 1:
                raise self.error("the escape of LIKE must be one character", token)
        return (n.NotLike if negated else n.Like)(term, pattern, escape, ignore_case, double_quoted)

    def is_(self, term: n.Expression) -> n.Expression:
        negated = self.take("not")
        token = self.next()
        match token.value if token.kind == "word" else "":
            case "null" | "unknown":
                return n.NotNull(term) if negated else n.IsNull(term)
            case "nan":
                return n.NotNaN(term) if negated else n.IsNaN(term)
            case "true" | "false":
                test: n.Expression = n.NullSafeEqualTo(
                    term, n.AlwaysTrue() if token.value == "true" else n.AlwaysFalse()
                )
                return n.Not(test) if negated else test
            case "distinct":
                self.expect("from")
                test = n.NullSafeEqualTo(term, self.comparison())
                return test if negated else n.Not(test)
        raise self.error("expected NULL, NAN, TRUE, FALSE, UNKNOWN or DISTINCT FROM", token)

    # terms
    def comparison(self) -> n.Expression:
        left = self.sum()
        while self.peek().kind == "mark" and (make := _COMPARISONS.get(self.peek().value)):
            self.next()
            left = make(left, self.sum())
        return left

    def sum(self) -> n.Expression:
        left = self.product()
        while self.peek().kind == "mark" and self.peek().value in ("+", "-", "||"):
            left = n.Call(self.next().value, (left, self.product()))
        return left

    def product(self) -> n.Expression:
        left = self.signed()
        while (self.peek().kind, self.peek().value) in _PRODUCTS:
            left = n.Call(self.next().value, (left, self.signed()))
        return left

    def signed(self) -> n.Expression:
        signs = 0
        while self.peek().kind == "mark" and self.peek().value in ("-", "+"):
            if self.next().value == "-":
                if self.peek().kind == "number" and signs == 0:
                    return self.cast_suffix(self.number("-"))
                signs += 1
                if signs > _DEPTH:
                    raise self.error(f"more than {_DEPTH} signs")
        operand = self.cast_suffix(self.primary())
        for _ in range(signs):
            operand = n.Call("negative", (operand,))
        return operand

    def cast_suffix(self, expression: n.Expression) -> n.Expression:
        while self.take("::"):
            expression = n.Cast(expression, self.type())
        if (self.peek().kind, self.peek().value) == ("mark", "["):
            raise self.beyond("elements of lists and maps")
        return expression

    def primary(self) -> n.Expression:
        token = self.peek()
        match token.kind:
            case "number":
                return self.number("")
            case "string":
                double_quoted = self.is_double_quoted()
                return n.Literal(self.string("a text"), StringType(), double_quoted)
            case "hex":
                return self.hex()
            case "quoted":
                return self.reference()
            case "mark" if self.take("("):
                self.refuse_query()
                inner = self.disjunction()
                if (self.peek().kind, self.peek().value) == ("mark", ","):
                    raise self.beyond("tuples")
                self.expect(")")
                return inner
            case "word":
                return self.word(token)
        raise self.error("expected a column or a value")

    def word(self, token: Token) -> n.Expression:
        word, after = token.value, self.peek(1)
        if word in ("true", "false") and after.text not in (".", "("):
            self.next()
            return n.AlwaysTrue() if word == "true" else n.AlwaysFalse()
        if word == "null" and after.text not in (".", "("):
            self.next()
            return n.Literal(None)
        if word in _MOMENTS and after.kind == "string":
            return self.moment(word)
        if word == "case" and after.text not in (".", ")"):
            return self.case()
        if word in ("cast", "try_cast") and after.text == "(":
            return self.cast(word == "try_cast")
        if word == "interval" and after.kind in ("string", "number"):
            raise self.beyond("intervals")
        if after.text == "(" and after.kind == "mark" and word not in _NO_NAMES:
            return self.call()
        if word in _NO_NAMES:
            raise self.error("expected a column or a value")
        return self.reference()

    def reference(self) -> n.Expression:
        parts = [self.name()]
        while self.take("."):
            parts.append(self.name())
        if len(parts) > 1 and parts[-2].lower() == "system" and self.peek().text == "(":
            return n.Call(".".join(map(quoted_name, parts)), self.arguments("arguments"))
        return n.Reference(".".join(parts), parts)

    def name(self) -> str:
        token = self.next()
        if token.kind not in ("word", "quoted"):
            raise self.error("expected a name", token)
        return token.text if token.kind == "word" else token.value

    def call(self) -> n.Expression:
        token = self.next()
        name, arguments = token.value, self.arguments("arguments")
        if name in _CASTS and len(arguments) == 1:
            return n.Cast(arguments[0], _CASTS[name])
        if name == "isnan" and len(arguments) == 1:
            return n.IsNaN(arguments[0])
        if name in ("isnull", "isnotnull") and len(arguments) == 1:
            return n.IsNull(arguments[0]) if name == "isnull" else n.NotNull(arguments[0])
        if name == "startswith" and len(arguments) == 2:
            return n.StartsWith(*arguments)
        if name == "if" and len(arguments) == 3:
            return n.Call("case", arguments)
        if name == "nullif" and len(arguments) == 2:
            return n.Call("case", (n.EqualTo(*arguments), n.Literal(None), arguments[0]))
        return n.Call(name, arguments)

    def arguments(self, noun: str) -> list[n.Expression]:
        if not self.take("("):
            raise self.error(f"expected {noun} in parentheses")
        self.refuse_query()
        if self.take(")"):
            return []
        arguments = [self.argument()]
        while self.take(","):
            arguments.append(self.argument())
        self.expect(")")
        return arguments

    def refuse_query(self) -> None:
        """Raise ParseError for a sub-query, whose opening parenthesis was read."""
        words = [self.peek(i).value if self.peek(i).kind == "word" else "" for i in range(3)]
        if words[0] in ("select", "from") or (words[0], words[2]) == ("with", "as"):
            raise self.beyond("sub-queries")

    def argument(self) -> n.Expression:
        token, after = self.peek(), self.peek(1)
        if (
            token.kind in ("number", "string")
            and after.kind == "mark"
            and after.value in (",", ")")
        ):
            return self.primary()  # a fast path, since lists of constants can be long
        return self.disjunction()

    def case(self) -> n.Expression:
        self.next()
        subject = None if self.peek().value == "when" else self.disjunction()
        branches: list[n.Expression] = []
        while self.take("when"):
            condition = self.disjunction()
            self.expect("then")
            branches += [
                condition if subject is None else n.EqualTo(subject, condition),
                self.disjunction(),
            ]
        if not branches:
            raise self.error("expected WHEN")
        if self.take("else"):
            branches.append(self.disjunction())
        self.expect("end")
        return n.Call("case", branches)

    def cast(self, attempt: bool) -> n.Expression:
        self.next()
        self.expect("(")
        term = self.disjunction()
        self.expect("as")
        type_ = self.type()
        self.expect(")")
        return n.Cast(term, type_, attempt)

    # constants
    def type(self) -> IcebergType:
        start = self.next()
        text, end = start.text, start.position + len(start.text)
        if self.peek().text in ("(", "["):
            close = ")" if self.peek().text == "(" else "]"
            while (token := self.next()).text != close:
                if token.kind == "end":
                    raise self.error(f"expected {close!r}", token)
            text = self.text[start.position : token.position + 1]
            end = token.position + 1
        try:
            target = parse_type(text)
        except FrazilError as e:
            raise self.error(f"{self.text[start.position : end]!r} is not a type", start) from e
        if not target.is_primitive or start.value in (
            "tinyint",
            "smallint",
            "byte",
            "short",
            "varchar",
            "char",
        ):
            raise self.beyond(f"casts to {start.text}", start)
        return target

    def string(self, noun: str) -> str:
        if self.peek().kind != "string":
            raise self.error(f"expected {noun} in quotes")
        text = self.next().value
        while self.peek().kind == "string":  # 'a' 'b' is one text
            text += self.next().value
        return text

    def is_double_quoted(self) -> bool:
        """Tell whether a text in double quotes follows, which other SQL dialects take for a quoted
        name.
        """
        return self.peek().text.startswith('"') and self.peek(1).kind != "string"

    def hex(self) -> n.Expression:
        token = self.next()
        digits = token.value if len(token.value) % 2 == 0 else "0" + token.value
        try:
            return n.Literal(
                bytes.fromhex(digits) if digits.isalnum() or not digits else bytes.fromhex("?"),
                BinaryType(),
            )
        except ValueError as e:
            raise self.error("expected hexadecimal digits", token) from e

    def number(self, sign: str) -> n.Expression:
        token = self.next()
        match = _SUFFIX.fullmatch(token.value)
        assert match
        digits, suffix = sign + match[1], (match[2] or "").lower()
        try:
            return self.typed_number(digits, suffix, token)
        except (ValueError, InvalidOperation, FrazilError) as e:
            raise self.error(
                str(e) if isinstance(e, FrazilError) else "expected a number", token
            ) from e

    def typed_number(self, digits: str, suffix: str, token: Token) -> n.Expression:
        fraction, exponent = "." in digits, "e" in digits.lower()
        match suffix:
            case "bd":
                return n.Literal(Decimal(digits), decimal_type(Decimal(digits)))
            case "d":
                return n.Literal(float(digits), DoubleType())
            case "f":
                return n.Cast(n.Literal(float(digits), DoubleType()), FloatType())
            case "l" | "s" | "y":
                bits = {"l": 64, "s": 16, "y": 8}[suffix]
                if not -(2 ** (bits - 1)) <= int(digits) < 2 ** (bits - 1):
                    raise self.error(f"out of the range of {bits} bits", token)
                return n.Literal(int(digits), LongType() if suffix == "l" else IntegerType())
        if exponent:
            return n.Literal(float(digits), DoubleType())
        if fraction:
            return n.Literal(Decimal(digits), decimal_type(Decimal(digits)))
        type_ = whole_type(int(digits))
        return n.Literal(Decimal(digits) if isinstance(type_, DecimalType) else int(digits), type_)

    def moment(self, word: str) -> n.Expression:
        token, text_token = self.next(), self.peek()
        text = self.string("a text")
        try:
            if word == "date":
                return n.Literal(parse_date(text), DateType())
            if word == "time":
                return n.Literal(parse_time(text), TimeType())
            if word == "timestamp_ntz":
                return n.Literal(parse_moment(text, None) // 1000, TimestampType())
            if has_zone(text):
                return n.Literal(parse_moment(text, "UTC") // 1000, TimestamptzType())
            parse_moment(text, "UTC")
        except NoTime as e:
            raise self.error(f"{text!r} is not a {token.text.lower()}", text_token) from e
        # local time of the zone that `bind` is given
        return n.Cast(n.Literal(text, StringType()), TimestamptzType())
