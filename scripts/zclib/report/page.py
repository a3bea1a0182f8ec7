# SPDX-License-Identifier: MIT
"""The report as one HTML file that opens without a network.

Charts are drawn by Chart.js, whose 200 KB are put into the page.  It was chosen because it is kept
well, is free of dependencies, has a Debian package, and is small enough to be in every report;
plotly.js and Vega would make each page twenty times as large.  Without it the page has its tables.
"""

from __future__ import annotations

import json
import os
from typing import TextIO

from .. import screen
from .data import Data

HERE = os.path.dirname(os.path.abspath(__file__))

# Rows of a table: enough to search in, few enough for a browser to sort at once.
ROWS = 500

CHART_PLACES = ("/usr/share/javascript/chart.js/chart.min.js",
                "/usr/share/nodejs/chart.js/dist/chart.min.js",
                "/usr/local/share/javascript/chart.js/chart.min.js")
HOW_TO_GET = ("the page has no charts: Chart.js is not installed (Debian: apt-get install "
              "libjs-chart.js; elsewhere name the file chart.min.js of Chart.js 3 by ZC_CHART_JS)")


def chart_library() -> str | None:
    """The text of Chart.js: of the file that ZC_CHART_JS names, else of a known place."""
    asked = os.environ.get("ZC_CHART_JS")
    for path in filter(None, (asked, *CHART_PLACES)):
        try:
            with open(path, encoding="utf-8") as file:
                return file.read()
        except (OSError, UnicodeDecodeError) as error:
            if path == asked:
                why = error.strerror if isinstance(error, OSError) else "it is no text"
                screen.message(f"ZC_CHART_JS names '{path}', which can't be read: {why}")
    return None


def write(data: Data, title: str, library: str | None, out: TextIO) -> None:
    """Writes the page of a report, or of a comparison."""
    if library is None:
        data = {**data, "no_charts": HOW_TO_GET}
    parts = {"style": _part("page.css"), "script": _part("page.js"), "library": library or "",
             "title": _escaped(title), "data": _inside_script(data)}
    page = _part("page.html")
    # One pass, so that a part which holds another's mark stays as it is.
    before, *rest = page.split("{{")
    out.write(before)
    for piece in rest:
        name, _, after = piece.partition("}}")
        out.write(parts[name] + after)


def _part(name: str) -> str:
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        return file.read()


def _escaped(text: str) -> str:
    for char, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(char, entity)
    return text.encode("utf-8", "replace").decode("utf-8")


def _inside_script(data: Data) -> str:
    """JSON that no tag within it can end; names of a log are not to be trusted."""
    return json.dumps(data).replace("<", "\\u003c")
