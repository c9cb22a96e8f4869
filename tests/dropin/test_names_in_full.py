"""The name that a DataFrame's door makes of one without catalog, without Spark."""

from types import SimpleNamespace

import pytest

from frazil.dropin import names, sql_names


@pytest.fixture
def session(monkeypatch):
    """A session whose current catalog is `lake`, and whose current namespace is `ns`."""
    lake = SimpleNamespace(name="lake", catalog=SimpleNamespace(name="lake"), prefix=())
    for module in (names, sql_names):
        monkeypatch.setattr(module, "current_catalog", lambda spark: "lake")
        monkeypatch.setattr(module, "register", lambda spark: {"lake": lake})
    monkeypatch.setattr(names, "served_catalogs", lambda spark: {"lake": lake})
    monkeypatch.setattr(sql_names, "known_catalogs", lambda spark: {"lake": lake})
    monkeypatch.setattr(names, "session_catalogs", lambda spark: {})
    monkeypatch.setattr(sql_names, "knows_catalog", lambda spark, name: False)
    monkeypatch.setattr(sql_names, "current_namespace", lambda spark: ("ns",))
    monkeypatch.setattr(sql_names, "is_temporary_view", lambda spark, name: False)
    return SimpleNamespace()


@pytest.mark.parametrize("is_there", [True, False])
def test_names_of_the_default_catalog_stay_its_own(session, monkeypatch, is_there):
    monkeypatch.setattr(sql_names, "default_is_there", lambda spark: is_there)
    in_full = {n: sql_names.in_full(session, n) for n in ("t", "db.t", "lake.db.t", "default.t")}
    assert in_full == {
        "t": "lake.ns.t",
        "db.t": "lake.db.t",
        "lake.db.t": "lake.db.t",
        "default.t": "lake.default.t",
    }
    of_default = "default.db.t" if is_there else "lake.default.db.t"
    assert sql_names.in_full(session, "default.db.t") == of_default
