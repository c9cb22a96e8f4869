"""List the properties of Java's catalogs and stores that only tune: how many threads, connections
and tries, how large buffers are.

They change nothing that is read or written, so they are taken as hints, each of which is logged
once in a process.
"""

from __future__ import annotations

import logging

log = logging.getLogger(__name__)
_NAMES = {
    "cache-enabled", "cache.case-sensitive", "cache.expiration-interval-ms", "clients", "io.manifest.cache-enabled",
    "s3.staging-dir", "s3.preload-client-enabled", "s3.delete.batch-size", "s3.delete.num-threads", "s3.chunk-encoding-enabled",
    "gcs.delete.batch-size", "gcs.channel.read.chunk-size-bytes", "gcs.channel.write.chunk-size-bytes", "gcs.analytics-core.enabled",
    "adls.read.block-size-bytes", "adls.write.block-size-bytes", "rest.client.max-connections", "rest.client.connections-per-route",
    "client-pool-size", "client.pool.cache.eviction-interval-ms", "http-client.type", "http-client.cache-enabled",
}  # fmt: skip
_BEGINNINGS = (
    "io.manifest.cache.", "s3.multipart.", "s3.retry.", "s3.analytics-accelerator.", "s3.crt.", "gcs.write.", "gcs.read.",
    "http-client.urlconnection.", "http-client.apache.", "client.pool.",
)  # fmt: skip
_TOLD: set[str] = set()


def is_tuning(key: str) -> bool:
    """Tell whether a property only tunes Java's clients. Those that name a proxy do more."""
    return (key in _NAMES or key.startswith(_BEGINNINGS)) and "proxy" not in key


def tell_of_tuning(key: str) -> None:
    """Log once that a property has no effect."""
    if key not in _TOLD:
        _TOLD.add(key)
        log.info("Property %s only tunes Java's clients: it has no effect here.", key)
