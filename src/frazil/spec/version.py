"""This release, as files that it writes name it."""

VERSION = "0.1.0"
