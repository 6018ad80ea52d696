"""A run folder becomes one page: `write_report(folder)` leaves a self-contained report.html in it."""

from drnmf.report.page import write_report

__all__ = ["write_report"]
