"""Tell whether Frazil's grammar covers an expression, so that Frazil computes it as Spark does."""

from __future__ import annotations

from frazil.errors import FrazilError
from frazil.expr.functions.by_name import find_function
from frazil.expr.nodes import Call, Expression, walk
from frazil.expr.parse import parse

# functions that the parser turns into predicates, so that find_function does not know them
_TESTS = ("isnull", "isnotnull", "isnan")


def is_in_grammar(value: object) -> bool:
    """Tell whether the grammar has an expression (a text is parsed) and all functions that it
    calls; types are checked later.
    """
    try:
        expression = parse(value) if isinstance(value, str) else value
    except FrazilError:
        return False
    called = (
        {node.function for node in walk(expression) if isinstance(node, Call)}
        if isinstance(expression, Expression)
        else set()
    )
    return all(find_function(name) or name in _TESTS for name in called)
