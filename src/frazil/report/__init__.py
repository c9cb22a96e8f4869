"""Report the health of a table, or of all tables of a namespace, as one page of HTML that needs no
network.

Start at `table_report`. `health` gathers the facts from metadata and manifests alone, `page` lays
them out, `charts` draws them as SVG.
"""

__all__ = ["page", "table_report"]
