"""Look up the functions and operators of expressions by name. Any other function is refused by name
where Spark is not used.

operators  + - * / % div ||
numbers    abs ceil (ceiling) floor negative positive mod pmod sign (signum) sqrt isnan
text       lower (lcase) upper (ucase) length (len, char_length, character_length) octet_length trim ltrim rtrim substring (substr) left
           right concat startswith endswith contains replace reverse
times      year quarter month day (dayofmonth) dayofweek weekday dayofyear weekofyear hour minute second date_add (dateadd) date_sub
           datediff (date_diff) date_trunc last_day make_date
others     coalesce (ifnull, nvl) nullif if case isnull isnotnull size (cardinality)
casts      boolean int bigint float double decimal string binary date timestamp as functions, CAST, TRY_CAST
"""

from __future__ import annotations

from frazil.expr.functions.function import Function
from frazil.expr.functions.numbers import NUMBER_FUNCTIONS
from frazil.expr.functions.others import OTHER_FUNCTIONS
from frazil.expr.functions.text import TEXT_FUNCTIONS
from frazil.expr.functions.time import TIME_FUNCTIONS

FUNCTIONS: dict[str, Function] = {
    f.name: f for f in (*NUMBER_FUNCTIONS, *TEXT_FUNCTIONS, *TIME_FUNCTIONS, *OTHER_FUNCTIONS)
}
_ALIASES = {alias: f for f in FUNCTIONS.values() for alias in f.aliases}


def find_function(name: str) -> Function | None:
    """Return the function of this name or alias, in any case; None: there is none."""
    return FUNCTIONS.get(name.lower()) or _ALIASES.get(name.lower())


def function_names() -> list[str]:
    """Return all names and aliases, without operators."""
    return sorted(n for n in (*FUNCTIONS, *_ALIASES) if n.isidentifier())
