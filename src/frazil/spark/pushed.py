"""Filters that Spark hands to a scan, as predicates that planning can use.

A filter comes as a tree of Catalyst. Its own text is Spark SQL, which Frazil's grammar reads; but the text of a function that somebody
registered looks like that of Spark's own, so the tree must hold nothing but what is listed here. What is left out prunes nothing: Spark
evaluates every filter itself.
"""

from __future__ import annotations

from typing import Any

import msgspec

from frazil.errors import FrazilError
from frazil.expr.nodes import Predicate
from frazil.expr.parse import parse

_PACKAGE = "org.apache.spark.sql.catalyst.expressions."
_KNOWN = frozenset(
    _PACKAGE + name
    for name in (
        "And", "Or", "Not", "EqualTo", "EqualNullSafe", "GreaterThan", "GreaterThanOrEqual", "LessThan", "LessThanOrEqual", "In", "InSet",
        "IsNull", "IsNotNull", "IsNaN", "StartsWith", "Like", "AttributeReference", "Literal", "GetStructField", "Cast",
    )
)  # fmt: skip
_LONGEST = 1_000_000  # characters


def predicates(filters: Any) -> list[Predicate]:
    """Those of a sequence of Catalyst's expressions that Frazil understands; names are those of the scan."""
    found = []
    for n in range(filters.length()):
        tree = filters.apply(n)
        if all(map(_is_known, msgspec.json.decode(tree.toJSON()))) and len(text := tree.sql()) <= _LONGEST:
            try:
                found.append(parse(text))
            except FrazilError:
                continue
    return found


def _is_known(node: dict[str, Any]) -> bool:
    """A column has its plain name; a cast to date is the only one that means the same whatever Spark is set to."""
    if node["class"] == _PACKAGE + "Cast" and node.get("dataType") != "date":
        return False
    return node["class"] in _KNOWN and node.get("qualifier") in (None, [], "[]")
