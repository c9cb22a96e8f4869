"""Explain a scan: how many files were skipped and by which statistics (`explanation`), and which deletes apply to each file and why
(`explain_deletes`). Why one file is read or skipped is decided in `scan.prune.file_pruner`."""

__all__ = ["delete_report", "explain_deletes", "explanation"]
