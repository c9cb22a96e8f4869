"""Change rows by any Spark SQL: conditions, values and merges that Spark decides, and sources of merges staged once."""
