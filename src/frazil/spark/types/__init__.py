"""Convert types and values between Spark, Iceberg and Arrow."""
