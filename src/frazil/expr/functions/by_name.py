"""Look up the functions and operators of expressions by name. Any other function is refused by name
where Spark is not used.

operators  + - * / % div ||
numbers    abs ceil (ceiling) floor negative positive mod pmod sign (signum) sqrt isnan
text       lower (lcase) upper (ucase) length (len, char_length, character_length) octet_length trim ltrim rtrim substring (substr) left
           right concat startswith endswith contains replace reverse
times      year quarter month day (dayofmonth) dayofweek weekday dayofyear weekofyear hour minute second date_add (dateadd) date_sub
           datediff (date_diff) date_trunc last_day make_date
others     coalesce (ifnull, nvl) nullif if case isnull isnotnull size (cardinality)
Iceberg    system.bucket system.truncate system.years system.months system.days system.hours, also after a catalog's name
casts      boolean int bigint float double decimal string binary date timestamp as functions, CAST, TRY_CAST
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from frazil.expr.coerce import common_type
from frazil.expr.functions.function import Function, Signature
from frazil.expr.functions.numbers import NUMBER_FUNCTIONS
from frazil.expr.functions.partitioning import PARTITION_FUNCTIONS
from frazil.expr.functions.text import TEXT_FUNCTIONS
from frazil.expr.functions.time import TIME_FUNCTIONS
from frazil.spec.types import BooleanType, IcebergType, IntegerType, ListType, MapType, UnknownType

# Implement conditional and collection functions. `coalesce` and `case` are computed in `compute`,
# only for the rows that need them.


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


FUNCTIONS: dict[str, Function] = {
    f.name: f
    for f in (
        *NUMBER_FUNCTIONS,
        *TEXT_FUNCTIONS,
        *TIME_FUNCTIONS,
        *OTHER_FUNCTIONS,
        *PARTITION_FUNCTIONS,
    )
}
_ALIASES = {alias: f for f in FUNCTIONS.values() for alias in f.aliases}


def find_function(name: str) -> Function | None:
    """Return the function of this name or alias, in any case; None: there is none. Of a name of
    several parts the last two count: a catalog may stand before them."""
    own = ".".join(name.lower().split(".")[-2:])
    return FUNCTIONS.get(own) or _ALIASES.get(own)


def function_names() -> list[str]:
    """Return all names and aliases, without operators."""
    return sorted(n for n in (*FUNCTIONS, *_ALIASES) if n.replace(".", "").isidentifier())
