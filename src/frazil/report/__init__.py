"""Report the health of a table, or of all tables of a namespace, as one page of HTML that needs no
network.

Start at `report_of` in `page`, which lays out the facts that `health` gathers from metadata and
manifests alone; `charts` draws them as SVG.
"""

__all__ = ["page"]
