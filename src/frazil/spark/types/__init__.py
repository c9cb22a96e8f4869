"""Convert types and values between Spark, Iceberg and Arrow."""

__all__ = ["arrow_types", "logical", "safe_casts", "spark_types"]
