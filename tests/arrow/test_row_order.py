"""The order of rows by several columns is Arrow's, also where the keys are sorted as numbers."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from frazil.arrow.write.row_order import row_order

LEAST, MOST = -(2**63), 2**63 - 1
KINDS = {
    "any of 64 bits": lambda draw, n: pa.array(draw.integers(LEAST, MOST, n)),
    "the ends": lambda draw, n: pa.array(draw.choice([LEAST, LEAST + 1, -1, 0, 1, MOST], n)),
    "unsigned": lambda draw, n: pa.array(draw.integers(0, 2**64 - 1, n, dtype=np.uint64)),
    "alike but for the last bits": lambda draw, n: pa.array(
        (draw.integers(-3, 4, n) << 57) + draw.integers(0, 3, n)
    ),
    "few": lambda draw, n: pa.array(draw.integers(-5, 5, n).astype(np.int32)),
    "flags": lambda draw, n: pa.array(draw.integers(0, 2, n).astype(bool)),
    "dates": lambda draw, n: pa.array(draw.integers(-9, 9, n).astype(np.int32), pa.date32()),
    "times": lambda draw, n: pa.array(draw.integers(-(2**60), 2**60, n), pa.timestamp("us")),
    "text": lambda draw, n: pa.array(draw.integers(0, 5, n).astype(str)),
    "one value": lambda draw, n: pa.array(np.full(n, 7)),
}


@pytest.mark.parametrize("seed", range(40))
def test_order_is_arrows(seed: int):
    draw = np.random.default_rng(seed)
    for _ in range(25):
        count = int(draw.integers(1, 300))
        columns = {}
        for number in range(draw.integers(1, 4)):
            column = KINDS[str(draw.choice([*KINDS]))](draw, count)
            null = pa.array(draw.random(count) < draw.choice([0, 0.2, 1]))
            columns[f"c{number}"] = pc.if_else(null, pa.scalar(None, column.type), column)
        directions = [(name, str(draw.choice(["ascending", "descending"]))) for name in columns]
        expected = pc.sort_indices(pa.table(columns), sort_keys=directions)
        assert row_order(columns, directions).to_pylist() == expected.to_pylist(), directions


def test_no_rows_and_one():
    for values in ([], [3], [None]):
        column = pa.array(values, pa.int64())
        assert row_order({"a": column}, [("a", "ascending")]).to_pylist() == [*range(len(values))]
