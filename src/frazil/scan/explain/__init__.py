"""Explain a scan: why each file is read or skipped (`explanation`), and which deletes apply to it and why (`explain_deletes`)."""

__all__ = ["delete_report", "explain_deletes", "explanation"]
