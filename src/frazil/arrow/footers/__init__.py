"""Read and rewrite footers of Parquet files without touching the column data: schemas, field ids,
statistics, calendars.
"""

__all__ = ["parquet_footer", "spark_calendar"]
