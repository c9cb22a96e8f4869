"""What every JVM that a test starts is told, at whatever remove: they run small jobs for seconds,
and many are started.
"""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

# What the second compiler and the parallel collector save is less than they take. The first
# compiler alone would have 48 MB for its code, which a thousand small queries fill: it would then
# throw code away and compile it again.
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m -XX:MetaspaceSize=192m -Djdk.lang.Process.launchMechanism=VFORK"


def class_archive() -> Path:
    """Return where this environment keeps the classes of its Spark as the JVM holds them in memory
    (tests/peers/classes.py writes the file): a session begins in half the time, as nothing is
    unpacked, parsed and verified."""
    return Path(sys.prefix) / f"spark-classes-{metadata.version('pyspark')}.jsa"


def java_options() -> str:
    """Return the value of JDK_JAVA_OPTIONS. A JVM with other jars than those of the archive passes
    it over without a word.
    """
    archive = class_archive()
    return f"{QUICK} -XX:SharedArchiveFile={archive} -Xlog:cds*=off" if archive.exists() else QUICK
