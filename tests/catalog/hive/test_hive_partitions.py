"""Names of Hive's own tables, whose partitions are added by the policy `metastore`
(tests/stream/partitions has the rest).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from frazil.catalog.hive import partitions
from frazil.catalog.hive.partitions import partitioned_table
from frazil.errors import InvalidInput


class NotConnectedError(Exception):
    """Raised in place of a call to the metastore."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Databases and tables that the metastore is asked for; it has none."""
    names: list[tuple[str, str]] = []

    class Metastore:
        def __init__(self, *_: object):
            pass

        def ask(self, _: object, request: partitions.GetTableRequest, *__: object) -> None:
            names.append((str(request.dbName), str(request.tblName)))
            raise NotConnectedError

        def close(self) -> None:
            pass

    monkeypatch.setattr(partitions, "HiveClient", Metastore)
    return names


@pytest.mark.parametrize(
    ("name", "parts"),
    [("db.t", ("db", "t")), ("db.`a.b`", ("db", "a.b")), ("`d.b`.t", ("d.b", "t"))],
)
def test_a_name_is_split_at_the_dot_outside_back_quotes(
    asked: list[tuple[str, str]], name: str, parts: tuple[str, str]
) -> None:
    with pytest.raises(NotConnectedError), partitioned_table("thrift://nowhere:1", name):
        pass
    assert asked == [parts]


@pytest.mark.parametrize("name", ["t", "`db.t`", "cat.db.t", "db.", "db.`a.b", ""])
def test_a_name_that_is_not_a_database_and_a_table_is_refused(
    asked: list[tuple[str, str]], name: str
) -> None:
    with (
        pytest.raises(InvalidInput, match=r"no name of a Hive table|not an identifier"),
        partitioned_table("thrift://nowhere:1", name),
    ):
        pass
    assert asked == []


def test_what_hive_site_says_of_kerberos_counts_with_the_protection_of_its_calls(
    asked: list[tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {
        "hive.metastore.sasl.enabled": "true",
        "hive.metastore.kerberos.principal": "hive/_HOST@R",
        "hadoop.rpc.protection": "authentication",
    }
    rows = "".join(
        f"<property><name>{k}</name><value>{v}</value></property>" for k, v in said.items()
    )
    (tmp_path / "hive-site.xml").write_text(f"<configuration>{rows}</configuration>")
    monkeypatch.setenv("HIVE_CONF_DIR", str(tmp_path))
    given: list[dict[str, str]] = []
    monkeypatch.setattr(partitions, "settings", lambda properties: given.append(dict(properties)))
    with pytest.raises(NotConnectedError), partitioned_table("thrift://nowhere:1", "db.t"):
        pass
    assert asked == [("db", "t")] and given[0]["hadoop.rpc.protection"] == "authentication"
