"""Keep pyarrow from importing pandas in Spark's Python workers, until somebody imports pandas.

pyarrow imports pandas, where it is installed, when it makes its first array, only to recognise
objects of pandas among what it is given. That takes each new worker 0.4 to 1 s, which the first
DELETE, UPDATE or MERGE of a session waits for, and Frazil's tasks hold no object of pandas. So
pyarrow looks for pandas once while pandas cannot be found. Workers are shared with the user's own
functions: as soon as one of them imports pandas, pyarrow is made to look again, before an object of
pandas can exist.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

import pyarrow as pa

_PANDAS = "pandas"


def without_pandas() -> None:
    """Make pyarrow look for pandas now and not find it, until pandas is imported. Does nothing
    where pandas is imported already, or where this version of pyarrow cannot be told to look again.
    """
    if _PANDAS in sys.modules or not hasattr(type(getattr(pa.lib, "_pandas_api", None)), "pd"):
        return
    finder = _PandasFinder()
    sys.meta_path.insert(0, finder)
    pa.array([0])
    finder.hidden = False


class _PandasFinder(MetaPathFinder):
    """Hide pandas from pyarrow's first look. Later find pandas as the import system does, and have
    pyarrow look again after the import.
    """

    hidden = True

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _PANDAS:
            return None
        if self.hidden:
            raise ModuleNotFoundError("pandas is hidden from pyarrow's first look", name=_PANDAS)
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(_PANDAS)
        if spec is not None and spec.loader is not None:
            spec.loader = _LoaderThatTellsPyarrow(spec.loader)
        return spec


class _LoaderThatTellsPyarrow(Loader):
    """Load pandas by its own loader, and have pyarrow look for pandas again as soon as the import
    has ended.
    """

    def __init__(self, loader: Loader):
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        pa.lib._pandas_api.pd  # noqa: B018 - reading it makes pyarrow look for pandas
