"""The topics of Java Iceberg's own Spark tests, as small cases of ours; see `harness`."""
