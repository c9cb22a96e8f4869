"""Staged actions applied before the commit."""

from __future__ import annotations

from frazil.commit.actions import Append
from frazil.ops import metadata_changes
from frazil.ops.operation import Preview
from tests.ops.support import Place, appended


def test_each_action_is_applied_once_and_shows_in_what_follows(place: Place) -> None:
    operation = place.operation()
    operation.run(appended(1))
    staged_first = len(operation.actions)
    operation.run(appended(2, 3))
    preview = Preview(operation.base.metadata, operation.storage)
    one = preview.metadata(operation.actions[:staged_first])
    applied = preview.metadata(operation.actions)
    assert preview.metadata(operation.actions) is applied
    totals = [s.summary["total-records"] for s in applied.snapshots]
    assert (
        totals[0] == "1" and totals[-1] == "3" and one.current_snapshot_id in preview.snapshot_ids
    )
    assert preview.snapshot_ids == {s.snapshot_id for s in applied.snapshots}
    assert sum(isinstance(a, Append) for a in operation.actions) == 2
    preview.remove()
    operation.abandon(ValueError())


def test_changes_of_metadata_make_no_snapshot_and_no_file(place: Place) -> None:
    held = place.files()
    preview = Preview(place.load().metadata, place.load().storage)
    applied = preview.metadata(
        [
            metadata_changes.set_properties({"k": "v"}),
            metadata_changes.remove_properties(["absent"]),
        ]
    )
    assert (applied.properties["k"], preview.snapshot_ids, place.files()) == (
        "v",
        frozenset(),
        held,
    )


def test_removing_a_preview_removes_its_manifests_and_leaves_the_data(place: Place) -> None:
    operation = place.operation()
    operation.run(appended(1))
    held = place.files()
    preview = Preview(operation.base.metadata, operation.storage)
    preview.metadata(operation.actions)
    made = place.files() - held
    assert made and all(path.endswith(".avro") for path in made)
    preview.remove()
    assert place.files() == held and set(operation.written) <= held
