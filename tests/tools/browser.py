# SPDX-License-Identifier: MIT
"""Opens pages of zc in headless Chromium, and uses them as people do, by clicks and drags.

    browser.py REPORT DIFF TRACE PERFETTO [FOLDER]

PERFETTO: the folder of Perfetto's own viewer, which `make deps` gets; where there is none, TRACE is
not opened.  FOLDER: screenshots of REPORT and DIFF, light and dark, are left there.

Chromium is driven by Selenium, the reference implementation of the W3C's WebDriver.  Exit status 77
where either of them is not installed.
"""

import http.server
import os
import shutil
import sys
import tempfile
import threading

try:
    from selenium import webdriver
    from selenium.common.exceptions import WebDriverException
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait
except ImportError:
    sys.exit(77)

PERFETTO_PORT = 9001
ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--window-size=1240,2000", "--hide-scrollbars",
             # Nothing is to be fetched: a page that needed the network would fail here.
             "--proxy-server=127.0.0.1:9",
             f"--proxy-bypass-list=<-loopback>;127.0.0.1:{PERFETTO_PORT}")

# Questions to Perfetto about the trace, and its answers.
PERFETTO_FINDS = (
    ("select name, value from stats where severity <> 'info' and value > 0", []),
    ("select pid, name from process where name is not null order by pid",
     [["1", "pipeline (node1 rank 0 pid 4000)"], ["2", "link"]]),
    ("select category, count(*) from slice group by category order by category",
     [["alloc", "10"], ["free", "10"], ["transfer", "32"]]),
    ("select count(*) from flow", [["42"]]),
    ("select a.name, b.name, count(*) from flow join slice a on slice_out = a.id join slice b on "
     "slice_in = b.id where b.category = 'free' group by 1, 2 order by 1, 2",
     [["DtoH", "free, device", "4"], ["HtoD", "free, device", "4"],
      ["allocate, pinned", "free, pinned", "2"]]),
    ("select t.name, max(c.value) from counter c join process_counter_track t on c.track_id = t.id "
     "where t.name like 'memory%' group by t.name order by t.name",
     [["memory: device bytes", str(2 << 20)], ["memory: pinned bytes", str(8 << 20)]]),
    ("select distinct extract_arg(arg_set_id, 'args.site') from slice where category = 'transfer' "
     "order by 1", [["341627a0"], ["5f270e3f"]]),
)


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
        return [row.find_elements(By.TAG_NAME, "td")[at].text.lstrip("\u25b8\u25be ")
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
            const canvas = document.querySelector("#" + arguments[0] + " canvas");
            const pixels = new Uint32Array(canvas.getContext("2d").getImageData(
                0, 0, canvas.width, canvas.height).data.buffer);
            return new Set(pixels).size;""", name)
        assert colours > 2, f"the chart {name} is empty"


def has_bars(browser, names):
    for name in names:
        bars = browser.find_elements(By.CSS_SELECTOR, f"#{name} .track i")
        assert bars and any(bar.size["width"] > 20 for bar in bars), f"no bars in {name}"


def shown_range(browser):
    return browser.find_element(By.ID, "range").text


def drag(browser, name, start, end):
    """With the pointer over a chart, from and to shares of its width."""
    over = browser.find_element(By.CSS_SELECTOR, f"#{name} .u-over")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", over)
    wide = over.size["width"]
    chain = ActionChains(browser).move_to_element_with_offset(over, int((start - 0.5) * wide), 0)
    chain.click_and_hold().move_by_offset(int((end - start) * wide), 0).release().perform()


def charts_zoom(browser):
    """A drag zooms all charts, buttons do, a double click shows all again."""
    assert shown_range(browser) == "0 ns to 28.3 ms of 28.3 ms", shown_range(browser)
    drag(browser, "over-time", 0.25, 0.5)
    start, _, end = shown_range(browser).partition(" of ")[0].partition(" to ")
    assert 6.5 < float(start.split()[0]) < 7.5 and 13.5 < float(end.split()[0]) < 14.5, (start, end)
    # Every axis begins and ends there.
    ranges = browser.execute_script(
        "return overTime.plots.map(each => [each.drawn.scales.x.min, each.drawn.scales.x.max])")
    assert len(ranges) == 3 and all(one == ranges[0] for one in ranges), ranges
    # The copies at that time, by site: less than in all.
    assert "830 KiB" not in browser.find_element(By.ID, "who").text
    browser.find_element(By.CSS_SELECTOR, "#zoom button").click()
    closer = shown_range(browser)
    over = browser.find_element(By.CSS_SELECTOR, "#memory .u-over")
    ActionChains(browser).double_click(over).perform()
    assert shown_range(browser) == "0 ns to 28.3 ms of 28.3 ms" != closer


def leads_from_chart_to_site_to_block_and_back(browser):
    browser.find_element(By.CSS_SELECTOR, "#who button").click()
    sites = browser.find_element(By.ID, "sites")
    path = sites.find_element(By.CSS_SELECTOR, "tr.details ol").text.split("\n")
    assert path == ["pipeline+0x25cf", "libc.so.6+0x2724a", "libc.so.6+0x27305",
                    "pipeline+0x2c11"], path
    assert "cuMemAlloc" in sites.find_element(By.CSS_SELECTOR, "tr.details").text
    sites.find_element(By.CSS_SELECTOR, "tr.details button.link").click()
    blocks = browser.find_element(By.ID, "blocks")
    assert "Allocated at 2.9 ms, freed at 27.5 ms" in blocks.text, blocks.text
    blocks.find_elements(By.CSS_SELECTOR, "tr.details button")[-1].click()
    assert browser.execute_script("return overTime.site") == "341627a0"
    assert "site 341627a0" in browser.find_element(By.ID, "over-time").text
    assert shown_range(browser).startswith("1."), shown_range(browser)
    # The row is marked for a moment, which may be over when a busy machine looks.
    browser.execute_script("window.later = setTimeout; window.setTimeout = () => 0;")
    blocks.find_element(By.CSS_SELECTOR, "tr.details button.link").click()
    browser.execute_script("window.setTimeout = later;")
    found = sites.find_element(By.CSS_SELECTOR, "tr.found").text
    assert found.startswith("\u25be 341627a0") or "341627a0" in found, found


def flame_opens(browser):
    box = browser.find_elements(By.CSS_SELECTOR, "#flame button")
    assert [each.text for each in box[:2]] == ["all copied bytes", "pipeline+0x2c11"]
    next(each for each in box if each.text == "pipeline+0x25cf").click()
    shown = [each.text for each in browser.find_elements(By.CSS_SELECTOR, "#flame button")]
    assert shown == ["all copied bytes", "pipeline+0x25cf"], shown


def rules_are_copied(browser):
    """Copies by the buttons: the rule, and the policy with the ticked ones: at first those that
    are about no site."""
    browser.execute_script("window.kept = []; copyText = (words, said) => "
                           "{ kept.push(words); said(true); };")
    browser.find_element(By.CSS_SELECTOR, "#findings .rule button").click()
    boxes = browser.find_elements(By.CSS_SELECTOR, "#findings .rule input")
    copy = browser.find_elements(By.CSS_SELECTOR, "#policy button")[1]
    copy.click()
    boxes[0].click()
    next(box for box in boxes[1:] if not box.is_selected()).click()
    copy.click()
    rule, first, policy = browser.execute_script("return kept")
    assert rule.startswith("[rule host-buffers]\napi = heap\n"), rule
    assert "host-buffers" in first and "site-" not in first, first
    assert "[rule site-5f270e3f]" in policy and "host-buffers" not in policy, policy
    assert all(line.startswith(("#", "[")) or "=" in line or not line
               for line in policy.split("\n")), policy
    browser.find_element(By.CSS_SELECTOR, "#findings .rule input").click()


def command_is_copied(browser):
    """The first finding is the preset's command line, which has no box for policy.conf."""
    browser.execute_script("window.kept = []; copyText = (words, said) => "
                           "{ kept.push(words); said(true); };")
    headline = browser.find_element(By.ID, "headline")
    assert headline.find_element(By.TAG_NAME, "code").text == "everyday"
    assert "`" not in headline.text
    assert not browser.find_element(By.ID, "places-filter").is_displayed()
    first = browser.find_element(By.CSS_SELECTOR, "#findings li")
    assert first.find_element(By.TAG_NAME, "pre").text == "zc run -p @everyday ./gather"
    assert not first.find_elements(By.TAG_NAME, "input")
    first.find_element(By.TAG_NAME, "button").click()
    assert browser.execute_script("return kept") == ["zc run -p @everyday ./gather"]
    # Text to paste says of what it is; and the lines to change come before the charts.
    browser.find_element(By.ID, "copy-headline").click()
    pasted = browser.execute_script("return kept")[1]
    assert pasted.startswith("gather on ") and pasted.endswith("@everyday ./gather`."), pasted
    order = [section.get_attribute("id") or section.text.split("\n")[0] for section in
             browser.find_elements(By.CSS_SELECTOR, "main h2, main section")]
    assert "callers" not in order or order.index("callers") < order.index("Charts"), order


def words_are_explained(browser):
    heading = next(cell for cell in browser.find_elements(By.CSS_SELECTOR, "#sites th")
                   if cell.text == "Elided")
    ActionChains(browser).move_to_element(heading).perform()
    assert "did not have to be copied" in browser.find_element(By.ID, "tip").text


def prints_light(browser):
    """Paper is white, and has no buttons, also where the page is dark."""
    browser.execute_script("dispatchEvent(new Event('beforeprint'))")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert background(browser) == "rgb(252, 252, 251)", background(browser)
    assert not browser.find_element(By.ID, "theme").is_displayed()
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    browser.execute_script("dispatchEvent(new Event('afterprint'))")


def does_not_scroll_sideways(browser, width):
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": width, "height": 2000, "deviceScaleFactor": 1, "mobile": True})
    browser.refresh()
    wide = browser.execute_script(
        f"return document.documentElement.scrollWidth - {width}")
    assert wide <= 0, f"the page is {wide} pixels too wide"


def fits_narrow_windows(browser):
    """On the width of a telephone and a tablet the page does not scroll sideways."""
    for width in (390, 768):
        does_not_scroll_sideways(browser, width)
        out = browser.execute_script("""
            return [...document.querySelectorAll(".uplot canvas, .bars-row, .flame")]
                .filter(node => node.getBoundingClientRect().right > innerWidth)
                .map(node => node.className);""")
        assert not out, f"charts are too wide: {out}"
    # A table that goes on outside of its box says so, until one has come to its end.
    hints = browser.execute_async_script("""
        const done = arguments[0], box = document.querySelector("#sites .scroll");
        const seen = [box.classList.contains("more")];
        box.addEventListener("scroll", () => {
            seen.push(box.classList.contains("more"));
            done(seen);
        });
        box.scrollLeft = box.scrollWidth;""")
    assert hints == [True, False], hints
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.refresh()


def long_names_fit(browser):
    """Names without a blank, as of templates, neither widen the page nor push numbers out of it."""
    does_not_scroll_sideways(browser, 390)
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.refresh()
    over = browser.execute_script("""
        const box = document.querySelector("#sites .scroll");
        return box.scrollWidth - box.clientWidth;""")
    assert over <= 0, f"the table of sites is {over} pixels too wide"
    cell = browser.find_element(By.CSS_SELECTOR, "#sites td[title]")
    assert cell.get_attribute("title") == cell.text and len(cell.text) > 100, cell.text


def both_themes(browser, folder, name):
    seen = []
    for _ in range(2):
        seen.append(background(browser))
        if folder:
            browser.save_screenshot(os.path.join(folder, f"{name}-{len(seen)}.png"))
        browser.find_element(By.ID, "theme").click()
    assert seen[0] != seen[1], "the button changes nothing"
    assert background(browser) == seen[0], "the button does not change back"


class Perfetto:
    """Perfetto's viewer with its trace processor, served from a folder to this machine alone."""

    def __init__(self, folder):
        class Handler(http.server.SimpleHTTPRequestHandler):
            """Serves the folder, and keeps quiet."""

            def __init__(self, *args):
                super().__init__(*args, directory=folder)

            def log_message(self, *args):
                pass

        # The port that the viewer may load traces from, by its own rules.
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", PERFETTO_PORT), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def open(self, browser, path):
        at = f"http://127.0.0.1:{PERFETTO_PORT}"
        browser.get(f"{at}/#!/?url={at}/{path}")
        WebDriverWait(browser, 60).until(lambda browser: browser.execute_script(
            "return Boolean(window.app && app.trace && app.trace.engine)"))

    def query(self, browser, sql):
        """The rows of an answer of Perfetto's SQL."""
        return browser.execute_async_script("""
            const [sql, done] = arguments;
            app.trace.engine.query(sql).then(answer => {
                const rows = [], names = answer.columns();
                for (const row = answer.iter({}); row.valid(); row.next())
                    rows.push(names.map(name => String(row.get(name))));
                done(rows);
            }, error => done([["error", String(error)]]));""", sql)


def perfetto_reads(browser, folder, trace):
    """Perfetto's trace processor finds no fault in the trace of pipeline.jsonl, and all of it."""
    with tempfile.TemporaryDirectory() as served:
        for name in os.listdir(folder):
            os.symlink(os.path.abspath(os.path.join(folder, name)), os.path.join(served, name))
        shutil.copy(trace, os.path.join(served, "trace.json"))
        perfetto = Perfetto(served)
        try:
            perfetto.open(browser, "trace.json")
            for sql, expected in PERFETTO_FINDS:
                rows = perfetto.query(browser, sql)
                assert rows == expected, (sql, rows)
        finally:
            perfetto.server.shutdown()


def main(report, other, diff, trace, perfetto, folder=None):
    browser = start()
    try:
        browser.get(f"file://{os.path.abspath(report)}")
        sorts_and_filters(browser)
        has_charts(browser, ["over-time", "issued", "memory"])
        has_bars(browser, ["by-direction", "by-site", "who"])
        fits_narrow_windows(browser)
        charts_zoom(browser)
        leads_from_chart_to_site_to_block_and_back(browser)
        flame_opens(browser)
        rules_are_copied(browser)
        words_are_explained(browser)
        both_themes(browser, folder, "report")
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-color-scheme", "value": "dark"}]})
        browser.get(f"file://{os.path.abspath(other)}")
        command_is_copied(browser)
        long_names_fit(browser)
        browser.get(f"file://{os.path.abspath(diff)}")
        assert background(browser) == "rgb(21, 23, 26)", "the page follows the system's theme"
        prints_light(browser)
        assert "less" in browser.find_element(By.ID, "verdict").text
        runs = browser.find_element(By.ID, "runs").text
        assert "A: tests/tools/logs/gather.jsonl" in runs and "2026-11-21 01:04:17 UTC" in runs
        assert "read-mostly-table.conf (hash bbc8b0d9da9bb96f)" in runs, runs
        totals = Table(browser, "totals")
        assert totals.column("Change")[:3] == ["=", "-64 MiB (-99 %)", "+64 MiB"]
        has_bars(browser, ["by-direction", "by-site"])
        assert browser.find_element(By.ID, "by-site").text.endswith("\nB\n0 B")
        both_themes(browser, folder, "diff")
        messages = browser.get_log("browser")
        assert not messages, messages
        if os.path.isdir(perfetto):
            perfetto_reads(browser, perfetto, trace)
        else:
            print(f"# no {perfetto}: the trace was not opened by Perfetto")
    finally:
        browser.quit()


if __name__ == "__main__":
    main(*sys.argv[1:])
