"""Clear what this process remembers of tables between calls: decoded manifests and metadata files.
This is safe at any time.
"""

from frazil.catalog import metadata_files
from frazil.scan import plan

__all__ = ["clear_caches"]


def clear_caches() -> None:
    """Clear all cached manifests, manifest lists and metadata files. Results do not depend on them:
    the next calls only take longer.
    """
    plan.clear_caches()
    metadata_files.written.clear()
