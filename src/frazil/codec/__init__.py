"""Bytes to nouns and back, pure: nothing here opens a file but the local manifest path handed to `manifest.decode_manifest`.

Doors: `metadata_json` (table metadata), `json_nouns` and `json_updates` (schemas, specs, orders, snapshots, refs; REST updates and
requirements), `manifest_list`, `manifest` (to Arrow, columnar, and back), `single_value` (bounds, defaults, readable
values), `partition_path`, `avro` (object container files, bounded), `puffin`, `deletion_vector`.

Every decoder takes hostile bytes: it raises CorruptData with the file's name, in time and memory bounded by what it was given.
"""

__all__ = [
    "avro",
    "avro_arrow",
    "avro_schema",
    "avro_write",
    "deletion_vector",
    "guard",
    "json_nouns",
    "manifest",
    "manifest_list",
    "metadata_json",
    "partition_path",
    "puffin",
    "single_value",
]
