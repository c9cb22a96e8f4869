"""Names and locations: which table they mean, what their suffixes select, and where a write goes."""

from __future__ import annotations

from pathlib import Path

import pytest

import frazil
from frazil.errors import InvalidInput, NoSuchTableError
from frazil.ops.find_table import find_in, find_table, has_suffix, is_location
from tests.builders.catalogs import catalog_of

SUFFIXES = ("files", "FILES", "changes", "branch_audit", "tag_v1", "snapshot_id_7")


@pytest.fixture
def catalog(tmp_path: Path) -> frazil.catalog.Catalog:
    catalog = catalog_of("sql", tmp_path)
    catalog.create_table("db.t", "id bigint")
    return catalog


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_last_part_is_a_suffix_where_the_whole_name_is_no_table(
    catalog: frazil.catalog.Catalog, suffix: str
) -> None:
    found = find_in(catalog._backend, ("db", "t", suffix))
    assert found.loaded.identifier == ("db", "t") and found.suffixes == (suffix,)
    assert found.place == f"{catalog.name}.db.t" and found.name == f"{catalog.name}.db.t.{suffix}"
    catalog.create_namespace("db.t")
    catalog.create_table(("db", "t", suffix), "id bigint")
    found = find_in(catalog._backend, ("db", "t", suffix))
    assert found.loaded.identifier == ("db", "t", suffix) and found.suffixes == ()
    assert found.written_branch() is None


def test_a_last_part_that_is_no_suffix_is_told_with_those_that_are(
    catalog: frazil.catalog.Catalog,
) -> None:
    words = r"db\.t is a table, and 'fils' is not one of its metadata tables: .*files"
    with pytest.raises(NoSuchTableError, match=words):
        find_in(catalog._backend, ("db", "t", "fils"))
    for parts in (("db", "u", "fils"), ("t", "files")):
        with pytest.raises(NoSuchTableError) as caught:
            find_in(catalog._backend, parts)
        assert "metadata tables" not in str(caught.value)


def test_a_write_goes_to_the_table_or_to_the_branch_of_its_name(
    catalog: frazil.catalog.Catalog,
) -> None:
    find = lambda *suffix: find_in(catalog._backend, ("db", "t", *suffix))
    assert find().written_branch() is None and find("branch_a.b").written_branch() == "a.b"
    for suffix in ("files", "changes", "tag_v1", "snapshot_id_7", "at_timestamp_5"):
        with pytest.raises(InvalidInput, match="only tables and branches take writes"):
            find(suffix).written_branch()


def test_a_location_has_its_suffixes_behind_a_number_sign(tmp_path: Path) -> None:
    table = catalog_of("path", tmp_path).create_table("db.t", "id bigint")
    location = table.location()
    found = find_table(f"{location}#files,branch_main", {}, {})
    assert (found.place, found.suffixes) == (location, ("files", "branch_main"))
    assert (found.selected().view, dict(found.selected().selectors)) == (
        "files",
        {"branch": "main"},
    )
    assert find_table(location, {}, {}).written_branch() is None


def test_what_is_a_location_and_what_has_a_suffix_shows_in_the_text() -> None:
    assert is_location("/a/b") and is_location("file:x") and not is_location("db.t")
    assert not is_location(("a/b", "t"))
    assert has_suffix("db.t.branch_a") and has_suffix("/a/t#files")
    assert not has_suffix("db.branch_a") and not has_suffix("/a/t") and not has_suffix("db.t.u")
