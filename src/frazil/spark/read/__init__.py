"""Read a plan as a Spark DataFrame: on Spark's own scan where it is right, by Arrow in tasks where it is not; changelogs."""

__all__ = ["changelog_frame", "following", "native_read"]
