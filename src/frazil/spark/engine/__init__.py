"""Serve `format("iceberg")` and the operations of `frazil.ops` on a Spark session: `engine`
implements `ops.engine.Engine`, `entry_points` answers what tables, catalogs and streams ask beside
that, `read_target` resolves the options of a read, `datasource` is the Python data source for
sessions that were not prepared by `frazil.install`.
"""

__all__ = [
    "datasource",
    "engine",
    "entry_points",
    "read_target",
    "session_catalogs",
    "stream_read",
]
