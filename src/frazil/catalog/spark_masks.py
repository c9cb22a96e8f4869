"""Tell which secrets of a catalog Spark would show, in its event log and on its web page, and the
setting that masks them.

Both are written from the session's settings before a catalog is loaded, so nothing can be masked
afterwards.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping

from frazil.storage import redact_text
from frazil.storage.secrets import is_public, is_secret

log = logging.getLogger(__name__)
# Spark's default of spark.redaction.regex, for names and values alike
SPARKS_REGEX = "(?i)secret|password|token|access[.]?key"
REGEX = r"(?i)secret|password|token|access[.-]?key|account[.-]?key|credential|connection-string|sse\.key|\.header\.|://[^/\s]*:\S*@"
_TOLD: set[str] = set()


def shown_by_spark(prefix: str, spark_conf: Mapping[str, str]) -> list[str]:
    """Return the settings with a prefix (`spark.sql.catalog.<name>.`) that hold a secret which
    `spark.redaction.regex` does not mask.
    """
    try:
        regex = re.compile(spark_conf.get("spark.redaction.regex", SPARKS_REGEX))
    except re.error:  # of Java's form alone
        return []
    of_catalog = {key: value for key, value in spark_conf.items() if key.startswith(prefix)}
    names = {key: key.removeprefix(prefix) for key in of_catalog}
    secret = (
        k
        for k, v in of_catalog.items()
        if (is_secret(names[k]) and not is_public(names[k])) or redact_text(v) != v
    )
    return sorted(
        key for key in secret if not regex.search(key) and not regex.search(of_catalog[key])
    )


def tell_of_shown(prefix: str, spark_conf: Mapping[str, str]) -> None:
    """Log once which settings Spark shows with their secrets."""
    if (shown := shown_by_spark(prefix, spark_conf)) and prefix not in _TOLD:
        _TOLD.add(prefix)
        instead = (
            " Give the password of uri as jdbc.password instead." if f"{prefix}uri" in shown else ""
        )
        log.warning(
            "Spark shows the secrets in %s in its event log and on its web page.%s Start the session with spark.redaction.regex=%s",
            ", ".join(shown),
            instead,
            REGEX,
        )
