"""A file rewritten as a stream: new versions in the places of the old ones, whatever the batches
are; a file without a hit stays.
"""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.rows import rewrite
from frazil.rows.rewrite import RemovedRows

SCHEMA = pa.schema([("v", pa.int64())])


def run(monkeypatch, count, fates, copy_size, change_size, with_places=True):
    """`fates[i]`: 0 stays, 1 goes, 2 gets the new value -i. Returns the values written and how many
    were copied.
    """

    def rows_without(task, positions, context):
        left = np.setdiff1d(np.arange(count), positions)
        for at in range(0, len(left), copy_size):
            part = left[at : at + copy_size]
            yield pa.RecordBatch.from_arrays([pa.array(part), pa.array(part)], names=["v", "\0pos"])

    found = RemovedRows()

    def changes():
        for at in range(0, count, change_size):
            here = [i for i in range(at, min(count, at + change_size)) if fates[i]]
            new = [i for i in here if fates[i] == 2]
            found.add(here, updated=len(new), deleted=len(here) - len(new))
            if new:
                columns, names = [pa.array([-i for i in new])], ["v"]
                if with_places:
                    columns, names = [*columns, pa.array(new)], [*names, rewrite.POS]
                yield pa.RecordBatch.from_arrays(columns, names=names)

    monkeypatch.setattr(rewrite, "rows_without", rows_without)
    context = SimpleNamespace(
        projection=SimpleNamespace(fields=()), sharing_deletes=lambda projection: None
    )
    pieces = list(rewrite.rewritten(None, changes(), found, context, SCHEMA))
    return [v for b, _ in pieces for v in b.column(0).to_pylist()], sum(c for _, c in pieces)


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([0, 0, 0, 1, 2]), max_size=40), st.integers(1, 9), st.integers(1, 9)
)
def test_new_versions_stand_where_the_old_ones_stood(fates, copy_size, change_size):
    with pytest.MonkeyPatch.context() as patch:
        found, copied = run(patch, len(fates), fates, copy_size, change_size)
    if any(fates):
        assert found == [-i if f == 2 else i for i, f in enumerate(fates) if f != 1]
        assert copied == fates.count(0)
    else:
        assert found == []  # the file is left alone


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([0, 0, 0, 1, 2]), max_size=40), st.integers(1, 9), st.integers(1, 9)
)
def test_new_versions_without_a_place_come_too(fates, copy_size, change_size):
    with pytest.MonkeyPatch.context() as patch:
        found, copied = run(patch, len(fates), fates, copy_size, change_size, with_places=False)
    wanted = [-i if f == 2 else i for i, f in enumerate(fates) if f != 1] if any(fates) else []
    assert sorted(found) == sorted(wanted) and copied == (fates.count(0) if any(fates) else 0)


def test_found_tells_places_of_a_stretch_without_sorting_all():
    found = RemovedRows()
    found.add([5, 7], deleted=2)
    found.add(np.array([20, 11]), updated=2)
    assert sorted(found.between(7, 20)) == [7, 11] and list(found.positions) == [5, 7, 11, 20]
    assert (found.deleted, found.updated, bool(found), bool(RemovedRows())) == (2, 2, True, False)
    assert len(RemovedRows().positions) == 0 and len(found.between(8, 9)) == 0
