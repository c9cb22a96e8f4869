"""Read a plan as a Spark DataFrame: on Spark's own scan where it is right, by Arrow in tasks where it is not;
changelogs; temporary views made anew after a commit (`view_refresh`)."""

__all__ = ["changelog_frame", "native_read", "view_refresh"]
