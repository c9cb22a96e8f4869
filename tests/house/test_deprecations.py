"""A public name that is to go warns for at least two minor releases before it does, and is then gone
(CONTRIBUTING.md).
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
import types
from pathlib import Path

import pytest

import frazil
from frazil.errors import FrazilDeprecationWarning
from frazil.spec import version

ROOT = Path(__file__).resolve().parents[2]


def number(release: str) -> tuple[int, ...]:
    assert re.fullmatch(r"\d+\.\d+(\.\d+)?", release), release
    return tuple(int(part) for part in release.split("."))[:2]


def releases(call: ast.Call) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The releases since which a call of `deprecated` warns, and which removes what it names."""
    said = {k.arg: ast.literal_eval(k.value) for k in call.keywords}
    return number(said["since"]), number(said["gone"])


def is_kept(since: tuple[int, ...], gone: tuple[int, ...], now: tuple[int, ...]) -> bool:
    """Tell whether a name warns long enough, and has not outlived its time."""
    return now < gone and (gone[0] > since[0] or gone[1] >= since[1] + 2)


def test_deprecated_names_warn_for_two_minor_releases_and_then_go() -> None:
    overdue = []
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "deprecated":
                if not is_kept(*releases(node), number(frazil.__version__)):
                    overdue.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert overdue == []


def test_the_rule_of_two_minor_releases_counts_them() -> None:
    assert is_kept((0, 2), (0, 4), (0, 3)) and is_kept((0, 9), (1, 0), (0, 9))
    assert not is_kept((0, 2), (0, 3), (0, 2)) and not is_kept((0, 2), (0, 4), (0, 4))


def test_a_deprecated_name_warns_at_the_line_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    inside = types.ModuleType("inside")  # as a function of Frazil that calls `deprecated`
    code = "def old():\n    deprecated('old()', 'new()', since='0.2', gone='0.4')\n"
    inside.deprecated = version.deprecated  # type: ignore[attr-defined]
    exec(compile(code, f"{version._PACKAGE}inside.py", "exec"), inside.__dict__)
    with pytest.warns(FrazilDeprecationWarning) as seen:
        inside.old()
    line = sys._getframe().f_lineno - 1
    assert (seen[0].filename, seen[0].lineno) == (__file__, line)
    text = "old() is deprecated since Frazil 0.2, and gone in 0.4. Use new()."
    assert str(seen[0].message) == text


def test_the_version_stands_in_one_place() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"] and "version" not in project["project"]
    path = project["tool"]["hatch"]["version"]["path"]
    assert f'VERSION = "{frazil.__version__}"' in (ROOT / path).read_text()
