"""Name this release, as written files name it, and the releases of PySpark that it works with; warn
of what a later release removes.
"""

import os
import re
import sys
import warnings

from frazil.errors import FrazilDeprecationWarning, NotInstalledError

VERSION = "0.1.0"  # the one place: pyproject.toml takes it from here
WRITER = "Frazil"
"""Begins the `iceberg-version` that the summary of every snapshot which Frazil commits has, where
Java's begins with "Apache Iceberg".
"""
PYSPARK = "PySpark 4.1, 4.2 and 4.3"
_OLDEST = (4, 1)


def check_pyspark(version: str) -> None:
    """Check the release of PySpark. Raises NotInstalledError for one that is too old, naming the
    supported releases.
    """
    match = re.match(r"(\d+)\.(\d+)", version)
    if match is not None and (int(match[1]), int(match[2])) < _OLDEST:
        raise NotInstalledError(
            f"PySpark {version} is installed; Frazil works with {PYSPARK}.",
            hint="pip install 'frazil[spark]' brings one of them.",
        )


_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep


def deprecated(name: str, instead: str, *, since: str, gone: str) -> None:
    """Warn the line outside of Frazil that led here: `name` is deprecated from the release `since` on,
    and the release `gone` removes it, at least two minor releases later.
    """
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    text = f"{name} is deprecated since Frazil {since}, and gone in {gone}. Use {instead}."
    warnings.warn(text, FrazilDeprecationWarning, stacklevel=level)
