"""Find the source columns that a MERGE with schema evolution may add to the table, or widen: those
that its clauses assign.
"""

from __future__ import annotations

from frazil.errors import ParseError
from frazil.expr.nodes import Expression, Reference
from frazil.rows.assign import as_expression, name_parts
from frazil.rows.clauses import Do, Merge
from frazil.spec.schema import Schema


def columns_to_add(merge: Merge, target: Schema, source: Schema, case_sensitive: bool) -> Schema:
    """Return all source columns if a clause is UPDATE * or INSERT *, otherwise those that a clause
    assigns to a column of the same name.
    """
    if any(clause.takes_all for clause in merge.clauses):
        return source
    names = {
        _plain(name, merge)
        for clause in merge.clauses
        if clause.do in (Do.UPDATE, Do.INSERT)
        for name, value in clause.assignments
        if _own(name, value, merge, case_sensitive)
    }
    chosen = [
        f
        for f in source.fields
        if _same_as_any(f.name, names, case_sensitive)
        and target.get_field(f.name, case_sensitive) is None
    ]
    return Schema(*chosen)


def _plain(name: str, merge: Merge) -> str:
    parts = name_parts(name)
    return ".".join(parts[1:] if len(parts) > 1 and parts[0] == merge.target_alias else parts)


def _own(name: str, value: object, merge: Merge, case_sensitive: bool) -> bool:
    """Tell whether an assignment is `x = source.x`, the only form from which the type of a new
    column follows.
    """
    if not isinstance(value, str | Expression):
        return False
    try:
        expression = as_expression(value)
    except ParseError:  # text that only Spark can parse is not a plain column
        return False
    if not isinstance(expression, Reference):
        return False
    parts = expression.parts[1:] if expression.parts[0] == merge.source_alias else expression.parts
    return _same_as_any(".".join(parts), {_plain(name, merge)}, case_sensitive)


def _same_as_any(name: str, names: set[str], case_sensitive: bool) -> bool:
    return name in names or (not case_sensitive and name.lower() in {n.lower() for n in names})
