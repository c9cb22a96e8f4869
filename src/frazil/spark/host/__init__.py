"""Ask and prepare the Spark session: its settings, its JVM, and the Python of its workers."""

__all__ = [
    "expression_text",
    "failures",
    "fall_back",
    "frame_size",
    "interruptible",
    "jvm",
    "jvm_hadoop",
    "jvm_plans",
    "jvm_reads",
    "jvm_views",
    "quiet",
    "session",
    "settings",
    "sql_text",
    "workers",
]
