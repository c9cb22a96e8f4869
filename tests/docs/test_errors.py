"""docs/errors.md against the code: it has a line for each error."""

from __future__ import annotations

import re
from pathlib import Path

from frazil import errors

TEXT = (Path(__file__).resolve().parents[2] / "docs/errors.md").read_text()


def test_each_error_has_a_cause_and_a_cure() -> None:
    listed = {
        name
        for line in TEXT.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`(\w+)`", line.split("|")[1])
    }
    classes = {
        item.__name__
        for item in vars(errors).values()
        if isinstance(item, type) and issubclass(item, errors.FrazilError)
    }
    assert listed == classes - {"FrazilError"}
