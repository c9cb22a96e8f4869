"""Provide partition transforms by PyIceberg's path: `from frazil.transforms import BucketTransform,
DayTransform`.
"""

from frazil.spec.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    UnknownTransform,
    VoidTransform,
    YearTransform,
    parse_transform,
)

__all__ = [
    "BucketTransform", "DayTransform", "HourTransform", "IdentityTransform", "MonthTransform", "Transform", "TruncateTransform",
    "UnknownTransform", "VoidTransform", "YearTransform", "parse_transform",
]  # fmt: skip
