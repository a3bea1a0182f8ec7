"""Runs the programs in all places, prints what failed, and writes the table of results."""

import ctypes
import datetime
import importlib.metadata
import os
import re
import sys
import tempfile

from . import programs
from .runner import Runner
from .schedule import side_by_side

SECTIONS = ("kernels", "apps", "samples")
HEADINGS = ("Program", "Place", "Result", "Seconds", "Asked", "Moved", "CPU", "Elided", "Referee")


def machine():
    """One line on the GPU and the software."""
    driver = ctypes.CDLL("libcuda.so.1")
    name, version = ctypes.create_string_buffer(256), ctypes.c_int()
    driver.cuInit(0)
    driver.cuDeviceGetName(name, len(name), 0)
    driver.cuDriverGetVersion(ctypes.byref(version))
    parts = [f"GPU {name.value.decode()}"]
    try:
        with open("/proc/driver/nvidia/version", encoding="utf-8") as text:
            parts.append("driver " + re.search(r"\d+\.\d+(\.\d+)?", text.read()).group(0))
    except (OSError, AttributeError):
        parts.append("driver of unknown version")
    parts.append(f"CUDA {version.value // 1000}.{version.value % 1000 // 10}")
    for package in ("torch", "cupy-cuda13x", "cupy-cuda12x", "jax", "numba", "numpy"):
        try:
            parts.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            pass
    return ", ".join(parts)


def cell(value):
    return str(value).replace("|", "/").replace("\n", " ")


def write_table(path, found, quick, left):
    """The table as Markdown, of the rows of all programs that have ended."""
    rows = [row for rows in sorted(found, key=in_order) for row in rows]
    now = datetime.datetime.now(datetime.timezone.utc)
    lines = [f"{now:%Y-%m-%d %H:%M} UTC{', quick check' if quick else ''}, libzc "
             f"{os.environ.get('ZC_COMMIT', 'of unknown version')}; {machine()}.", "",
             f"{totals(rows)}{f'; {left} programs had not ended' if left else ''}.", "",
             "| " + " | ".join(HEADINGS) + " |", "|" + "---|" * len(HEADINGS)]
    for row in rows:
        cells = (row.program.name, row.place, row.result, f"{row.seconds:.1f}",
                 *(row.counts or ["-"] * 4), row.referee)
        lines.append("| " + " | ".join(map(cell, cells)) + " |")
    with open(path + ".new", "w", encoding="utf-8") as table:
        table.write("\n".join(lines) + "\n")
    os.replace(path + ".new", path)  # whoever ends the check finds the last whole one


def in_order(rows):
    """What a program's rows are sorted by."""
    return SECTIONS.index(rows[0].program.section), rows[0].program.name


def totals(rows):
    """The numbers of rows by outcome, as text."""
    counts = {"same": 0, "refused": 0, "fails bare": 0, "skipped": 0, "FAILED": 0}
    for row in rows:
        outcome = "FAILED" if row.failed else row.result.split(":")[0]
        counts[outcome] += row.place != "bare" or outcome != "same"
    agree = sum(row.referee == "0" for row in rows)
    unmeasured = sum(row.referee.startswith("not measured") for row in rows)
    return (f"{counts['same']} rows the same as bare, {counts['FAILED']} failed, "
            f"{counts['refused']} refused, {counts['fails bare']} programs fail bare, "
            f"{counts['skipped']} skipped; "
            f"referee: {agree} rows agree, {unmeasured} not measured")


def report(rows):
    """One line for a program, and one for each of its rows that is not in order."""
    same = [row for row in rows if row.place != "bare" and row.result == "same"]
    agree = sum(row.referee == "0" for row in rows)
    print(f"{rows[0].program.section} {rows[0].program.name}: same in {len(same)} places, "
          f"referee agrees in {agree}, {sum(row.seconds for row in rows):.0f} s")
    for row in rows:
        if row.result != "same":
            print(f"    {row.place}: {row.result[:300]}")
        if row.referee not in ("-", "0"):
            print(f"    {row.place}: referee: {row.referee[:300]}")
    sys.stdout.flush()


def chosen(words):
    """The programs that the words of the command line ask for, the longest ones first."""
    build, libraries = os.environ["ZC_BUILD"], os.environ["ZC_CUDA_LIBRARIES"]
    quick = "quick" in words
    sections = [word for word in words if word in SECTIONS] or SECTIONS
    here = os.path.dirname(os.path.abspath(__file__))
    found = programs.apps(here, quick)
    found += programs.samples(os.environ.get("ZC_SAMPLES"), libraries)
    found += programs.kernels(build, libraries, quick)
    only = [word[len("only="):] for word in words if word.startswith("only=")]
    return [program for program in found if program.section in sections
            and (not only or any(name in program.name for name in only))]


def main(words):
    unknown = [word for word in words if word not in ("quick", "referee", *SECTIONS)
               and not word.startswith("only=")]
    if unknown:
        sys.exit(f"tests/gpu/run.sh: unknown words: {' '.join(unknown)}")
    quick = "quick" in words
    places = programs.QUICK_PLACES if quick else programs.PLACES
    out = os.environ["OUT_DIR"]
    kept = os.path.join(out, "failed")
    os.makedirs(kept, exist_ok=True)
    todo = chosen(words)
    rows = []
    with tempfile.TemporaryDirectory(prefix="zc-gpu-") as top:
        runner = Runner(os.environ["ZC_BUILD"], os.environ["ZC_CUDA_LIBRARIES"], top, kept)

        def referee(program):
            judged = program.section != "samples" or "referee" in words
            return ("with" if quick else "apart") if judged else "no"

        for found in side_by_side(runner, todo, places, referee,
                                  int(os.environ.get("ZC_JOBS", "6"))):
            rows.append(found)
            write_table(os.path.join(out, "RESULTS.part.md"), rows, quick, len(todo) - len(rows))
            report(found)
    flat = [row for found in rows for row in found]
    print(totals(flat))
    return 1 if any(row.failed for row in flat) or not flat else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
