"""Explain a scan: how many files were skipped and by which statistics (`explanation`), why one data
file is read or skipped (`explain_file`), and which deletes apply to each file and why
(`explain_deletes`). The decisions are made in `scan.prune`."""

__all__ = ["delete_report", "explain_file", "explanation"]
