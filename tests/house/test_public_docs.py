"""Each public class, function, method and property has a docstring, which `make docs` shows, and that
of a dataclass names its fields; and `typing.get_type_hints` finds the types of each.
"""

from __future__ import annotations

import inspect
import re
import typing
from dataclasses import fields, is_dataclass
from fnmatch import fnmatch
from typing import Any

from docs.site.hooks import API, shown
from frazil.expr import nodes
from tests.house.public_docs import exported, own_methods, public_classes


def is_protocol(cls: type[Any]) -> bool:
    return bool(getattr(cls, "_is_protocol", False))


def test_every_public_class_and_function_has_a_docstring() -> None:
    values = {**exported(), **{f"{c.__module__}.{c.__name__}": c for c in public_classes()}}
    assert len(values) > 300
    assert [name for name, value in values.items() if not value.__doc__] == []


def test_every_public_method_and_property_has_a_docstring() -> None:
    """Its own, or that of the method which it overrides; those of protocols are written by the
    classes that serve them.
    """
    seen, without = 0, set()
    for cls in public_classes():
        for owner, name, member in own_methods(cls):
            seen += 1
            above = (vars(c)[name] for c in cls.__mro__ if name in vars(c))
            if not is_protocol(owner) and not any(inspect.getdoc(m) for m in (member, *above)):
                without.add(f"{owner.__module__}:{owner.__name__}.{name}")
    assert seen > 700 and sorted(without) == []


def test_the_docstring_of_a_public_dataclass_names_each_field() -> None:
    """Its own docstring, or that of a class above it; `added_…` names all fields that begin so. The
    operands of predicates are excepted.
    """
    seen, without = 0, set()
    for cls in public_classes():
        if is_dataclass(cls) and cls.__module__ != nodes.__name__:
            own = [c for c in cls.__mro__ if c.__module__.startswith("frazil")]
            words = re.findall(r"[\w…]*\w[\w…]*", " ".join(c.__doc__ or "" for c in own))
            for field in fields(cls):
                seen += 1
                if not any(fnmatch(field.name, word.replace("…", "*")) for word in words):
                    without.add(f"{cls.__module__}:{cls.__name__}.{field.name}")
    assert seen > 400 and sorted(w for w in without if "._" not in w) == []


def test_the_reference_shows_each_public_class_and_function() -> None:
    """A page names it, or the module that defines it. What `frazil.catalog` exports for other rooms
    is left out.
    """
    inside = ("frazil.catalog.configuration", "frazil.catalog.load", "frazil.catalog.path.location")
    places = {name for page in API for name in shown(page)}
    values = [*exported().values(), *public_classes()]
    homes = {(v.__module__, f"{v.__module__}.{v.__qualname__}") for v in values}
    missing = [name for home, name in sorted(homes) if not {home, name} & places]
    assert len(homes) > 200
    assert [name for name in missing if not name.startswith(inside)] == []


def test_the_types_of_all_public_names_can_be_looked_up() -> None:
    """Web frameworks, command lines and documentation are made of them."""
    values: dict[str, Any] = exported()
    for cls in public_classes():
        values[cls.__qualname__] = cls
        for _, name, member in own_methods(cls):
            function = getattr(member, "fget", None) or getattr(member, "func", None) or member
            values[f"{cls.__qualname__}.{name}"] = function
    without = []
    for name, value in values.items():
        try:
            hints = typing.get_type_hints(value)
        except Exception as error:
            without.append(f"{name}: {error}")
        else:
            assert name != "Table.to_pandas" or hints["return"].__name__ == "DataFrame"
    assert len(values) > 1000 and without == []
