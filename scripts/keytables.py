#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the tables of keys in docs/policy.md and policy.conf(5) from policy/keys.def.

    scripts/keytables.py            writes the tables; `make docs` runs this
    scripts/keytables.py --check    prints where the pages differ, and exits with 1 if they do

A table stands between the comments `keys: SCOPE` and `keys: end` of a page.
"""

from __future__ import annotations

import difflib
import json
import pathlib
import re
import sys
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES_OF_PLACES = {"vmm": "vmm.md", "shared": "shared.md", "pinned": "host.md"}


class Key(NamedTuple):
    """A row of keys.def, as far as the pages show it."""

    name: str
    scope: str    # match, place, defaults
    places: list[str]
    values: str
    text: str     # Sentences, with words of the policy in `...`.


def read_keys() -> list[Key]:
    """The rows of keys.def, in its order."""
    keys = []
    rows = (ROOT / "policy/keys.def").read_text().split("\nZC_KEY(")[1:]
    for row in rows:
        strings = [""]
        for token in re.findall(r'"(?:[^"\\]|\\.)*"|,', row):
            if token == ",":
                strings.append("")
            else:
                strings[-1] += json.loads(token)
        name, (values, meaning, more) = strings[1], strings[-3:]
        scope = re.search(r"ZC_SCOPE_(\w+)", row)
        assert scope and name and values and meaning, row
        text = f"{meaning[0].upper()}{meaning[1:]}. {more}".strip()
        keys.append(Key(name, scope[1].lower(), re.findall(r"zc_fit\((\w+)\)", row.lower()),
                        values, text))
    return keys


def markdown(keys: list[Key]) -> list[str]:
    """A table with a line for each key."""
    fitting = any(key.places for key in keys)
    head = ["key", "values", *(["goes with"] if fitting else []), "meaning"]
    rows = [head, ["---"] * len(head)]
    for key in keys:
        places = ", ".join(f"[{place}]({PAGES_OF_PLACES[place]})" if place in PAGES_OF_PLACES
                           else place for place in key.places)
        rows.append([f"`{key.name}`", f"`{key.values}`", *([places] if fitting else []), key.text])
    return ["|" + "|".join(f" {cell} ".replace("|", r"\|") for cell in row).replace(" --- ", "---")
            + "|" for row in rows]


def roff_values(values: str) -> str:
    """The form of a value as arguments of .It: capitals are to be replaced, the rest is literal."""
    words = []
    for word in values.split(" "):
        word, comma = word.rstrip(","), " ," if word.endswith(",") else ""
        if word in ("|", "..."):
            words.append(word.replace("...", "No ..."))
            continue
        parts = [("Ar " if re.fullmatch("[A-Z]+", part) else "Cm ") +
                 re.sub(r"^(\W)$", r"\\&\1", part)  # Else mdoc takes one sign for a delimiter.
                 for part in re.split(r"(?<![A-Za-z0-9])([A-Z]+)(?![A-Za-z0-9])", word) if part]
        words.append(" Ns ".join(parts) + comma)
    return " ".join(words)


def roff_text(text: str) -> list[str]:
    """Sentences as lines of mdoc, words in `...` as .Cm."""
    lines = []
    for sentence in re.split(r"(?<=\.) (?=[A-Z`0-9])", text):
        pieces = re.split(r"`([^`]*)`([.,:;)]*)", sentence)
        for i in range(0, len(pieces), 3):
            if pieces[i].strip():
                lines.append(pieces[i].strip())
            if i + 1 < len(pieces):
                lines.append(" ".join([".Cm", pieces[i + 1], *pieces[i + 2]]))
    return lines


def manual(keys: list[Key]) -> list[str]:
    """The items of an mdoc list, one for each key."""
    lines = []
    for key in keys:
        lines += [f".It Ic {key.name} No = {roff_values(key.values)}", *roff_text(key.text)]
        if key.places:
            lines += ["Goes with", f".Cm {' , '.join(key.places)} ."]
    return lines


def main() -> int:
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    keys = read_keys()
    differs = False
    for path, opening, end, table in (
            ("docs/policy.md", "<!-- keys: {} -->\n", "<!-- keys: end -->\n", markdown),
            ("docs/man/policy.conf.5", '.\\" keys: {}\n', '.\\" keys: end\n', manual)):
        page = new = (ROOT / path).read_text()
        for scope in ("match", "place", "defaults"):
            before, opened, rest = new.partition(opening.format(scope))
            _, ended, after = rest.partition(end)
            if not ended:
                sys.exit(f"{path}: no table of '{scope}' keys between {opening.strip()!r} and "
                         f"{end.strip()!r}")
            lines = table([key for key in keys if key.scope == scope])
            new = before + opened + "\n".join(lines) + "\n" + ended + after
        if new == page:
            continue
        differs = True
        if check:
            sys.stdout.writelines(difflib.unified_diff(
                page.splitlines(True), new.splitlines(True), path, "policy/keys.def"))
        else:
            (ROOT / path).write_text(new)
    return 1 if check and differs else 0


if __name__ == "__main__":
    sys.exit(main())
