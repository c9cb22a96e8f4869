"""Errors name their table."""

from __future__ import annotations

import pytest

from frazil.errors import FrazilError, InvalidInput, NoSuchTableError
from frazil.ops.operation import naming


def raised(error: Exception) -> Exception:
    with pytest.raises(type(error)) as caught, naming("cat.db.t", "memory://t"):
        raise error
    return caught.value


def test_an_error_without_a_table_gets_its_name() -> None:
    found = raised(InvalidInput("limit must not be negative.", hint="Leave it out."))
    assert str(found) == "Table cat.db.t: limit must not be negative. Leave it out."
    assert isinstance(found, FrazilError) and found.facts["table"] == "cat.db.t"


@pytest.mark.parametrize(
    "error",
    [
        NoSuchTableError("gone", table="other.t"),
        InvalidInput("cat.db.t is read-only."),
        InvalidInput("at memory://t"),
    ],
)
def test_an_error_that_names_a_table_keeps_its_text(error: FrazilError) -> None:
    text = str(error)
    assert str(raised(error)) == text


def test_errors_of_others_pass() -> None:
    assert str(raised(KeyError("x"))) == "'x'"
