# SPDX-License-Identifier: MIT
"""The report as one HTML file that opens without a network.

Charts over time are drawn by uPlot, which lies in vendor/ and is put into the page: it is made for
series of many thousand points that are zoomed, has 50 KB, and needs nothing else.  Bars and the
flame graph are boxes of the page's own, which wrap, print and follow the theme as text does.
"""

from __future__ import annotations

import json
import os
from typing import TextIO

from .data import Data

HERE = os.path.dirname(os.path.abspath(__file__))
VENDOR = os.path.join(os.path.dirname(HERE), "vendor")

# Rows of a table: enough to search in, few enough for a browser to sort at once.
ROWS = 500

SCRIPTS = ("page_words.js", "page_tables.js", "page_charts.js", "page_flame.js", "page_report.js",
           "page_diff.js", "page.js")


def write(data: Data, title: str, out: TextIO) -> None:
    """Writes the page of a report, or of a comparison."""
    library = _text(VENDOR, "uplot.js")
    parts = {"style": _text(HERE, "page.css"), "chart_style": _text(VENDOR, "uplot.css"),
             "script": "\n".join(_text(HERE, name) for name in SCRIPTS),
             # Its first line is an address, and a page names none.
             "library": library.partition("*/")[2], "title": _escaped(title),
             "said": _escaped(data["headline"] if "headline" in data else data["verdict"]),
             "licence": _text(VENDOR, "uplot-LICENSE.txt"), "data": _inside_script(data)}
    page = _text(HERE, "page.html")
    # One pass, so that a part which holds another's mark stays as it is.
    before, *rest = page.split("{{")
    out.write(before)
    for piece in rest:
        name, _, after = piece.partition("}}")
        out.write(parts[name] + after)


def _text(folder: str, name: str) -> str:
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return file.read()


def _escaped(text: str) -> str:
    for char, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(char, entity)
    return text.encode("utf-8", "replace").decode("utf-8")


def _inside_script(data: Data) -> str:
    """JSON that no tag within it can end; names of a log are not to be trusted."""
    return json.dumps(data).replace("<", "\\u003c")
