"""This release, as files that it writes name it."""

VERSION = "0.1.0"
WRITER = "Frazil"
"""Begins the `iceberg-version` that the summary of every snapshot which Frazil commits has, where Java's begins with "Apache Iceberg"."""
