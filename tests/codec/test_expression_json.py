"""Filters as the JSON of REST requests: never narrower than the filter, whatever Java makes of
nulls, NaN, zeros and uuids.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from frazil.codec.expression_json import filter_to_json
from frazil.expr.bind import bind
from frazil.expr.bound import BoundReference
from frazil.expr.parse import parse
from frazil.spec import types as i
from frazil.spec.schema import Schema

FIELDS = {
    "n": i.IntegerType(), "l": i.LongType(), "f": i.FloatType(), "d": i.DoubleType(), "s": i.StringType(), "b": i.BooleanType(),
    "dec": i.DecimalType(9, 2), "day": i.DateType(), "ts": i.TimestampType(), "tz": i.TimestamptzType(), "u": i.UUIDType(),
    "x": i.BinaryType(), "hidden": i.LongType(),
}  # fmt: skip
STRUCT = i.NestedField(90, "st", i.StructType(i.NestedField(91, "inner", i.LongType())))
SCHEMA = Schema(
    *(i.NestedField(n, name, type_) for n, (name, type_) in enumerate(FIELDS.items(), 1)), STRUCT
)


def sent(text: str) -> Any:
    def name(column: BoundReference) -> str | None:
        return None if column.name == "hidden" else column.name

    return filter_to_json(bind(parse(text), SCHEMA), name)


def of(word: str, column: str, *value: Any) -> dict[str, Any]:
    return {"type": word, "term": column, **({"value": value[0]} if value else {})}


def both(word: str, left: Any, right: Any) -> dict[str, Any]:
    return {"type": word, "left": left, "right": right}


CASES = [
    ("n = 5", of("eq", "n", 5)),
    ("NOT (n < 5)", of("gt-eq", "n", 5)),
    ("n <> 5", of("not-eq", "n", 5)),
    ("l IN (1, 2)", {"type": "in", "term": "l", "values": [1, 2]}),
    ("l NOT IN (1, 2)", {"type": "not-in", "term": "l", "values": [1, 2]}),
    ("s IS NULL OR n > 1", both("or", of("is-null", "s"), of("gt", "n", 1))),
    ("s IS NOT NULL", of("not-null", "s")),
    ("n <=> 5", of("eq", "n", 5)),
    ("NOT (n <=> 5)", both("or", of("is-null", "n"), of("not-eq", "n", 5))),
    ("b", of("eq", "b", True)),
    ("NOT b", of("not-eq", "b", True)),
    ("st.inner >= 3", of("gt-eq", "st.inner", 3)),
    ("dec < 1.5", of("lt", "dec", "1.50")),
    ("day >= DATE '2024-02-29'", of("gt-eq", "day", "2024-02-29")),
    ("ts < TIMESTAMP '2024-01-01 00:00:01.5'", of("lt", "ts", "2024-01-01T00:00:01.5")),
    ("tz < TIMESTAMP '2024-01-01 00:00:00'", of("lt", "tz", "2024-01-01T00:00:00+00:00")),
    # a prefix is a range: Java 1.11.0 fails at starts-with where a partition value is null
    ("s LIKE 'ab%'", both("and", of("gt-eq", "s", "ab"), of("lt", "s", "ac"))),
    ("s LIKE '\U0010ffff%'", of("gt-eq", "s", "\U0010ffff")),
    ("s NOT LIKE 'ab%'", True),
    # NaN is above all numbers in Spark, and outside of the bounds
    ("d > 1", both("or", of("gt", "d", 1.0), of("is-nan", "d"))),
    ("NOT (d < 1)", both("or", of("gt-eq", "d", 1.0), of("is-nan", "d"))),
    ("d < 1", of("lt", "d", 1.0)),
    ("isnan(d)", of("is-nan", "d")),
    ("d = double('NaN')", of("is-nan", "d")),
    # both zeros are equal in Spark
    ("d = 0", both("and", of("gt-eq", "d", -0.0), of("lt-eq", "d", 0.0))),
    ("d < 0", of("lt-eq", "d", 0.0)),
    ("d <> 0", True),
    ("d IN (0, 1)", True),
    # what must not be sent becomes true, also under a negation
    ("hidden = 1", True),
    ("n = 1 AND hidden = 1", of("eq", "n", 1)),
    ("n = 1 OR hidden = 1", True),
    ("NOT (n = 1 AND hidden = 1)", True),
    ("NOT (n = 1 OR hidden = 1)", of("not-eq", "n", 1)),
    ("n % 2 = 0", True),
    ("st.inner IS NULL", True),
    ("x = X'01'", True),
    ("s LIKE '%b'", True),
    ("true", True),
    ("false", False),
]


@pytest.mark.parametrize("text, expected", CASES)
def test_a_filter_is_sent_as(text: str, expected: Any) -> None:
    found = sent(text)
    assert found == expected and json.loads(json.dumps(found)) == expected


def test_uuids_and_floats_that_are_no_singles_are_not_sent() -> None:
    assert sent("u = '12345678-1234-1234-1234-123456789abc'") is True
    found = sent("f < 0.1")
    assert found is True or found["value"] == pytest.approx(0.1, abs=1e-7)


def test_the_sign_of_zero_is_sent() -> None:
    assert '"value": -0.0' in json.dumps(sent("d >= 0")) and '"value": 0.0' in json.dumps(
        sent("d <= 0")
    )


def test_long_lists_are_not_sent() -> None:
    assert sent(f"l IN ({', '.join(map(str, range(2000)))})") is True
