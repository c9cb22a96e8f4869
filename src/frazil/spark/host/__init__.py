"""Ask and prepare the Spark session: its settings, its JVM, and the Python of its workers."""

__all__ = ["failures", "interruptible", "jvm", "session", "settings", "sql_text", "workers"]
