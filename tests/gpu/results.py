#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Puts the rows of checks into the kept results, and makes the page that sums them up.

    results.py [PART...] [--into RESULTS]

PART is the results.part.jsonl of one check, RESULTS is tests/gpu/results.jsonl by default: a line
of JSON for each check, and one for each row, which names its check by `libzc` and `date` (by
`libzc` alone where it is not known which check of that version it was).  A row takes the place of
the older one of its program and place, unless it was skipped; rows that no part has stay.  The page
is the RESULTS.md beside RESULTS, between its two marker lines.
"""

import argparse
import json
import os
import sys

BEGIN = "<!-- results: begin -->"
END = "<!-- results: end -->"
CHECK = ("libzc", "date", "machine")
ROW = ("program", "place", "result", "seconds", "asked", "moved", "cpu_copied", "elided", "effect",
       "referee", "libzc")


def outcome(row):
    """The first word of what became of a row."""
    return "FAILED" if row["referee"].startswith("DIFFERS") else row["result"].split(":")[0]


def totals(rows):
    """The numbers of rows by outcome, as text."""
    counts = {"same": 0, "refused": 0, "fails bare": 0, "skipped": 0, "FAILED": 0}
    for row in rows:
        counts[outcome(row)] += row["place"] != "bare" or outcome(row) != "same"
    agree = sum(row["referee"] == "0" for row in rows)
    unmeasured = sum(row["referee"].startswith("not measured") for row in rows)
    return (f"{counts['same']} rows the same as bare, {counts['FAILED']} failed, "
            f"{counts['refused']} refused, {counts['fails bare']} programs fail bare, "
            f"{counts['skipped']} skipped; "
            f"referee: {agree} rows agree, {unmeasured} not measured")


def text(checks, rows):
    """Checks and rows as lines of JSON."""
    return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in [*checks, *rows])


def parse(lines):
    """The checks, and the rows by program and place, of what text() wrote."""
    checks, rows = [], {}
    for line in lines.splitlines():
        found = json.loads(line)
        if isinstance(found, dict) and "machine" in found and set(CHECK) <= set(found):
            checks.append(found)
        elif isinstance(found, dict) and set(ROW) <= set(found):
            rows[found["program"], found["place"]] = found
        else:
            raise ValueError(f"neither a check nor a row of results: {line}")
    if not rows:
        raise ValueError("no rows of results")
    return checks, rows


def merge(kept, part):
    """The kept checks and rows with those of a part."""
    checks, rows = kept
    new_checks, new_rows = part
    for key, row in new_rows.items():
        if key not in rows or not row["result"].startswith("skipped"):
            rows[key] = row
    programs = {name: i for i, name in enumerate(dict.fromkeys(name for name, _ in rows))}
    rows = dict(sorted(rows.items(), key=lambda item: programs[item[0][0]]))
    used = {(row["libzc"], row.get("date")) for row in rows.values()}
    for check in new_checks:
        if check not in checks:
            checks.append(check)
    return [check for check in checks if (check["libzc"], check["date"]) in used or
            (check["libzc"], None) in used], rows


def table(headings, lines):
    return ["| " + " | ".join(headings) + " |", "|" + "---|" * len(headings),
            *("| " + " | ".join(str(cell).replace("|", "/").replace("\n", " ") for cell in line) +
              " |" for line in lines)]


def by_place(rows):
    """A line for each place: how many rows there are of each outcome."""
    places = dict.fromkeys(row["place"] for row in rows)
    for place in places:
        some = [row for row in rows if row["place"] == place]
        effects = [row["effect"] for row in some if row["effect"] != "-"]
        idle = sum(effect.startswith("-: ") for effect in effects)
        yield (place, *(sum(outcome(row) == what for row in some)
                        for what in ("same", "refused", "fails bare", "skipped", "FAILED")),
               len(effects) - idle, idle, sum(row["referee"] == "0" for row in some))


def page(checks, rows):
    """The part of the page between its marks."""
    rows = list(rows.values())
    unlike = [row for row in rows
              if outcome(row) != "same" or row["referee"].startswith("not measured")]
    return [f"{totals(rows)}.", "",
            *(f"- {check['libzc']}: {check['date']}; {check['machine']}" for check in checks), "",
            *table(("Place", "Same", "Refused", "Fails bare", "Skipped", "Failed", "Had an effect",
                    "Nothing matched", "Referee agrees"), by_place(rows)), "",
            "Rows that are not the same, or not compared by the referee that was asked for:", "",
            *table(("Program", "Place", "Result", "Referee", "libzc"),
                   ([row[name] for name in ("program", "place", "result", "referee", "libzc")]
                    for row in unlike))]


def write(path, lines):
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(lines)
    os.replace(path + ".new", path)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--into", metavar="RESULTS", default=os.path.join(
        os.path.dirname(os.path.abspath(__file__)), "results.jsonl"))
    chosen = parser.parse_args()
    kept = [], {}
    sources = ([chosen.into] if os.path.exists(chosen.into) else []) + chosen.parts
    beside = os.path.join(os.path.dirname(chosen.into), "RESULTS.md")
    path = beside
    try:
        for path in sources:
            with open(path, encoding="utf-8") as part:
                kept = merge(kept, parse(part.read()))
        path = beside
        with open(beside, encoding="utf-8") as old:
            head, begin, rest = old.read().partition(BEGIN)
        _, end, tail = rest.partition(END)
        if not begin or not end:
            raise ValueError("the page needs one line of each marker, in order")
    except (OSError, ValueError) as error:
        sys.exit(f"results.py: {path}: {error}; nothing was kept")
    checks, rows = kept
    write(chosen.into, text(checks, rows.values()))
    write(beside, "\n".join([head + BEGIN, "", *page(checks, rows), "", END]) + tail)


if __name__ == "__main__":
    main()
