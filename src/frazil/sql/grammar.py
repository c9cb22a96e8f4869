"""Parse Iceberg's extension statements, which Spark's parser refuses, by a table of forms.

A form is a line of SQL: words stand for themselves, `<slot>` or `<field:slot>` for a part that is
read into a field of the node, `[…]` for what may be left out, `{field: WORDS}` for words that set a
field. Behind `!` a text is meant as this statement, so that what does not fit is an error; before
it, the text is tried as other forms.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from frazil.errors import ParseError
from frazil.expr.tokens import Token, tokens
from frazil.sql import nodes as n
from frazil.sql.nodes import Name, OrderTerm, Statement, Term

_REF = "[AS OF VERSION <snapshot_id:number>] [RETAIN <max_ref_age_ms:age>]"
_BRANCH = _REF + " [WITH SNAPSHOT RETENTION <retention>]"
_branch, _tag = partial(n.SetRef, kind="branch"), partial(n.SetRef, kind="tag")
FORMS: Mapping[str, Callable[..., Statement]] = {
    "ADD PARTITION FIELD ! <term> [AS <name>]": n.AddPartitionField,
    "DROP PARTITION FIELD ! <term>": n.DropPartitionField,
    "REPLACE PARTITION FIELD ! <old:term> WITH <new:term> [AS <name>]": n.ReplacePartitionField,
    "WRITE ! <write>": n.WriteOrder,
    "SET IDENTIFIER FIELDS ! <columns>": n.SetIdentifierFields,
    "DROP IDENTIFIER FIELDS ! <columns>": n.DropIdentifierFields,
    f"{{create: CREATE}} {{replace: OR REPLACE}} BRANCH ! <name> {_BRANCH}": _branch,
    f"{{create: CREATE}} BRANCH ! [{{if_not_exists: IF NOT EXISTS}}] <name> {_BRANCH}": _branch,
    f"{{replace: REPLACE}} BRANCH ! <name> {_BRANCH}": _branch,
    "DROP BRANCH ! [{if_exists: IF EXISTS}] <name>": partial(n.DropRef, kind="branch"),
    f"{{create: CREATE}} {{replace: OR REPLACE}} TAG ! <name> {_REF}": _tag,
    f"{{create: CREATE}} TAG ! [{{if_not_exists: IF NOT EXISTS}}] <name> {_REF}": _tag,
    f"{{replace: REPLACE}} TAG ! <name> {_REF}": _tag,
    "DROP TAG ! [{if_exists: IF EXISTS}] <name>": partial(n.DropRef, kind="tag"),
}
"""What may follow ALTER TABLE and a name, and the node that it becomes."""
_MILLISECONDS = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000}
_TIMES = {"year": "year", "years": "year", "month": "month", "months": "month", "day": "day", "days": "day", "date": "day",
          "hour": "hour", "hours": "hour", "date_hour": "hour"}  # fmt: skip
_WIDTHS = ("bucket", "truncate")
_LARGEST = 2**63 - 1


def parse_extension(text: str) -> Statement | None:
    """Return the extension statement that a text is; None for any other text. Raises ParseError,
    with the position, for a text that begins as one of them and goes on differently."""
    reader = _Reader(text)
    if not reader.take("ALTER", "TABLE"):
        return None
    try:
        table = reader.identifiers()
    except ParseError:
        return None
    start = reader.index
    for form, node in _COMPILED:
        reader.index = start
        fields: dict[str, Any] = {}
        if _matches(form, reader, fields):
            while reader.take(";"):
                pass
            if reader.peek().kind != "end":
                raise reader.error("expected the end of the statement")
            return node(table=table, **fields)
    return None


def with_extensions_executed(script: str) -> str | None:
    """Return a SQL script in which each extension statement stands as EXECUTE IMMEDIATE, so that
    Spark can parse it; None where it has none. Raises ParseError as `parse_extension` does."""
    parts: list[str] = []
    done, words = 0, tokens(script, lenient=True)
    for number, token in enumerate(words):
        if token.position < done or [t.value for t in words[number : number + 2]] != [
            "alter",
            "table",
        ]:
            continue
        end = next(t.position for t in words[number:] if t.text == ";" or t.kind == "end")
        statement = script[token.position : end]
        if parse_extension(statement) is None:
            continue
        literal = statement.replace("\\", "\\\\").replace("'", "\\'")
        parts += script[done : token.position], f"EXECUTE IMMEDIATE '{literal}'"
        done = end
    return "".join((*parts, script[done:])) if parts else None


# Forms
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Keywords:
    """Hold words that must stand there; `field`: the field that they set, if any."""

    words: tuple[str, ...]
    field: str | None = None


@dataclass(frozen=True)
class _FieldSlot:
    """Hold a part to be read by the method `kind` into a field."""

    field: str
    kind: str


@dataclass(frozen=True)
class _Optional:
    """Hold parts that may be left out together."""

    parts: tuple[Any, ...]


_MEANT = "!"
_PART = re.compile(r"\{(\w+): ([^}]+)\}|<(?:(\w+):)?(\w+)>|([\[\]!])|(\w+)")


def _compiled(form: str) -> tuple[Any, ...]:
    """Compile a form to its parts."""
    levels: list[list[Any]] = [[]]
    for flag, words, field, kind, mark, word in _PART.findall(form):
        if mark == "[":
            levels.append([])
        elif mark == "]":
            inside = tuple(levels.pop())
            levels[-1].append(_Optional(inside))
        elif mark:
            levels[-1].append(_MEANT)
        elif kind:
            levels[-1].append(_FieldSlot(field or kind, kind))
        else:
            levels[-1].append(_Keywords(tuple((words or word).split()), flag or None))
    return tuple(levels[0])


_COMPILED = tuple((_compiled(form), node) for form, node in FORMS.items())


def _matches(
    form: tuple[Any, ...], reader: _Reader, fields: dict[str, Any], meant: bool = False
) -> bool:
    """Read a form and collect its fields; return False where the text is another statement.
    `meant`: what does not fit is an error.
    """
    for part in form:
        match part:
            case _Keywords(words, field):
                if not reader.take(*words):
                    if meant:
                        raise reader.error(f"expected {' '.join(words)}")
                    return False
                if field is not None:
                    fields[field] = True
            case _FieldSlot(field, kind):
                value = getattr(reader, kind)()
                fields.update(value if kind in _SEVERAL else {field: value})
            case _Optional(inside):
                first = inside[0]
                if reader.comes(*first.words):
                    _matches(inside, reader, fields, meant=True)
            case _:
                meant = True
    return True


_SEVERAL = ("write", "retention")
"""Slots that are read into several fields."""


# Slots
# --------------------------------------------------------------------------------------------------


class _Reader:
    """Read the tokens of a statement. Each public method without arguments reads the slot of its
    name.
    """

    def __init__(self, text: str):
        self.text, self.tokens, self.index = text, tokens(text, lenient=True), 0

    def peek(self) -> Token:
        return self.tokens[min(self.index, len(self.tokens) - 1)]

    def error(self, problem: str) -> ParseError:
        """Make a ParseError that shows where the reader stands."""
        token = self.peek()
        start = max(self.text.rfind("\n", 0, token.position) + 1, token.position - 60)
        line = self.text[start:].split("\n", 1)[0][:120]
        near = f"{token.text!r}" if token.text else "end of the statement"
        place = f"{line}\n  {' ' * (token.position - start)}^"
        message = (
            f"Syntax error at or near {near}, position {token.position + 1}: {problem}.\n  {place}"
        )
        return ParseError(
            message,
            position=token.position,
            hint="docs/sql.md lists the statements of Iceberg's SQL extensions.",
        )

    def comes(self, *words: str) -> bool:
        """Tell whether these words or marks come next."""
        following = self.tokens[self.index : self.index + len(words)]
        return len(following) == len(words) and all(
            t.text.upper() == w and t.kind in ("word", "mark", "other")
            for t, w in zip(following, words, strict=True)
        )

    def take(self, *words: str) -> bool:
        """Consume these words or marks if they come next."""
        if not self.comes(*words):
            return False
        self.index += len(words)
        return True

    def identifier(self) -> str:
        """Read one name: a word, or anything in back-quotes; a word may begin with a digit, as in
        Spark, unless it is a number.
        """
        token = self.peek()
        if token.kind in ("word", "quoted"):
            self.index += 1
            return token.value if token.kind == "quoted" else token.text
        if (
            token.text[:1].isdigit()
            and (word := re.match(r"\w*[^\W\d]\w*", self.text[token.position :])) is not None
        ):
            end = token.position + word.end()
            while self.peek().position < end and self.peek().kind != "end":
                self.index += 1
            return word[0]
        raise self.error("expected a name")

    def identifiers(self) -> Name:
        """Read a name of several parts."""
        parts = [self.identifier()]
        while self.take("."):
            parts.append(self.identifier())
        return tuple(parts)

    name = identifier

    def columns(self) -> tuple[Name, ...]:
        """Read columns with commas between them."""
        columns = [self.identifiers()]
        while self.take(","):
            columns.append(self.identifiers())
        return tuple(columns)

    def number(self) -> int:
        """Read a whole number that a long holds."""
        sign = -1 if self.take("-") else 1
        token = self.peek()
        digits = token.value.rstrip("lL")
        if token.kind != "number" or not digits.isdigit():
            raise self.error("expected a whole number")
        if int(digits) > _LARGEST:
            raise self.error("the number is too large")
        self.index += 1
        return sign * int(digits)

    def age(self) -> int:
        """Read a duration, in milliseconds."""
        return self._milliseconds(self.number())

    def _milliseconds(self, count: int) -> int:
        token = self.peek()
        if token.kind != "word" or token.value not in _MILLISECONDS:
            raise self.error("expected DAYS, HOURS or MINUTES")
        self.index += 1
        return count * _MILLISECONDS[token.value]

    def retention(self) -> dict[str, int]:
        """Read how long a branch keeps snapshots: a number of them, an age, or both in this order."""
        fields = {}
        count = self.number()
        if self.take("SNAPSHOTS"):
            fields["min_snapshots_to_keep"] = count
            if self.peek().kind != "number":
                return fields
            count = self.number()
        return {**fields, "max_snapshot_age_ms": self._milliseconds(count)}

    def term(self) -> Term:
        """Read a column or a transform of one."""
        start = self.index
        parts = self.identifiers()
        if len(parts) > 1 or not self.take("("):
            return Term(parts)
        arguments: list[int | Name] = []
        while True:
            arguments.append(self.number() if self.peek().kind == "number" else self.identifiers())
            if self.take(")"):
                break
            if not self.take(","):
                raise self.error("expected , or )")
        function = parts[0].lower()
        widths, columns = (
            [a for a in arguments if isinstance(a, int)],
            [a for a in arguments if isinstance(a, tuple)],
        )
        if function in _WIDTHS and len(widths) == len(columns) == 1:
            return Term(columns[0], f"{function}[{widths[0]}]")
        if function in _TIMES and len(columns) == len(arguments) == 1:
            return Term(columns[0], _TIMES[function])
        if function == "identity" and len(columns) == len(arguments) == 1:
            return Term(columns[0])
        self.index = start
        if function in ("zorder", "hilbert"):
            raise self.error(
                f"{function}(…) is no order of a table; rewrite_data_files takes it as sort_order"
            )
        raise self.error(
            "transforms are bucket(n, column), truncate(width, column), years, months, days and hours(column)"
        )

    def write(self) -> dict[str, Any]:
        """Read the clauses of WRITE, in any order."""
        distributed = locally = unordered = False
        order: tuple[OrderTerm, ...] | None = None
        while self.peek().kind != "end" and not self.comes(";"):
            if self.comes("DISTRIBUTED") and not distributed:
                self._take("DISTRIBUTED", "BY", "PARTITION")
                distributed = True
            elif self.comes("UNORDERED") and order is None and not unordered:
                self._take("UNORDERED")
                unordered = True
            elif (
                (self.comes("LOCALLY") or self.comes("ORDERED")) and order is None and not unordered
            ):
                locally = self.take("LOCALLY")
                self._take("ORDERED", "BY")
                order = self._order()
            else:
                raise self.error(
                    "expected DISTRIBUTED BY PARTITION, [LOCALLY] ORDERED BY … or UNORDERED, each at most once"
                )
        if not (distributed or unordered or order is not None):
            raise self.error(
                "expected DISTRIBUTED BY PARTITION, [LOCALLY] ORDERED BY … or UNORDERED"
            )
        mode = "hash" if distributed else "none" if unordered else None if locally else "range"
        return {"order": order or (), "mode": mode}

    def _take(self, *words: str) -> None:
        """Consume words that must come next."""
        if not self.take(*words):
            raise self.error(f"expected {' '.join(words)}")

    def _order(self) -> tuple[OrderTerm, ...]:
        """Read the fields of a sort order, with or without parentheses around them."""
        in_parentheses = self.take("(")
        fields = [self._order_term()]
        while self.take(","):
            fields.append(self._order_term())
        if in_parentheses:
            self._take(")")
        return tuple(fields)

    def _order_term(self) -> OrderTerm:
        term = self.term()
        descending = self.take("DESC") or (self.take("ASC") and False)
        if not self.take("NULLS"):
            return OrderTerm(term, descending)
        if not (self.comes("FIRST") or self.comes("LAST")):
            raise self.error("expected FIRST or LAST")
        first = self.take("FIRST")
        self.index += not first
        return OrderTerm(term, descending, first)
