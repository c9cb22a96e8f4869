"""Ask and prepare the Spark session: its settings, its JVM, and the Python of its workers."""

__all__ = [
    "expression_text",
    "failures",
    "fall_back",
    "hadoop",
    "interruptible",
    "jvm",
    "quiet",
    "session",
    "settings",
    "sql_text",
    "workers",
]
