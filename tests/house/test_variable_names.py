"""Variables are named by what they hold: `columns`, `field_ids`, `mask`, not `found` or `made`. The
names that are left may only get fewer.
"""

from __future__ import annotations

import ast
from collections import Counter

from tests.house.test_structure import TREES, room

VAGUE = {"found", "given", "kept", "known", "made", "told"}

# How many assignments to such a name a room may have. A room or name that is not listed may have
# none. These numbers may only fall: rename the variable after what it holds, and lower the number
# when some are gone.
CEILING: dict[str, dict[str, int]] = {
    "storage": {"known": 1},
    "scan": {"known": 4},
    "catalog": {"known": 2},
    "ops": {"given": 1},
    "maintain": {"known": 5, "made": 1},
}


def vague_names(tree: ast.AST) -> list[tuple[str, int]]:
    """List the variables of a module that are assigned under a vague name, in comprehensions too:
    (name, line).
    """
    stores = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    return [(n.id, n.lineno) for n in stores if n.id in VAGUE]


def over_the_ceiling(trees: dict[str, ast.Module], ceiling: dict[str, dict[str, int]]) -> list[str]:
    """List every place of a name that a room has more often than its ceiling says."""
    places = [
        (room(module), name, f"{module}:{line}")
        for module, tree in trees.items()
        for name, line in vague_names(tree)
    ]
    counts = Counter((where, name) for where, name, _ in places)
    return [
        f"{name} in {place}"
        for where, name, place in places
        if counts[where, name] > ceiling.get(where, {}).get(name, 0)
    ]


def test_no_room_has_more_variables_of_a_vague_name_than_before() -> None:
    assert over_the_ceiling(TREES, CEILING) == []


def test_a_new_variable_of_a_vague_name_is_told_with_its_place() -> None:
    module = ast.parse(
        "def f(rows):\n    found = [r for r in rows]\n    return [kept for kept in found]\n"
    )
    trees = {"frazil.spec.example": module}
    assert over_the_ceiling(trees, {}) == [
        "found in frazil.spec.example:2",
        "kept in frazil.spec.example:3",
    ]
    assert over_the_ceiling(trees, {"spec": {"found": 1}}) == ["kept in frazil.spec.example:3"]
    assert over_the_ceiling(trees, {"spec": {"found": 2, "kept": 1}}) == [], (
        "fewer than the ceiling are welcome"
    )
