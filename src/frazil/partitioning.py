"""Provide partition specs by PyIceberg's path: `from frazil.partitioning import PartitionField,
PartitionSpec`.
"""

from frazil.spec.partitioning import (
    FIRST_PARTITION_FIELD_ID,
    UNPARTITIONED_PARTITION_SPEC,
    PartitionField,
    PartitionSpec,
)

PARTITION_FIELD_ID_START, INITIAL_PARTITION_SPEC_ID = (
    FIRST_PARTITION_FIELD_ID,
    UNPARTITIONED_PARTITION_SPEC.spec_id,
)

__all__ = [
    "INITIAL_PARTITION_SPEC_ID",
    "PARTITION_FIELD_ID_START",
    "UNPARTITIONED_PARTITION_SPEC",
    "PartitionField",
    "PartitionSpec",
]
