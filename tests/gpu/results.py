#!/usr/bin/env python3
"""Puts a table of results into the kept file of results.

    results.py PART [RESULTS]

PART is the RESULTS.part.md of one check; RESULTS is tests/gpu/RESULTS.md by default.  Everything
between the two marker lines of RESULTS is replaced.
"""

import os
import sys

BEGIN = "<!-- results: begin -->"
END = "<!-- results: end -->"


def merge(kept, part):
    """The kept text with the part between its markers."""
    if kept.count(BEGIN) != 1 or kept.count(END) != 1 or kept.index(BEGIN) > kept.index(END):
        raise ValueError("the file of results needs one line of each marker, in order")
    head, tail = kept.split(BEGIN)[0], kept.split(END)[1]
    return f"{head}{BEGIN}\n\n{part.strip()}\n\n{END}{tail}"


def main(part_path, kept_path):
    with open(part_path, encoding="utf-8") as text:
        part = text.read()
    with open(kept_path, encoding="utf-8") as text:
        kept = text.read()
    try:
        merged = merge(kept, part)
    except ValueError as error:
        sys.exit(f"{kept_path}: {error}")
    with open(kept_path, "w", encoding="utf-8") as text:
        text.write(merged)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2] if len(sys.argv) == 3 else
         os.path.join(os.path.dirname(os.path.abspath(__file__)), "RESULTS.md"))
