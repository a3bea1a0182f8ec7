# SPDX-License-Identifier: MIT
"""The rooms of shim/ from the bottom to the top, and whether includes go from upper ones to lower
ones only, with no large circle of modules within a room.  A module is a header and its source.
Prints what is wrong; `includes.py --graph` prints who includes whom."""

import re
import sys
from collections import Counter, defaultdict
from pathlib import Path

ROOMS = ("base", "ledger", "log", "driver", "memory", "host", "vmm", "managed", "copy",
         "shared", "place", "hook")
CIRCLE_MAX = 6  # Modules that include each other, directly or by others.

SHIM = Path(__file__).resolve().parents[2] / "shim"


def graph():
    """{module: {modules that it includes}}, each named by its path without the ending."""
    found = defaultdict(set)
    for path in sorted(SHIM.glob("*/*.[ch]")):
        module = str(path.relative_to(SHIM).with_suffix(""))
        for name in re.findall(r'^#include "([^"]+)\.h"', path.read_text(), re.M):
            if (SHIM / f"{name}.h").exists() and name != module:
                found[module].add(name)
    return found


def reached(includes, start):
    seen, todo = set(), [start]
    while todo:
        for module in includes.get(todo.pop(), ()):
            if module not in seen:
                seen.add(module)
                todo.append(module)
    return seen


def circles(includes):
    """Sets of modules that reach each other."""
    all_reached = {module: reached(includes, module) for module in list(includes)}
    return {frozenset(other for other in seen if module in all_reached.get(other, ())) | {module}
            for module, seen in all_reached.items() if module in seen}


def faults(includes):
    def room(module):
        return module.split("/")[0]

    for module in includes:
        if room(module) not in ROOMS:
            yield f"shim/{module}: its folder is not among the rooms of {Path(__file__).name}"
            continue
        for other in sorted(includes[module]):
            if ROOMS.index(room(other)) > ROOMS.index(room(module)):
                yield f"shim/{module} includes {other}.h, which is above it"
    for circle in circles(includes):
        if len(circle) > CIRCLE_MAX:
            yield f"{len(circle)} modules include each other: {', '.join(sorted(circle))}"


def main():
    includes = graph()
    if sys.argv[1:] == ["--graph"]:
        count = Counter((a.split("/")[0], b.split("/")[0]) for a in includes for b in includes[a])
        for (a, b), n in sorted(count.items()):
            print(f"{a:8} -> {b:8} {n}")
        return 0
    found = sorted(faults(includes))
    print("\n".join(found))
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
