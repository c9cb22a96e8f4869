"""Decode and encode the files of table metadata: metadata.json, manifests, manifest lists, Puffin
files, deletion vectors, values.

Modules: `metadata_json` (table metadata), `json_nouns` and `json_updates` (schemas, specs, orders,
snapshots, refs; REST updates and requirements), `manifest_list`, `manifest` (to Arrow, columnar,
and back), `single_value` (bounds, defaults, readable values, paths of partitions), `avro` (object
container files, bounded), `puffin`, `theta_sketch`, `deletion_vector`, `sorted_numbers` (the sets
that both hold), `expression_json` and `content_file_json` (filters and files of REST scan
planning).

All functions are pure, from bytes to values and back; only `manifest.decode_manifest` may be given
the path of a local file to read. Decoders trust no byte: a damaged or hostile file raises
CorruptData with its name, in time and memory bounded by its size.
"""

__all__ = [
    "avro",
    "avro_arrow",
    "avro_schema",
    "avro_write",
    "content_file_json",
    "deletion_vector",
    "expression_json",
    "guard",
    "json_nouns",
    "json_updates",
    "manifest",
    "manifest_columns",
    "manifest_list",
    "metadata_json",
    "puffin",
    "single_value",
    "sorted_numbers",
    "theta_sketch",
    "view_json",
]
