"""Refuse texts in double quotes that are also names of columns: in Spark SQL `"s"` is the text s,
in PyIceberg's filters and in the SQL standard it is the column. `"s" = 'a'` would silently compare
two constants, so such texts are refused whichever was meant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from frazil.errors import InvalidInput, ValidationError
from frazil.expr.nodes import Expression, in_double_quotes
from frazil.expr.sql_text import back_quoted, quoted_text
from frazil.expr.tokens import Token, tokens
from frazil.spec.schema import Schema

ColumnOf = Callable[[str], str | None]
"""Return the SQL for the column whose full name a text is; None: there is no such column."""
_TYPED = ("date", "time", "timestamp", "timestamp_ntz", "timestamp_ltz", "interval", "x")


def columns_of(schema: Schema) -> ColumnOf:
    """Make a look-up of the columns of a schema, at any depth of structs, lists and maps. Case is
    ignored even where names are compared with their case: whoever writes `"S"` may mean the column
    s, and a wrong guess would change all rows."""

    def column_of(text: str) -> str | None:
        try:
            field = schema.get_field(text, case_sensitive=False)
        except ValidationError:  # several columns have this name if case is ignored
            return back_quoted([text])
        return (
            None
            if field is None
            else back_quoted(
                [*(schema.by_id[i].name for i in schema.parents[field.field_id]), field.name]
            )
        )

    return column_of


def columns_of_sides(sides: Sequence[tuple[str, ColumnOf]]) -> ColumnOf:
    """Make a look-up of the columns of several aliased sides: `s`, or `target.s`."""

    def column_of(text: str) -> str | None:
        for alias, of_side in sides:
            head, rest = text[: len(alias) + 1], text[len(alias) + 1 :]
            led = head.lower() == f"{alias}.".lower()
            if (column := of_side(text) or (of_side(rest) if led else None)) is not None:
                return f"{alias}.{column}"
        return None

    return column_of


def refuse_column(text: str, column_of: ColumnOf) -> None:
    """Raise InvalidInput for a text that was typed in double quotes and is the name of a column."""
    if (column := column_of(text)) is not None:
        same = column.replace("`", "").endswith(text.replace("`", ""))
        named = "" if same else f" but for its case, {column}"
        raise InvalidInput(
            f'"{text}" in double quotes is a text in Spark SQL, and there is a column of that name{named}: either may be meant.',
            hint=f"Write {column} for the column, {quoted_text(text)} in single quotes for the text.",
            column=text,
        )


def refuse_columns(condition: object, column_of: ColumnOf) -> None:
    """Raise InvalidInput if an expression, or Spark SQL text that Frazil's grammar may not cover,
    has a column in double quotes.
    """
    texts = (
        _of_text(condition)
        if isinstance(condition, str)
        else in_double_quotes(condition)
        if isinstance(condition, Expression)
        else ()
    )
    for text in texts:
        refuse_column(text, column_of)


def _of_text(text: str) -> list[str]:
    if '"' not in text:
        return []
    every = tokens(text, lenient=True)
    return [
        t.value
        for n, t in enumerate(every)
        if t.text.startswith('"') and t.kind == "string" and _stands_alone(every, n)
    ]


def _stands_alone(every: Sequence[Token], n: int) -> bool:
    """Tell whether a text is not one of several adjacent texts, nor part of a constant such as
    DATE"2026-01-01".
    """
    before = every[n - 1] if n else None
    if before is not None and (
        before.kind == "string" or (before.kind == "word" and before.value in _TYPED)
    ):
        return False
    return every[n + 1].kind != "string"
