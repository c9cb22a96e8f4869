"""Find the maintenance that a table needs, from metadata alone, with costs and benefits
(`recommend`), and run it in a budget (`auto`).
"""

__all__ = ["auto", "finding", "metadata_files", "recommend", "table_state"]
