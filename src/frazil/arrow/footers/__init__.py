"""Read and rewrite footers of Parquet and ORC files without touching the column data: schemas, field ids, statistics, calendars."""
