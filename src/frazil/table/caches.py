"""What Frazil keeps between calls: decoded manifests, bounded by bytes. Safe to drop at any time."""

from frazil.scan.plan import clear_caches

__all__ = ["clear_caches"]
