"""Arrays and scalars made without pyarrow's conversion are those it would have made."""

import decimal
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.expr.building import column, from_numpy, scalar, to_numpy

VALUES = {
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.uint8(): st.integers(0, 255),
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.float64(): st.floats(allow_nan=False),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(st.characters(exclude_categories=["Cs"])),
    pa.binary(): st.binary(),
    pa.null(): st.none(),
    pa.decimal128(9, 2): st.decimals(-(10**6), 10**6, places=2),
    pa.struct([]): st.just({}),
}
PAIR = pa.struct([("key", pa.int32()), ("value", pa.binary())])


@st.composite
def columns(draw):
    type_ = draw(st.sampled_from(list(VALUES)))
    return type_, draw(st.lists(VALUES[type_] | st.none(), max_size=20))


@settings(deadline=None)
@given(columns())
def test_columns_are_as_pyarrow_makes_them(made):
    type_, values = made
    found = column(values, type_)
    found.validate(full=True)
    assert found.equals(pa.array(values, type_))
    assert [scalar(v, type_) for v in values] == [pa.scalar(v, type_) for v in values]


@settings(deadline=None)
@given(
    st.lists(st.lists(st.tuples(VALUES[pa.int32()], VALUES[pa.binary()])) | st.none(), max_size=8)
)
def test_lists_of_pairs_are_as_pyarrow_makes_them(values):
    type_ = pa.list_(pa.field("item", PAIR))
    found = column(values, type_)
    found.validate(full=True)
    assert found.equals(
        pa.array(
            [None if v is None else [{"key": a, "value": b} for a, b in v] for v in values], type_
        )
    )


@settings(deadline=None)
@given(columns(), st.integers(0, 9), st.integers(0, 9))
def test_numbers_and_booleans_come_back_as_numpy_also_from_a_slice(made, begin, length):
    type_, values = made
    if not (pa.types.is_primitive(type_) and not pa.types.is_decimal(type_)):
        return
    known = [v for v in values if v is not None][begin : begin + length]
    found = to_numpy(pa.array([v for v in values if v is not None], type_).slice(begin, length))
    assert found.tolist() == pa.array(known, type_).to_pylist()


def test_numpy_values_get_the_type_and_the_nulls_they_are_given():
    missing = np.array([False, True, False])
    assert from_numpy(np.array([1, 2, 3]), missing=missing).equals(pa.array([1, None, 3]))
    assert from_numpy(np.array([True, False, True]), missing=missing).equals(
        pa.array([True, None, True])
    )
    assert from_numpy(np.array([1, 2, 3], np.int32), pa.date32()).equals(
        pa.array([1, 2, 3], pa.int32()).cast(pa.date32())
    )
    assert from_numpy(np.arange(6)[::2]).equals(pa.array([0, 2, 4]))
    assert scalar(decimal.Decimal("1.50"), pa.decimal128(9, 2)) == pa.scalar(
        decimal.Decimal("1.50"), pa.decimal128(9, 2)
    )


@pytest.mark.parametrize(
    ("value", "type_"),
    [(2**31, pa.int32()), (2**63, pa.int64()), (-1, pa.uint8()), ("x", pa.int32())],
)
def test_what_does_not_fit_is_an_error(value, type_):
    with pytest.raises((OverflowError, TypeError)):
        column([value], type_)


PLANNING = """
import sys
class NoPandas:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pandas":
            raise AssertionError("pandas is imported")
sys.meta_path.insert(0, NoPandas())
import frazil
table = frazil.load_table(sys.argv[1])
for where in ("TRUE", "id = 3 and name in ('a', 'b')", "day between date '2024-01-02' and date '2024-02-03' or price < 2.5"):
    table.scan(row_filter=where).plan_files()[0:1]
print("planned")
"""


def test_a_table_is_opened_and_planned_without_pandas(tmp_path):
    import frazil

    catalog = frazil.load_catalog("cold", type="path", warehouse=str(tmp_path))
    schema = "id bigint, name string, day date, price decimal(9, 2)"
    table = catalog.create_table("db.t", schema, partition_by=["month(day)", "bucket(4, id)"])
    rows = {
        "id": range(40),
        "name": [str(i) for i in range(40)],
        "day": pa.array([19000 + 9 * i for i in range(40)], pa.int32()).cast(pa.date32()),
        "price": pa.array([decimal.Decimal(i) for i in range(40)], pa.decimal128(9, 2)),
    }
    table.append(pa.table({**rows, "id": pa.array(rows["id"], pa.int64())}))
    done = subprocess.run(
        [sys.executable, "-c", PLANNING, table.location()],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "planned\n", done.stderr
