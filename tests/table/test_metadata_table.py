"""`frazil.load_table` resolves names of metadata tables as `format("iceberg").load` does."""

import pyarrow as pa
import pytest

import frazil
from frazil.errors import InvalidInput, NoSuchTableError, Unsupported
from frazil.table.metadata_table import MetadataTable


@pytest.fixture
def table(home):
    table = home.create_table("db.t", "id bigint, name string")
    table.append(pa.table({"id": [1, 2], "name": ["a", "b"]}))
    table.append(pa.table({"id": [3], "name": ["c"]}))
    return table


def test_a_metadata_table_opens_by_name_and_by_location(table):
    for name in ("db.t.files", "default.db.t.FILES", f"{table.location()}#files"):
        files = frazil.load_table(name)
        assert isinstance(files, MetadataTable) and files.kind == "files"
        assert (
            files.to_arrow() == table.inspect.files() and files.schema() == files.to_arrow().schema
        )
        assert files.count() == len(files) == 2 and len(files.to_pandas()) == 2
        assert "file_path: string" in repr(files) and "files" in files.name()[-1]
    assert files.to_duckdb("f").execute("SELECT sum(record_count) FROM f").fetchone() == (3,)
    assert files.to_polars().height == 2


def test_a_metadata_table_is_read_as_of_a_branch(table):
    table.manage_snapshots().create_branch(table.snapshots()[0].snapshot_id, "first").commit()
    assert frazil.load_table(f"{table.location()}#files,branch_first").count() == 1
    with pytest.raises(InvalidInput, match="Cannot select snapshot in table: HISTORY"):
        frazil.load_table(f"{table.location()}#history,branch_first")


def test_a_table_named_like_a_metadata_table_comes_first(table):
    catalog = frazil.load_catalog()
    catalog.create_namespace("db.t")
    catalog.create_table("db.t.files", "x int")
    assert frazil.load_table("db.t.files").schema().find_field("x").name == "x"


def test_the_changelog_opens_by_name(table):
    assert frazil.load_table("db.t.changes").to_arrow().num_rows == 3


def test_what_is_no_metadata_table_is_refused_by_name(table):
    with pytest.raises(NoSuchTableError):
        frazil.load_table("db.t.filez")
    with pytest.raises(
        InvalidInput, match=r"'filez' is neither a metadata table nor a snapshot selector"
    ):
        frazil.load_table(f"{table.location()}#filez")
    with pytest.raises(Unsupported, match="selects a snapshot") as refused:
        frazil.load_table("db.t.branch_first")
    assert "scan(branch='first')" in str(refused.value)
