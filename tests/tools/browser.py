# SPDX-License-Identifier: MIT
"""Opens pages of zc in headless Chromium, and sorts and filters their tables by clicks.

    browser.py REPORT DIFF [FOLDER]

FOLDER: screenshots of REPORT and DIFF, light and dark, are left there.

Chromium is driven by Selenium, the reference implementation of the W3C's WebDriver.  Exit status 77
where either of them is not installed.
"""

import os
import shutil
import sys

try:
    from selenium import webdriver
    from selenium.common.exceptions import WebDriverException
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.by import By
except ImportError:
    sys.exit(77)

ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--window-size=1240,2000", "--hide-scrollbars",
             # Nothing is to be fetched: a page that needed the network would fail here.
             "--proxy-server=127.0.0.1:9", "--proxy-bypass-list=<-loopback>")


def start():
    """A browser, or exit status 77."""
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not browser or not driver:
        sys.exit(77)
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for argument in ARGUMENTS:
        options.add_argument(argument)
    try:
        return webdriver.Chrome(service=Service(driver), options=options)
    except WebDriverException as error:
        print(f"# Chromium does not start: {error.msg}")
        sys.exit(77)


class Table:
    """A table of the page, by the id of its section."""

    def __init__(self, browser, name):
        self.section = browser.find_element(By.ID, name)
        self.headings = self.section.find_elements(By.TAG_NAME, "th")

    def column(self, heading):
        at = [cell.text for cell in self.headings].index(heading)
        return [row.find_elements(By.TAG_NAME, "td")[at].text
                for row in self.section.find_elements(By.CSS_SELECTOR, "tbody tr")]

    def click(self, heading):
        cell = next(cell for cell in self.headings if cell.text == heading)
        cell.click()
        return cell.get_attribute("aria-sort")

    def filter(self, text):
        field = self.section.find_element(By.TAG_NAME, "input")
        field.clear()
        field.send_keys(text)


def sorts_and_filters(browser):
    """The table of sites of tests/tools/logs/pipeline.jsonl."""
    sites = Table(browser, "sites")
    before = sites.column("Site")
    assert len(before) == 4, before
    assert sites.click("Site") == "ascending"
    assert sites.column("Site") == sorted(before)
    assert sites.click("Site") == "descending"
    assert sites.column("Site") == sorted(before, reverse=True)
    # Numbers are sorted as numbers, the greatest first: 14.9 ms, 493 us, 85.6 us, 2.0 us.
    assert sites.click("Time") == "descending"
    assert [time.split()[1] for time in sites.column("Time")] == ["ms", "us", "us", "us"]
    assert sites.column("Time")[1].startswith("493"), sites.column("Time")
    sites.filter("PIPELINE 0x25cf")
    assert sites.column("Site") == ["341627a0"], sites.column("Site")
    assert "1 of 4" in sites.section.text
    sites.filter("nothing has this")
    assert sites.column("Site") == []


def background(browser):
    return browser.execute_script("return getComputedStyle(document.body).backgroundColor")


def has_charts(browser, names):
    """Each chart has drawn something: its canvas is not of one colour."""
    for name in names:
        colours = browser.execute_script("""
            const canvas = document.getElementById(arguments[0]);
            const pixels = new Uint32Array(canvas.getContext("2d").getImageData(
                0, 0, canvas.width, canvas.height).data.buffer);
            return new Set(pixels).size;""", name)
        assert colours > 2, f"the chart {name} is empty"


def fits_a_narrow_window(browser, with_charts):
    """On a telephone's width the page does not scroll sideways, and no chart's labels touch."""
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": 390, "height": 2000, "deviceScaleFactor": 1, "mobile": True})
    browser.refresh()
    wide = browser.execute_script("return document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0, f"the page is {wide} pixels too wide"
    touching = browser.execute_script("""
        return [...document.querySelectorAll("canvas")].filter(canvas => {
            const chart = Chart.getChart(canvas), axis = chart.scales.x;
            let end = -Infinity;
            return axis.ticks.some(tick => {
                const at = axis.getPixelForValue(tick.value);
                const half = chart.ctx.measureText(tick.label).width / 2;
                const touches = at - half < end;
                end = at + half;
                return touches;
            });
        }).map(canvas => canvas.id);""") if with_charts else []
    assert not touching, f"labels of {touching} lie on each other"
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.refresh()


def both_themes(browser, folder, name):
    seen = []
    for _ in range(2):
        seen.append(background(browser))
        if folder:
            browser.save_screenshot(os.path.join(folder, f"{name}-{len(seen)}.png"))
        browser.find_element(By.ID, "theme").click()
    assert seen[0] != seen[1], "the button changes nothing"
    assert background(browser) == seen[0], "the button does not change back"


def main(report, diff, folder=None):
    browser = start()
    try:
        with_charts = os.environ.get("ZC_CHARTS") == "1"
        browser.get(f"file://{os.path.abspath(report)}")
        sorts_and_filters(browser)
        if with_charts:
            has_charts(browser, ["over-time", "by-direction", "by-site", "by-block"])
        fits_a_narrow_window(browser, with_charts)
        both_themes(browser, folder, "report")
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-color-scheme", "value": "dark"}]})
        browser.get(f"file://{os.path.abspath(diff)}")
        assert background(browser) == "rgb(21, 23, 26)", "the page follows the system's theme"
        assert "less" in browser.find_element(By.ID, "verdict").text
        if with_charts:
            has_charts(browser, ["by-direction", "by-site"])
        both_themes(browser, folder, "diff")
        messages = browser.get_log("browser")
        assert not messages, messages
    finally:
        browser.quit()


if __name__ == "__main__":
    main(*sys.argv[1:])
