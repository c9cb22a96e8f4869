"""Write a Spark DataFrame as data files: by Spark's Parquet writer, or by Arrow in tasks, spread and sorted as the table asks."""
