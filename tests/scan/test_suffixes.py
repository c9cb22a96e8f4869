"""Names with a suffix: which table they mean, and what of it."""

from __future__ import annotations

import pytest

from frazil.errors import NoSuchTableError
from frazil.scan.suffixes import load_named

Parts = tuple[str, ...]


def loaded(parts: Parts, *tables: Parts) -> tuple[Parts, list[str]]:
    def load(asked: Parts) -> Parts:
        if asked not in tables:
            raise NoSuchTableError(f"No table {'.'.join(asked)}.")
        return asked

    return load_named(parts, load, lambda asked: asked in tables, ".".join(parts))


@pytest.mark.parametrize(
    "suffix", ["files", "FILES", "changes", "branch_audit", "tag_v1", "snapshot_id_7"]
)
def test_the_last_part_is_a_suffix_where_the_whole_name_is_no_table(suffix: str) -> None:
    assert loaded(("db", "t", suffix), ("db", "t")) == (("db", "t"), [suffix])
    assert loaded(("db", "t", suffix), ("db", "t"), ("db", "t", suffix)) == (
        ("db", "t", suffix),
        [],
    )


def test_a_last_part_that_is_no_suffix_is_told_with_those_that_are() -> None:
    with pytest.raises(
        NoSuchTableError,
        match=r"db\.t is a table, and 'fils' is not one of its metadata tables: .*files",
    ):
        loaded(("db", "t", "fils"), ("db", "t"))
    with pytest.raises(NoSuchTableError, match=r"^No table db\.u\.fils\.$"):
        loaded(("db", "u", "fils"), ("db", "t"))


def test_a_name_of_two_parts_has_no_suffix() -> None:
    with pytest.raises(NoSuchTableError, match=r"^No table t\.files\.$"):
        loaded(("t", "files"), ("t",))
