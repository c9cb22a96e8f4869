"""recommend and auto: tables with known ailments get exactly these findings, healthy ones none;
cures run within the budget.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from frazil.catalog import Catalog
from frazil.commit.actions import MetadataChange, RowDelta
from frazil.errors import CommitFailedException, CommitStateUnknownException, InvalidInput
from frazil.maintain.advice import metadata_files
from frazil.maintain.advice.auto import AutoResult, auto
from frazil.maintain.advice.finding import (
    Finding,
    Findings,
    ProcedureCall,
    minutes_text,
    saving_text,
)
from frazil.maintain.compact.options import CompactionOptions
from frazil.maintain.procedure import ProcedureResult
from frazil.maintain.stream_upkeep.lease import LEASE, LEASE_SECONDS, LeaseHeld, _held, lease
from frazil.spec.shown import count_text
from frazil.spec.snapshot import SnapshotRef
from frazil.spec.updates import SetSnapshotRef
from frazil.table import Table
from tests.builders.data_files import keys, positions

DAY = 86_400_000


def rows(first: int = 0, count: int = 100) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(first, first + count), pa.int64()),
            "s": [f"v{i % 2}" for i in range(count)],
        }
    )


def healthy(catalog: Catalog, name: str = "t", **arguments: Any) -> Table:
    t = catalog.create_table(f"db.{name}", "id bigint, s string", **arguments)
    t.append(rows())
    return t


def of_one_partition(first: int) -> pa.Table:
    return rows(first, 200).filter(pa.array([True, False] * 100))


def numbers(t: Table, kind: str) -> dict[str, float]:
    return dict(next(f for f in t.maintenance.recommend() if f.kind == kind).numbers)


@pytest.fixture
def t(home: Catalog) -> Table:
    return healthy(home)


def test_a_healthy_table_and_an_empty_one_have_no_findings(home: Catalog) -> None:
    empty = home.create_table("db.empty", "id bigint")
    assert len(empty.maintenance.recommend()) == 0
    t = healthy(home, partition_by=["s"], sort_by=["id"], format_version=3)
    t.delete("id = 5", mode="merge-on-read")
    t.maintenance.compute_table_stats()
    t.maintenance.compute_partition_stats()
    found = t.maintenance.recommend()
    assert (
        found.kinds == ()
        and repr(found) == "default.db.t: nothing to do"
        and found.to_arrow().num_rows == 0
    )


def test_small_files_are_found_by_partition(home: Catalog) -> None:
    t = healthy(home, partition_by=["s"])
    for n in range(5):
        # only partition v0 gets more files
        t.append(rows(1000 * (n + 1)).filter(pa.array([i % 2 == 0 for i in range(100)])))
    assert t.maintenance.recommend().kinds == ("small_files",)
    sizes = [
        f["file_size_in_bytes"]
        for f in t.inspect.files().to_pylist()
        if f["partition"] == {"s": "v0"}
    ]
    assert numbers(t, "small_files") == {
        "files": 6,
        "bytes": sum(sizes),
        "files_after": 1,
        "partitions": 1,
    }
    (found,) = t.maintenance.recommend()
    assert found.cost_bytes == 2 * sum(sizes) and found.call == "t.maintenance.rewrite_data_files()"
    assert found.brings == "a full read opens 2 files instead of 7" and found.seconds_saved > 0


SMALL = {"properties": {"write.target-file-size-bytes": "600"}}


@pytest.mark.parametrize(
    "options, found",
    [
        (SMALL, []),  # files of the wanted size are not small, and without an order never unsorted
        # one file of all rows is read whole by a search, in whatever order they are
        ({"sort_by": ["id"]}, ["small_files"]),
    ],
)
def test_files_are_small_or_unsorted_by_what_the_table_wants(
    home: Catalog, options: dict[str, Any], found: list[str]
) -> None:
    t = healthy(home, **options)
    for n in range(7):
        t.append(rows(n + 1))
    sizes = [f["file_size_in_bytes"] for f in t.inspect.files().to_pylist()]
    assert options is not SMALL or min(sizes) > 450
    assert [*t.maintenance.recommend().kinds] == found


@pytest.mark.parametrize(("version", "option"), [(3, {"delete-ratio-threshold": "0.1"}), (2, None)])
def test_deleted_rows_are_counted(
    home: Catalog, version: int, option: dict[str, str] | None
) -> None:
    t = healthy(home, format_version=version)
    t.delete("id < 9", mode="merge-on-read")
    assert t.maintenance.recommend().kinds == ()
    t.delete("id < 20", mode="merge-on-read")
    (found,) = t.maintenance.recommend()
    assert (
        found.kind == "deleted_rows"
        and found.numbers["rows_deleted"] == 20
        and found.numbers["share"] == 0.2
    )
    assert found.numbers["files"] == 1 and found.cure.verb == "rewrite_data_files"
    if option is not None:
        assert found.cure.arguments == {"options": option}


def test_equality_deletes_are_found_with_the_files_that_they_apply_to(home: Catalog) -> None:
    t = healthy(home, partition_by=["s"])
    with t._begin() as operation:
        operation.stage(
            RowDelta(added_deletes=[keys(1, 9, p="v1"), keys(2, 3, "/f.parquet", p="v1")])
        )
    (found,) = t.refresh().maintenance.recommend()
    sizes = [
        f["file_size_in_bytes"]
        for f in t.inspect.data_files().to_pylist()
        if f["partition"] == {"s": "v1"}
    ]
    assert (found.kind, found.call) == (
        "equality_deletes",
        "t.maintenance.convert_equality_deletes()",
    )
    assert found.numbers == {
        "delete_files": 2,
        "records": 4,
        "files": 1,
    } and found.cost_bytes == sum(sizes)


@pytest.mark.parametrize(("version", "files"), [(2, 5), (3, 1)])
def test_position_delete_files_are_found_from_the_number_that_their_rewriting_takes(
    t: Table, version: int, files: int
) -> None:
    deletes = [positions(None, f"/p{n}.parquet") for n in range(files)]
    dangling = ("dangling_deletes",)  # none of them is about a data file of the table
    for entries, wanted in (
        (deletes[:-1], dangling if files > 1 else ()),
        (deletes[-1:], ("position_delete_files", *dangling)),
    ):
        with t._begin() as operation:
            operation.stage(RowDelta(added_deletes=entries))
        if version == 3 and len(wanted) == 2:
            t.refresh().upgrade(3)
        assert t.refresh().maintenance.recommend().kinds == wanted
    assert numbers(t, "position_delete_files") == {
        "files": files,
        "bytes": 50 * files,
        "files_after": 1 if version == 2 else 0,
    }


def test_files_that_overlap_in_the_sort_column_are_found(home: Catalog) -> None:
    apart = healthy(
        home, "apart", sort_by=["id"], properties={"write.target-file-size-bytes": "600"}
    )
    mixed = healthy(
        home, "mixed", sort_by=["id"], properties={"write.target-file-size-bytes": "600"}
    )
    for n in range(7):
        apart.append(rows(100 * (n + 1)))
        mixed.append(rows(n + 1))
    assert apart.maintenance.recommend().kinds == ()
    (found,) = mixed.maintenance.recommend()
    assert (found.kind, found.numbers["files"]) == ("unsorted", 8) and found.numbers["depth"] > 4
    assert (
        found.cure.arguments["strategy"] == "sort" and "by which the table is sorted" in found.text
    )


def test_files_of_several_partitions_overlap_by_partition(home: Catalog) -> None:
    t = healthy(
        home, partition_by=["s"], sort_by=["id"], properties={"write.target-file-size-bytes": "600"}
    )
    for n in range(7):
        t.append(rows(n + 1))
    (found,) = (f for f in t.maintenance.recommend() if f.kind == "unsorted")
    assert (
        found.numbers["files"] == 16
        and found.numbers["partitions"] == 2
        and 4 < found.numbers["depth"] <= 8
    )
    assert "of the 8 files of a partition, on average over 2 partitions." in found.text
    now = float(re.search(r"in ([\d.]+) of", found.text).group(1))  # type: ignore[union-attr]
    share = int(re.search(r"reads about (\d+)% of", found.brings).group(1)) / 100  # type: ignore[union-attr]
    options = CompactionOptions.of_target(600)
    sizes = t.inspect.data_files()
    of_each = [
        sum(f["file_size_in_bytes"] for f in sizes.to_pylist() if f["partition"] == {"s": p})
        for p in ("v0", "v1")
    ]
    wanted = sum(size / options.files_for(size) for size in of_each) / sum(
        size * now / 8 for size in of_each
    )
    assert share == pytest.approx(wanted, abs=0.02)


def test_many_manifests_are_found(home: Catalog) -> None:
    t = healthy(home, properties={"write.target-file-size-bytes": "600"})
    for n in range(8):
        t.append(rows(100 * (n + 1)))
    assert t.maintenance.recommend().kinds == ()
    t.append(rows(10_000))
    (found,) = t.maintenance.recommend()
    assert (found.kind, found.call) == ("manifests", "t.maintenance.rewrite_manifests()")
    assert (found.numbers["manifests"], found.numbers["manifests_after"]) == (10, 1)


def test_manifests_of_an_earlier_spec_are_cured_too(home: Catalog) -> None:
    t = healthy(
        home,
        properties={
            "write.target-file-size-bytes": "600",
            "commit.manifest-merge.enabled": "false",
        },
    )
    for n in range(11):
        t.append(rows(100 * (n + 1)))
    with t.update_spec() as update:
        update.add_identity("s")
    t.append(of_one_partition(5000))
    (found,) = t.maintenance.recommend()
    assert (found.kind, found.call) == ("manifests", "t.maintenance.rewrite_manifests(spec_id=0)")
    assert (found.numbers["manifests"], found.numbers["manifests_after"]) == (
        12,
        1,
    ) and "earlier partition spec 0" in found.text
    for n in range(9):
        t.append(of_one_partition(10_000 + 200 * n))
    before = sorted(t.to_arrow()["id"].to_pylist())
    both = t.maintenance.recommend()
    calls = [f.call for f in both if f.kind == "manifests"]
    assert calls == [
        "t.maintenance.rewrite_manifests()",
        "t.maintenance.rewrite_manifests(spec_id=0)",
    ]
    done = t.maintenance.auto()
    assert [s.call for s in done.steps if s.kind == "manifests"] == calls and not done.failed
    assert (
        t.refresh().inspect.manifests().num_rows == 2
        and sorted(t.to_arrow()["id"].to_pylist()) == before
    )


@pytest.mark.parametrize("apart", [0, 11])
def test_manifests_that_a_compaction_rewrites_are_told_not_to_be_left(
    home: Catalog, apart: int
) -> None:
    """The small files of one partition are compacted; the manifests of files that are alone in
    their partition stay.
    """
    t = healthy(home, partition_by=["s"], properties={"commit.manifest-merge.enabled": "false"})
    for n in range(11):
        t.append(of_one_partition(1000 * n))
    for n in range(apart):
        t.append(pa.table({"id": [90_000 + n], "s": [f"alone {n}"]}))
    (manifests,) = (f for f in t.maintenance.recommend() if f.kind == "manifests")
    assert manifests.numbers["manifests"] == 12 + apart
    left = manifests.left_after["small_files"]
    assert (left is None) == (not apart) and (
        "nothing after the cure of small_files" in str(manifests)
    ) == (not apart)
    # that of v1 too, beside the new one
    assert left is None or left.numbers["manifests"] == 2 + apart
    planned = [(s.kind, s.call) for s in t.maintenance.auto(dry_run=True).steps]
    done = t.maintenance.auto()
    assert [(s.kind, s.call) for s in done.steps] == planned and not done.failed
    assert [kind for kind, _ in planned] == [
        "small_files",
        *(["manifests"] if apart else []),
    ] and t.maintenance.recommend().kinds == ()
    assert (
        left is None or done.steps[1].result.rewritten_manifests_count >= left.numbers["manifests"]
    )


def test_expiry_is_told_to_free_what_its_snapshots_alone_need(
    t: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(10):
        t.append(rows(100 * (n + 1)))
    t.maintenance.rewrite_data_files()
    staged = t.append(rows(5000), branch=None)
    now = metadata_files.now_millis()
    monkeypatch.setattr(metadata_files, "now_millis", lambda: now + 6 * DAY)
    told = numbers(t, "snapshots")
    monkeypatch.undo()
    files = sum(
        {
            f["file_path"]: f["file_size_in_bytes"] for f in t.inspect.all_data_files().to_pylist()
        }.values()
    )
    live = sum(f["file_size_in_bytes"] for f in t.inspect.data_files().to_pylist())
    assert told["expirable"] == 12
    done = t.maintenance.expire_snapshots(older_than=now + DAY, retain_last=1)
    assert (
        done.deleted_data_files_count == 12
        and len(done.snapshot_ids) == 12
        and staged.snapshot_id in done.snapshot_ids
    )
    assert told["bytes_freed"] == files - live


def test_snapshots_beyond_retention_are_found_and_refs_are_kept(
    home: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = home.create_table(
        "db.t",
        "id bigint, s string",
        properties={
            "commit.manifest.min-count-to-merge": "2",
            "write.target-file-size-bytes": "600",
        },
    )
    for n in range(12):
        t.append(rows(100 * n))
    assert t.maintenance.recommend().kinds == ()
    now = metadata_files.now_millis()
    monkeypatch.setattr(metadata_files, "now_millis", lambda: now + 6 * DAY)
    (found,) = t.maintenance.recommend()
    assert (found.kind, found.numbers["snapshots"], found.numbers["expirable"]) == (
        "snapshots",
        12,
        11,
    )
    assert found.call == "t.maintenance.expire_snapshots(dry_run=False)"
    first = t.snapshots()[0].snapshot_id
    t._change(
        lambda _: MetadataChange(lambda _: (SetSnapshotRef("kept", SnapshotRef(first, "tag")),))
    )
    assert numbers(t, "snapshots")["expirable"] == 10
    with t.update_properties() as update:
        update.set("gc.enabled", "false")
    assert t.maintenance.recommend().kinds == ()


def test_old_metadata_files_are_estimated_not_listed(t: Table) -> None:
    assert t.maintenance.recommend().kinds == ()
    at_version(t, 150)
    (found,) = t.maintenance.recommend()
    assert (
        found.kind == "orphans"
        and found.numbers == {"metadata_files": 149}
        and "estimated" in found.text
    )


def at_version(t: Table, version: int) -> None:
    """Give the table's metadata file the number that it has after so many commits."""
    place, _, name = t.metadata_location.rpartition("/")
    path = Path(place.removeprefix("file://"))
    later = f"{version:05d}{name[5:]}"
    shutil.copy(path / name, path / later)
    assert t._backend is not None and t._loaded.identifier is not None
    t._backend.register_table(t._loaded.identifier, f"{place}/{later}", overwrite=True)
    t.refresh()


def test_after_auto_has_looked_for_orphans_only_later_versions_count(t: Table) -> None:
    at_version(t, 150)
    assert [(s.kind, s.outcome) for s in t.maintenance.auto().steps] == [("orphans", "done")]
    assert t.maintenance.recommend().kinds == () and t.maintenance.auto().steps == ()
    at_version(t.refresh(), 240)
    assert t.maintenance.recommend().kinds == ()
    at_version(t.refresh(), 255)
    # version 151 took the lease, and was the newest when the orphans were gone
    assert numbers(t, "orphans") == {"metadata_files": 104}


def test_old_statistics_are_found(home: Catalog) -> None:
    t = healthy(home, partition_by=["s"])
    t.maintenance.compute_table_stats(columns=["id"])
    t.maintenance.compute_partition_stats()
    t.append(rows(1000, 10))
    assert t.maintenance.recommend().kinds == ()
    t.append(rows(2000, 30))
    found = t.maintenance.recommend()
    assert found.kinds == ("table_stats", "partition_stats")
    assert found[0].call == "t.maintenance.compute_table_stats(columns=['id'])"
    assert (
        found[0].numbers["changed_share"] == pytest.approx(40 / 140)
        and found[1].numbers["snapshots_behind"] == 2
    )
    done = t.maintenance.auto()
    assert [s.outcome for s in done.steps] == [
        "done",
        "done",
    ] and t.maintenance.recommend().kinds == ()


def test_findings_read_no_data_file_and_list_nothing(home: Catalog) -> None:
    t = healthy(home, partition_by=["s"], sort_by=["id"])
    for n in range(6):
        t.append(rows(n))
    t.delete("id < 50", mode="merge-on-read")
    for file in (Path(t.location()) / "data").rglob("*.parquet"):
        file.unlink()
    assert "small_files" in t.maintenance.recommend().kinds


# --- auto


def finding(
    kind: str, cost: int = 100, verb: str = "cure", share_option: str | None = None, files: int = 0
) -> Finding:
    return Finding(
        kind,
        kind,
        {"files": files},
        cost,
        cost / 100,
        "",
        1.0,
        ProcedureCall(verb, {"x": kind}, share_option),
    )


class Verbs:
    """Cures that end their ailment, or fail."""

    def __init__(self, *findings: Finding):
        self.left, self.calls = list(findings), []  # type: ignore[var-annotated]

    def recommend(self) -> Findings:
        return Findings(self.left, "t")

    def run(self, verb: str) -> Callable[..., Any] | None:
        def cure(**arguments: Any) -> ProcedureResult:
            self.calls.append((verb, arguments))
            if verb == "lost":
                raise CommitFailedException("another writer was first")
            if verb == "broken":
                raise OSError("the disk is full")
            if verb == "unclear":
                raise CommitStateUnknownException("no answer")
            if not arguments["dry_run"]:
                self.left = [f for f in self.left if f.kind != arguments["x"]]
            return ProcedureResult(bytes_rewritten=7)

        return None if verb == "missing" else cure

    def auto(self, **budget: Any) -> AutoResult:
        return auto(self.recommend, self.run, contextlib.nullcontext, **budget)


def outcomes(result: AutoResult) -> list[str]:
    return [s.outcome for s in result.steps]


IN_PARTS = {"share_option": "max-files-to-rewrite", "files": 40}
TWENTY = {"max-files-to-rewrite": "20"}
AUTO: dict[str, tuple[list[Finding], dict[str, Any], list[str], list[tuple[str, Any]]]] = {
    "cures run in order until the budget is spent": (
        [finding("a"), finding("b", 500), finding("c")], {"budget_bytes": 250},
        ["done", "over budget", "done"], [("a", None), ("c", None)],
    ),
    "a cure that can be done in parts takes what fits": (
        [finding("a", 1000, **IN_PARTS)], {"budget_bytes": 500}, ["partly"], [("a", TWENTY)],
    ),
    "a part of too few files is not begun": (
        [finding("a", 1000, **IN_PARTS)], {"budget_bytes": 100}, ["over budget"], [],
    ),
    "a cure that cannot be done in parts is not begun": (
        [finding("a", 1000)], {"budget_minutes": 5}, ["over budget"], [],
    ),
    "a part is what fits the minutes": (
        [finding("a", 1000, **IN_PARTS), finding("b", 300)], {"budget_minutes": 5.1},
        ["partly", "done"], [("a", TWENTY), ("b", None)],
    ),
    "a part that fits the minutes costs its part of the bytes": (  # 510 and 300 bytes
        [finding("a", 1000, **IN_PARTS), finding("b", 300)],
        {"budget_minutes": 5.1, "budget_bytes": 900}, ["partly", "done"], [("a", TWENTY), ("b", None)],
    ),
    "a dry run plans all cures": (
        [finding("a"), finding("b")], {"dry_run": True}, ["planned", "planned"], [("a", None), ("b", None)],
    ),
    "a dry run spends the minutes that its cures are estimated to take": (
        [finding("a", 300), finding("b", 300), finding("c")], {"budget_minutes": 5, "dry_run": True},
        ["planned", "over budget", "planned"], [("a", None), ("c", None)],
    ),
    "a cure that fails is reported, and the others run": (
        [finding("a", verb="lost"), finding("b", verb="missing"), finding("c", verb="broken"), finding("d")],
        {}, ["failed", "failed", "failed", "done"], [("a", None), ("c", None), ("d", None)],
    ),
    "after an unknown outcome nothing more is done": (
        [finding("a", verb="unclear"), finding("b")], {}, ["unknown"], [("a", None)],
    ),
}  # fmt: skip
"""Findings, the budget, how each cure came out, and which were called with which options."""


@pytest.mark.parametrize("name", AUTO)
def test_cures_run_as_the_budget_and_their_outcomes_allow(name: str) -> None:
    findings, budget, wanted, called = AUTO[name]
    verbs = Verbs(*findings)
    result = verbs.auto(**budget)
    assert outcomes(result) == wanted
    assert [(told["x"], told.get("options")) for _, told in verbs.calls] == called
    assert all(told["dry_run"] == ("dry_run" in budget) for _, told in verbs.calls)
    assert [s.kind for s in result.failed] == [
        s.kind for s in result.steps if s.outcome in ("failed", "unknown")
    ]
    assert result.bytes_rewritten == 7 * sum(o in ("done", "partly", "planned") for o in wanted)
    assert result.to_arrow().num_rows == len(wanted)
    assert len(verbs.left) == len(findings) - sum(o in ("done", "partly") for o in wanted)


def test_results_of_cures_tell_cost_and_errors() -> None:
    partly = Verbs(finding("a", 1000, **IN_PARTS)).auto(budget_minutes=5.1)
    assert 505 <= partly.steps[0].cost_bytes <= 510
    failed = Verbs(finding("a", verb="lost"), finding("c", verb="broken")).auto()
    assert "another writer was first" in str(failed.steps[0].error)
    assert failed.steps[1].error == "OSError: the disk is full"
    for number, told in ((1, "1 finding"), (2, "2 findings")):
        shown = repr(Findings([finding(kind) for kind in "ab"[:number]], "t"))
        assert shown.startswith(f"t: {told}\n")


def test_a_cure_is_run_again_for_what_writers_have_added_meanwhile() -> None:
    class Busy(Verbs):
        """Writers go on: each cure leaves what was committed while it ran, as much as it took time
        for.
        """

        def __init__(self, *findings: Finding, left: float):
            super().__init__(*findings)
            self.share = left

        def recommend(self) -> Findings:
            cost = 1000 * self.share ** len(self.calls)
            return Findings([finding("a", int(cost))] if cost >= 1 else [], "t")

    assert outcomes(Busy(left=0.1).auto()) == ["done"] * 4
    assert outcomes(Busy(left=0.5).auto()) == ["done"], (
        "what is left is as much work as the first time"
    )
    assert outcomes(Busy(left=1.0).auto()) == ["done"]


@contextlib.contextmanager
def taken() -> Iterator[None]:
    raise LeaseHeld("rewrite by process 7 on elsewhere")
    yield


def test_while_another_owner_maintains_the_table_auto_waits() -> None:
    verbs = Verbs(finding("a"))
    result = auto(verbs.recommend, verbs.run, taken)
    assert outcomes(result) == ["waits"] and verbs.calls == [] and result.failed == ()
    assert "rewrite by process 7 on elsewhere" in repr(result)
    assert outcomes(auto(verbs.recommend, verbs.run, taken, dry_run=True)) == ["planned"]


def test_auto_holds_the_lease_of_the_table_and_gives_it_back(t: Table) -> None:
    for n in range(6):
        t.append(rows(n))
    table = t.maintenance._table()
    with lease(table, "rewrite", 60):
        waiting = t.refresh().maintenance.auto()
    assert set(outcomes(waiting)) == {"waits"} and "rewrite by process" in str(
        waiting.steps[0].error
    )
    assert (
        "done" in outcomes(t.refresh().maintenance.auto()) and _held(t.refresh().metadata) is None
    )


def test_auto_holds_the_lease_as_long_as_its_budget_may_take(
    t: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(6):
        t.append(rows(n))
    held: list[float] = []

    def hold(table: Any, task: str, seconds: float) -> Any:
        held.append(seconds)
        return lease(table, task, seconds)

    monkeypatch.setattr("frazil.table.maintenance.lease", hold)
    t.maintenance.auto(budget_minutes=600)
    t.append(rows(9))
    for n in range(6):
        t.append(rows(n))
    t.maintenance.auto()
    assert held == [72_000, LEASE_SECONDS]


def test_a_lease_is_renewed_between_cures_and_one_that_was_lost_ends_auto(t: Table) -> None:
    until: list[int] = []

    class Slow(Verbs):
        """The first cure takes so long that another owner takes the lease before the third begins."""

        def run(self, verb: str) -> Callable[..., Any] | None:
            mark = json.loads(t.refresh().properties[LEASE])
            until.append(mark["until"])
            time.sleep(0.6)
            if len(until) == 2:
                mark = {
                    **mark,
                    "token": "another",
                    "task": "rewrite",
                    "host": "elsewhere",
                    "until": mark["until"] + 3_600_000,
                }
                t.set_properties({LEASE: json.dumps(mark)})
            return super().run(verb)

    verbs = Slow(finding("a"), finding("b"), finding("c"))
    result = auto(verbs.recommend, verbs.run, lambda: lease(t.maintenance._table(), "auto", 1))
    assert outcomes(result) == ["done", "done", "waits"] and "rewrite by process" in str(
        result.steps[2].error
    )
    assert until[1] >= until[0] + 500


def test_numbers_are_told_in_plain_words() -> None:
    assert [minutes_text(m) for m in (0.0, 0.01, 1.0, 30)] == ["1 s", "1 s", "60 s", "30 min"]
    assert [minutes_text(m) for m in (119, 600)] == ["119 min", "10.0 h"]
    assert [saving_text(s) for s in (0.04, 2.46, 42, 600)] == [
        "",
        ", which saves about 2.5 s",
        ", which saves about 42 s",
        ", which saves about 10 min",
    ]
    assert [count_text(n, "manifest") for n in (1, 2, 1000)] == [
        "1 manifest",
        "2 manifests",
        "1,000 manifests",
    ]


WRONG = [
    ("rewrite_data_files", {"options": "x"}, "options must be a dict, not 'x'"),
    ("rewrite_data_files", {"strategy": 3}, "strategy must be a text, not 3"),
    (
        "rewrite_data_files",
        {"strategy": "sort", "sort_order": 5},
        "sort_order is a text, a list of columns or a SortOrder, not 5",
    ),
    ("rewrite_data_files", {"dry_run": "false"}, "dry_run must be True or False, not 'false'"),
    ("rewrite_data_files", {"branch": 7}, "branch must be a text, not 7"),
    ("expire_snapshots", {"dry_run": 1}, "dry_run must be True or False, not 1"),
    ("remove_orphan_files", {"progress": 3}, "progress must be a function, not 3"),
    (
        "compute_table_stats",
        {"snapshot_id": "first"},
        "snapshot_id must be a whole number, not 'first'",
    ),
    ("rewrite_manifests", {"spec_id": "one"}, "spec_id must be a whole number, not 'one'"),
    ("rewrite_manifests", {"use_caching": "yes"}, "use_caching must be True or False, not 'yes'"),
    ("auto", {"dry_run": "yes"}, "dry_run must be True or False, not 'yes'"),
]


@pytest.mark.parametrize("verb, arguments, told", WRONG)
def test_wrong_arguments_are_refused_by_name(
    t: Table, verb: str, arguments: dict[str, Any], told: str
) -> None:
    with pytest.raises(InvalidInput, match=re.escape(told)):
        getattr(t.maintenance, verb)(**arguments)


def test_a_snapshot_may_be_given_as_text(t: Table) -> None:
    snapshot_id = t.metadata.current_snapshot_id
    assert (
        t.maintenance.ancestors_of(str(snapshot_id))
        .to_arrow()
        .equals(t.maintenance.ancestors_of(snapshot_id).to_arrow())
    )  # type: ignore[arg-type]


def test_budgets_must_be_above_zero() -> None:
    for budget in (
        {"budget_bytes": 0},
        {"budget_minutes": -1},
        {"budget_bytes": "10 bananas"},
        {"budget_minutes": float("nan")},
    ):
        with pytest.raises(InvalidInput, match="must be above 0"):
            Verbs().auto(**budget)
