"""Provide statistics files by PyIceberg's path: `from frazil.table.statistics import BlobMetadata,
StatisticsFile`.
"""

from frazil.spec.snapshot import PartitionStatisticsFile, StatisticsBlob, StatisticsFile

BlobMetadata = StatisticsBlob

__all__ = ["BlobMetadata", "PartitionStatisticsFile", "StatisticsFile"]
