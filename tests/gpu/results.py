#!/usr/bin/env python3
"""Puts the rows of checks into the kept file of results.

    results.py PART... [--into RESULTS]

PART is the RESULTS.part.md of one check; RESULTS is tests/gpu/RESULTS.md by default.  Between the
two marker lines of RESULTS a row takes the place of the older one of its program and place, unless
it was skipped; rows that no part has stay, with the version that they were measured with.
"""

import argparse
import os
import sys

BEGIN = "<!-- results: begin -->"
END = "<!-- results: end -->"
HEADINGS = ("Program", "Place", "Result", "Seconds", "Asked", "Moved", "CPU", "Elided", "Effect",
            "Referee", "libzc")


def totals(rows):
    """The numbers of rows by outcome, as text; rows are cells by heading."""
    counts = {"same": 0, "refused": 0, "fails bare": 0, "skipped": 0, "FAILED": 0}
    for row in rows:
        outcome = "FAILED" if row["Referee"].startswith("DIFFERS") else row["Result"].split(":")[0]
        counts[outcome] += row["Place"] != "bare" or outcome != "same"
    agree = sum(row["Referee"] == "0" for row in rows)
    unmeasured = sum(row["Referee"].startswith("not measured") for row in rows)
    return (f"{counts['same']} rows the same as bare, {counts['FAILED']} failed, "
            f"{counts['refused']} refused, {counts['fails bare']} programs fail bare, "
            f"{counts['skipped']} skipped; "
            f"referee: {agree} rows agree, {unmeasured} not measured")


def text(checks, rows, left=""):
    """The results as Markdown.  checks: one line each, "VERSION: when and on what"."""
    lines = [f"{totals(rows)}{left}.", "", *(f"- {check}" for check in checks), "",
             "| " + " | ".join(HEADINGS) + " |", "|" + "---|" * len(HEADINGS)]
    lines += ["| " + " | ".join(row[name] for name in HEADINGS) + " |" for row in rows]
    return "\n".join(lines)


def parse(part):
    """The lines of checks, and the rows by program and place, of what text() wrote."""
    checks, rows, headings = [], {}, HEADINGS
    for line in part.splitlines():
        if line.startswith("- "):
            checks.append(line[2:])
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| ") and cells[0] == HEADINGS[0]:
            headings = cells  # Rows that were kept before there was a column have none of it.
        elif line.startswith("| ") and len(cells) != len(headings):
            raise ValueError(f"not a row of results: {line}")
        elif line.startswith("| "):
            row = dict.fromkeys(HEADINGS, "-")
            rows[cells[0], cells[1]] = {**row, **dict(zip(headings, cells))}
    if not rows:
        raise ValueError("no rows of results")
    return checks, rows


def merge(kept, part):
    """The kept text with the part's rows between its markers."""
    if kept.count(BEGIN) != 1 or kept.count(END) != 1 or kept.index(BEGIN) > kept.index(END):
        raise ValueError("the file of results needs one line of each marker, in order")
    head, rest = kept.split(BEGIN)
    between, tail = rest.split(END)
    checks, rows = parse(between) if between.strip() else ([], {})
    new_checks, new_rows = parse(part)
    for key, row in new_rows.items():
        if key not in rows or not row["Result"].startswith("skipped"):
            rows[key] = row
    programs = {name: i for i, name in enumerate(dict.fromkeys(name for name, _ in rows))}
    rows = dict(sorted(rows.items(), key=lambda item: programs[item[0][0]]))
    used = {row["libzc"] for row in rows.values()}
    checks = [check for check in dict.fromkeys(checks + new_checks)
              if check.split(":")[0] in used]
    return f"{head}{BEGIN}\n\n{text(checks, list(rows.values()))}\n\n{END}{tail}"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="+", metavar="PART")
    parser.add_argument("--into", metavar="RESULTS", default=os.path.join(
        os.path.dirname(os.path.abspath(__file__)), "RESULTS.md"))
    chosen = parser.parse_args()
    with open(chosen.into, encoding="utf-8") as kept:
        merged = kept.read()
    for path in chosen.parts:
        try:
            with open(path, encoding="utf-8") as part:
                merged = merge(merged, part.read())
        except (OSError, ValueError) as error:
            sys.exit(f"results.py: {path}: {error}; nothing was kept")
    with open(chosen.into, "w", encoding="utf-8") as kept:
        kept.write(merged)


if __name__ == "__main__":
    main()
