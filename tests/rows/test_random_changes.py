"""Random scripts of append, delete, update and overwrite, in both modes, against the model; in v3
the lineage of every row as well.
"""

import math
import os
import tempfile
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.model import sql
from tests.model import steps as s
from tests.model.play import CATALOG, Player, Script, play
from tests.model.sql import both, column, compare, either, literal, negated, of, order
from tests.model.values import Column

LONG = bool(os.environ.get("FRAZIL_SOAK"))
pytestmark = [pytest.mark.soak] if LONG else []
PATH = CATALOG.replace('"memory"', '"path", warehouse={!r}')
COLUMNS = (
    Column(1, "k", "long"), Column(2, "id", "long"), Column(3, "x", "double"), Column(4, "s", "string"), Column(5, "p", "int"),
    Column(6, "t", "struct", None, (Column(7, "a", "int"), Column(8, "b", "string"))),
)  # fmt: skip
ID, X, S, P, A, B = (column(path) for path in ("id", "x", "s", "p", "t.a", "t.b"))
ABOVE_1, STARTS, NEGATIVE = (
    of("x > 1", lambda x: order(x) > order(1.0), X),
    sql.starts(S, "a"),
    of("x < 0", lambda x: order(x) < order(0.0), X),
)
P_IS_1 = compare(P, "=", literal(1, "int"))
CONDITIONS = (
    ABOVE_1,
    negated(ABOVE_1),
    of("x > 100", lambda x: order(x) > order(100.0), X),
    of("isnan(x)", lambda x: x is not None and math.isnan(x), X, nulls=True),
    sql.is_null(X),
    sql.is_in(ID, [literal(v, "long") for v in (1, 3, 5, 7, None)]),
    of("id NOT IN (1, 2, 3)", lambda i: i not in (1, 2, 3), ID),
    either(STARTS, NEGATIVE),
    both(STARTS, P_IS_1),
    P_IS_1,
    compare(P, "<=>", literal(None, "int")),
    compare(A, "=", literal(2, "int")),
    compare(ID, "=", P),
    sql.true(),
    of("false", lambda: False),
    of("x > null", lambda x: None, X, nulls=True),
)
SETTINGS = (
    (("x", of("x + 1", lambda x: x + 1, X)),),
    (("s", sql.concat(S, "!")),),
    (("p", sql.plus_one(P)), ("id", P)),
    (("s", sql.given(None)), ("x", sql.given(2.5))),
    (("p", of("cast(id % 3 as int)", lambda i: int(math.fmod(i, 3)), ID)),),
    (("t.a", sql.coalesce(P, literal(9, "int"))),),
    (("id", ID),),
)
maybe = lambda values: st.one_of(st.none(), st.sampled_from(values))
ROW = st.fixed_dictionaries({
    "id": maybe([1, 2, 3, 4, 7, -5]), "x": maybe([0.0, -0.0, 1.0, 1.5, -2.0, float("nan"), float("inf")]), "s": maybe(["a", "ab", "b", ""]),
    "p": maybe([0, 1, 2]), "t": maybe([{"a": 2, "b": "q"}, {"a": None, "b": "r"}, {"a": 5, "b": None}]),
})  # fmt: skip
ROWS = lambda least, most: st.lists(ROW, min_size=least, max_size=most).map(tuple)
MODES = st.sampled_from(["copy-on-write", "merge-on-read"])
STEP = st.one_of(
    st.builds(s.Append, ROWS(1, 6)),
    st.builds(s.Delete, st.sampled_from(CONDITIONS), mode=MODES),
    st.builds(s.Update, st.sampled_from(SETTINGS), st.sampled_from(CONDITIONS), mode=MODES),
    st.builds(s.Overwrite, ROWS(0, 2), st.sampled_from(CONDITIONS[:12])),
)
PROPERTIES = st.fixed_dictionaries({
    "write.format.default": st.sampled_from(["parquet", "parquet", "orc", "avro"]),
    "write.delete.granularity": st.sampled_from(["file", "partition"]), "write.delete.mode": MODES,
})  # fmt: skip
BY = st.sampled_from([(), ("p",), ("bucket(2, id)",), ("truncate(1, s)", "p")])


class RowsOnly(Player):
    """Compares rows, lineage, metrics and files after each step; what earlier snapshots and the
    changelog show is asked in tests/model.
    """

    def look_around(self):
        pass

    def finish(self):
        self.files()


def with_keys(steps):
    """Every row gets the next number, its key."""
    number = 0
    for step in steps:
        if rows := getattr(step, "rows", ()):
            step = replace(step, rows=tuple({"k": number + n, **row} for n, row in enumerate(rows)))
            number += len(rows)
        yield step


@settings(
    max_examples=400 if LONG else 25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(
    st.sampled_from([1, 2, 3]),
    BY,
    PROPERTIES,
    ROWS(2, 6),
    ROWS(2, 6),
    st.lists(STEP, min_size=1, max_size=6),
)
def test_random_changes_leave_the_rows_and_lineage_of_the_model(
    version, by, properties, first, second, steps
):
    if version == 1:  # has no merge-on-read
        properties = {**properties, "write.delete.mode": "copy-on-write"}
        steps = [
            replace(step, mode="copy-on-write") if hasattr(step, "mode") else step for step in steps
        ]
    every = [
        look
        for step in (s.Append(first), s.Append(second), *steps)
        for look in (step, s.Look(sql.true()))
    ]
    with tempfile.TemporaryDirectory() as home:
        script = Script(COLUMNS, version, by, tuple(properties.items()), catalog=PATH.format(home))
        assert play(script, with_keys(every), RowsOnly).played == len(every)
