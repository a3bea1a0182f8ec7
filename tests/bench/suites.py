# SPDX-License-Identifier: MIT
"""The suites of rows by name."""

from __future__ import annotations

from . import (app_rows, auto_rows, classic_rows, larger_rows, links_rows, preset_rows,
               shared_rows)
from .row import Row

SUITES: dict[str, tuple[Row, ...]] = {
    "classic": classic_rows.ROWS,  # the experiments of kernels/, `make bench`
    "shared": shared_rows.ROWS,    # the place `shared` against its goals, `make bench-shared`
    "presets": preset_rows.ROWS,   # all programs under the presets of `shared`, by phases
    "auto": auto_rows.ROWS,        # all programs, learned from run to run, `make bench-auto`
    "auto-apps": auto_rows.SCRIPTS,  # the same of scripts of tests/gpu/apps
    "links": links_rows.ROWS,      # large copies over several GPUs' links, `make bench-links`
    "larger": larger_rows.ROWS,    # weights that do not fit, `make bench-larger`
    "apps": app_rows.ROWS,         # people's programs, `make bench-apps`; run by apps.py
}
SCRIPTS = ("auto-apps", "links", "larger")  # whose programs are scripts
ALL = tuple(row for rows in SUITES.values() for row in rows)
