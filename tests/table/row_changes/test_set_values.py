"""What `set=` takes: expressions as text, constants as values or Literal; names that look like
aliases.
"""

import pyarrow as pa
import pytest

from frazil.errors import ParseError, ValidationError
from frazil.expressions import Literal
from tests.builders.catalogs import catalog_of


@pytest.fixture
def table(tmp_path):
    with catalog_of("memory", tmp_path) as catalog:
        made = catalog.create_table(
            "db.t", "id bigint, note string, target bigint, source struct<id: bigint>"
        )
        made.append([{"id": 1, "note": "a", "target": 7, "source": {"id": 5}}])
        yield made


@pytest.mark.parametrize("text", ["it's", "", "x\\", "id", "'quoted'", "null"])
def test_any_text_can_be_a_constant(table, text):
    table.update({"note": Literal(text)}, runner="in-process")
    assert table.to_arrow()["note"].to_pylist() == [text]


@pytest.mark.parametrize(
    ("text", "kind", "constant"),
    [
        ("hello", ValidationError, "'hello'"),
        ("", ParseError, "''"),
        ("it is", ParseError, "'it is'"),
    ],
)
def test_text_that_was_meant_as_a_constant_is_told_how_to_be_one(table, text, kind, constant):
    with pytest.raises(kind, match="Column note: ") as caught:
        table.update({"note": text}, runner="in-process")
    assert constant in str(caught.value) and "Literal" in str(caught.value)
    table.update({"note": constant}, runner="in-process")
    assert table.to_arrow()["note"].to_pylist() == [text]


def test_an_alias_goes_before_a_column_of_its_name(table):
    frame = pa.table({"id": [1], "v": [9]})
    merging = table.merge(frame, "target.id = source.id", runner="in-process")
    merging.when_matched_update(
        {"target.target": "source.v", "target.note": "'b'", "source.id": "source.v + 1"}
    ).execute()
    assert table.to_arrow().to_pylist() == [
        {"id": 1, "note": "b", "target": 9, "source": {"id": 10}}
    ]
