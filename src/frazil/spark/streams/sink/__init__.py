"""Write streams: `writer` into a table, `many_tables` into the tables that rows name, `files` into
plain folders; `source_writer` and `keyed_writer` through the Python data source, in sessions on
which `frazil.install` was not called.
"""

__all__ = ["files", "keyed_writer", "many_tables", "source_writer", "writer"]
