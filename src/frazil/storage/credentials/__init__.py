"""Hold who gets which secret: what a catalog vends (`vended`), what takes its place (`precedence`),
which hosts may get it (`parties`), AWS's own credentials (`aws`).
"""

__all__ = ["aws", "parties", "precedence", "vended"]
