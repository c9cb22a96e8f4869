"""Name this release, as written files name it, and the releases of PySpark that it works with."""

import re

from frazil.errors import NotInstalledError

VERSION = "0.1.0"
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
