"""Store files in object stores: `objects` is the store, `signed` one whose requests somebody else signs;
`object_options` translates a catalog's properties, `object_clients` makes the clients.
"""

__all__ = ["object_options", "objects", "s3_signatures", "signed"]
