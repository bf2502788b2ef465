"""Results to look at: curves in the terminal, figures as files, and one HTML page that has everything."""

from askwell.report.figures import plot_curves
from askwell.report.gallery import Picture, Row, Tile, gallery
from askwell.report.page import html_report
from askwell.report.terminal import terminal_curves

__all__ = ["Picture", "Row", "Tile", "gallery", "html_report", "plot_curves", "terminal_curves"]
