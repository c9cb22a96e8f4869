"""Convert types and values between Spark, Iceberg and Arrow."""

__all__ = ["arrow_types", "fitted", "logical", "safe_casts", "spark_types"]
