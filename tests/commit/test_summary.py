"""Summaries: Java's keys and totals, replayed on every snapshot of the golden tables."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from frazil.commit.summary import TOTALS, SummaryBuilder, with_totals
from frazil.spec.manifest import DataFile, ManifestFile
from tests.golden import names

ZERO = {"total-records": "0", "total-files-size": "0", "total-data-files": "0", "total-delete-files": "0", "total-position-deletes": "0", "total-equality-deletes": "0"}  # fmt: skip


def a_file(
    n: int,
    *,
    content: int = 0,
    partition: tuple[object, ...] = (),
    spec_id: int = 0,
    fmt: str = "parquet",
    **more: object,
) -> DataFile:
    return DataFile(
        content=content,
        file_path=f"/f{n}",
        file_format=fmt,
        partition=partition,
        record_count=10,
        file_size_in_bytes=100,
        spec_id=spec_id,
        **more,
    )  # type: ignore[arg-type]


def builder() -> SummaryBuilder:
    return SummaryBuilder(lambda spec_id, values: "/".join(f"p={v}" for v in values))


def test_totals_of_all_golden_snapshots_follow_from_the_one_before(golden) -> None:  # type: ignore[no-untyped-def]
    """Java starts again from 0 with the first snapshot of a branch that the write made, although
    that one has main's files too.
    """
    checked, from_zero = 0, set()
    for name in names(deletes=None):
        snapshots = {s["snapshot_id"]: s for s in golden[name].expected.get("snapshots", [])}
        for s in snapshots.values():
            parent = s.get("parent_id")
            if (
                not s.get("summary")
                or (parent is not None and parent not in snapshots)
                or "total-records" not in s["summary"]
            ):
                continue
            if parent is not None and not snapshots[parent].get("summary"):
                continue
            own = {k: v for k, v in s["summary"].items() if not k.startswith("total-")}
            got = with_totals(own, snapshots[parent]["summary"] if parent is not None else None)
            want = {t: s["summary"].get(t) for t, _, _ in TOTALS}
            if {t: got.get(t) for t, _, _ in TOTALS} != want:
                assert {t: with_totals(own, None).get(t) for t, _, _ in TOTALS} == want, (
                    name,
                    s["snapshot_id"],
                )
                from_zero.add(name)
            checked += 1
    assert checked > 150 and len(from_zero) <= 3, from_zero


def test_an_append_counts_files_records_and_partitions() -> None:
    b = builder()
    b.files(
        [a_file(1, partition=("a",)), a_file(2, partition=("b",)), a_file(3, partition=("b",))],
        added=True,
    )
    assert b.build() == {
        "added-data-files": "3",
        "added-records": "30",
        "added-files-size": "300",
        "changed-partition-count": "2",
    }


def test_zero_counts_are_left_out_and_an_empty_change_has_no_partitions() -> None:
    assert builder().build() == {"changed-partition-count": "0"}
    assert with_totals(builder().build(), None) == {"changed-partition-count": "0", **ZERO}


def test_partition_summaries_are_listed_up_to_the_limit() -> None:
    b = builder()
    b.files([a_file(1, partition=("a",))], added=True)
    b.files([a_file(2, partition=("b",))], added=False)
    found = b.build(limit=2)
    assert found["partition-summaries-included"] == "true"
    assert found["partitions.p=a"] == "added-files-size=100,added-data-files=1,added-records=10"
    assert (
        found["partitions.p=b"] == "removed-files-size=100,deleted-data-files=1,deleted-records=10"
    )
    assert "partitions.p=a" not in b.build(limit=1)


def test_delete_files_and_vectors_are_counted_as_java_does() -> None:
    b = builder()
    vector = a_file(
        1,
        content=1,
        fmt="puffin",
        content_size_in_bytes=7,
        content_offset=4,
        referenced_data_file="/d",
    )
    b.files([vector, a_file(2, content=1), a_file(3, content=2)], added=True)
    found = b.build()
    assert (
        found["added-dvs"] == "1"
        and found["added-position-delete-files"] == "1"
        and found["added-equality-delete-files"] == "1"
    )
    assert (
        found["added-delete-files"] == "3"
        and found["added-position-deletes"] == "20"
        and found["added-equality-deletes"] == "10"
    )
    assert found["added-files-size"] == "207" and "added-records" not in found


def test_a_manifest_taken_over_hides_partitions_and_of_deletes_the_sizes() -> None:
    b = builder()
    b.files([a_file(1)], added=True)
    b.manifest(
        ManifestFile(
            manifest_path="/m",
            manifest_length=1,
            content=1,
            added_files_count=2,
            deleted_files_count=0,
        )
    )
    assert b.build() == {"added-data-files": "1", "added-records": "10", "added-delete-files": "2"}


def test_nan_is_one_partition_and_negative_zero_another_than_zero() -> None:
    b = builder()
    b.files(
        [a_file(n, partition=(v,)) for n, v in enumerate([float("nan"), float("nan"), 0.0, -0.0])],
        added=True,
    )
    assert b.build()["changed-partition-count"] == "3"


def test_a_total_that_cannot_be_known_is_left_out() -> None:
    added = {"added-records": "5", "deleted-records": "9"}
    assert "total-records" not in with_totals(added, {})
    assert "total-records" not in with_totals(added, {"total-records": "many"})
    assert "total-records" not in with_totals(added, {"total-records": "3"})
    assert "total-records" not in with_totals({"added-records": "x"}, {"total-records": "3"})
    assert with_totals(added, {"total-records": "4"})["total-records"] == "0"


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), max_size=20))
def test_totals_equal_the_sum_of_all_changes_while_none_is_negative(
    steps: list[tuple[int, int]],
) -> None:
    summary, total = None, 0
    for added, removed in steps:
        removed = min(removed, total + added)
        total += added - removed
        summary = with_totals(
            {"added-records": str(added), "deleted-records": str(removed)}, summary
        )
        assert summary["total-records"] == str(total)
