"""Clear the cache of decoded manifests, which Frazil keeps between calls within a limit of bytes. This is safe at any time."""

from frazil.scan.plan import clear_caches

__all__ = ["clear_caches"]
