"""Check that a Java runtime which Spark can use is installed, before PySpark starts it: PySpark's
own error comes late, and names neither the Java that was used nor what to install."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from frazil.errors import NotInstalledError

_OLDEST = 17
_NEEDED = f"Spark needs Java {_OLDEST} or newer"
_HINT = (
    "Install a JDK or JRE, 17 or 21, and set JAVA_HOME to its folder (the one that holds bin/java)."
)


def check_java(environ: Mapping[str, str], spark_home: Path) -> None:
    """Raise NotInstalledError if there is no Java, JAVA_HOME is wrong, or the Java is too old; the
    message names the Java and its path.

    Java is looked up as Spark's launch script does it. Nothing is checked where conf/spark-env.sh
    may set JAVA_HOME, and on Windows.
    """
    if (
        Path(environ.get("SPARK_CONF_DIR") or spark_home / "conf") / "spark-env.sh"
    ).exists() or os.name != "posix":
        return
    home = environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java", path=environ.get("PATH"))
    if java is None:
        raise NotInstalledError(
            f"{_NEEDED}, and none was found: JAVA_HOME is not set and no java is on the PATH.",
            hint=_HINT,
        )
    if not (os.path.isfile(java) and os.access(java, os.X_OK)):
        raise NotInstalledError(
            f"{_NEEDED}; JAVA_HOME is {home}, where there is no bin/java.", hint=_HINT
        )
    version = java_version(java)
    if version is not None and _major(version) < _OLDEST:
        where = f"JAVA_HOME is {home}" if home else f"java on the PATH is {java}"
        raise NotInstalledError(f"{_NEEDED}; {where}, which is Java {version}.", hint=_HINT)


def java_version(java: str) -> str | None:
    """Return the version of a Java executable, or None if it cannot be determined. The `release`
    file of the installation is read first, since starting Java takes longer."""
    release = Path(os.path.realpath(java)).parent.parent / "release"
    try:
        if release.is_file() and (
            version := re.search(
                r'^JAVA_VERSION="?([\d._]+)', release.read_text(errors="replace"), re.MULTILINE
            )
        ):
            return version[1]
        output = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    version = re.search(r'version "([\d._]+)', output.stderr + output.stdout)
    return version[1] if version else None


def _major(version: str) -> int:
    first, _, rest = version.partition(".")
    return int(rest.partition(".")[0]) if first == "1" and rest else int(re.match(r"\d+", first)[0])  # type: ignore[index]
