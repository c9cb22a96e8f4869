"""Set and remove the statistics files of snapshots: PyIceberg's builder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frazil.spec.statistics import PartitionStatisticsFile, StatisticsFile
from frazil.spec.updates import (
    RemovePartitionStatistics,
    RemoveStatistics,
    SetPartitionStatistics,
    SetStatistics,
    Update,
)
from frazil.storage import absolute


def _with_absolute_path(
    statistics_file: StatisticsFile | PartitionStatisticsFile | dict[str, Any],
) -> dict[str, Any]:
    """Return a statistics file as a JSON object with an absolute path."""
    statistics = (
        statistics_file if isinstance(statistics_file, dict) else statistics_file.to_object()
    )
    path = statistics.get("statistics-path")
    return statistics if path is None else {**statistics, "statistics-path": absolute(str(path))}


class UpdateStatistics:
    """Set and remove the statistics files of snapshots, given as classes of
    `frazil.table.statistics` or as JSON objects of the spec (`snapshot-id`, `statistics-path`, …).
    """

    def __init__(self) -> None:
        self._updates: list[Update] = []

    def set_statistics(self, statistics_file: StatisticsFile | dict[str, Any]) -> UpdateStatistics:
        """Set the statistics file (Puffin) of its snapshot, as an object or a dict of the spec's
        names."""
        self._updates.append(SetStatistics(_with_absolute_path(statistics_file)))
        return self

    def remove_statistics(self, snapshot_id: int) -> UpdateStatistics:
        """Remove the statistics file of a snapshot from the metadata."""
        self._updates.append(RemoveStatistics(snapshot_id))
        return self

    def set_partition_statistics(
        self, partition_statistics_file: PartitionStatisticsFile | dict[str, Any]
    ) -> UpdateStatistics:
        """Set the partition statistics file of its snapshot, as an object or a dict of the spec's
        names."""
        self._updates.append(SetPartitionStatistics(_with_absolute_path(partition_statistics_file)))
        return self

    def remove_partition_statistics(self, snapshot_id: int) -> UpdateStatistics:
        """Remove the partition statistics file of a snapshot from the metadata."""
        self._updates.append(RemovePartitionStatistics(snapshot_id))
        return self

    def updates(self, _: object) -> Sequence[Update]:
        """Return the metadata updates that set and remove the files, in the order of the calls."""
        return tuple(self._updates)
