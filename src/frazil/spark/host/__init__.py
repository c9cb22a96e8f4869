"""Ask and prepare the Spark session: its settings, its JVM, and the Python of its workers."""
