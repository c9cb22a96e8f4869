"""Explain a scan: how many files were skipped and by which statistics (`explanation`), and which deletes apply to each file and why
(`explain_deletes`). Data files are counted: the decision whether a single file is read is made in `scan.prune`, which keeps no reason."""

__all__ = ["delete_report", "explain_deletes", "explanation"]
