"""Apply row-level deletes in Spark's own plan: position deletes and deletion vectors as bitmaps, equality deletes as anti joins."""

__all__ = ["native_deletes"]
