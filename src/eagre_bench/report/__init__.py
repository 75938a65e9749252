"""The report of a run: one page with its tables and plots."""

from eagre_bench.report.page import write_report

__all__ = ["write_report"]
