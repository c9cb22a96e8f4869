"""The name that a DataFrame's door makes of one without catalog, without Spark."""

from types import SimpleNamespace

import pytest

from frazil.dropin import names


@pytest.fixture
def session(monkeypatch):
    """A session whose current catalog is `lake`, and whose current namespace is `ns`."""
    lake = SimpleNamespace(name="lake")
    for name, answer in {
        "current_catalog": "lake",
        "register": {"lake": lake},
        "registered_in": SimpleNamespace(passing={}),
        "spark_asks": True,
        "knows_catalog": False,
        "current_namespace": ("ns",),
        "is_temporary_view": False,
        "default_catalog": SimpleNamespace(name="default"),
    }.items():
        monkeypatch.setattr(names, name, lambda *_, answer=answer: answer)
    return SimpleNamespace()


@pytest.mark.parametrize("is_there", [True, False])
def test_names_of_the_default_catalog_stay_its_own(session, monkeypatch, is_there):
    monkeypatch.setattr(names, "default_is_there", lambda spark: is_there)
    in_full = {n: names.in_full(session, n) for n in ("t", "db.t", "lake.db.t", "default.t")}
    assert in_full == {
        "t": "lake.ns.t",
        "db.t": "lake.db.t",
        "lake.db.t": "lake.db.t",
        "default.t": "lake.default.t",
    }
    of_default = "default.db.t" if is_there else "lake.default.db.t"
    assert names.in_full(session, "default.db.t") == of_default
