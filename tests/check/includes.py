# SPDX-License-Identifier: MIT
"""The rooms of shim/ from the bottom to the top, and whether includes go from upper ones to lower
ones only.  No modules include each other, directly or by others: those of shim/ and policy/, where
a module is a header and its source, and those of scripts/zclib.  Prints what is wrong;
`includes.py --graph` prints how many includes lead from one room to another."""

import ast
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path

ROOMS = ("base", "ledger", "log", "driver", "memory", "host", "vmm", "managed", "copy",
         "shared", "place", "hook")

TOP = Path(__file__).resolve().parents[2]


def c_graph(folder, pattern):
    """{module: {modules that it includes}}, each named by its path without the ending."""
    found = defaultdict(set)
    for path in sorted((TOP / folder).glob(pattern)):
        module = str(path.relative_to(TOP / folder).with_suffix(""))
        for name in re.findall(r'^#include "([^"]+)\.h"', path.read_text(), re.M):
            name = name.removeprefix(f"{folder}/")
            if (TOP / folder / f"{name}.h").exists() and name != module:
                found[module].add(name)
    return found


def imported(node, package, modules):
    """The modules that an import statement names, also those that a type checker alone reads."""
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names} & modules
    parts = package.split(".")[:len(package.split(".")) - max(node.level - 1, 0)]
    base = ".".join((parts if node.level else []) + ([node.module] if node.module else []))
    below = {f"{base}.{alias.name}" for alias in node.names} & modules
    return below or {base} & modules


def python_graph():
    paths = {}
    for path in sorted((TOP / "scripts").glob("zclib/**/*.py")):
        names = path.relative_to(TOP / "scripts").with_suffix("").parts
        paths[".".join(names[:-1] if names[-1] == "__init__" else names)] = path
    found = defaultdict(set)
    for module, path in paths.items():
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                found[module] |= imported(node, package, set(paths)) - {module}
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


def room(module):
    return module.split("/")[0]


def upwards(includes):
    for module in includes:
        if room(module) not in ROOMS:
            yield f"shim/{module}: its folder is not among the rooms of {Path(__file__).name}"
            continue
        for other in sorted(includes[module]):
            if ROOMS.index(room(other)) > ROOMS.index(room(module)):
                yield f"shim/{module} includes {other}.h, which is above it"


def round_about(includes):
    for circle in circles(includes):
        yield f"{len(circle)} modules include each other: {', '.join(sorted(circle))}"


def main():
    includes = c_graph("shim", "*/*.[ch]")
    if sys.argv[1:] == ["--graph"]:
        count = Counter((room(a), room(b)) for a in includes for b in includes[a])
        for (a, b), n in sorted(count.items()):
            print(f"{a:8} -> {b:8} {n}")
        return 0
    found = sorted([*upwards(includes), *round_about(includes),
                    *round_about(c_graph("policy", "*.[ch]")),
                    *round_about(python_graph())])
    print("\n".join(found))
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
