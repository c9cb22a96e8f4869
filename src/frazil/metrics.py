"""Name the metrics reports that a reporter takes (catalog property `metrics-reporter-impl`):
ScanReport, CommitReport, MetricsReporter.
"""

from frazil.catalog.reports import CommitReport, MetricsReporter, ScanReport

__all__ = ["CommitReport", "MetricsReporter", "ScanReport"]
