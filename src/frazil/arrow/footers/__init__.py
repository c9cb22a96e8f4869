"""Read and rewrite footers of Parquet and ORC files without touching the column data: schemas,
field ids, statistics, calendars.
"""

__all__ = ["orc_footer", "parquet_footer", "parquet_join", "spark_calendar"]
