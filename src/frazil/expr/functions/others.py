"""Implement conditional and collection functions. `coalesce` and `case` are computed in `compute`,
only for the rows that need them.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from frazil.expr.coerce import common_type
from frazil.expr.functions.function import Function, Signature
from frazil.spec.types import BooleanType, IcebergType, IntegerType, ListType, MapType, UnknownType


def _common(types: Sequence[IcebergType]) -> IcebergType | None:
    common: IcebergType | None = UnknownType()
    for t in types:
        common = common and (
            t
            if t == common
            else common_type(common, t)
            if common.is_primitive and t.is_primitive
            else None
        )
    return common


def _coalesce_bind(types: tuple[IcebergType, ...]) -> Signature | str:
    common = _common(types)
    if not types or common is None:
        return "takes values of one type."
    return Signature((common,) * len(types), common)


def _case_bind(types: tuple[IcebergType, ...]) -> Signature | str:
    pairs = len(types) // 2
    values = [*types[1 : 2 * pairs : 2], *types[2 * pairs :]]
    common = _common(values)
    if (
        not pairs
        or common is None
        or not all(isinstance(t, BooleanType | UnknownType) for t in types[: 2 * pairs : 2])
    ):
        return "takes conditions and values of one type."
    wanted = [BooleanType() if i % 2 == 0 and i < 2 * pairs else common for i in range(len(types))]
    return Signature(tuple(wanted), common)


def _size_bind(types: tuple[IcebergType, ...]) -> Signature | str:
    ok = len(types) == 1 and isinstance(types[0], ListType | MapType)
    return Signature(types, IntegerType()) if ok else "takes a list or map."


def _size(
    values: Sequence[pa.Array], types: Sequence[IcebergType], result: IcebergType, zone: str
) -> pa.Array:
    """Return the sizes of lists or maps; null for null, as Spark 4 does by default."""
    (v,) = values
    if isinstance(v.type, pa.MapType):  # list_value_length does not know maps
        ends = v.offsets
        lengths = pc.subtract(ends[1:], ends[:-1])
        return pc.if_else(v.is_valid(), lengths, pa.scalar(None, pa.int32()))
    return pc.list_value_length(v).cast(pa.int32())


def _lazy(
    values: Sequence[pa.Array], types: Sequence[IcebergType], result: IcebergType, zone: str
) -> pa.Array:
    raise AssertionError("computed by compute")


OTHER_FUNCTIONS = (
    Function("coalesce", _coalesce_bind, _lazy, ("ifnull", "nvl"), strict=False),
    Function("case", _case_bind, _lazy, strict=False),
    Function("size", _size_bind, _size, ("cardinality",)),
)
