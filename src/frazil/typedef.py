"""Provide the names of types by PyIceberg's path: `from frazil.typedef import EMPTY_DICT,
Identifier, Properties`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from frazil.catalog import Identifier

Properties = dict[str, Any]
EMPTY_DICT: Mapping[str, Any] = MappingProxyType({})

__all__ = ["EMPTY_DICT", "Identifier", "Properties"]
