"""Results to look at: curves in the terminal, figures as files, and one HTML page that has everything.

```
traces -> terminal.py  text, in braille dots or ASCII
       -> figures.py   matplotlib: PNG, SVG, PDF, and SVG in the colours of a page
                       -> page.py + page.html + page.css   one file to share
```
"""

from askwell.report.figures import plot_curves
from askwell.report.page import Picture, Tile, TileRow, gallery, html_report
from askwell.report.terminal import terminal_curves, terminal_style

__all__ = ["Picture", "Tile", "TileRow", "gallery", "html_report", "plot_curves", "terminal_curves", "terminal_style"]
