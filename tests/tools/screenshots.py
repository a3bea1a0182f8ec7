# SPDX-License-Identifier: MIT
"""Draws the pictures of a report and its page for the documentation: docs/report*.png.

    screenshots.py TRAIN FOLDER

TRAIN: the program that is run (tests/tools/train.c), on the simulated GPU.  Chromium shows what
came out, as in tests/tools/browser.py.
"""

from __future__ import annotations

import base64
import html
import os
import subprocess
import sys
import tempfile

import browser

ZC = os.path.abspath("scripts/zc")
COLUMNS = 83        # Of the terminal.
HIGH, PANE = 570, 660
BETWEEN = 12

FRAME = """<meta charset="utf-8">
<body style="margin:0;padding:{gap}px;background:#e8ebf2;
display:flex;gap:{gap}px">{panes}"""
TERMINAL = """<pre style="margin:0;box-sizing:border-box;width:{wide}px;height:{high}px;
padding:14px;overflow:hidden;white-space:pre-wrap;overflow-wrap:anywhere;border-radius:8px;
background:#14171c;color:#e6e8eb;font:12.6px/16.4px 'DejaVu Sans Mono',monospace">{text}</pre>"""
PICTURE = """<img style="border-radius:8px" src="data:image/png;base64,{data}">"""


def report(folder: str) -> str:
    """The terminal during `zc run ./train`."""
    done = subprocess.run(
        ["script", "-qec", f"stty cols {COLUMNS}; TERM=dumb {ZC} run ./train", "/dev/null"],
        cwd=folder, check=True, stdout=subprocess.PIPE, encoding="utf-8")
    return "$ zc run ./train\n" + done.stdout.replace("\r", "")


def page(folder: str) -> str:
    """The page of such a run; its path."""
    for command in (["run", "-q", "-l", "events", "-o", "logs", "./train"],
                    ["report", "--html", "page.html", "logs"]):
        subprocess.run([ZC, *command], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return os.path.join(folder, "page.html")


def pane(chromium, path: str, theme: str, top: str, high: int) -> str:
    """A part of the page from an element on, as an image of HTML."""
    chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
        {"name": "prefers-color-scheme", "value": theme}]})
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": PANE, "height": high, "deviceScaleFactor": 1, "mobile": False})
    chromium.get(f"file://{path}")
    y = chromium.execute_script(f"return {top}")
    data = chromium.execute_cdp_cmd("Page.captureScreenshot", {
        "captureBeyondViewport": True,
        "clip": {"x": 0, "y": y, "width": PANE, "height": high, "scale": 1}})["data"]
    return PICTURE.format(data=data)


def compose(chromium, panes: list[str], high: int, name: str) -> None:
    """One picture of several, beside each other."""
    with tempfile.NamedTemporaryFile("w", suffix=".html", encoding="utf-8") as file:
        file.write(FRAME.format(gap=BETWEEN, panes="".join(panes)))
        file.flush()
        chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": len(panes) * PANE + (len(panes) + 1) * BETWEEN, "height": high + 2 * BETWEEN,
            "deviceScaleFactor": 1, "mobile": False})
        chromium.get(f"file://{file.name}")
        chromium.save_screenshot(name)


def main(train: str, out: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(os.path.abspath(train), os.path.join(folder, "train"))
        text, path = report(folder), page(folder)
        chromium = browser.start()
        try:
            head = "0"
            charts = """[...document.querySelectorAll("h2")].find(
                each => each.textContent === "Charts").getBoundingClientRect().top - 10"""
            terminal = TERMINAL.format(wide=PANE, high=HIGH, text=html.escape(text))
            compose(chromium, [terminal, pane(chromium, path, "light", head, HIGH)], HIGH,
                    os.path.join(out, "report.png"))
            compose(chromium, [pane(chromium, path, "light", head, 900),
                               pane(chromium, path, "dark", charts, 900)], 900,
                    os.path.join(out, "report-page.png"))
        finally:
            chromium.quit()


if __name__ == "__main__":
    main(*sys.argv[1:])
