"""Several tables in one commit: all or none, beside other writers, with faults and kills."""

from __future__ import annotations

import sqlite3
import threading
import uuid
from pathlib import Path

import pyarrow as pa
import pytest

import frazil
from frazil.catalog import CatalogBackend
from frazil.errors import (
    CommitFailedException,
    CommitStateUnknownException,
    FrazilError,
    InvalidInput,
    NoSuchFileError,
    NoSuchTableError,
    Unsupported,
    ValidationException,
)
from frazil.table.catalog import Catalog
from frazil.testing import FlakyBackend, ServerBackend
from tests.builders.behind_proxies import REQUESTS, behind_proxies, one_state, there
from tests.builders.frames import ids_of
from tests.catalog.conftest import HIVE, open_backend
from tests.catalog.conftest import KINDS as ALL
from tests.commit.faults import Counter
from tests.fault_proxy import KINDS as FAULTS
from tests.fault_proxy import Fired
from tests.forked import started

KINDS = [kind for kind in ALL if kind not in ("path", "s3", "hdfs", "gcs", "azurite", *HIVE)]
OWN = [kind for kind in KINDS if kind in ("memory", "sqlite", "server")]
ROWS = pa.table({"id": [1, 2, 3]})
NEW = pa.table({"id": [4]})


def files(catalog: Catalog) -> set[str]:
    tables = [catalog.load_table(name) for name in ("db.a", "db.b")]
    return {i.location for t in tables for i in t._loaded.storage.list(t.location())}


def two_tables(catalog: Catalog, **properties: str) -> Catalog:
    catalog.create_namespace_if_not_exists("db")
    for name in ("db.a", "db.b"):
        catalog.create_table(
            name,
            "id bigint",
            properties={k.replace("_", "-").replace("--", "."): v for k, v in properties.items()},
        ).append(ROWS)
    return catalog


@pytest.fixture(params=KINDS)
def mixed(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def catalog(backend: CatalogBackend) -> Catalog:
    return two_tables(Catalog(backend))


def test_changes_of_two_tables_are_one_commit(catalog: Catalog) -> None:
    with catalog.transaction() as tx:
        tx.table("db.a").append(NEW)
        tx.table(("db", "b")).delete("id = 1")
        tx.table("db.a").set_properties(k="v")
        with tx.table(f"{catalog.name}.db.b") as b:
            b.append(NEW)
        assert ids_of(catalog, "db.a") == ids_of(catalog, "db.b") == [1, 2, 3], (
            "nothing is shown before the commit"
        )
        assert "db.a" in repr(tx) and "db.b" in repr(tx)
    assert ids_of(catalog, "db.a") == [1, 2, 3, 4] and ids_of(catalog, "db.b") == [2, 3, 4]
    assert catalog.load_table("db.a").properties["k"] == "v"
    results = tx.results
    assert [results[f"{catalog.name}.db.{n}"].metrics["rows_inserted"] for n in "ab"] == [1, 1]
    assert all(r.snapshot_id is not None and r.attempts == 1 for r in results.values())
    assert tx.table  # the parts show the new state
    with pytest.raises(InvalidInput, match=r"catalog\.transaction"):
        tx.table("db.a")


def test_a_block_that_fails_changes_no_table_and_leaves_no_file(catalog: Catalog) -> None:
    before = files(catalog)
    with pytest.raises(ZeroDivisionError), catalog.transaction() as tx:
        tx.table("db.a").append(NEW)
        tx.table("db.b").delete("id = 1")
        assert len(files(catalog)) > len(before)
        raise ZeroDivisionError
    assert files(catalog) == before and ids_of(catalog, "db.a") == ids_of(catalog, "db.b") == [
        1,
        2,
        3,
    ]
    with pytest.raises(InvalidInput):
        tx.commit_transaction()


def test_an_error_names_the_table_that_it_is_about(catalog: Catalog) -> None:
    for wrong in (
        lambda b: b.delete("nothing = 1"),
        lambda b: b.append(pa.table({"x": [1]})),
        lambda b: b.upgrade_table_version(1),
    ):
        with pytest.raises(FrazilError, match=r"db\.b") as told, catalog.transaction() as tx:
            tx.table("db.a").append(NEW)
            wrong(tx.table("db.b"))
        assert "db.a" not in str(told.value)
    assert ids_of(catalog, "db.a") == [1, 2, 3]


def test_a_conflict_in_one_table_undoes_all(catalog: Catalog) -> None:
    tx = catalog.transaction()
    tx.table("db.a").append(NEW)
    tx.table("db.b").overwrite(NEW, "id = 1", isolation_level="serializable")
    catalog.load_table("db.b").delete("id = 1")
    before = files(catalog)
    with pytest.raises(ValidationException, match="Cannot (commit|determine history)") as told:
        # Nessie's shows the newest snapshot alone
        tx.commit_transaction()
    assert str(told.value.facts["table"]).endswith("db/b") or "/db/b_" in str(
        told.value.facts["table"]
    )
    assert ids_of(catalog, "db.a") == [1, 2, 3] and ids_of(catalog, "db.b") == [2, 3]
    assert len(files(catalog)) < len(before), "the files that were written for it are removed"


def test_commits_of_others_meanwhile_are_kept(catalog: Catalog) -> None:
    with catalog.transaction() as tx:
        tx.table("db.a").append(NEW)
        tx.table("db.b").append(NEW)
        catalog.load_table("db.a").append(pa.table({"id": [7]}))
        catalog.load_table("db.b").set_properties(k="v")
    assert ids_of(catalog, "db.a") == [1, 2, 3, 4, 7] and ids_of(catalog, "db.b") == [1, 2, 3, 4]
    assert catalog.load_table("db.b").properties["k"] == "v"


def test_a_state_that_others_have_expired_meanwhile_is_left_for_the_newest(
    catalog: Catalog,
) -> None:
    before = catalog.load_table("db.b").metadata.current_snapshot()
    with catalog.transaction() as tx:
        tx.table("db.a").append(NEW)
        tx.table("db.b").append(NEW)
        other = catalog.load_table("db.b")
        other.append(pa.table({"id": [7]}))
        other.maintenance.expire_snapshots(older_than=2**62, retain_last=1)
        if catalog._backend.name != "nessie":
            # which shows the newest snapshot alone, so that none can be expired
            assert before is not None and not other._loaded.storage.exists(
                str(before.manifest_list)
            ), "what the part was loaded with is gone"
    assert ids_of(catalog, "db.a") == [1, 2, 3, 4] and ids_of(catalog, "db.b") == [1, 2, 3, 4, 7]


def test_a_file_that_the_newest_state_lacks_is_told_and_nothing_is_committed(
    catalog: Catalog,
) -> None:
    b = catalog.load_table("db.b")
    snapshot = b.metadata.current_snapshot()
    assert snapshot is not None
    tx = catalog.transaction()
    tx.table("db.a").append(NEW)
    tx.table("db.b").append(NEW)
    b._loaded.storage.delete(str(snapshot.manifest_list))
    frazil.clear_caches()  # which hold what this process wrote
    with pytest.raises(NoSuchFileError, match="snap-"):
        tx.commit_transaction()
    assert ids_of(catalog, "db.a") == [1, 2, 3]


def test_a_transaction_that_changes_one_table_or_none_works_too(catalog: Catalog) -> None:
    with catalog.transaction() as tx:
        tx.table("db.a").append(NEW)
        tx.table("db.b").delete("id = 99")
    assert ids_of(catalog, "db.a") == [1, 2, 3, 4] and ids_of(catalog, "db.b") == [1, 2, 3]
    with catalog.transaction() as tx:
        pass
    assert tx.results == {}
    with pytest.raises(NoSuchTableError, match=r"db\.nothing"), catalog.transaction() as tx:
        tx.table("db.a").append(NEW)
        tx.table("db.nothing")
    assert ids_of(catalog, "db.a") == [1, 2, 3, 4]


def test_a_part_is_not_committed_alone(catalog: Catalog) -> None:
    with catalog.transaction() as tx:
        part = tx.table("db.a")
        part.append(NEW)
        with pytest.raises(InvalidInput, match="other tables"):
            part.commit_transaction()
    assert part.result.metrics["rows_inserted"] == 1 and part.table.scan().count() == 4


def test_a_numbered_transaction_is_done_once_in_all_tables(catalog: Catalog) -> None:
    for _ in range(2):
        with catalog.transaction(txn=("loader", 7)) as tx:
            tx.table("db.a").append(NEW)
            tx.table("db.b").append(NEW)
    assert ids_of(catalog, "db.a") == ids_of(catalog, "db.b") == [1, 2, 3, 4]
    assert all(r.skipped for r in tx.results.values())


def test_path_catalogs_refuse_before_anything_is_written(tmp_path: Path) -> None:
    catalog = two_tables(frazil.load_catalog("p", type="path", warehouse=str(tmp_path / "w")))
    with pytest.raises(Unsupported, match="Path catalog 'p' cannot commit to several tables"):
        catalog.transaction()


def test_hive_catalogs_refuse_before_a_metastore_is_asked() -> None:
    with frazil.load_catalog("h", type="hive", uri="thrift://127.0.0.1:1") as catalog:
        with pytest.raises(
            Unsupported, match="Hive catalog 'h' cannot commit to several tables"
        ) as told:
            catalog.transaction()
        assert "sql or rest" in str(told.value.hint)


# --- faults


@pytest.mark.parametrize(
    "place", [p for p in ("rest-local", "postgres-local", "mariadb-local") if there(p)]
)
def test_a_commit_to_two_tables_is_whole_whatever_the_network_does(
    place: str, tmp_path: Path
) -> None:
    """Each kind of fault meets the request that commits; both tables have the rows then, or
    neither.
    """
    behind, db = behind_proxies(place, tmp_path), f"t{uuid.uuid4().hex[:10]}"
    server = place.partition("-")[0]
    (proxy,), request = (
        behind.proxies.values(),
        r"^POST /v1/transactions/commit" if server == "rest" else REQUESTS[server]["update"],
    )
    acknowledged, failed = [0], []
    with behind.catalog() as catalog:
        catalog.create_namespace(db)
        for name in "ab":
            catalog.create_table(f"{db}.{name}", "id bigint").append([{"id": 0}])
        for number, fault in enumerate(FAULTS, 1):
            proxy.once(request, fault, 0.2)
            try:
                with catalog.transaction() as tx:
                    tx.table(f"{db}.a").append([{"id": number}])
                    tx.table(f"{db}.b").append([{"id": number}])
                acknowledged.append(number)
            except FrazilError as error:
                failed.append(error)
            assert proxy.fired[number - 1 :] == [Fired(request, fault)]
            assert ids_of(catalog, f"{db}.a") == ids_of(catalog, f"{db}.b"), fault
        seen = ids_of(catalog, f"{db}.a")
        assert {*acknowledged} <= {*seen} and len({*seen}) == len(seen) and len(acknowledged) >= 2
        for name in "ab":
            table = catalog.load_table(f"{db}.{name}")
            assert len(table.snapshots()) == len(seen)
            one_state(table, list(failed))
    behind.close()


@pytest.mark.parametrize(
    "word", ["conflict", "applied", "applied-conflict", "lost", "raise", "applied-raise"]
)
@pytest.mark.parametrize("kind", OWN)
def test_lost_answers_are_recognised_and_unknown_outcomes_keep_every_file(
    word: str, kind: str, tmp_path: Path
) -> None:
    flaky = FlakyBackend(open_backend(kind, tmp_path))
    catalog = two_tables(
        Catalog(flaky), commit__retry__min_wait_ms="1", commit__status_check__min_wait_ms="1"
    )
    flaky.script = ["ok"] * len(flaky.fired) + [word]
    tx = catalog.transaction()
    tx.table("db.a").append(NEW)
    tx.table("db.b").delete("id = 1")
    written = files(catalog)
    if word in ("lost", "raise"):
        with pytest.raises(CommitStateUnknownException, match=r"db\.a.*db\.b"):
            tx.commit_transaction()
        assert files(catalog) >= written and ids_of(catalog, "db.a") == [1, 2, 3]
    else:
        tx.commit_transaction()
        assert ids_of(catalog, "db.a") == [1, 2, 3, 4] and ids_of(catalog, "db.b") == [2, 3]
        assert {len(catalog.load_table(n).snapshots()) for n in ("db.a", "db.b")} == {2}
    assert word in flaky.fired


def test_a_catalog_that_swaps_only_some_of_the_tables_is_told(tmp_path: Path) -> None:
    server = ServerBackend("srv")
    flaky = FlakyBackend(server)
    catalog = two_tables(Catalog(flaky))
    flaky.script = ["ok"] * len(flaky.fired) + ["conflict"]
    tx = catalog.transaction()
    tx.table("db.a").append(NEW)
    tx.table("db.b").append(NEW)
    swap_together = server.swap_together

    def first_alone(_: int) -> None:
        swap_together(taken[:1])

    taken: list = []
    flaky.swap_together = lambda swaps: (
        taken.extend(swaps),
        FlakyBackend.swap_together(flaky, swaps),
    )[1]  # type: ignore[method-assign]
    flaky.before_swap = first_alone
    with pytest.raises(CommitStateUnknownException, match="All its files are kept"):
        tx.commit_transaction()
    assert ids_of(catalog, "db.a") == [1, 2, 3, 4] and ids_of(catalog, "db.b") == [1, 2, 3]


def test_retries_that_are_used_up_leave_no_file(tmp_path: Path) -> None:
    flaky = FlakyBackend(open_backend("sqlite", tmp_path))
    catalog = two_tables(
        Catalog(flaky), commit__retry__min_wait_ms="1", commit__retry__num_retries="2"
    )
    flaky.script = ["ok"] * len(flaky.fired) + ["conflict"] * 9
    before = files(catalog)
    with (
        pytest.raises(CommitFailedException, match="after 3 attempts"),
        catalog.transaction() as tx,
    ):
        tx.table("db.a").append(NEW)
        tx.table("db.b").append(NEW)
    assert files(catalog) == before and ids_of(catalog, "db.a") == ids_of(catalog, "db.b") == [
        1,
        2,
        3,
    ]


def test_writers_side_by_side_lose_nothing_and_wait_for_no_one_forever(
    backend: CatalogBackend,
) -> None:
    two_tables(Catalog(backend))
    errors: list[BaseException] = []

    def write(writer: int) -> None:
        catalog = Catalog(backend)
        try:
            for n in range(3):
                row = pa.table({"id": [100 * writer + n]})
                names = ("db.a", "db.b") if writer % 2 else ("db.b", "db.a")
                if writer == 4:
                    catalog.load_table(names[0]).append(row)
                    catalog.load_table(names[1]).append(row)
                    continue
                with catalog.transaction() as tx:
                    for name in names:
                        tx.table(name).append(row)
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not errors and not any(t.is_alive() for t in threads)
    wanted = sorted([1, 2, 3, *(100 * w + n for w in range(1, 5) for n in range(3))])
    assert ids_of(Catalog(backend), "db.a") == ids_of(Catalog(backend), "db.b") == wanted


def sqlite_catalog(place: Path) -> Catalog:
    return Catalog(open_backend("sqlite", place))


def write_and_die(place: Path, k: int) -> None:
    """The program of a child that is killed before its k-th file operation or SQL statement."""
    catalog = sqlite_catalog(place)
    catalog.close()
    Counter(str(place), k, "kill")
    with sqlite_catalog(place).transaction() as tx:
        tx.table("db.a").append(NEW)
        tx.table("db.b").append(NEW)
    print("committed")


@pytest.mark.disk
def test_a_writer_killed_at_any_point_changes_both_tables_or_none(tmp_path: Path) -> None:
    states = []
    for k in range(1, 200, 6):
        place = tmp_path / str(k)
        place.mkdir()
        two_tables(sqlite_catalog(place)).close()
        child = started(write_and_die, place, k, place=tmp_path)
        code = child.wait(60)
        assert code in (0, -9), child.problems()
        catalog = sqlite_catalog(place)
        a, b = ids_of(catalog, "db.a"), ids_of(catalog, "db.b")
        assert a == b and a in ([1, 2, 3], [1, 2, 3, 4])
        with catalog.transaction() as tx:  # nothing is left locked
            tx.table("db.a").append(pa.table({"id": [9]}))
            tx.table("db.b").append(pa.table({"id": [9]}))
        with sqlite3.connect(place / "catalog.db") as database:
            assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        states.append((code, len(a)))
        if code == 0:
            break
    assert states[-1] == (0, 4) and len([s for s in states if s == (-9, 3)]) > 3, states
